"""NVIDIA's repositories are added only where the key is the one that is known.

The keys here are made by the test with the real gpg; their fingerprints stand in for NVIDIA's.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from envcheck.actions import APT, DNF, ZYPPER
from envcheck.host.data_files import load_data
from envcheck.model import replace
from envcheck.remedies.driver_install import DriverPackages
from envcheck.remedies.repositories import (
    RepositoryKey,
    RepositoryKeys,
    add_repository,
    find_key,
)

pytestmark = pytest.mark.needs("gpg")

ADDRESS = "https://example.org/debian12/x86_64"


def run(*words: str, home: Path) -> subprocess.CompletedProcess[str]:
    variables = {**os.environ, "GNUPGHOME": str(home / "gnupg")}
    return subprocess.run(
        words, cwd=home, env=variables, capture_output=True, text=True, timeout=60, check=False
    )


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Make two keys, each with a subkey, and what may be downloaded in their place."""
    home = tmp_path_factory.mktemp("keys")
    (home / "gnupg").mkdir(mode=0o700)
    for name in ("right", "wrong"):
        quick = ("gpg", "--batch", "--passphrase", "", "--quick-gen-key", name, "default")
        assert run(*quick, home=home).returncode == 0
    for file, names in {"right": ["right"], "wrong": ["wrong"], "both": ["wrong", "right"]}.items():
        exported = run("gpg", "--armor", "--export", *names, home=home).stdout
        (home / f"{file}.pub").write_text(exported, encoding="ascii")
    (home / "page.pub").write_text("<html>404</html>\n", encoding="ascii")
    (home / "empty.pub").touch()
    yield home
    run("gpgconf", "--kill", "all", home=home)


def fingerprints(keys: Path, file: str) -> list[str]:
    shown = run("gpg", "--show-keys", "--with-colons", f"{file}.pub", home=keys).stdout
    return [line.split(":")[9] for line in shown.splitlines() if line.startswith("fpr:")]


def known_key(fingerprint: str) -> RepositoryKey:
    key = find_key("debian12")
    assert key is not None
    return replace(key, fingerprint=fingerprint)


def add(keys: Path, file: str, manager: str = APT) -> tuple[int, Path]:
    """Type the step for a downloaded key, with paths of the test and a stand-in for rpm.

    Return its exit status and the folder of what it writes. The key that is known is `right`.
    """
    known = known_key(fingerprints(keys, "right")[0])
    *_, step = add_repository(known, manager, "made", ADDRESS, sudo=False)
    made = keys / f"{manager}-{file}"
    (made / "bin").mkdir(parents=True)
    rpm = made / "bin" / "rpm"
    rpm.write_text(f'#!/bin/sh\necho "$*" > {made}/rpm\n', encoding="ascii")
    rpm.chmod(0o755)
    words = list(step.argv)
    words[4], words[6], words[7] = f"{file}.pub", f"{made}/key", f"{made}/source"
    ended = run("env", f"PATH={made}/bin:{os.environ['PATH']}", *words, home=keys)
    return ended.returncode, made


@pytest.mark.parametrize("manager", [APT, DNF, ZYPPER])
def test_the_known_key_is_trusted(keys: Path, manager: str) -> None:
    status, made = add(keys, "right", manager)
    assert status == 0
    assert (made / "key").read_bytes() == (keys / "right.pub").read_bytes()
    assert ADDRESS in (made / "source").read_text(encoding="ascii")
    assert (made / "rpm").exists() == (manager != APT)


@pytest.mark.parametrize("manager", [APT, DNF])
@pytest.mark.parametrize("file", ["wrong", "both", "page", "empty", "missing"])
def test_no_other_key_is_trusted(keys: Path, file: str, manager: str) -> None:
    status, made = add(keys, file, manager)
    assert status != 0
    assert sorted(each.name for each in made.iterdir()) == ["bin"]


def test_the_fingerprint_of_a_subkey_is_not_that_of_the_key(keys: Path) -> None:
    own, subkey = fingerprints(keys, "right")
    known = known_key(subkey)
    *_, step = add_repository(known, APT, "made", ADDRESS, sudo=False)
    words = list(step.argv)
    words[4], words[6], words[7] = "right.pub", f"{keys}/subkey", f"{keys}/subkey-source"
    assert own != subkey
    assert run(*words, home=keys).returncode != 0
    assert not (keys / "subkey").exists()


def test_each_fingerprint_is_whole_and_stated_twice() -> None:
    keys = load_data("nvidia/repository_keys", RepositoryKeys).keys
    for key in keys:
        assert re.fullmatch("[0-9A-F]{40}", key.fingerprint)
        assert len({each.url_or_artifact for each in key.citations}) >= 2
    # NVIDIA calls a key by its last eight digits
    named = [key for key in keys if not key.file.startswith("https:")]
    assert len(named) == 3
    assert all(key.fingerprint.endswith(key.file.partition(".")[0].upper()) for key in named)


def test_every_repository_of_a_driver_is_pinned_but_one() -> None:
    systems = load_data("nvidia/driver_install", DriverPackages).systems
    named = {offer.repository for system in systems for offer in system.offers} - {""}
    assert {name for name in named if find_key(name) is None} == {"rhel10"}
