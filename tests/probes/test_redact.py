"""A snapshot holds no personal data."""

from __future__ import annotations

import pytest

from envcheck.model import Absent, Facts, Gpu, HostFacts, Known, Source, Unknown
from envcheck.probes.collection import Redactor

ALICE = Redactor("/home/alice", "alice")


@pytest.mark.parametrize(
    ("text", "redacted"),
    [
        ("/home/alice/venv/bin/python", "~/venv/bin/python"),
        ("/home/alice", "~"),
        ("/home/alicette/x", "/home/<user>/x"),
        ("LD_LIBRARY_PATH=/usr/lib:/home/alice/lib", "LD_LIBRARY_PATH=/usr/lib:~/lib"),
        ("/home/bob/.local/lib", "/home/<user>/.local/lib"),
        ("/home/ubuntu/venv", "/home/ubuntu/venv"),
        ("/scratch/alice/env", "/scratch/$USER/env"),
        ("alice-laptop", "$USER-laptop"),
        ("malice", "malice"),
        ("https://alice:secret@mirror.example/simple", "https://***@mirror.example/simple"),
        ("http://token@proxy.example:3128", "http://***@proxy.example:3128"),
        (
            "https://conda.example/t/ab-12/nvidia/linux-64",
            "https://conda.example/t/***/nvidia/linux-64",
        ),
        (
            "https://forum.example/t/cuda-error-35/4711",
            "https://forum.example/t/cuda-error-35/4711",
        ),
        (
            "https://files.example/a.whl?X-Signature=ab#sha256=12",
            "https://files.example/a.whl?***#sha256=12",
        ),
        (r"C:\Users\Bob\env", r"C:\Users\<user>\env"),
        ("/Users/bob/env", "/Users/<user>/env"),
        ("550.163.01", "550.163.01"),
    ],
)
def test_text_is_redacted(text: str, redacted: str) -> None:
    assert ALICE.redact_text(text) == redacted


def test_windows_home_is_redacted() -> None:
    assert Redactor(r"C:\Users\alice", "alice").redact_text(r"C:\Users\alice\env") == r"~\env"


def test_accounts_of_images_are_not_redacted() -> None:
    assert (
        Redactor("/root", "root").redact_text("/root/venv owned by root") == "~/venv owned by root"
    )


def test_a_folder_that_is_named_like_the_home_is_not_redacted() -> None:
    root = Redactor("/root", "root")
    assert (
        root.redact_text("/opt/rh/gcc-toolset-13/root/usr/bin/g++")
        == "/opt/rh/gcc-toolset-13/root/usr/bin/g++"
    )
    assert root.redact_text("-L/root/lib:/root/x (/root)") == "-L~/lib:~/x (~)"


def test_home_and_name_come_from_the_environment() -> None:
    assert (
        Redactor.from_environment({"HOME": "/data/people/carol"}).redact_text(
            "/data/people/carol/x of carol"
        )
        == "~/x of $USER"
    )
    assert Redactor.from_environment({}).redact_text("/srv/x") == "/srv/x"
    assert Redactor.from_environment({"HOME": "/"}).redact_text("/usr/bin") == "/usr/bin"


def test_every_string_of_the_facts_is_redacted() -> None:
    source = Source("env", "/home/alice/x", "/home/alice/y")
    host = HostFacts(
        environment=Known({"PYTHONPATH": "/home/alice/z"}, source), os=Absent(("/home/alice/a",))
    )
    facts = Facts(
        host=host,
        gpus=Known((Gpu(name=Unknown("denied", "/home/alice/b", ("/home/alice/c",))),), source),
    )
    redacted = ALICE.redact(facts)
    assert "alice" not in repr(redacted)
    assert redacted.host.environment == Known({"PYTHONPATH": "~/z"}, Source("env", "~/x", "~/y"))
    assert ALICE.redact(redacted) == redacted


def test_facts_without_personal_data_are_returned_unchanged() -> None:
    facts = Facts()
    assert ALICE.redact(facts) is facts
