"""CPU features that this program checks for."""

from __future__ import annotations

import ctypes
import os
import sys
from types import SimpleNamespace

import pytest

from envcheck.host.system import has_sse42, parse_sse42, read_windows_cpu_features


@pytest.mark.parametrize(
    ("cpuinfo", "shown"),
    [
        ("processor\t: 0\nflags\t\t: fpu sse3 ssse3 sse4_1 sse4_2 popcnt\nbugs\t\t:\n", True),
        # kvm64
        ("processor\t: 0\nflags\t\t: fpu de pse tsc msr pae sse sse2 pni cx16 hypervisor\n", False),
        ("processor\t: 0\nFeatures\t: fp asimd evtstrm aes\nCPU implementer\t: 0x41\n", True),
        ("", False),
    ],
)
def test_parse_sse42(cpuinfo: str, shown: bool) -> None:
    assert parse_sse42(cpuinfo) is shown


def test_has_sse42_on_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    assert has_sse42() in (True, False)
    monkeypatch.setattr(sys, "platform", "darwin")
    assert has_sse42() is True


@pytest.mark.needs("posix")
def test_an_unreadable_cpuinfo_means_no(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError

    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr("builtins.open", refuse)
    assert has_sse42() is False


@pytest.mark.parametrize(
    ("features", "state", "expected"),
    [
        (
            {6, 10, 13, 36, 37, 38, 39, 40},
            7,
            ("sse", "sse2", "sse3", "ssse3", "sse4_1", "sse4_2", "avx", "avx2"),
        ),
        # a Windows 10 that has no number above 35
        ({6, 10, 13}, 7, ("sse", "sse2", "sse3", "avx")),
        ({6, 10, 13}, 3, ("sse", "sse2", "sse3")),
    ],
)
def test_cpu_features_of_windows(
    monkeypatch: pytest.MonkeyPatch, features: set[int], state: int, expected: tuple[str, ...]
) -> None:
    def enabled() -> int:
        return state

    kernel = SimpleNamespace(
        IsProcessorFeaturePresent=features.__contains__, GetEnabledXStateFeatures=enabled
    )
    monkeypatch.setattr(ctypes, "windll", SimpleNamespace(kernel32=kernel), raising=False)
    assert read_windows_cpu_features() == expected
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setattr(os, "name", "nt")
    assert has_sse42() is ("avx" in expected)
