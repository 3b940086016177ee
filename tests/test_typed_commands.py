"""bench/commands.py types every command with each of its options: none can be left out."""

from __future__ import annotations

import click
import pytest

from bench import commands
from bench.commands import iterate_commands, list_cases


def test_every_option_of_every_command_is_typed() -> None:
    cases = list_cases()
    missing: list[str] = []
    for path, command in iterate_commands():
        words = tuple(path.split())
        own = [case[len(words) :] for case in cases if case[: len(words)] == words]
        assert () in own, f"envcheck {path} is not typed bare"
        assert ("--help",) in own
        names = [option.opts[-1] for option in command.params if isinstance(option, click.Option)]
        missing += [f"{path} {name}" for name in names if not any(name in case for case in own)]
    assert missing == []
    assert len(cases) > 300


def test_a_new_option_without_a_sample_value_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    new = click.Command("doctor", params=[click.Option(["--new"], metavar="THING")])
    monkeypatch.setattr(commands, "iterate_commands", lambda: iter([("doctor", new)]))
    with pytest.raises(LookupError, match="`envcheck doctor --new` has no sample value"):
        list_cases()


@pytest.mark.parametrize(
    ("code", "said", "kind"),
    [
        (0, "", "works"),
        (3, "UNDETERMINED", "works"),
        (
            2,
            "envcheck: An HTML page needs the extra html. To add it, type: python -m pip install 'jinja2>=3.1'",
            "extra",
        ),
        (2, "envcheck: An HTML page needs the extra html. Sorry.", "an extra without a line"),
        (2, "envcheck: Missing argument 'REQ...'.", "refused"),
        (2, "envcheck: something that nobody foresaw", "exit 2"),
        (5, "envcheck: Internal error: KeyError: 'cudf'.", "internal error"),
        (1, "Traceback (most recent call last):", "internal error"),
        (130, "", "interrupted"),
    ],
)
def test_how_a_command_ended(code: int, said: str, kind: str) -> None:
    assert commands.judge(("doctor",), code, "", said).kind == kind
