"""Plant secrets where every command reads, and count those that it shows.

    python bench/privacy.py [--set first second] [--verbose]

Each form is a word that a document must not repeat: a token, a host, a user, a path outside known
folders. It is planted in the lines of a log, in what a framework's import raises, in variables, in
a project's files, in the names of files, in what a program prints under `envcheck run` and in what
Slurm's stand-ins and the logins of their nodes print to `envcheck fleet`; every command answers in
each of its formats. Prints how many forms each place shows; exits 1 where one is shown.
"""

from __future__ import annotations

import argparse
import io
import os
import random
import re
import string
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass
from html import unescape
from multiprocessing import get_context
from pathlib import Path
from urllib.parse import quote as url_quote

import click

from envcheck.cli import main
from envcheck.cli.group import group

FORMATS = ("text", "json", "html", "markdown", "csv", "drain", "junit", "github")

_random = random.Random(30)


def _mixed(length: int, letters: str = string.ascii_letters + string.digits) -> str:
    return "".join(_random.choice(letters) for _ in range(length))


def _hex(length: int) -> str:
    return _mixed(length, "0123456789abcdef")


def _upper(length: int) -> str:
    return _mixed(length, string.ascii_uppercase + string.digits)


@dataclass(frozen=True)
class Form:
    """What stands in a text, and the part of it that nobody else may read."""

    name: str
    text: str
    secret: str


def _form(name: str, pattern: str, secret: str) -> Form:
    return Form(name, pattern.replace("{}", secret), secret)


# Written before the code that hides them was read.
FIRST = (
    _form("OpenAI key", "sk-{}", _mixed(48)),
    _form("OpenAI project key", "key sk-proj-{} rejected", _mixed(20) + "_" + _mixed(20)),
    _form("Anthropic key", "sk-ant-api03-{}", _mixed(40) + "-" + _mixed(8)),
    _form("Slack token", "xoxb-{}", "123456789012-" + _mixed(24)),
    _form(
        "Slack webhook",
        "https://hooks.slack.com/services/{}",
        f"T{_upper(8)}/B{_upper(8)}/{_mixed(24)}",
    ),
    _form("NVIDIA key", "nvapi-{}", _mixed(30) + "-" + _mixed(20)),
    _form("JWT", "{}", f"eyJ{_mixed(20)}.eyJ{_mixed(40)}.{_mixed(43)}"),
    _form("GitHub token", "ghp_{}", _mixed(36)),
    _form("GitHub fine-grained token", "github_pat_{}", _mixed(22) + "_" + _mixed(59)),
    _form("Hugging Face token", "hf_{}", _mixed(34)),
    _form("AWS key id", "AKIA{}", _upper(16)),
    _form("AWS secret", "{}", _mixed(19) + "/" + _mixed(12) + "+" + _mixed(7)),
    _form("Google key", "AIza{}", _mixed(20) + "-" + _mixed(14)),
    _form("GitLab token", "glpat-{}", _mixed(20)),
    _form("npm token", "npm_{}", _mixed(36)),
    _form("PyPI token", "pypi-AgEI{}", _mixed(80)),
    _form("wandb key", "wandb: login {}", _hex(40)),
    _form("UUID", "run {}", f"{_hex(8)}-{_hex(4)}-4{_hex(3)}-a{_hex(3)}-{_hex(12)}"),
    _form("bearer", "Authorization: Bearer {}", _mixed(24)),
    _form("basic authorization", "Authorization: Basic {}", _mixed(18) + "=="),
    _form("password in a URL", "https://deploy:{}@index.example.org/simple", "correcthorse"),
    _form("token in a query", "https://index.example.org/simple?token={}", _mixed(16)),
    _form("password as a variable", "PGPASSWORD={}", "correcthorse"),
    _form("password as an option", "--password {}", "correcthorse"),
    _form("key in JSON", '{"api_key": "@"}'.replace("@", "{}"), "correcthorse"),
    _form(
        "Azure account key", "AccountName=acme;AccountKey={};", _mixed(43) + "/" + _mixed(42) + "=="
    ),
    _form(
        "SAS signature",
        "https://acme.blob.core.windows.net/c/x?sv=2024&sig={}",
        _mixed(20) + "%2F" + _mixed(20),
    ),
    _form("unknown vendor", "zq7-{}", _mixed(32)),
    _form("letters and digits", "session {} opened", _mixed(16)),
    _form("full host name", "node042.{}", "cluster.acme.internal"),
    _form("host name", "connecting to {}", "gpu-node-17"),
    _form("IPv4", "tcp://{}:29500", "10.21.4.77"),
    _form("IPv6", "[{}]:29500", "fd12:3456:789a::17"),
    _form("mail address", "{}@acme.example", "jane.doe"),
    _form("user at a host", "{}@login", "janedoe"),
    _form("path in a home", "/home/{}/train.py", "janedoe"),
    _form("path on a scratch disk", "/scratch/{}/acme/train.py", "janedoe"),
    _form("path of Windows", "C:\\Users\\{}\\train.py", "janedoe"),
    _form("path of a project", "/lustre/projects/{}/x.so", "acmesecret"),
    _form("bucket", "s3://{}/checkpoints/x.pt", "acmesecret-bucket"),
)
# Written after FIRST was mended, before the code was tried on them.
SECOND = (
    _form("Stripe key", "sk_live_{}", _mixed(24)),
    _form("Databricks token", "dapi{}", _hex(32)),
    _form("Replicate token", "r8_{}", _mixed(37)),
    _form("Groq key", "gsk_{}", _mixed(52)),
    _form("SendGrid key", "SG.{}", f"{_mixed(22)}.{_mixed(43)}"),
    _form("Telegram bot", "bot{}", f"{_random.randrange(10**8, 10**9)}:AA{_mixed(33)}"),
    _form("Discord webhook", "https://discord.com/api/webhooks/{}", f"1234/{_mixed(60)}"),
    _form("pod", "pod {} evicted", f"trainer-{_hex(9)}-x2x9z"),
    _form("container", "container {} died", _hex(12)),
    _form("MAC address", "eth0 {}", "02:42:ac:11:00:02"),
    _form("host of a cloud", "ip-10-0-12-34.{}", "ec2.internal"),
    _form("node of a rack", "node {}: down", "r05n12"),
    _form("repository", "git+ssh://git@git.{}/x.git", "acmecorp.internal:2222/secretproject"),
    _form("network share", "\\\\fileserver\\{}\\train.py", "janedoe"),
    _form("file address", "file:///home/{}/x.log", "janedoe"),
    _form("mounted disk", "/mnt/nfs/{}/data/x.npy", "janedoe"),
    _form("GPU", "GPU-{}", f"{_hex(8)}-{_hex(4)}-{_hex(4)}-{_hex(4)}-{_hex(12)}"),
    _form("public key of SSH", "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI{} me@x", _mixed(43)),
    _form("database", "postgresql://janedoe:{}@db:5432/runs", "correcthorse"),
    _form("password of curl", "curl -u janedoe:{} x", "correcthorse"),
)
SETS = {"first": FIRST, "second": SECOND}

LINES = (
    "OSError: libcudart.so.12: cannot open shared object file: No such file or directory {}",
    "RuntimeError: CUDA error: no kernel image is available for execution on the device {}",
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. {}",
    "E0000 cuda_driver.cc:152] failed call to cuInit: CUDA_ERROR_NO_DEVICE {}",
    "ERROR: No matching distribution found for torch==9.9 {}",
    "SomeError: cannot go on: {}",
    'RuntimeError: "{}": The NVIDIA driver on your system is too old (found version 11040).',
    "Traceback (most recent call last):\n  File \"{}\", line 3, in <module>\nModuleNotFoundError: No module named 'torch'",
    "srun: error: {}: task 0: Exited with exit code 1",
)

# A framework that cannot be imported, and says so in the words of the form.
# A cluster of four nodes: one cannot be started, one prints what is no answer, one never answers, one is this machine.
SINFO = """#!/bin/sh
printf 'n1 idle\\nn2 idle\\nn3 idle\\nn4 down*\\n'
"""
SRUN = """#!/bin/sh
for word; do case $word in --nodelist=*) node=${word#*=};; esac; done
while [ "$1" != sh ]; do shift; done
printf 'Welcome. %s\\n' "$FORM"
case $node in
  n1) printf 'srun: error: Unable to allocate resources: %s\\n' "$FORM" >&2; exit 1;;
  n2) printf 'ENVCHECK-SNAPSHOT {"a": "%s" [[[\\n' "$FORM"; exit 0;;
esac
exec "$@"
"""
STAND_IN = """import os
raise ImportError("libcudnn.so.9: cannot open shared object file: No such file or directory " + os.environ["FORM"])
"""


@dataclass(frozen=True)
class Room:
    """A home with an environment, a project and the files that hold a form."""

    home: Path
    form: Form

    @property
    def project(self) -> Path:
        """Return the folder that commands are typed in."""
        return self.home / "work"

    @property
    def index(self) -> str:
        """Return the address of an index that takes the secret as a password."""
        return f"https://deploy:{url_quote(self.form.secret, safe='')}@index.example.org/simple"

    def fill(self) -> None:
        """Write the environment and the files."""
        text = self.form.text
        site = (
            self.project / ".venv" / "lib" / f"python3.{sys.version_info.minor}" / "site-packages"
        )
        subprocess.run(
            (sys.executable, "-m", "venv", "--without-pip", str(self.project / ".venv")), check=True
        )
        (site / "torch").mkdir()
        (site / "torch" / "__init__.py").write_text(STAND_IN)
        (site / "torch" / "version.py").write_text("__version__ = '2.8.0+cu126'\ncuda = '12.6'\n")
        (site / "torch-2.8.0+cu126.dist-info").mkdir()
        (site / "torch-2.8.0+cu126.dist-info" / "METADATA").write_text(
            "Metadata-Version: 2.1\nName: torch\nVersion: 2.8.0+cu126\n"
        )
        (site / "torch-2.8.0+cu126.dist-info" / "RECORD").write_text(
            "torch/__init__.py,,\ntorch/version.py,,\n"
        )
        for number, line in enumerate(LINES):
            (self.project / f"log{number}").write_text(
                f"starting {text}\n" + line.replace("{}", text) + "\n"
            )
        (self.project / "requirements.txt").write_text(
            f"# {text}\n--extra-index-url {self.index}\ntorch==2.8.0\nnot a line: {text}\n"
        )
        (self.project / "Dockerfile").write_text(
            f"FROM ubuntu:24.04\nENV FORM={text}\nRUN pip3 install torch==2.6.0 --log '{text}'\n"
        )

        for name, program in (("sinfo", SINFO), ("srun", SRUN)):
            path = self.programs / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(program)
            path.chmod(0o755)

    @property
    def programs(self) -> Path:
        """Return the folder of the programs that stand in for Slurm's."""
        return self.project / "bin"

    def commands(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Every command that quotes what it reads; the name says what was planted where."""
        yield from ((f"explain, line {n}", ("explain", f"log{n}")) for n in range(len(LINES)))
        yield "explain -v", ("explain", "-v", "log1")
        yield "doctor", ("doctor", "-v", "--env", ".venv")
        yield "smoke", ("smoke", "--env", ".venv")
        yield "gpus", ("gpus",)
        yield "fix", ("fix", "--env", ".venv", "--dry-run")
        yield "plan", ("plan", "-r", "requirements.txt")
        yield "install", ("install", "torch", "--env", ".venv", "--dry-run")
        yield "check a file", ("check", "--dockerfile", "requirements.txt")
        yield "check a Dockerfile", ("check", "--dockerfile", "Dockerfile")
        yield "no such file", ("explain", f"{self.home}/nothing-here.log")
        yield "diff", ("diff", "-v", "a.json", "b.json")
        yield "snapshot", ("snapshot", "--env", ".venv")
        for n in range(len(LINES)):
            yield f"run, line {n}", ("run", "--", "sh", "-c", f"cat log{n}; exit 1")
        asked = ("fleet", "run", "--engine", "slurm", "--partition", "gpu", "--again")
        yield "fleet run", (*asked, "-o", "machines")
        yield "fleet report", ("fleet", "report", "machines")
        yield "fleet report --html", ("fleet", "report", "machines", "--html", "fleet.html")

    def variables(self) -> dict[str, str]:
        """Return the environment that commands are typed in."""
        text = self.form.text
        return {
            "PATH": f"{self.programs}:{os.defpath}",
            "HOME": str(self.home),
            "FORM": text,
            "PIP_EXTRA_INDEX_URL": self.index,
            "HF_TOKEN": text,
            "HOSTNAME": text,
        }


def _answer(arguments: tuple[str, ...]) -> str:
    """Run a command in this process, for speed, and return what it prints."""
    sys.argv[1:] = arguments
    with io.StringIO() as said, redirect_stdout(said), redirect_stderr(said):
        with suppress(SystemExit):
            main()
        return said.getvalue()


def _formats(arguments: tuple[str, ...]) -> tuple[str, ...]:
    """Return the formats of a command to look at; "" where it has one alone."""
    if "--html" in arguments:
        return ("",)
    found = group.get_command(click.Context(group), arguments[0])
    if isinstance(found, click.Group):
        found = found.get_command(click.Context(found), arguments[1])
    for option in found.params if found else ():
        if option.name == "form" and isinstance(option.type, click.Choice):
            return tuple(form for form in FORMATS if form in option.type.choices)
    return ("",)


def measure(form: Form, folder: Path, only: str) -> set[str]:
    """Where a form is shown, as "command (format)", by the commands whose name matches."""
    room = Room(folder / "home" / "erikaplant", form)
    room.project.mkdir(parents=True)
    room.fill()
    os.environ.clear()
    os.environ.update(room.variables())
    os.chdir(room.project)
    silent = os.open(os.devnull, os.O_WRONLY)
    for channel in (1, 2):  # `run` hands on what its program prints, as it is
        os.dup2(silent, channel)
    shown = set()
    saved = _answer(("snapshot", "--env", ".venv"))
    (room.project / "a.json").write_text(saved)
    (room.project / "b.json").write_text(saved.replace("12.6", "12.8").replace("2.8.0", "2.7.0"))
    for name, arguments in room.commands():
        if not re.match(only, name):
            continue
        for kind in _formats(arguments):
            # what follows -- is the program's
            end = arguments.index("--") if "--" in arguments else len(arguments)
            asked = ("--format", kind) if kind else ()
            said = _answer((*arguments[:end], *asked, *arguments[end:]))
            if "--html" in arguments:
                said += Path("fleet.html").read_text()
            if form.secret in unescape(said).replace("\\", ""):
                shown.add(f"{name} ({kind})")
            if kind == "json" and "erikaplant" in said:
                shown.add(f"{name}: home (json)")
    return shown


def run() -> int:
    """Measure each form in a room of its own."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--set", nargs="*", choices=SETS, default=list(SETS))
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", help="a part of the name of the form")
    parser.add_argument("--commands", default="", help="a pattern for the beginning of their names")
    options = parser.parse_args()
    forms = [form for name in options.set for form in SETS[name]]
    forms = [form for form in forms if (options.only or "") in form.name]
    with (
        tempfile.TemporaryDirectory() as folder,
        # a process for each room: nothing that one has read is known in the next
        get_context("spawn").Pool(options.jobs, maxtasksperchild=1) as pool,
    ):
        rooms = [
            (form, Path(folder) / str(number), options.commands)
            for number, form in enumerate(forms)
        ]
        answers = dict(zip(forms, pool.starmap(measure, rooms, chunksize=1)))
    places: dict[str, int] = {}
    for form, shown in answers.items():
        if options.verbose:
            print(f"{form.name}: {', '.join(sorted(shown)) or 'hidden'}")
        for place in shown:
            places[place] = places.get(place, 0) + 1
    for place in sorted(places):
        print(f"{places[place]:3} of {len(forms)}  {place}")
    exposed = sum(any(": home" not in place for place in shown) for shown in answers.values())
    print(f"{exposed} of {len(forms)} forms are shown somewhere")
    return int(bool(places))


if __name__ == "__main__":
    sys.exit(run())
