"""The recorder: what it writes replays to the machine's findings and names nobody."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from envcheck.host.local import LocalHost
from envcheck.model import Absent, Unknown
from tests.fakes.gpu_host import run_on_gpu_host
from tests.fakes.machine import GpuHost
from tests.host.programs import write_script
from tests.hosts.record import main
from tests.hosts.recorded_host import RecordedHost
from tests.hosts.recording_host import RecordingHost
from tests.hosts.scrub import Scrubber
from tests.known import known


@pytest.mark.needs("linux")
def test_this_machine_is_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "secret-name"))
    monkeypatch.setenv("TF_SECRET", "secret-value")
    monkeypatch.setenv("UNRELATED", "secret-unrelated")
    main([str(tmp_path), "it", "--from", "this machine"])
    text = (tmp_path / "it" / "host.json").read_text(encoding="utf-8")
    document = json.loads(text)
    assert "secret-" not in text
    assert document["host"]["environment"]["TF_SECRET"] == "<set>"
    assert document["origin"] == "recorded"
    assert len(text) < 300_000


@pytest.mark.needs("stand-in-host")
def test_a_stand_in_host_is_recorded(tmp_path: Path) -> None:
    options = ["--from", "a stand-in", "--origin", "composed", "--expect", "gpu"]
    argv = [sys.executable, "-m", "tests.hosts.record", str(tmp_path), "it", *options]
    mismatch = GpuHost(kernel_driver="535.261.03")
    done = run_on_gpu_host(mismatch, argv, {"PYTHONPATH": str(Path(__file__).parents[2])})
    assert done.returncode == 0, done.stderr
    document = json.loads((tmp_path / "it" / "host.json").read_text(encoding="utf-8"))
    assert (document["origin"], document["expected"]["primary"]) == (
        "composed",
        "driver-library-mismatch",
    )


@pytest.mark.needs("linux")
def test_every_kind_of_answer_replays(tmp_path: Path) -> None:
    tool = write_script(tmp_path / "tool", "echo hello; exit 3")
    slow = write_script(tmp_path / "slow", "exec sleep 30")
    (tmp_path / "binary").write_bytes(b"\xff\0")
    (tmp_path / "long.h").write_text("/* text */\n#define CUDA_VERSION 12040\n", encoding="utf-8")
    host = RecordingHost(LocalHost())

    def ask_all(asked: RecordingHost | RecordedHost) -> list[object]:
        return [
            asked.run([tool]),
            getattr(asked.run([slow], 0.2), "why", None),
            asked.run(["/nowhere/tool"]),
            known(asked.read_bytes(str(tmp_path / "binary"))),
            asked.read_bytes("/nowhere"),
            known(asked.read_text(str(tmp_path / "long.h"))),
            asked.list_folder(str(tmp_path)),
            asked.status(tool),
            asked.real_path(tool),
            asked.find_program("sh"),
            asked.elf("/nowhere/lib.so"),
            asked.ask("interpreter_info", python="/nowhere/python"),
            asked.system_facts(),
            asked.environment()["PATH"],
            asked.loader_cache(),
        ]

    live = ask_all(host)
    replayed = ask_all(RecordedHost(json.loads(json.dumps(host.recording()))))
    assert replayed == live
    assert live[1] == "timeout"
    assert isinstance(live[11], Absent)
    assert live[5] == "#define CUDA_VERSION 12040\n"


def test_a_large_binary_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "library").write_bytes(b"\xff" * 100_000)
    with pytest.raises(ValueError, match="too large to record"):
        RecordingHost(LocalHost()).read_bytes(str(tmp_path / "library"))


@pytest.mark.parametrize(
    ("text", "scrubbed"),
    [
        ("/root/.pyenv/bin", "/home/user/.pyenv/bin"),
        ("/rootless and nvvm on vm", "/rootless and nvvm on machine"),
        ("/home/alice/venv:/home/bob", "/home/user/venv:/home/user"),
        (
            "index-url = https://me:token@mirror.corp.net:8080/simple/",
            "index-url = https://host.example/",
        ),
        ("https://www.debian.org/support", "https://www.debian.org/support"),
        ("file:///opt/index/simple", "file:///wheels"),
        ("/data/project/x", "/home/user/project/x"),
        ("/srv/here/torch.py", "/home/user/project/torch.py"),
    ],
)
def test_names_are_taken_out(text: str, scrubbed: str) -> None:
    scrub = Scrubber.of(
        {"HOME": "/root"},
        {"node": "vm", "folder": "/srv/here"},
        ["/data/project=/home/user/project"],
    )
    assert scrub.value({"a": [text, 1, None]}) == {"a": [scrubbed, 1, None]}


def test_an_unknown_cache_stays_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    inner = LocalHost()
    monkeypatch.setattr(inner, "loader_cache", lambda: Unknown("denied", "no", ("x",)))
    host = RecordingHost(inner)
    host.loader_cache()
    assert RecordedHost(host.recording()).loader_cache() == Unknown(
        "denied", "no", ("/etc/ld.so.cache",)
    )
