"""How a log ends: what failed last, what was typed, and whether the program went on."""

from __future__ import annotations

import pytest

from envcheck.explain.ending import Ending, read_ending
from envcheck.explain.last_words import judge_raised
from envcheck.explain.scan import scan
from envcheck.explain.signatures import load_signatures
from envcheck.explain.statements import Raised, read_raised
from envcheck.model import replace

QUIET = "\n".join(f"row {number}" for number in range(9))


def ending_of(*logs: str) -> Ending:
    """Scan each log as a file and return how they end."""
    sources = [(f"log{number}", [log.encode()]) for number, log in enumerate(logs)]
    return scan(sources, load_signatures()).ending


def test_a_program_goes_on_where_lines_follow() -> None:
    assert ending_of("a\nb\nc\nd\n").goes_on_after(1)
    assert not ending_of("a\nb\nc\n").goes_on_after(1)


def test_what_is_typed_is_no_work_of_the_program() -> None:
    assert not ending_of("a\nb\n>>> c\nd\n").goes_on_after(1)
    assert ending_of("a\nb\n>>> c\nd\n").last_prompt == 3


@pytest.mark.parametrize(
    "work",
    [
        "epoch 3 done", "Successfully installed torch-2.8.0", "12 passed in 3.1s", "loss: 0.31",
        "100%|####| 30/30", "Application startup complete.", '"GET / HTTP/1.1" 200', "31.2it/s",
    ],
)  # fmt: skip
def test_work_after_a_line_is_success(work: str) -> None:
    assert ending_of(f"a\n{work}\n").succeeds_after(1)
    assert not ending_of(f"{work}\na\n").succeeds_after(2)


def test_passed_tests_beside_a_failed_one_are_no_success() -> None:
    assert not ending_of("a\n1 failed, 12 passed in 3.1s\n").succeeds_after(1)


def test_many_lines_without_a_failing_word_are_quiet() -> None:
    assert ending_of(f"an error\n{QUIET}\n").is_quiet_after(1)
    assert not ending_of(f"{QUIET}\nan error\n").is_quiet_after(1)
    assert not ending_of("an error\nrow\nrow\n").is_quiet_after(1)


def test_the_exception_in_which_a_traceback_ends_is_kept() -> None:
    text = (
        'Traceback (most recent call last):\n  File "a.py", line 1, in <module>\n    f()\n'
        "mylib.Boom: it broke\n"
    )
    assert ending_of(text).raised == Raised("Boom", "it broke", 4, ("",), "a.py")
    assert ending_of("epoch 1\n  loss 1\nepoch 2 done: yes\n").raised is None


def test_a_long_log_is_read_at_its_end() -> None:
    tail = b"x\nImportError: tokenizers>=0.21 is required, but found tokenizers==0.20.3\n"
    ending = read_ending(b"", tail, 900, "train.log")
    assert ending.raised is not None
    assert ending.raised.number == 900
    assert ending.stated is not None
    assert (ending.stated.what, ending.stated.found, ending.file) == (
        "tokenizers",
        "0.20.3",
        "train.log",
    )


def test_an_ending_that_was_asked_is_still_a_record() -> None:
    ending = ending_of("error: needs CUDA 12.4 or newer\n")
    assert ending.stated is not None
    assert not ending.advice
    assert replace(ending, tail=()).stated is None


def test_of_several_logs_only_the_last_words_count() -> None:
    assert replace(ending_of("x\n", "y\n"), tail=(), end=0) == Ending(file="log0")
    fault = "Traceback (most recent call last):\nKeyError: 'gpu'\n"
    ended = ending_of(fault, "epoch 1 done\n")
    raised = Raised("KeyError", "'gpu'", 2)
    expected = Ending(raised=raised, failed=raised.text, failed_line=2, file="log0")
    assert replace(ended, tail=(), end=0) == expected


def test_what_the_end_says_of_a_failure_is_kept_unless_work_follows() -> None:
    log = "loading\nmyprog: failed to open the plan\nmake: *** [train] Error 2\n"
    assert ending_of(log).failed == "myprog: failed to open the plan"
    assert not ending_of(f"{log}epoch 1 loss: 0.3\n").failed
    assert not ending_of("12 passed, 0 failed\nerrors: 0\n").failed


def test_the_command_that_a_tool_proposes_is_read() -> None:
    told = "pyproject.toml changed since the lock file was made. Run `poetry lock` to fix it.\n"
    assert ending_of(told).advice == "poetry lock"
    hint = "hint: Consider a newer `requires-python` value (like >=3.9)."
    assert ending_of(f"error: no\n\n{hint}\n").advice == hint.removeprefix("hint: ")
    please = "Please use pip<24.1 if you need to use this version."
    assert ending_of(f"{please}\nERROR: no\n").advice == please
    assert not ending_of("hint: See above for details.\nhint: run it with sudo, then try\n").advice
    assert not ending_of("Run `rm -rf build; pip install x` first\n").advice


def test_a_command_that_failed_went_on_after_nothing() -> None:
    ended = ending_of("KeyError: 'gpu'\nepoch 1 done\n")
    assert ended.succeeds_after(1)
    assert not ended.failure.succeeds_after(1)
    expected = replace(Ending(), raised=ended.raised, file="log0")
    assert replace(ended.failure, tail=(), end=0) == expected


@pytest.mark.parametrize(
    ("source", "mark", "finding"),
    [
        ('    print(f"a {b}")', 18, "python-unsupported"),  # Python 2.7's own output
        ("x = rf'a'", 9, "python-unsupported"),
        ('print(f"a {b}") x', 17, ""),  # a fault of the program, in a Python that has them
    ],
)
def test_an_old_python_stops_at_the_end_of_an_f_string(
    source: str, mark: int, finding: str
) -> None:
    log = f'  File "f.py", line 3\n{source}\n{" " * (mark - 1)}^\nSyntaxError: invalid syntax\n'
    raised = read_raised(log.splitlines(), 4)
    assert raised is not None
    claim = judge_raised(raised, "-")
    assert claim is not None
    assert (claim.id == "python-unsupported") is bool(finding)
