"""Environment variables and the configuration of pip and conda: what a snapshot holds and what it never does."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from envcheck.host.data_files import read_data
from envcheck.host.known_variables import HIDDEN
from envcheck.model import Absent, Known, Unknown
from envcheck.model.text import remove_url_secrets
from envcheck.probes.host import read_environment
from envcheck.probes.package_managers import (
    parse_condarc,
    parse_pip_configuration,
    read_conda_configuration,
    read_pip_configuration,
)
from tests.hosts.recorded_host import RecordedHost

PIP = """[global]
index-url = https://name:secret@pypi.example.org/simple
# extra-index-url = https://commented.example.org
timeout = 60
extra_index_url =
    https://download.example.org/whl/cu126?token=SECRET

    https://download.example.org/whl/cpu
[install]
no-binary: :none:
user = false
[freeze]
user = true
"""
CONDARC = """ssl_verify: true
channels:
  - conda-forge  # first
  - https://conda.example.org/t/SECRET/nvidia
channel_priority: strict
"""


def host(
    files: dict[str, Any] | None = None, system: str = "linux", **environment: str
) -> RecordedHost:
    return RecordedHost(
        {"system": system, "files": files or {"/x": ""}, "environment": environment}
    )


def known(fact: Any) -> Mapping[str, str]:
    assert isinstance(fact, Known), fact
    value: Mapping[str, str] = fact.value
    return value


def test_known_variables_keep_their_value_and_others_only_their_name() -> None:
    environment = {
        "CUDA_VISIBLE_DEVICES": "0,1",
        "LD_LIBRARY_PATH": "/usr/local/cuda/lib64",
        "NVIDIA_API_KEY": "nvapi-secret",
        "CONDA_TOKEN": "secret",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "SLACK_TOKEN": "secret",
    }
    kept = known(read_environment(host(None, **environment)))
    assert kept == {
        "CONDA_TOKEN": HIDDEN,
        "CUDA_VISIBLE_DEVICES": "0,1",
        "LD_LIBRARY_PATH": "/usr/local/cuda/lib64",
        "NVIDIA_API_KEY": HIDDEN,
    }


def test_the_list_of_variables() -> None:
    data = json.loads(read_data("program/environment_variables.json"))
    assert list(data["variables"]) == sorted(data["variables"])
    assert data["prefixes"] == sorted(data["prefixes"])
    for name, meaning in data["variables"].items():
        assert name.isidentifier()
        assert meaning
        assert "\n" not in meaning
        assert not any(word in name for word in ("TOKEN", "KEY", "SECRET", "PASSWORD"))


def test_pip_configuration_of_a_file() -> None:
    assert parse_pip_configuration(PIP) == {
        "index-url": "https://pypi.example.org/simple",
        "extra-index-url": "https://download.example.org/whl/cu126 https://download.example.org/whl/cpu",
        "no-binary": ":none:",
        "user": "false",
    }


@pytest.mark.parametrize(
    "text",
    ["", "index-url = https://no.section\n", "[global\nx", "  indented\n[global]\n= 1\nword\n"],
)
def test_odd_pip_files(text: str) -> None:
    assert parse_pip_configuration(text) == {}


def test_pip_files_in_their_order() -> None:
    files = {
        "/etc/xdg/pip/pip.conf": "[global]\nindex-url = https://xdg\nfind-links = /a\n",
        "/etc/pip.conf": "[global]\nindex-url = https://etc\n",
        "/home/u/.pip/pip.conf": "[global]\nindex-url = https://legacy\n",
        "/home/u/.config/pip/pip.conf": "[global]\nindex-url = https://user\n",
        "/venv/pip.conf": "[global]\nuser = no\n",
    }
    fact = read_pip_configuration(
        host(files, HOME="/home/u", VIRTUAL_ENV="/venv", PIP_INDEX_URL="https://u:p@variable")
    )
    assert known(fact) == {"find-links": "/a", "index-url": "https://variable", "user": "no"}
    chosen = read_pip_configuration(
        host({"/c.conf": "[global]\nindex-url = https://chosen\n"}, PIP_CONFIG_FILE="/c.conf")
    )
    assert known(chosen) == {"index-url": "https://chosen"}
    assert isinstance(
        read_pip_configuration(host(files, HOME="/home/u", PIP_CONFIG_FILE="/dev/null")), Absent
    )


def test_pip_files_of_other_systems() -> None:
    macos = {
        "/Users/u/Library/Application Support/pip/pip.conf": "[global]\nindex-url = https://mac\n"
    }
    assert known(read_pip_configuration(host(macos, "darwin", HOME="/Users/u"))) == {
        "index-url": "https://mac"
    }
    windows = read_pip_configuration(
        host(None, "windows", USERPROFILE=r"C:\Users\u", APPDATA=r"C:\Users\u\AppData\Roaming")
    )
    assert isinstance(windows, Absent)
    assert r"C:\Users\u\AppData\Roaming\pip\pip.ini" in windows.tried
    assert isinstance(read_pip_configuration(host(None, "windows")), Absent)


@pytest.mark.parametrize("read", [read_pip_configuration, read_conda_configuration])
def test_an_unreadable_file_is_unknown(read: Any) -> None:
    files = {"/etc/pip.conf": {"error": "denied"}, "/etc/conda/.condarc": {"error": "denied"}}
    assert isinstance(read(host(files)), Unknown)


def test_conda_configuration() -> None:
    assert parse_condarc(CONDARC) == {
        "channels": "conda-forge https://conda.example.org/t/<token>/nvidia",
        "channel_priority": "strict",
    }
    assert parse_condarc("channels: [nvidia, 'defaults']\n") == {"channels": "nvidia defaults"}
    assert parse_condarc("channels:\n- a\n- b\nother: 1\n") == {"channels": "a b"}
    assert parse_condarc("channels:\nother: 1\n") == {}


def test_conda_files_in_their_order() -> None:
    files = {
        "/home/u/.condarc": "channels: [a]\nchannel_priority: strict\n",
        "/c/.condarc": "channels: [b]\n",
        "/d": "channels: [d]\n",
    }
    environment = {"HOME": "/home/u", "CONDA_PREFIX": "/c"}
    assert known(read_conda_configuration(host(files, **environment))) == {
        "channels": "b",
        "channel_priority": "strict",
    }
    assert (
        known(read_conda_configuration(host(files, **environment, CONDARC="/d")))["channels"] == "d"
    )
    assert isinstance(read_conda_configuration(host()), Absent)
    assert isinstance(
        read_conda_configuration(host(None, "windows", USERPROFILE=r"C:\Users\u")), Absent
    )


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("https://user:pa@ss@host/simple", "https://host/simple"),
        ("https://token@host/simple https://other/x", "https://host/simple https://other/x"),
        ("https://host/simple?token=abc#frag", "https://host/simple"),
        ("https://host/t/ab-12/main", "https://host/t/<token>/main"),
        ("/opt/wheels", "/opt/wheels"),
    ],
)
def test_credentials_are_removed(text: str, clean: str) -> None:
    assert remove_url_secrets(text) == clean
