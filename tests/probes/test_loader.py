"""The order of the loader's search."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from envcheck.host.loader import Loader
from envcheck.host.local import LocalHost
from envcheck.model import Absent, Unknown
from tests.hosts.recorded_host import RecordedHost
from tests.known import known, unknown

NAME = "libcudart.so.12"
FOLDERS = ("/rpath", "/library-path", "/runpath", "/cached", "/lib/x86_64-linux-gnu", "/usr/lib")


def machine(*folders: str, **more: Any) -> Loader:
    """Build a machine that has the library in `folders`."""
    files = {f"{folder}/{NAME}": "" for folder in folders}
    return Loader(
        RecordedHost(
            {
                "files": files,
                "environment": {"LD_LIBRARY_PATH": ":relative:/library-path:/gone"},
                "loader_cache": {NAME: ["/cached/" + NAME]},
                "system_facts": {"machine": "x86_64"},
                **more,
            }
        )
    )


def test_each_place_is_tried_in_order() -> None:
    vias = ["rpath", "LD_LIBRARY_PATH", "runpath", "ld.so cache", "default", "default"]
    for index, folder in enumerate(FOLDERS):
        found = known(machine(*FOLDERS[index:]).find(NAME, rpath=["/rpath"], runpath=["/runpath"]))
        assert (found.path, found.via) == (f"{folder}/{NAME}", vias[index])


def test_preloaded_files_come_first() -> None:
    environment = {"LD_PRELOAD": f"/usr/lib/libjemalloc.so /pre/{NAME}:/x.so"}
    loader = machine("/pre", *FOLDERS, environment=environment)
    assert known(loader.find(NAME, rpath=["/rpath"])).via == "preload"


def test_a_dangling_link_is_skipped() -> None:
    loader = machine(
        "/usr/lib", files={f"/library-path/{NAME}": {"link": "/gone"}, f"/usr/lib/{NAME}": ""}
    )
    assert known(loader.find(NAME)).path == f"/usr/lib/{NAME}"


def test_a_folder_that_cannot_be_listed_is_still_opened() -> None:
    class Unlistable(RecordedHost):
        def list_folder(self, path: str) -> Unknown:
            return Unknown("denied", path)

    host = Unlistable(
        {
            "files": {f"/library-path/{NAME}": ""},
            "environment": {"LD_LIBRARY_PATH": "/library-path"},
        }
    )
    assert known(Loader(host).find(NAME)).via == "LD_LIBRARY_PATH"


def test_a_missing_library_is_absent_unless_the_cache_is_unreadable() -> None:
    absent = machine().find(NAME, runpath=["/runpath"])
    assert isinstance(absent, Absent)
    assert absent.tried == ("/library-path", "/gone", "/runpath", "/etc/ld.so.cache")
    reason = unknown(machine(loader_cache={"unknown": ["denied", "no"]}).find(NAME))
    assert reason.why == "denied"


@pytest.mark.needs("linux")
def test_the_real_loader_agrees(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    libc = known(Loader(LocalHost()).find("libm.so.6")).path
    (tmp_path / "copy").mkdir()
    (tmp_path / "copy/libm.so.6").write_bytes(Path(libc).read_bytes())
    script = "import ctypes; ctypes.CDLL('libm.so.6'); print(open('/proc/self/maps').read())"
    for folder in ("", str(tmp_path / "copy"), f"/gone:{tmp_path}/copy"):
        monkeypatch.setenv("LD_LIBRARY_PATH", folder)
        maps = subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, check=True
        ).stdout.split()
        assert known(Loader(LocalHost()).find("libm.so.6")).path in maps


@pytest.mark.needs("linux")
def test_ten_thousand_folders_are_tried_in_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(
        "LD_LIBRARY_PATH", ":".join(f"{tmp_path}/{number}" for number in range(10_000))
    )
    loader = Loader(LocalHost())
    assert isinstance(loader.find("libno-such.so.1"), Absent)
    assert known(loader.find("libm.so.6")).via in {"ld.so cache", "default"}
