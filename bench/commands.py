"""Type every command with each of its options in every installation, as root and as a user, and see how it ends.

    python bench/commands.py [--installation plain "plain, uv" html "all extras" "single file"] [--user root nobody]
                             [--only plan install] [--as-root plan install] [--jobs 2] [--verbose]
    python bench/commands.py --lines
    python bench/commands.py --install

The list is generated from the command line itself: a new option without a sample value ends the run. Each command runs
in an empty folder and an empty HOME. Each ends with a result, or with one sentence that says why not; where that is a
missing extra, the sentence holds the line that adds it. Prints a table; exits 1 for an internal error, a traceback, a
command that hangs, or a refusal that nobody foresaw. `--lines` types the lines that add extras, in the README's
environment, uv tool, pipx and the single file, and the command again after each. `--install` installs PyTorch and
TensorFlow with the README's installation, with pip alone and with uv.

The index that pip is configured for has to answer: installations come from it, as does what `matrix verify` reads.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from envcheck.actions.extras import EXTRAS
from envcheck.cli.group import group

ROOT = Path(__file__).resolve().parent.parent
NOBODY = 65534
SECONDS = 60.0  # for a command; one that reads the whole index gets more
ENDLESS = ("--watch", "--follow")  # options of commands that go on until Ctrl-C
WATCHED = 3.0  # seconds until they get it

# What a command takes beside the option that is tried. Those that would change something are told
# not to.
ARGUMENTS: dict[str, tuple[str, ...]] = {
    "explain": ("{files}/train.log",),
    "run": ("--", "{python}", "-c", "print(1)"),
    "plan": ("torch",),
    "install": ("jax", "--dry-run"),
    "onboard": ("--for", "jax", "--dry-run"),
    "fix": ("--env", "{files}/venv", "--dry-run"),
    "check": ("--dockerfile", "{files}/Dockerfile"),
    "fleet report": ("{files}/machines",),
    "fleet run": ("-i", "{files}/inventory.ini"),
    "diff": ("{files}/machine.json", "{files}/machine.json"),
    "matrix query": ("--driver", "535.104", "--framework", "jax"),
    "matrix refresh": ("--framework", "keras-hub"),
    "matrix update": ("{files}/matrix.json", "--sha256", "0" * 64),
    "matrix verify": ("--framework", "keras-hub", "--sample", "1"),
    "matrix show": ("jax==0.7.2",),
    "completion": ("bash",),
    "help": ("plan",),
    "rule": ("numpy-abi",),
}
# Option of a command, or of any, -> sample values. {files} holds what they name; {here} is the
# empty folder.
VALUES: dict[str, tuple[str, ...]] = {
    "--activations": ("1e9",),
    "--baseline": ("{files}/pyproject.toml",),
    "--batch": ("8",),
    "--bundle": ("{files}/bundle.jsonl",),
    "--checkpointing": ("4",),
    "--config": ("{files}/pyproject.toml",),
    "--containers": ("docker",),
    "--constraint": ("{files}/requirements.txt",),
    "--csv": ("usage.csv",),
    "--download": ("wheels",),
    "--dockerfile": tuple(
        f"{{files}}/{name}"
        for name in (
            "Dockerfile",
            "compose.yaml",
            "environment.yml",
            "requirements.txt",
            "uv.lock",
            "pylock.toml",
        )
    ),
    "--driver": ("535.104.05",),
    "--env": ("{files}/venv", "{here}/new"),
    "--extra": ("gpu",),
    "--fits": ("7e9",),
    "--for": ("torch>=2.4", "tensorflow==2.15.*"),
    "--forks": ("2",),
    "--framework": ("torch", "cudf"),
    "--free": ("1",),
    "--glibc": ("2.31",),
    "--golden": ("gpu001",),
    "--group": ("dev",),
    "--gpu": ("RTX 4090",),
    "--import-timeout": ("20",),
    "--history": ("history.sqlite",),
    "--html": ("page.html",),
    "--image": ("python:3.12",),
    "--namespace": ("gpu",),
    "--runtime-class": ("nvidia",),
    "fleet run --gpus": ("1",),
    "--inventory": ("{files}/inventory.ini",),
    "--limit": ("all",),
    "--lock": ("pylock.toml",),
    "--log-placement": ("placement.log",),
    "--matrix": ("{files}/matrix.json", "https://localhost:9/matrix.json#sha256=" + "0" * 64),
    "--memory": ("1",),
    "--only": ("pip-too-old",),
    "--os": ("debian 12",),
    "--output": ("output",),
    "--partition": ("gpu",),
    "--python": ("{python}",),
    "--requirement": ("{files}/requirements.txt",),
    "--reserve": ("1",),
    "--verify-timeout": ("20",),
    "--rollback": ("", "20260101-000000-abcd"),
    "--sample": ("1",),
    "--sha256": ("0" * 64,),
    "--since": ("99",),
    "fleet report --since": ("yesterday",),
    "--snapshot": ("{files}/machine.json",),
    "--timeout": ("5",),
    "--connect-timeout": ("1",),
    "--activation-copies": ("2",),
    "--torch-index": ("https://localhost:9/whl",),
    "--watch": ("0.5",),
    "--write-baseline": ("baseline.toml",),
    "--with": ("torchvision",),
    "install --with": ("keras",),
    "install --from": ("{files}/wheels",),
    "onboard --config": ("{files}/onboard.toml",),
    "onboard --for": ("torch>=2.4", "jax"),
    "onboard --golden": ("golden.json",),
    "onboard --lock": ("{files}/pylock.toml",),
    "onboard --python": ("3.11",),
    "install --lock": ("{files}/pylock.toml",),
    "install --python": ("3.11",),
    "matrix query --python": ("3.11",),
    "plan --python": ("3.11",),
    "smoke --gpu": ("0",),
    "matrix refresh --since": ("99",),
}
# Options that replace what a command takes otherwise, and options that need another.
ALONE = {
    *(f"install --{name}" for name in ("rollback", "resume", "remove-kept")),
    *(f"check --{name}" for name in ("python", "env", "snapshot")),
    "fix --python",
    "onboard --lock",
    *(f"plan --{name}" for name in ("containers", "for", "os")),
    *(
        f"install --{name}"
        for name in (
            *("driver", "for", "containers", "reboot", "enrol-key"),
            *("remove-other-driver", "blacklist-nouveau"),
        )
    ),
    "matrix update --undo",
    "matrix update --bundle",
    "matrix verify --all",
}
TOGETHER: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(
        [
            f"gpus {name}"
            for name in ("--optimizer", "--batch", "--activations", "--activation-copies")
        ],
        ("--fits", "7e9", "--activations", "1e9"),
    ),
    **dict.fromkeys(
        [f"check {name}" for name in ("--python", "--env", "--snapshot")],
        ("--config", "{files}/pyproject.toml"),
    ),
    "fix --python": ("--dry-run",),
    "onboard --lock": ("--dry-run",),
    "plan --containers": ("driver", "--os", "debian 12", "--gpu", "A100"),
    "plan --for": ("driver", "--os", "debian 12", "--gpu", "A100"),
    **dict.fromkeys(
        [
            f"install --{name}"
            for name in (
                *("driver", "for", "containers", "reboot", "enrol-key"),
                *("remove-other-driver", "blacklist-nouveau"),
            )
        ],
        ("driver", "--system", "--dry-run"),
    ),
    "plan --os": ("driver", "--gpu", "A100"),
    "plan --platform": ("--python", "3.12", "--driver", "550.54", "--gpu", "A100"),
    "gpus --dtype": ("--fits", "7e9", "--activations", "1e9", "--optimizer", "none"),
    "gpus --checkpointing": ("--fits", "7e9", "--activations", "1e9"),
    "gpus --reserve": ("--fits", "7e9"),
    "gpus --csv": ("--watch", "0.5"),
    "doctor --no-snapshot": ("--json",),
    "matrix verify --all": ("--framework", "keras-hub"),
    "matrix query --framework": ("--driver", "535.104"),
    "fleet report --since": ("--history", "history.sqlite"),
    "fleet run --partition": ("--engine", "slurm"),
    **dict.fromkeys(
        [f"fleet run --{name}" for name in ("gpus", "print-manifest", "runtime-class")],
        (
            "--engine",
            "kubernetes",
            "--namespace",
            "gpu",
            "--image",
            "python:3.12",
            "--print-manifest",
        ),
    ),
    "fleet run --image": ("--engine", "kubernetes", "--namespace", "gpu", "--print-manifest"),
    "fleet run --namespace": (
        "--engine",
        "kubernetes",
        "--image",
        "python:3.12",
        "--print-manifest",
    ),
}
# One sentence each, for what no installation can help: what is asked for is not here, or was not
# said.
REFUSALS = (
    r"Missing argument",
    (
        r"[Nn]ame (the command to run|what (to (install|plan)|must work here)|the inventory|where the Jobs run|the environment with --env|at"
        r" least one condition)"
    ),
    r"--extra and --group are of a project: name its folder",
    r"name the environment with --env",
    r"cannot read pyproject\.toml",
    r"no Python environment found|no Python to test was found",
    r"holds a Python that other programs use",
    r"not installed in the inspected environment|no such GPU here",
    r"sinfo does not answer|Slurm lists no node",
    r"(uv|conda, mamba and micromamba|Python 3\.\d+) (is|are) not installed",
    r"nobody can confirm",
    r"matrix cannot be fetched\. https://localhost:9/matrix\.json cannot be read",
    (
        r"no data file is named|nothing proves |has the SHA-256 \w+, not 0{64}; refused|no update"
        r" is stored"
    ),
    r"package index localhost does not answer",
)


@dataclass(frozen=True)
class Installation:
    """One way to have the program: how to start it, and what lies on PATH."""

    name: str
    start: tuple[str, ...]
    path: str
    python: str


@dataclass(frozen=True)
class Ending:
    """How one command ended."""

    words: tuple[str, ...]
    kind: str  # works, extra, refused, interrupted; anything else is a defect
    code: int
    message: str = ""


def iterate_commands() -> Iterator[tuple[str, click.Command]]:
    """Yield every command by its words: "matrix refresh"."""
    context = click.Context(group)

    def walk(command: click.Command, words: tuple[str, ...]) -> Iterator[tuple[str, click.Command]]:
        yield " ".join(words), command
        if isinstance(command, click.Group):
            for name in command.list_commands(context):
                found = command.get_command(context, name)
                assert found is not None, name
                yield from walk(found, (*words, name))

    yield from walk(group, ())


def list_cases() -> list[tuple[str, ...]]:
    """List what is typed: each command bare, with --help, with what it takes, and so with each value of each option."""
    cases: list[tuple[str, ...]] = []
    for path, command in iterate_commands():
        words, taken = tuple(path.split()), ARGUMENTS.get(path, ())
        cases += [words, (*words, "--help"), (*words, *taken)]
        for option in command.params:
            if isinstance(option, click.Option):
                for value in sample_values(path, option):
                    cases.append((*words, *place_option(path, option.opts[-1], value, taken)))
        if path == "completion":
            cases += [(*words, shell) for shell in ("zsh", "fish", "powershell")]
    return list(dict.fromkeys(cases))


def sample_values(path: str, option: click.Option) -> tuple[tuple[str, ...], ...]:
    """Return the values to try an option with, each as words; raises LookupError for an option that has none."""
    name = option.opts[-1]
    if option.is_flag:
        return ((),)
    if isinstance(option.type, click.Choice):
        return tuple((str(choice),) for choice in option.type.choices)
    values = VALUES.get(f"{path} {name}", VALUES.get(name))
    if values is None:
        raise LookupError(
            f"`envcheck {path} {name}` has no sample value: add one to VALUES of bench/commands.py"
        )
    return tuple((value,) if value else () for value in values)


def place_option(
    path: str, name: str, value: tuple[str, ...], taken: tuple[str, ...]
) -> tuple[str, ...]:
    """Return the words behind a command: an option before what the command takes, without naming an option twice."""
    key = f"{path} {name}"
    rest = TOGETHER.get(key, ()) if key in ALONE else (*TOGETHER.get(key, ()), *taken)
    if name in rest:
        place = rest.index(name)
        rest = (*rest[:place], *rest[place + (2 if value else 1) :])
    return (name, *value, *rest)


def make_files(folder: Path, base: str) -> None:
    """Write the files that the commands read; all of them are composed."""
    folder.mkdir()
    run(
        [sys.executable, "-m", "envcheck", "snapshot", "-o", str(folder / "machine.json")], cwd=ROOT
    )
    (folder / "machines").mkdir()
    shutil.copy(folder / "machine.json", folder / "machines" / "gpu001.json")
    texts = {
        "train.log": (
            "OSError: libcudnn.so.8: cannot open shared object file: No such file or directory\n"
        ),
        "Dockerfile": "FROM python:3.11\nRUN pip install torch==2.6.0\n",
        "compose.yaml": "services:\n  train:\n    image: python:3.11\n",
        "environment.yml": (
            "name: x\ndependencies:\n  - python=3.11\n  - pip:\n    - torch==2.6.0\n"
        ),
        "requirements.txt": "torch==2.6.0\n",
        "uv.lock": (
            'version = 1\nrequires-python = ">=3.11"\n\n[[package]]\nname = "torch"\nversion ='
            ' "2.6.0"\n'
        ),
        "pylock.toml": 'lock-version = "1.0"\n\n[[packages]]\nname = "torch"\nversion = "2.6.0"\n',
        "pyproject.toml": (
            '[project]\nname = "x"\nversion = "1"\n\n[tool.envcheck]\nrequires = ["torch>=2.4"]\n'
        ),
        "inventory.ini": "localhost ansible_connection=local\n",
        "onboard.toml": 'for = ["jax"]\nexpect = "cpu"\n',
    }
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    run([base, "-m", "venv", "--without-pip", str(folder / "venv")])
    code = (
        "import json, sys; from envcheck.matrix.load import load_document;"
        " json.dump(load_document(), sys.stdout)"
    )
    (folder / "matrix.json").write_text(
        run([sys.executable, "-c", code], cwd=ROOT), encoding="utf-8"
    )


def run(argv: Sequence[str], **options: Any) -> str:
    """Run a program that has to succeed, and return what it prints."""
    done = subprocess.run(argv, capture_output=True, text=True, check=False, **options)
    if done.returncode:
        sys.exit(
            f"{shlex.join(argv)} exited with"
            f" {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
        )
    return str(done.stdout)


def find_base_python() -> str:
    """Find a Python that every user here can start and that makes environments."""
    for candidate in (sys.executable, "/usr/bin/python3", "/usr/local/bin/python3"):
        real = os.path.realpath(candidate)
        test = [real, "-c", "import ensurepip, sys; sys.exit(sys.version_info < (3, 10))"]
        if (
            Path(real).exists()
            and subprocess.run(as_user(test, "nobody"), capture_output=True, check=False).returncode
            == 0
        ):
            return real
    sys.exit(
        "No Python here can be started by another user and makes environments: install"
        " python3-venv."
    )


def as_user(argv: Sequence[str], user: str) -> list[str]:
    """Return a command that runs as root or, where this is root, as the user nobody."""
    if user == "root" or os.geteuid() != 0:
        return list(argv)
    # setpriv itself still has root's capabilities: a program between drops them, so that root's
    # folders are closed.
    return ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "env", *argv]


def build(name: str, work: Path, base: str) -> Installation:
    """Make an installation from this checkout's wheel: plain, with extras, or the single file."""
    path = "/usr/bin:/bin"
    if name == "single file":
        file = work / "envcheck.pyz"
        run(["bash", str(ROOT / ".ci" / "pyz"), str(file)])
        return Installation(name, (base, str(file)), path, base)
    folder = work / re.sub(r"\W+", "-", name)
    wheel = next((work / "dist").glob("*.whl"))
    chosen = {"plain": "", "plain, uv": "", "all extras": f"[{','.join([*EXTRAS, 'logs'])}]"}.get(
        name, f"[{name}]"
    )
    run([base, "-m", "venv", str(folder)])
    run([str(folder / "bin" / "python"), "-m", "pip", "install", "-q", f"{wheel}{chosen}"])
    if name == "plain, uv":
        run([base, "-m", "venv", str(work / "uv")])
        run([str(work / "uv" / "bin" / "python"), "-m", "pip", "install", "-q", "uv"])
        (work / "uv-path").mkdir()
        (work / "uv-path" / "uv").symlink_to(work / "uv" / "bin" / "uv")
        path = f"{work / 'uv-path'}:{path}"
    return Installation(name, (str(folder / "bin" / "envcheck"),), path, base)


def variables(home: Path, path: str) -> dict[str, str]:
    """Return the environment of a new user's shell, with the settings of pip and certificates that this machine has."""
    kept = {
        name: os.environ[name]
        for name in os.environ
        if name.startswith(("PIP_", "UV_", "SSL_", "LANG"))
    }
    kept.pop("PIP_CACHE_DIR", None)
    return {**kept, "HOME": str(home), "PATH": path, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}


def type_command(words: Sequence[str], installed: Installation, user: str, files: Path) -> Ending:
    """Type a command in an empty folder and HOME; say how it ended."""
    with tempfile.TemporaryDirectory(prefix="envcheck-typed-") as room:
        home, here = Path(room, "home"), Path(room, "here")
        for folder in (Path(room), home, here):
            folder.mkdir(exist_ok=True)
            if user != "root" and os.geteuid() == 0:
                os.chown(folder, NOBODY, NOBODY)
        names = {"files": str(files), "here": str(here), "python": installed.python}
        typed = tuple(word.format(**names) if "{" in word else word for word in words)
        argv = as_user((*installed.start, *typed), user)
        limit = (
            WATCHED
            if set(typed) & set(ENDLESS)
            else SECONDS * (10 if words[:1] == ("matrix",) else 1)
        )
        child = subprocess.Popen(
            argv,
            cwd=here,
            env=variables(home, installed.path),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
        )
        try:
            out, err = child.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            child.send_signal(signal.SIGINT)
            try:
                out, err = child.communicate(timeout=10)
            except subprocess.TimeoutExpired:
                child.kill()
                child.communicate()
                return Ending(tuple(words), "hangs", -1)
            if limit != WATCHED:
                return Ending(tuple(words), "hangs", child.returncode, err[-300:])
    return judge(tuple(words), child.returncode, out, err)


def judge(words: tuple[str, ...], code: int, out: str, err: str) -> Ending:
    """Say how a command ended, by its exit code and what it printed."""
    message = next(
        (line for line in (*err.splitlines(), *out.splitlines()) if "envcheck: " in line), ""
    )
    if '"schema": "envcheck/error/1"' in out:
        message = out.strip()
    kind = {0: "works", 1: "works", 3: "works", 130: "interrupted"}.get(code, "")
    if words[:1] == ("smoke",) and code == 4:  # a result: what was to compute did not
        kind = "works"
    if (
        code == 5
        or "Traceback (most recent call last)" in err + out
        or "Internal error" in err + out
    ):
        kind = "internal error"
    elif re.search(r"needs the extra \w+\. ", err + out):
        kind = (
            "extra"
            if re.search(r"type: |type the same command with: ", err + out)
            else "an extra without a line"
        )
    elif code in (2, 4) and any(re.search(pattern, err + out) for pattern in REFUSALS):
        kind = "refused"
    return Ending(words, kind or f"exit {code}", code, message or err[-300:])


def give_files(folder: Path, user: str) -> None:
    """Make a user the owner of what the commands read: nobody changes an environment of somebody else."""
    if os.geteuid() == 0:
        run(["chown", "-R", str(0 if user == "root" else NOBODY), str(folder)])


def type_all(
    cases: Sequence[tuple[str, ...]], installed: Installation, user: str, files: Path, jobs: int
) -> list[Ending]:
    """Type every command, several at a time."""
    with ThreadPoolExecutor(jobs) as pool:
        return list(pool.map(lambda words: type_command(words, installed, user, files), cases))


GOOD = ("works", "extra", "refused", "interrupted")


# Extra -> a command that cannot do without it.
NEEDS_EXTRA: dict[str, tuple[str, ...]] = {  # in this order no line brings what a later extra needs
    "files": ("check", "--dockerfile", "{files}/environment.yml"),
    "html": ("doctor", "--format", "html"),
    "plan": ("plan", "jax", "--verify"),
    "mcp": ("mcp",),
    "matrix": ("matrix", "verify", "--framework", "keras-hub", "--sample", "1"),
    "fleet": ("fleet", "run", "-i", "{files}/inventory.ini"),
    "conda": ("plan", "tensorflow", "--installer", "conda", "--python", "3.11", "--verify"),
}


def install_by_tools(work: Path, base: str) -> Iterator[tuple[Installation, dict[str, str]]]:
    """Yield an installation of each kind, with the variables that its tool needs to find it again."""
    wheel = str(next((work / "dist").glob("*.whl")))
    tools, home = work / "tools", work / "tool-home"
    run([base, "-m", "venv", str(tools)])
    run([str(tools / "bin" / "python"), "-m", "pip", "install", "-q", "uv", "pipx"])
    home.mkdir()
    shown = work / "tool-path"
    shown.mkdir()
    for name in ("uv", "pipx"):
        (shown / name).symlink_to(tools / "bin" / name)
    path = f"{shown}:/usr/bin:/bin"
    folders = {
        name: str(home / name.lower())
        for name in ("UV_TOOL_DIR", "UV_TOOL_BIN_DIR", "PIPX_HOME", "PIPX_BIN_DIR")
    }
    found = {**variables(home, path), **folders}
    yield build("plain", work, base), variables(home, "/usr/bin:/bin")
    run([str(shown / "uv"), "tool", "install", "-q", "--python", base, wheel], env=found)
    # uv is on PATH here, so `plan --verify` needs no extra: its line is typed where uv is not.
    yield Installation("uv tool", (f"{folders['UV_TOOL_BIN_DIR']}/envcheck",), path, base), found
    run([str(shown / "pipx"), "install", "-q", "--python", base, wheel], env=found)
    yield Installation("pipx", (f"{folders['PIPX_BIN_DIR']}/envcheck",), path, base), found
    single = build("single file", work, base)
    found = variables(home, "/usr/bin:/bin")
    yield single, found


def type_lines(work: Path, base: str) -> list[str]:
    """Type each line that adds an extra, in each kind of installation; return what went wrong."""
    bad = []
    print(
        "| installation | extra there before | line typed | the command works then"
        " |\n|---|---|---|---|"
    )
    for installed, found in install_by_tools(work, base):
        counted: Counter[str] = Counter()
        for extra, words in NEEDS_EXTRA.items():
            argv = [*installed.start, *(word.format(files=work / "files") for word in words)]
            first = type_words(argv, found, work)
            line = re.search(
                rf"needs the extra {extra}\. .*type: (.+)$",
                first.stderr + first.stdout,
                re.MULTILINE,
            )
            if line is None and first.returncode in (0, 1, 3):
                counted["there"] += 1  # uv on PATH, or a package of the system's Python
                continue
            counted["typed"] += 1
            done = type_words(["bash", "-c", line[1] if line else "false"], found, work)
            if installed.name == "single file":
                argv[0] = f"{found['HOME']}/.envcheck/bin/python"
            again = type_words(argv, found, work)
            if (
                done.returncode
                or again.returncode not in (0, 1, 3)
                or "needs the extra" in again.stderr + again.stdout
            ):
                bad.append(
                    f"{installed.name}: {shlex.join(words)}: {first.stderr}{done.stderr}{again.stderr}"[
                        :900
                    ]
                )
            else:
                counted["works"] += 1
        print(
            f"| {installed.name} | {counted['there']} | {counted['typed']} | {counted['works']} |",
            flush=True,
        )
    return bad


FRAMEWORKS = {
    "torch": (("install", "torch", "--yes"), "import torch; assert torch.ones(2).sum() == 2"),
    "tensorflow": (("install", "tensorflow", "--yes", "--smoke"), "import tensorflow"),
}


def install_frameworks(work: Path, base: str, users: Sequence[str]) -> list[str]:
    """Install frameworks with the README's installation in an empty HOME; return what went wrong."""
    bad = []
    print(
        "| installation | user | command | exit code | seconds | imports"
        " |\n|---|---|---|---|---|---|"
    )
    for kind in ("plain", "plain, uv"):
        installed = build(kind, work, base)
        for user in users:
            for name, (words, code) in FRAMEWORKS.items():
                home = work / "install-home"
                home.mkdir()
                give_files(home, user)
                begun = time.monotonic()
                done = type_words(
                    as_user((*installed.start, *words), user), variables(home, installed.path), home
                )
                seconds = time.monotonic() - begun
                proof = type_words(
                    as_user((str(home / ".venv/bin/python"), "-c", code), user),
                    {"HOME": str(home)},
                    home,
                )
                imports = "yes" if proof.returncode == 0 else "no"
                print(
                    f"| {kind} | {user} | {shlex.join(words)} | {done.returncode} | {seconds:.0f} |"
                    f" {imports} |",
                    flush=True,
                )
                if done.returncode or proof.returncode:
                    bad.append(f"{kind}, {user}, {name}: {done.stderr[-500:]}{proof.stderr[-300:]}")
                shutil.rmtree(home)
    return bad


def type_words(
    argv: Sequence[str], found: dict[str, str], folder: Path
) -> subprocess.CompletedProcess[str]:
    """Type a command as it stands, with nobody at the keyboard."""
    return subprocess.run(
        argv,
        env=found,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def select(cases: list[tuple[str, ...]], names: list[str]) -> list[tuple[str, ...]]:
    """Pick the commands of these names; all of them where there are none."""
    return [case for case in cases if not names or case[:1] in {(name,) for name in names}]


def main() -> None:
    """Build the installations, type every command, print the table."""
    signal.signal(
        signal.SIGINT, signal.default_int_handler
    )  # a job in the background ignores it, and so would what it starts
    parser = argparse.ArgumentParser()
    names = ["plain", "plain, uv", *EXTRAS, "logs", "all extras", "single file"]
    parser.add_argument("--installation", nargs="+", choices=names, default=names)
    parser.add_argument("--user", nargs="+", choices=["root", "nobody"], default=["root", "nobody"])
    parser.add_argument(
        "--only", nargs="+", default=[], metavar="COMMAND", help="type these commands alone"
    )
    parser.add_argument(
        "--as-root", nargs="+", default=[], metavar="COMMAND", help="type these alone as root"
    )
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument(
        "--lines", action="store_true", help="type the lines that add extras, and nothing else"
    )
    parser.add_argument(
        "--install", action="store_true", help="install frameworks, and nothing else"
    )
    parser.add_argument(
        "--verbose", action="store_true", help="print every command with how it ended"
    )
    asked = parser.parse_args()
    cases = select(list_cases(), asked.only)
    base = find_base_python()
    users = asked.user if os.geteuid() == 0 else ["nobody"]  # the one who runs this
    if not (asked.lines or asked.install):
        print(
            f"| installation | user | {len(cases)} commands | work | name an extra | refused |"
            " interrupted | defects |"
        )
        print("|---|---|---|---|---|---|---|---|")
    bad: list[str] = []
    with tempfile.TemporaryDirectory(prefix="envcheck-commands-") as folder:
        work = Path(folder)
        work.chmod(0o755)
        make_files(work / "files", base)
        run(
            [
                sys.executable,
                "-m",
                "pip",
                "wheel",
                "-q",
                "--no-deps",
                "-w",
                str(work / "dist"),
                str(ROOT),
            ]
        )
        if asked.lines:
            bad = type_lines(work, base)
        if asked.install:
            bad += install_frameworks(work, base, users)
        for name in () if asked.lines or asked.install else asked.installation:
            installed = build(name, work, base)
            for user in users:
                give_files(work / "files", user)
                typed = select(cases, asked.as_root) if user == "root" else cases
                ended = type_all(typed, installed, user, work / "files", asked.jobs)
                counted = Counter(item.kind if item.kind in GOOD else "defect" for item in ended)
                cells = [counted[kind] for kind in (*GOOD, "defect")]
                print(f"| {name} | {user} | | {' | '.join(map(str, cells))} |", flush=True)
                for item in ended:
                    line = (
                        f"{item.kind}: envcheck {shlex.join(item.words)} ({item.code}):"
                        f" {item.message[:200]}"
                    )
                    if item.kind not in GOOD:
                        bad.append(f"{name}, {user}: {line}")
                    if asked.verbose:
                        print("   ", line)
    print("\n".join(bad))
    sys.exit(bool(bad))


if __name__ == "__main__":
    main()
