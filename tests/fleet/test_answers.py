"""The output of a host becomes a snapshot or a kind of failure."""

from __future__ import annotations

import json

import pytest

from envcheck.fleet.ansible import _parse_answer
from envcheck.fleet.collector import MARK
from envcheck.fleet.results import (
    BROKEN,
    DENIED,
    HUNG,
    TOO_OLD,
    UNREACHABLE,
    UNWRITABLE,
    Failure,
    classify_failure,
    find_answer,
)
from envcheck.model import Snapshot
from tests.fleet.hostile import document


def test_the_answer_is_found_in_the_output_of_login_scripts() -> None:
    printed = f"Welcome!\r\n\x1b[31mmotd{MARK}{json.dumps(document())}\r\nlogout\n"
    assert isinstance(find_answer(printed, ""), Snapshot)


def test_a_login_script_that_prints_the_mark_does_not_hide_the_answer() -> None:
    body = {**document(), "tool_version": MARK}
    printed = f"{MARK}\n{MARK}{{}}\n{MARK}{json.dumps(body)}\n"
    assert isinstance(find_answer(printed, ""), Snapshot)


@pytest.mark.parametrize(
    ("printed", "message"),
    [
        (MARK + '{"half": [1, 2', "not JSON"),
        (MARK + "[" * 100_000, "not JSON"),
        (MARK + "9" * 10_000, ""),
        (MARK + '{"schema": "envcheck/snapshot/1", "facts": {}}', "not a valid snapshot"),
        (MARK + '{"schema": "envcheck/snapshot/1"}' + "trailing", "not JSON"),
        ("\x1b[2J" * 5000, "\x1b[2J"),
        ("", "it exited without an answer"),
    ],
    ids=["half", "deep", "digits", "no-facts", "trailing", "escapes", "silent"],
)
def test_garbage_is_a_broken_host_with_a_short_reason(printed: str, message: str) -> None:
    answer = find_answer(printed, printed)
    assert isinstance(answer, Failure)
    assert answer.kind == BROKEN
    assert message in answer.reason
    assert len(answer.reason) <= 2000


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        ("Shared connection closed. envcheck: no Python 3.8 or newer on this host", TOO_OLD),
        ("Task failed: Timed out after 20 second(s).", HUNG),
        ("The action failed to execute in the expected time frame (60) and was terminated", HUNG),
        (
            "slurmstepd: error: *** STEP 4.0 ON c1 CANCELLED AT 2026-01-01T00:00:00 DUE TO TIME LIMIT ***",
            HUNG,
        ),
        ("Segmentation fault", BROKEN),
        (
            "/bin/sh: 1: mktemp: failed to create file via template '/tmp/tmp.XX': No space left on device",
            UNWRITABLE,
        ),
        ("Missing sudo password", DENIED),
        ("anna is not in the sudoers file. This incident will be reported.", DENIED),
    ],
)
def test_kinds_of_failure(words: str, kind: str) -> None:
    assert classify_failure(words).kind == kind


# What Ansible calls "unreachable", as ansible-core 2.16 words it.
UNREACHED = {
    "Failed to connect to the host via ssh: ssh: connect to host g1 port 22: Connection refused": UNREACHABLE,
    "Failed to connect to the host via ssh: ssh: connect to host g1 port 22: Connection timed out": UNREACHABLE,
    "Failed to connect to the host via ssh: ssh: Could not resolve hostname g1: Name or service not known": UNREACHABLE,
    "Failed to connect to the host via ssh: anna@g1: Permission denied (publickey,password).": DENIED,
    "Failed to connect to the host via ssh: Host key verification failed.": DENIED,
    "Failed to create temporary directory. In some cases, you may have been able to authenticate and did not have "
    "permissions on the target directory. Consider changing the remote tmp path in ansible.cfg to a path rooted in "
    '"/tmp", for more error information use -vvv. Failed command was: ( umask 77 && mkdir -p "` echo '
    '/home/anna/.ansible/tmp `" ), exited with result 1, stderr output: mkdir: cannot create directory '
    "'/home/anna/.ansible': Read-only file system": UNWRITABLE,
}


@pytest.mark.parametrize(
    ("words", "kind"), UNREACHED.items(), ids=[*map(str, range(len(UNREACHED)))]
)
def test_a_host_that_ansible_cannot_use_has_a_kind_of_its_own(words: str, kind: str) -> None:
    answer = _parse_answer({"kind": "unreachable", "msg": words})
    assert isinstance(answer, Failure)
    assert answer.kind == kind
    assert " ".join(words.split()) in answer.reason


def test_what_the_system_said_stands_first() -> None:
    failure = classify_failure(list(UNREACHED)[-1], UNREACHABLE)
    assert failure.reason.startswith(
        "mkdir: cannot create directory '/home/anna/.ansible': Read-only file system. Failed"
    )
