"""Run the console blocks of the documentation: `python -m tests.documented_outputs` writes what they print now."""

from __future__ import annotations

import html
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from envcheck.install.transaction import Transaction, Watch
    from envcheck.model import Outcome

ROOT = Path(__file__).parent.parent
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
FENCED = re.compile(
    r"(?:^ *<!-- shown with (?P<given>[^>]*?) -->\n)?"
    r'^(?P<indent> *)```(?P<kind>\w*)(?: title="(?P<title>[\w.-]+)")?[^\n]*\n(?P<body>.*?)^ *```$',
    re.MULTILINE | re.DOTALL,
)
RUNNABLE = ("envcheck", "cat")
STATUS = "$ echo $?\n"
SHORTENED = "..."
PROCESS = {"pid": 4242, "name": "/srv/venv/bin/python", "memory_bytes": 31 << 30}


class UnrunnableError(ValueError):
    """A block cannot be run; the message says what to write instead."""


class Page:
    """The console blocks of a page, run one after the other in one folder."""

    def __init__(self, path: Path, folder: Path) -> None:
        self._text = path.read_text(encoding="utf-8")
        self._folder, self._above, self._machine, self._columns = folder, "", "", ""
        stub = folder / ".bin" / "envcheck"
        stub.parent.mkdir()
        code = "from tests.documented_outputs import run_as_shown; run_as_shown()"
        stub.write_text(
            f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -c "{code}" "$@"\n', encoding="utf-8"
        )
        stub.chmod(0o755)

    def blocks(self) -> Iterator[tuple[re.Match[str], str, str]]:
        """Yield each block that shows envcheck: its match, what stands there, and what it prints now."""
        for block in FENCED.finditer(self._text):
            shown = re.sub(f"^{block['indent']}", "", block["body"], flags=re.MULTILINE)
            if block["kind"] == "console" and re.search(
                r"^\$ (envcheck|cat)\b", shown, re.MULTILINE
            ):
                self._prepare(block["given"] or "")
                yield block, shown, self._run(shown)
            else:
                self._above = shown
                if block["title"]:
                    (self._folder / block["title"]).write_text(shown, encoding="utf-8")

    def rewritten(self) -> str:
        """Return the page with what each block prints now; a shortened block that is still right stays."""
        text = self._text
        for block, shown, printed in reversed(list(self.blocks())):
            if not matches(shown, printed):
                body = "".join(
                    f"{block['indent']}{line}".rstrip() + "\n" for line in printed.splitlines()
                )
                text = text[: block.start("body")] + body + text[block.end("body") :]
        return text

    def _prepare(self, given: str) -> None:
        """Put what `shown with` names into the folder."""
        for word in given.split():
            name, _, source = word.partition("=")
            if name == "machine":
                self._machine = source
                self._columns = ""
                continue
            if name == "columns":
                self._columns = source
                continue
            kind, _, names = source.partition(":")
            target = self._folder / name
            if kind == "machines":
                target.mkdir()
                for machine in names.split(","):
                    (target / f"{machine}.json").write_text(_snapshot(machine), encoding="utf-8")
            else:
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_text(self._content(kind, names), encoding="utf-8")

    def _content(self, kind: str, name: str) -> str:
        """Return the content of a file that `shown with` names."""
        if kind == "machine":
            return _snapshot(name)
        if kind == "log":
            return _log(name)
        return self._above if kind == "above" else (ROOT / kind).read_text(encoding="utf-8")

    def _run(self, shown: str) -> str:
        """Return a block's command with what it prints, and its exit status where the block asks for it."""
        if not self._machine:
            raise UnrunnableError(
                "write <!-- shown with machine=NAME --> above the block: a folder of tests/hosts"
            )
        if shown.split()[1] not in RUNNABLE:
            raise UnrunnableError(
                f"{shown.split()[1]} is not run: show it in a block of its own, ```sh"
            )
        (self._folder / ".machine.json").write_text(_snapshot(self._machine), encoding="utf-8")
        command = re.match(r"\$ ((?:.*\\\n)*.*)\n", shown)
        assert command
        done = subprocess.run(
            ["sh", "-c", command[1]],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            cwd=self._folder,
            env=self._environment(),
            check=False,
        )
        return (
            command[0] + done.stdout + (f"{STATUS}{done.returncode}\n" if STATUS in shown else "")
        )

    def _environment(self) -> dict[str, str]:
        path = f"{self._folder}/.bin:{os.environ.get('PATH', '')}"
        return {
            "PATH": path,
            "HOME": str(self._folder),
            "SHELL": "/bin/bash",
            "LANG": "C.UTF-8",
            "PYTHONPATH": str(ROOT),
            "ENVCHECK_VERIFY": "0",  # what an index answers changes by the day
            **({"COLUMNS": self._columns, "NO_COLOR": "1"} if self._columns else {}),
        }


Blocks = list[tuple[re.Match[str], str, str]]


def count_screens(path: Path, folder: Path, usual: Blocks) -> str:
    """Return the table of a page of screens: the lines of each below its heading, at 80 and 60 columns.

    `usual` are its blocks as they stand there, at 80.
    """
    lines: dict[str, list[str]] = {}
    text = path.read_text(encoding="utf-8").replace("columns=80", "columns=60")
    (folder / "page.md").write_text(text, encoding="utf-8")
    for blocks in (usual, Page(folder / "page.md", folder).blocks()):
        for block, shown, printed in blocks:
            title = re.findall(r"^## (.*)$", text[: block.start()], re.MULTILINE)[-1]
            count = str(printed.count("\n") - 1)  # without the command
            # who owns a process, and whether this user may see it, differs
            is_open = shown.startswith("$ envcheck gpus")
            lines.setdefault(title, []).append("varies" if is_open else count)
    return "".join(f"| {title} | {one} | {other} |\n" for title, (one, other) in lines.items())


PICTURE = """<!-- shown with machine=torch-cpu-beside-gpu columns=80 -->
```console
$ envcheck doctor --color always
```
"""
# the background, and the colours of each ANSI code that envcheck writes
THEMES = {
    "light": ("#f6f8fa", {"": "#1f2328", "2": "#59636e", "1;31": "#b3261e", "1;32": "#116329"}),
    "dark": ("#161b22", {"": "#e6edf3", "2": "#9198a1", "1;31": "#ff7b72", "1;32": "#7ee787"}),
}
CHARACTER, LINE = 8.4, 20  # pixels


def draw_terminal(printed: str, theme: str) -> str:
    """Draw what a terminal shows, with its ANSI colours, as an SVG picture."""
    background, colors = THEMES[theme]
    lines = printed.replace(" --color always", "").splitlines()
    width, height = 80 * CHARACTER + 40, len(lines) * LINE + 40
    rows = []
    for number, line in enumerate(lines):
        spans, place, style = [], 0, ""
        for code, text in re.findall(r"\x1b\[([\d;]*)m|([^\x1b]+)", line):
            if not text:
                style = code.removeprefix("0")
                continue
            look = f'fill="{colors.get(style, colors[""])}"'
            look += ' font-weight="bold"' if style.startswith("1") else ""
            x = 20 + place * CHARACTER
            shown = html.escape(text).replace(" ", "\u00a0")
            spans.append(f'<tspan x="{x:.1f}" {look}>{shown}</tspan>')
            place += len(text)
        rows.append(f'<text y="{number * LINE + 36}">{"".join(spans)}</text>\n')
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" width="{width:.0f}"'
        f' font-family="ui-monospace, Menlo, Consolas, monospace" font-size="14">\n'
        f'<rect width="100%" height="100%" rx="8" fill="{background}"/>\n{"".join(rows)}</svg>\n'
    )


def draw_pictures(folder: Path) -> dict[str, str]:
    """Return the pictures of a terminal for the home page, by their names in docs/assets."""
    page = folder / "picture.md"
    page.write_text(PICTURE, encoding="utf-8")
    ((_, _, printed),) = Page(page, folder).blocks()
    return {f"terminal-{theme}.svg": draw_terminal(printed, theme) for theme in THEMES}


SCREENS = ROOT / "docs/explanation/screens.md"
COUNTED = re.compile(r"(?<=\|---\|---\|---\|\n)(?:\|.*\n)*")


def matches(shown: str, printed: str) -> bool:
    """Tell whether a block shows what is printed; a line `...` stands for any lines."""
    parts = re.split(rf"^ *{re.escape(SHORTENED)}\n", shown, flags=re.MULTILINE)
    return re.fullmatch("(?:.*\n)*?".join(map(re.escape, parts)), printed) is not None


def _snapshot(machine: str) -> str:
    from envcheck.render.json_contracts import render_snapshot
    from tests.hosts.test_hosts import snapshot_of

    return render_snapshot(snapshot_of(machine))


def _log(name: str) -> str:
    from tests.cases.judged import FOLDER, read_cases

    logs = {
        case["id"]: case["log"]
        for file in ("reported", "composed")
        for case in read_cases(FOLDER / f"{file}.jsonl")
    }
    return f"{logs[name].rstrip()}\n"


def run_as_shown() -> None:
    """Run envcheck on the machine that a block names, in place of this one."""
    from envcheck import api
    from envcheck.actions import shells
    from envcheck.cli import main
    from envcheck.diagnosis import doctor
    from envcheck.probes import collection

    snapshot = api.load_snapshot(f"{os.environ['HOME']}/.machine.json")
    # a recorded machine has no environment to import from
    vars(shells)["uv_word"] = lambda: "uv"  # readers have it on PATH
    vars(api)["prove_imports"] = lambda machine, *_: machine
    collection.collect = lambda *_, **__: snapshot
    python = snapshot.facts.python  # of the user who types the command there, who may change it
    owned = python.prefix.value if python.kind.value in {"venv", "conda"} else ""
    doctor.find_changeable_environment = lambda facts: (owned or "", "")
    os.geteuid = lambda: 1000
    if "COLUMNS" in os.environ:  # drawn as on a terminal
        setattr(sys.stdout, "isatty", lambda: True)  # noqa: B010 - a method
    if "gpus" in sys.argv:
        from envcheck.gpus import reading
        from tests.gpus.test_gpus_replayed import machine

        busy = machine(processes=[PROCESS], memory_used_bytes=32 << 30)
        setattr(reading, "LocalHost", lambda *_: busy)  # noqa: B010 - a class
    if "install" in sys.argv:
        from envcheck.install.transaction import Transaction

        setattr(Transaction, "prepare", lambda *_, **__: None)  # noqa: B010 - a method
        setattr(Transaction, "run", play_installation)  # noqa: B010 - a method
    sys.argv[0] = f"{os.environ['HOME']}/.bin/envcheck"
    main()


def play_installation(transaction: Transaction, watch: Watch) -> Outcome:
    """Stand in for an installation: its steps begin and end well, and nothing is installed."""
    from envcheck.model import Outcome

    for step in transaction.plan.steps:
        watch.begins(step.purpose)
    watch.begins("Judge the environment.")
    outcome = Outcome(transaction.done, str(transaction.place.folder))
    watch.settled(outcome, existed=transaction.place.is_taken)
    return outcome


if __name__ == "__main__":
    for page in PAGES:
        with tempfile.TemporaryDirectory() as folder:
            page.write_text(Page(page, Path(folder)).rewritten(), encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as narrow:
        usual = list(Page(SCREENS, Path(folder)).blocks())
        counted = count_screens(SCREENS, Path(narrow), usual)
        text = SCREENS.read_text(encoding="utf-8")
        SCREENS.write_text(COUNTED.sub(lambda _: counted, text), encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        for name, picture in draw_pictures(Path(folder)).items():
            (ROOT / "docs/assets" / name).write_text(picture, encoding="utf-8")
