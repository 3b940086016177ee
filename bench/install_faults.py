"""Let go wrong what can while the whole command installs over an environment: it must be the old one, and it is said.

    python -m bench.install_faults          needs root: each has a small file system of its own, in memory

Wheels are small ones of the real names, made on the spot. Prints a table in Markdown; exits 1 when an environment is
not the old one, does not start, or when the exit code or the words are others.
"""

from __future__ import annotations

import contextlib
import http.server
import os
import pty
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import warnings
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

from bench.install_into import ENVCHECK, NO_INDEX, ROOT, start
from envcheck.host.file_changes import lock_file
from envcheck.install.journal import STEP, Journal
from envcheck.install.places import Place, place_of
from tests.install.wheels import make_wheel, site_packages, tree_hash

GIVES_UP = 300  # seconds
JAX = ("jax==0.10.2", "--env", "env", "--expect", "cpu")
# in a folder, with wheels: the exit code and what was said
Fault = Callable[[Path, Path], tuple[int, str]]


def make_stock(folder: Path) -> None:
    """Make the wheels that everything here installs."""
    make_wheel(folder, "jaxlib", "0.10.2", ballast=8 << 20)
    make_wheel(folder, "jax", "0.10.2", ("jaxlib==0.10.2",))
    make_wheel(folder, "tensorflow", "2.21.0")  # for the stand-in GPU host


def environment(folder: Path, *, plugin: bool = False) -> str:
    """Make an environment without pip; with a plugin of JAX that is in the way; return what hashes it."""
    folder.mkdir(exist_ok=True)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", "env"], cwd=folder, check=True)
    if plugin:
        wheel = make_wheel(folder / "plugin", "jax_cuda12_plugin", "0.9.2")
        shutil.unpack_archive(wheel, site_packages(folder / "env"), "zip")
    # what a hook leads to
    (site_packages(folder / "env") / "nvidia" / "cublas" / "lib").mkdir(parents=True)
    (folder / "env" / "ballast").write_bytes(os.urandom(4 << 20))
    return tree_hash(folder / "env")


def lines_of(place: Place) -> list[str]:
    """List the events of the last journal, of steps their names."""
    identities = place.identities()
    told = Journal(place, identities[-1]).lines() if identities else ()
    return [line["id"] if line["event"] == STEP else line["event"] for line in told]


def wait_for(place: Place, count: int, process: subprocess.Popen[bytes]) -> None:
    """Wait until a journal holds so many lines, or nobody writes it any more."""
    deadline = time.monotonic() + GIVES_UP
    while len(lines_of(place)) < count and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.002)


def asked_of(folder: Path, stock: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Type the command where nobody can be asked."""
    variables = {**os.environ, **NO_INDEX, "PIP_FIND_LINKS": str(stock)}
    return subprocess.run(
        [*ENVCHECK, *words],
        cwd=folder,
        env=variables,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def at_terminal(when: bytes, key: bytes, *words: str) -> Fault:
    """Type the command at a terminal, and a key there once something is shown."""

    def fault(folder: Path, stock: Path) -> tuple[int, str]:
        process, terminal = pty.fork()
        if not process:
            os.chdir(folder)
            os.environ.update({**NO_INDEX, "PIP_FIND_LINKS": str(stock)})
            os.execv(ENVCHECK[0], [*ENVCHECK, *JAX, *words])
        shown, pressed = b"", False
        with contextlib.suppress(OSError):  # the terminal is gone with its last process
            while data := os.read(terminal, 65536):
                shown += data
                if when in shown and not pressed:
                    time.sleep(0.3)  # until it waits for an answer
                    pressed = bool(os.write(terminal, key))
        os.close(terminal)
        return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]), shown.decode(errors="replace")

    return fault


def refused(*words: str) -> Fault:
    """Type a command that is refused, or changes nothing."""

    def fault(folder: Path, stock: Path) -> tuple[int, str]:
        done = asked_of(folder, stock, *words)
        return done.returncode, done.stderr

    return fault


def filled(free: int) -> Fault:
    """Leave so many bytes free; what looks at the room beforehand sees more: it would refuse to begin."""

    def fault(folder: Path, stock: Path) -> tuple[int, str]:
        size = shutil.disk_usage(folder).used + free
        subprocess.run(["mount", "-o", f"remount,size={size}", str(folder)], check=True)
        patched = (
            "from envcheck.install import preflight; preflight.get_free_bytes = lambda _: 1 << 40; "
        )
        main = "from envcheck.cli import main; main()"
        variables = {**os.environ, **NO_INDEX, "PIP_FIND_LINKS": str(stock)}
        argv = [sys.executable, "-c", patched + main, "install", *JAX, "--yes", "--installer", "uv"]
        done = subprocess.run(
            argv, cwd=folder, env=variables, capture_output=True, text=True, check=False
        )
        return done.returncode, done.stderr

    return fault


def ending(installer: str) -> Fault:
    """Let the index go away in the middle of a wheel."""

    def fault(folder: Path, stock: Path) -> tuple[int, str]:
        class Index(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                name = Path(self.path).name
                found = sorted(path.name for path in stock.glob(f"{name}-*.whl"))
                page = "".join(f'<a href="/{each}">{each}</a>' for each in found).encode()
                data = (stock / name).read_bytes() if name.endswith(".whl") else page
                self.send_response(200)
                self.send_header("Content-Length", str(len(data)))
                self.send_header("Content-Type", "text/html")
                self.end_headers()
                goes = "jaxlib" in name and name.endswith(".whl")
                with contextlib.suppress(OSError):
                    self.wfile.write(data[: len(data) // 2] if goes else data)
                if goes:
                    server.shutdown()
                    server.server_close()

            def log_message(self, *_: object) -> None:
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Index)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        variables = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("PIP_", "UV_"))
        }
        variables |= {
            "PIP_CONFIG_FILE": os.devnull,
            "PIP_INDEX_URL": f"http://127.0.0.1:{server.server_port}/simple",
        }
        variables |= {
            "UV_CACHE_DIR": str(folder / "cache"),
            "PIP_NO_CACHE_DIR": "1",
            "PYTHONPATH": str(ROOT),
        }
        argv = [*ENVCHECK, *JAX, "--yes", "--installer", installer]
        done = subprocess.run(
            argv, cwd=folder, env=variables, capture_output=True, text=True, check=False
        )
        return done.returncode, done.stderr

    return fault


def broken(folder: Path, stock: Path) -> tuple[int, str]:
    """Bring a wheel that does not import."""
    own = folder / "stock"
    shutil.copytree(stock, own)
    (wheel,) = own.glob("jax-*.whl")
    with zipfile.ZipFile(wheel, "a") as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the second of a name counts
        archive.writestr("jax/__init__.py", "raise ImportError('broken on purpose')")
    return refused(*JAX, "--yes", "--installer", "pip")(folder, own)


def two_at_once(folder: Path, stock: Path) -> tuple[int, str]:
    """Install while another installation is at work, which is killed afterwards."""
    first = start(folder, stock, "--installer", "pip")
    wait_for(place_of(folder / "env"), 3, first)
    done = asked_of(folder, stock, *JAX, "--yes")
    first.kill()
    first.wait()
    with lock_file(str(place_of(folder / "env").lock), 30):
        return done.returncode, done.stderr


def lost_journal(folder: Path, stock: Path) -> tuple[int, str]:
    """Resume by a journal that somebody overwrote."""
    place = place_of(folder / "env")
    place.state.mkdir()
    place.journal("20260101T000000-1").write_text("nothing of ours\n")
    return refused("--resume", "--env", "env")(folder, stock)


STAYS, AT_WORK, NOBODY = (
    "is the old environment, as it was before",
    "nothing was changed: another",
    "nobody can say",
)
_TOUCH = (STAYS, AT_WORK, NOBODY)  # something is written beside the environment
FAULTS: dict[str, tuple[Fault, int, str]] = {
    "Ctrl-C at the question": (at_terminal(b"[y/N]", b"\x03"), 130, "Nothing was changed."),
    "no, at the question": (at_terminal(b"[y/N]", b"n\n"), 2, "nothing was changed."),
    "Ctrl-C while it is copied": (at_terminal(b"] Copy the", b"\x03", "--yes"), 130, STAYS),
    "Ctrl-C in ensurepip": (
        at_terminal(b"] Bring pip", b"\x03", "--yes", "--installer", "pip"),
        130,
        STAYS,
    ),
    "Ctrl-C in uv": (
        at_terminal(b"] Install jax", b"\x03", "--yes", "--installer", "uv"),
        130,
        STAYS,
    ),
    "the disk is full while it is copied": (filled(1 << 20), 4, STAYS),
    "the disk is full in uv": (filled(7 << 20), 4, STAYS),
    "the index ends within a wheel, uv": (ending("uv"), 4, STAYS),
    "the index ends within a wheel, pip": (ending("pip"), 4, STAYS),
    "what came does not import": (broken, 4, STAYS),
    "it computes nothing": (refused(*JAX, "--yes", "--smoke"), 4, STAYS),
    "another one at work": (two_at_once, 2, AT_WORK),
    "a read-only file system": (refused(*JAX, "--yes"), 2, "nothing was changed:"),
    "nobody to ask": (refused(*JAX), 2, "nothing was changed:"),
    "a dry run": (refused(*JAX, "--dry-run"), 0, ""),
    "a system's Python": (refused("jax", "--env", "/usr", "--yes"), 2, "PEP 668"),
    "a URL": (
        refused("jax @ https://example.org/x.whl", *JAX[1:], "--yes"),
        2,
        "is not a plain requirement",
    ),
    "a matrix that is not there": (
        refused(*JAX, "--yes", "--matrix", "none.json"),
        2,
        "does not exist",
    ),
    "nothing to resume": (refused("--resume", "--env", "env"), 2, "nothing was ever installed"),
    "nothing to go back to": (
        refused("--rollback", "--env", "env", "--yes"),
        2,
        "nothing was ever installed",
    ),
    "a journal overwritten": (lost_journal, 4, NOBODY),
}


def stamps_of(folder: Path) -> dict[Path, int]:
    """Return when each file and folder was changed."""
    return {path: path.lstat().st_mtime_ns for path in (folder, *folder.rglob("*"))}


def do_faults(top: Path) -> bool:
    """Do every fault in a file system of its own, and see what is there afterwards."""
    make_stock(top / "stock")
    print("| fault | exit code | environment | what is said |\n|---|---|---|---|")
    good = True
    for number, (what, (fault, code, words)) in enumerate(FAULTS.items()):
        folder = top / str(number)
        with mounted(folder):
            before = environment(folder)
            if "read-only" in what:
                subprocess.run(["mount", "-o", "remount,ro", str(folder)], check=True)
            stamps = stamps_of(folder)
            found, said = fault(folder, top / "stock")
            touched = words not in _TOUCH and stamps_of(folder) != stamps
            there = "old" if tree_hash(folder / "env") == before and not touched else "CHANGED"
            starts = (
                subprocess.run([folder / "env/bin/python", "-c", "pass"], check=False).returncode
                == 0
            )
        told = next(
            (line for line in reversed(said.splitlines()) if words and words in line), ""
        ).strip()
        good &= found == code and there == "old" and starts and bool(told or not words)
        shown = told.rpartition("\x1b[K")[2].replace(str(folder), "...").removeprefix("envcheck: ")
        print(
            f"| {what} | {found} | {there} | {shown.partition(' What the steps')[0]} |", flush=True
        )
    return good


@contextlib.contextmanager
def mounted(folder: Path) -> Iterator[None]:
    """Mount a small file system in memory."""
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2g", "none", str(folder)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", str(folder)], check=True)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        sys.exit(0 if do_faults(Path(name)) else 1)
