"""Type what the how-to guides and the tutorial say, each in a fresh root, and count commands and minutes.

    python bench/documented_tasks.py [--only wsl-2 ...] [--scratch /dev/shm] [--show]
                                     [--system /srv/trixie] [--user root] [--python ~/.pyenv/versions/3.10.13]

Needs Linux, root (for chroot), git and pexpect. Each page gets a root of its own: the system's /usr read-only, without
/usr/local, an empty home and a clone of this checkout. An ordinary user types the two lines of README.md that install
envcheck, and then every `sh` block of the page, in order, in one shell. A block with a title is saved as a file of that
name. `--system` takes another system's root (as debootstrap makes it: python3, python3-venv, git, ca-certificates),
`--user root` types as root, `--python` puts a Python of a folder first on PATH. A comment in front of a block states what else a reader has to know:

    <!-- exit 1 -->                the answer that the page describes has this exit code
    <!-- not typed: a reason -->   needs what no such root has
    <!-- stand-in: what -->        anywhere: what stands in for a GPU on this page

Where a page needs a GPU whose driver answers, the root shows a stand-in host of tests/fakes.

Prints a table in Markdown; exits 1 if a command ends otherwise than its page says.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pexpect

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
from tests.documented_outputs import FENCED  # noqa: E402
from tests.fakes.machine import A100, GpuHost  # noqa: E402
from tests.fakes.stage import stage  # noqa: E402

HOSTS = {
    "tensorflow-does-not-see-my-gpu": GpuHost(gpus=(A100,)),
    "choose-a-cuda-build-of-pytorch": GpuHost(gpus=(A100,), driver="470.256.02", cuda=11040),
}
PAGES = [
    *sorted((ROOT / "docs/tutorial").glob("*.md")),
    *sorted((ROOT / "docs/how-to").glob("*.md")),
]
PROMPT, QUESTION = r"<status=(\d+)> ", r"\[y/N\]:? "
SAMPLE = re.compile(r"\(\.\./samples/([^)]+)\)")
HOME = "home/you"
KEPT = re.compile(r"PIP_|UV_|SSL_|LANG$|https?_proxy$|no_proxy$", re.IGNORECASE)
LINKS = ("bin", "lib", "lib64", "sbin")
ETC = ("alternatives", "ld.so.cache", "nsswitch.conf", "os-release")  # of the system
CONNECTION = ("hosts", "resolv.conf", "ssl")  # of this machine
PYTHON = "opt/python"


@dataclass(frozen=True)
class Block:
    """Commands to type, or a file to save, and the exit code that the page expects."""

    text: str
    file: str = ""
    status: int = 0

    def commands(self) -> Iterator[str]:
        """Yield one command after the other, continued lines as one."""
        joined = self.text.replace("\\\n", " ")
        yield from (
            line
            for line in joined.splitlines()
            if line.strip() and not line.lstrip().startswith("#")
        )


@dataclass(frozen=True)
class Place:
    """Where the pages are typed, and by whom."""

    system: Path  # the root of a system
    user: str  # of USERS
    python: Path | None  # a folder with bin/python3, first on PATH


USERS = {"root": 0, "you": 1000}


@dataclass
class Task:
    """What was typed for a page, and what went wrong."""

    title: str
    stand_in: str
    commands: int = 0
    seconds: float = 0.0
    failures: list[str] = field(default_factory=list)

    def row(self) -> str:
        """Write the row of the table."""
        outcome = "done" if not self.failures else "failed: " + "; ".join(self.failures)
        return (
            f"| {self.title} | {self.stand_in} | {self.commands} | {self.seconds / 60:.1f} |"
            f" {outcome} |"
        )


def read_blocks(page: str) -> Iterator[Block]:
    """Yield what a reader types and saves, in the order of the page."""
    page = re.sub(r"^> ?", "", page, flags=re.MULTILINE)
    for match in FENCED.finditer(page):
        before = page[: match.start()].rstrip().rsplit("\n", 1)[-1]
        status = re.fullmatch(r"<!-- exit (\d+) -->", before)
        if before.startswith("<!-- not typed:"):
            continue
        if match["title"]:
            yield Block(match["body"], match["title"])
        elif match["kind"] == "sh":
            yield Block(match["body"], status=int(status[1]) if status else 0)


def install_lines() -> Block:
    """Return the lines of README.md that install envcheck."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    first, second, *_ = read_blocks(readme.split("<!-- install -->")[1])
    return Block(first.text + second.text)


def build_root(root: Path, host: GpuHost | None, place: Place) -> list[str]:
    """Make a root with the system alone; return the lines that mount the rest and enter it."""
    for name in ("usr", "etc", "proc", "sys", "dev", "tmp", HOME, PYTHON):
        (root / name).mkdir(parents=True)
    for name in LINKS:
        (root / name).symlink_to(f"usr/{name}")
    sources = [place.system / "etc" / name for name in ETC]
    for source in (*sources, *(Path("/etc", name) for name in CONNECTION)):
        subprocess.run(
            ["cp", "-rLT", str(source), str(root / "etc" / source.name)],
            check=False,
            stderr=subprocess.DEVNULL,
        )
    (root / "etc/passwd").write_text(
        "root:x:0:0::/root:/bin/bash\nyou:x:1000:1000::/home/you:/bin/bash\n"
    )
    (root / "etc/group").write_text("root:x:0:\nyou:x:1000:\n")
    subprocess.run(
        ["git", "clone", "-q", "--depth", "1", f"file://{ROOT}", str(root / HOME / "envcheck")],
        check=True,
    )
    owner = USERS[place.user]
    subprocess.run(["chown", "-R", f"{owner}:{owner}", str(root / HOME)], check=True)
    root.chmod(0o755)
    (root / "tmp").chmod(0o1777)
    enter = (
        f"exec /usr/sbin/chroot --userspec={place.user} . /bin/bash --noediting --norc --noprofile"
    )
    return [f"set -e; cd {root}", "mount --make-rprivate /", *mount_lines(root, host, place), enter]


def mount_lines(root: Path, host: GpuHost | None, place: Place) -> Iterator[str]:
    """Yield the lines that mount the system, and over it what a stand-in host shows of its GPU."""
    for folder in os.environ.get("PIP_FIND_LINKS", "").split():
        if Path(folder).is_dir():
            (root / folder[1:]).mkdir(parents=True)
            yield f"mount --bind -o ro {folder} .{folder}"
    if host:
        stage(host, root / "gpu")
        yield f"mount -t overlay -o lowerdir=gpu/files/usr:{place.system / 'usr'} none usr"
    else:
        yield f"mount --bind -o ro {place.system / 'usr'} usr"
    if place.python:
        yield f"mount --bind -o ro {place.python} {PYTHON}"
    yield "mount -t tmpfs none usr/local; mount -t proc none proc"
    yield from (f"mount --rbind /{name} {name}" for name in ("sys", "dev"))
    if host:
        yield "mount --bind gpu/driver proc/driver; mount --bind gpu/module sys/module"
        yield (
            "mount --bind gpu/pci sys/bus/pci; [ ! -e proc/modules ] || mount --bind gpu/modules"
            " proc/modules"
        )
        yield (
            "mount --rbind gpu/dev dev; mount --rbind /dev/pts dev/pts; mount --rbind /dev/shm"
            " dev/shm"
        )
        yield "/usr/sbin/chroot . /sbin/ldconfig -X"


class Shell:
    """An interactive shell of an ordinary user in a fresh root."""

    def __init__(self, root: Path, host: GpuHost | None, log: Path | None, place: Place) -> None:
        variables = {name: value for name, value in os.environ.items() if KEPT.match(name)}
        variables |= {
            "HOME": f"/{HOME}",
            "USER": place.user,
            "PATH": f"/{PYTHON}/bin:/usr/local/bin:/usr/bin:/bin",
            "TERM": "xterm",
        }
        variables |= {"PIP_NO_CACHE_DIR": "1", **(host.environment() if host else {})}
        self._root, self._owner = root, USERS[place.user]
        self._child: pexpect.spawn[str] = pexpect.spawn(
            "unshare",
            [
                "--mount",
                "--pid",
                "--fork",
                "--kill-child",
                "bash",
                "-c",
                "\n".join(build_root(root, host, place)),
            ],
            env=variables,
            encoding="utf-8",
            codec_errors="replace",
            timeout=1200,
            dimensions=(50, 120),
            echo=False,
        )
        self._child.logfile_read = log.open("a", encoding="utf-8") if log else None
        self._child.sendline("PS1='<status=$?> '; cd")
        self._child.expect(PROMPT)
        self.type("true")

    def type(self, command: str) -> tuple[int, str]:
        """Type a command, answer its questions with yes, and return its exit status and what it printed."""
        self._child.sendline(command)
        printed = ""
        while self._child.expect([PROMPT, QUESTION]):
            printed += str(self._child.before)
            self._child.sendline("y")
        return int(self._child.match[1]), printed + str(self._child.before)

    def save(self, name: str, text: str) -> None:
        """Save a file in the shell's folder."""
        folder = self.type("pwd")[1].strip()
        file = self._root / folder.lstrip("/") / name
        file.write_text(text, encoding="utf-8")
        os.chown(file, self._owner, self._owner)

    def close(self) -> None:
        """End the shell and all that it started."""
        self._child.close(force=True)


def follow(page: Path, scratch: Path, place: Place, *, show: bool) -> Task:
    """Type a page in a fresh root, after the installation."""
    text = page.read_text(encoding="utf-8")
    stand_in = re.search(r"<!-- stand-in: (.+?) -->", text)
    title = re.search(r"^# (.+)$", text, re.MULTILINE)[1]  # type: ignore[index]
    task = Task(title, stand_in[1] if stand_in else "not needed")
    root = Path(tempfile.mkdtemp(dir=scratch, prefix="documented-"))
    started = time.monotonic()
    try:
        shell = Shell(root, HOSTS.get(page.stem), Path("/dev/stderr") if show else None, place)
        shell.type("cd envcheck")
        install = install_lines()
        if install.text not in text:  # the tutorial has the lines, too
            type_block(shell, install, task)
            shell.type("mkdir ~/project && cd ~/project")
        for name in SAMPLE.findall(text):
            shell.save(name, (ROOT / "docs/samples" / name).read_text(encoding="utf-8"))
        for block in read_blocks(text):
            type_block(shell, block, task)
        shell.close()
    except pexpect.ExceptionPexpect as error:
        task.failures.append(f"{type(error).__name__}: no answer")
    finally:
        task.seconds = time.monotonic() - started
        shutil.rmtree(root)
    return task


def type_block(shell: Shell, block: Block, task: Task) -> None:
    """Save a file, or type the commands of a block and note those that end otherwise than the page says."""
    if block.file:
        shell.save(block.file, block.text)
        return
    commands = list(block.commands())
    for number, command in enumerate(commands, 1):
        status, printed = shell.type(command)
        task.commands += 1
        if status != (block.status if number == len(commands) else 0):
            words = re.sub(r"\x1b\[[0-9;]*m", "", printed).split()
            task.failures.append(f"`{command}` ended with {status}: {' '.join(words)[-300:]}")


def main() -> int:
    """Follow the pages one by one and print the table."""
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n", maxsplit=1)[0])
    parser.add_argument("--only", nargs="*", help="names of pages, without .md")
    parser.add_argument(
        "--scratch", type=Path, default=Path("/dev/shm"), help="where the roots are made"
    )
    parser.add_argument("--show", action="store_true", help="show what the shell prints")
    parser.add_argument("--system", type=Path, default=Path("/"), help="the root of another system")
    parser.add_argument("--user", choices=USERS, default="you")
    parser.add_argument("--python", type=Path, help="a folder with bin/python3")
    options = parser.parse_args()
    place = Place(options.system, options.user, options.python)
    print(
        "| task | in place of a GPU | commands | minutes | outcome |",
        "|---|---|---|---|---|",
        sep="\n",
    )
    tasks = []
    for page in PAGES:
        if not options.only or page.stem in options.only:
            tasks.append(follow(page, options.scratch, place, show=options.show))
            print(tasks[-1].row(), flush=True)
    failed = sum(bool(task.failures) for task in tasks)
    print(
        f"\n{len(tasks)} tasks, {sum(task.commands for task in tasks)} commands, {failed} failed."
    )
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
