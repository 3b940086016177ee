"""Put drawn situations as a machine, as its snapshot, as a file and as a log: one answer to all.

    python bench/same_answer.py [--count 2000] [--seed 1] [--example NUMBER]

`bench/situations.py` draws them, `bench/situation_machine.py` makes the machine, and
`bench/situation_texts.py` the files and logs. Before anything is judged, what each of them states
is written down: one that states what decides must give the verdict, the ids and the remedy of the
machine; one that does not may be undetermined. Prints the figures, and each class of disagreement
with one example; exits 1 if there is any. `--example` prints one situation with its file, its log
and all answers.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from envcheck import api, model, rules
from envcheck.diagnosis import diagnose
from envcheck.matrix import load_matrix
from envcheck.render.json_contracts import render_snapshot

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench import situation_machine
from bench import situation_texts as texts
from bench import situations as drawn

WITNESSES = ("snapshot", "file", "log")
BY_COMMAND = 3  # snapshots that the real command judges, too


@dataclass(frozen=True)
class Answer:
    """What is compared of a report: verdict, ids of the causes, fix of the first one, its commands."""

    verdict: str
    ids: frozenset[str]
    cure: model.Fix | str  # a record; text where it is not typed
    commands: tuple[str, ...]
    also: frozenset[str] = frozenset()  # ids that it names as fitting as well

    def __str__(self) -> str:
        return f"{self.verdict} {', '.join(sorted(self.ids))}".strip()


def answer_of(report: model.Report) -> Answer:
    """Return what is compared: errors that follow from nothing else, and the remedy of the cause."""
    errors = [
        item for item in report.findings if item.severity == model.ERROR and item.caused_by is None
    ]
    also = frozenset(item.id for item in report.findings if item.verdict == model.UNDETERMINED)
    cause = next((item for item in errors if item.primary), None)
    if cause is None:
        return Answer(report.verdict, frozenset(item.id for item in errors), "", ())
    actions = cause.fix.actions if cause.fix else ()
    cure = cause.cure or "untyped: " + ", ".join(type(item).__name__ for item in actions)
    words = (" ".join(item.command("linux")) for item in actions)
    # wherever it lies
    commands = tuple(re.sub(r"^\S*python[\d.]*(?= )", "python", text) for text in words)
    return Answer(report.verdict, frozenset(item.id for item in errors), cure, commands, also)


@dataclass(frozen=True)
class Put:
    """A witness of a situation as it was put: its answer, and whether it states what decides."""

    answer: Answer
    is_stated: bool
    disagreement: str  # "" where it agrees
    same_commands: bool
    is_open: bool  # it does not tell the cause from another, and says so

    @property
    def is_decided(self) -> bool:
        """Whether it gives a verdict."""
        return self.answer.verdict != model.UNDETERMINED


def compare(machine: Answer, answer: Answer, *, is_stated: bool, states_all: bool) -> Put:
    """Name the kind of a disagreement with the machine.

    Where not all is stated, ids may be fewer, and values of the remedy may be left open. Where what
    decides is not stated, the machine's cause may be named as one that fits as well.
    """
    kind = ""
    open_answer = answer.verdict == model.UNDETERMINED
    names_both = not is_stated and bool(machine.ids & answer.also)
    if machine.verdict == model.UNDETERMINED:
        kind = "" if open_answer else "the machine is undetermined"
    elif open_answer:
        kind = "undetermined though stated" if is_stated else ""
    elif answer.verdict != machine.verdict:
        kind = "other verdict" if is_stated else "other verdict, without what decides"
    elif (
        answer.ids != machine.ids
        and (states_all or not answer.ids < machine.ids)
        and not names_both
    ):
        kind = "other ids" if is_stated else "other ids, without what decides"
    elif answer.ids == machine.ids and not _is_same(
        machine.cure, answer.cure, states_all=states_all
    ):
        untyped = isinstance(answer.cure, str) or isinstance(machine.cure, str)
        kind = "other remedy, not typed on both sides" if untyped else "other typed remedy"
    is_open = not kind and (open_answer or (names_both and answer.ids != machine.ids))
    return Put(answer, is_stated, kind, answer.commands == machine.commands, is_open)


def _is_same(machine: model.Fix | str, witness: model.Fix | str, *, states_all: bool) -> bool:
    """Whether two remedies are the same: of one type, with values that differ only where one is left open."""
    if states_all or not isinstance(machine, model.Fix) or type(machine) is not type(witness):
        return machine == witness
    values = [
        (getattr(machine, name), getattr(witness, name)) for name in model.list_fields(machine)
    ]
    return all(witness_value in (value, "", (), False) for value, witness_value in values)


def _judge(snapshot: model.Snapshot, made: drawn.Situation, requests: tuple[str, ...]) -> Answer:
    """Judge a machine as `doctor` does; where the log shows an extension being built, whether that works."""
    target = rules.Target("gpu", requests, compiles=made.fault == drawn.GCC)
    return answer_of(diagnose(rules.Context(snapshot.facts, load_matrix(), target), frozenset()))


def ask(made: drawn.Situation, folder: Path) -> tuple[Answer, dict[str, Put]]:
    """Put a situation as each witness; files lie in the folder."""
    requests = (f"{made.framework}=={made.release}",) if made.fault == drawn.PYTHON else ()
    two = made.has_two_causes()
    snapshot = situation_machine.machine(made)
    decides = texts.DECIDES[made.outcome()] | ({texts.CAPABILITY} if two else set())
    file, log = texts.write_file(made), texts.write_log(made)
    machine = _judge(snapshot, made, requests)
    everything = texts.DECIDES["works"] | decides
    everything |= {texts.TOOLKIT, texts.CUDNN} if made.image.cuda else set()
    # what somebody took for a fault is none: all must be stated
    if machine.verdict == model.COMPATIBLE:
        decides = decides | everything
    saved = folder / "machine.json"
    saved.write_text(render_snapshot(snapshot), encoding="utf-8")
    again = _judge(api.load_snapshot(saved), made, requests)
    puts = {"snapshot": compare(machine, again, is_stated=True, states_all=True)}
    if file:
        path = folder / file.name
        path.write_text(file.text, encoding="utf-8")
        judged = answer_of(api.check(file=path, expect="gpu", **file.options).report)
        stated, states_all = decides <= file.stated, everything <= file.stated
        puts["file"] = compare(machine, judged, is_stated=stated, states_all=states_all)
    read = answer_of(api.explain(log.text, expect="gpu").report)
    stated = decides <= log.stated or (texts.PROGRAM in log.stated and not two)
    puts["log"] = compare(machine, read, is_stated=stated, states_all=everything <= log.stated)
    return machine, puts


def ask_command(made: drawn.Situation, folder: Path) -> Answer:
    """Return what the command prints about the saved snapshot, without its remedy."""
    saved = folder / "machine.json"
    wanted = ["--for", f"{made.framework}=={made.release}"] if made.fault == drawn.PYTHON else []
    argv = [
        sys.executable,
        "-m",
        "envcheck",
        "doctor",
        "--snapshot",
        str(saved),
        "--expect",
        "gpu",
        *wanted,
        "--json",
    ]
    environment = {**os.environ, "PYTHONPATH": str(drawn.ROOT)}
    done = subprocess.run(argv, capture_output=True, text=True, check=False, env=environment)
    document = json.loads(done.stdout)
    errors = [
        item
        for item in document["findings"]
        if item["severity"] == "error" and not item["caused_by"]
    ]
    return Answer(document["verdict"], frozenset(item["id"] for item in errors), "", ())


def _differing(machine: model.Fix | str, witness: model.Fix | str) -> str:
    """Name two remedies, or the fields in which two of one type differ."""
    if isinstance(machine, model.Fix) and type(machine) is type(witness):
        names = [
            name
            for name in model.list_fields(machine)
            if getattr(machine, name) != getattr(witness, name)
        ]
        return f"{type(machine).__name__} with other {', '.join(names)}"
    return " / ".join(
        one if isinstance(one, str) else type(one).__name__ for one in (machine, witness)
    )


@dataclass
class Figures:
    """The counts of a run, and one example of each class of disagreement."""

    counts: Counter[tuple[str, str]]
    classes: Counter[tuple[str, str, str, str]]
    examples: dict[tuple[str, str, str, str], int]

    def add(self, made: drawn.Situation, machine: Answer, puts: dict[str, Put]) -> None:
        """Count a situation."""
        self.counts["machine", "put"] += 1
        self.counts["machine", "decided"] += machine.verdict != model.UNDETERMINED
        for witness, put in puts.items():
            self.counts[witness, "put"] += 1
            self.counts[witness, "stated"] += put.is_stated
            self.counts[witness, "decided"] += put.is_decided
            self.counts[witness, "disagree"] += bool(put.disagreement)
            agrees = not put.disagreement and not put.is_open
            self.counts[witness, "left open"] += put.is_open
            self.counts[witness, "agree"] += agrees
            self.counts[witness, "same commands"] += agrees and put.same_commands
            if put.disagreement:
                difference = f"{machine} / {put.answer}"
                if "remedy" in put.disagreement:
                    difference = (
                        f"{', '.join(sorted(machine.ids))}:"
                        f" {_differing(machine.cure, put.answer.cure)}"
                    )
                case = f"{made.framework}, {made.outcome()}" + (
                    ", no code either" if made.has_two_causes() else ""
                )
                key = witness, put.disagreement, case, difference
                self.classes[key] += 1
                self.examples.setdefault(key, made.number)

    def print(self) -> None:
        """Print both tables."""
        columns = ("put", "stated", "decided", "agree", "left open", "disagree", "same commands")
        print(f"| witness | {' | '.join(columns)} |\n|---{'|---' * len(columns)}|")
        for witness in WITNESSES:
            cells = [str(self.counts[witness, column]) for column in columns]
            share = 100 * self.counts[witness, "decided"] / max(1, self.counts[witness, "put"])
            cells[2] += f" ({share:.0f} %)"
            print(f"| {witness} | {' | '.join(cells)} |")
        print(
            "\n| number | witness | kind | situation | machine / witness | example"
            " |\n|---|---|---|---|---|---|"
        )
        for key, count in self.classes.most_common():
            print(f"| {count} | {' | '.join(key)} | {self.examples[key]} |")


def run(count: int, seed: int, folder: Path) -> Figures:
    """Put `count` situations; each has a generator of its own, so that one can be drawn again."""
    figures = Figures(Counter(), Counter(), {})
    for number in range(count):
        made = drawn.draw(number, random.Random(f"{seed}.{number}"))
        machine, puts = ask(made, folder)
        figures.add(made, machine, puts)
        if number < BY_COMMAND:
            typed = ask_command(made, folder)
            if (typed.verdict, typed.ids) != (machine.verdict, machine.ids):
                key = "command", "other answer", made.outcome(), f"{machine} / {typed}"
                figures.classes[key] += 1
                figures.examples.setdefault(key, number)
    return figures


def show(number: int, seed: int, folder: Path) -> None:
    """Print one situation with its texts and the answers."""
    made = drawn.draw(number, random.Random(f"{seed}.{number}"))
    machine, puts = ask(made, folder)
    again = drawn.draw(number, random.Random(f"{seed}.{number}"))
    file, log = texts.write_file(again), texts.write_log(again)
    print(
        f"{made.framework} {made.build}, {made.image.name}, driver {made.driver or 'none'},"
        f" {made.gpu}"
    )
    print(f"fault: {made.fault or 'none'}; comes to: {made.outcome()}")
    for name, text in (("file", file), ("log", log)):
        if text:
            print(f"--- {name} {text.options or ''} states {sorted(text.stated)}\n{text.text}")
    print(f"machine: {machine}\n  {machine.cure}\n  {machine.commands}")
    for name, put in puts.items():
        print(
            f"{name}: {put.answer} [{put.disagreement or 'agrees'}]\n  {put.answer.cure}\n "
            f" {put.answer.commands}"
        )


def main() -> int:
    """Draw the situations, ask about each, and print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--example", type=int, help="print this one of the situations")
    options = parser.parse_args()
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        os.chdir(name)  # where no pyproject.toml is
        if options.example is not None:
            show(options.example, options.seed, Path(name))
            return 0
        figures = run(options.count, options.seed, Path(name))
    figures.print()
    print(f"\n{options.count} situations, seed {options.seed}, {time.monotonic() - start:.0f} s")
    return 1 if figures.classes else 0


if __name__ == "__main__":
    sys.exit(main())
