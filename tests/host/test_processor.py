"""Which processors a library built for SSE 4.2 runs on."""

from __future__ import annotations

import sys

import pytest

from envcheck.host.processor import has_sse42, shows_sse42


@pytest.mark.parametrize(
    ("cpuinfo", "shown"),
    [
        ("processor\t: 0\nflags\t\t: fpu sse3 ssse3 sse4_1 sse4_2 popcnt\nbugs\t\t:\n", True),
        ("processor\t: 0\nflags\t\t: fpu de pse tsc msr pae sse sse2 pni cx16 hypervisor\n", False),  # kvm64
        ("processor\t: 0\nFeatures\t: fp asimd evtstrm aes\nCPU implementer\t: 0x41\n", True),
        ("", False),
    ],
)
def test_the_flags_of_a_processor(cpuinfo: str, shown: bool) -> None:
    assert shows_sse42(cpuinfo) is shown


def test_this_machine_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    assert has_sse42() in (True, False)
    monkeypatch.setattr(sys, "platform", "darwin")
    assert has_sse42() is True


@pytest.mark.needs("posix")
def test_what_cannot_be_told_is_no(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError

    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr("builtins.open", refuse)
    assert has_sse42() is False
