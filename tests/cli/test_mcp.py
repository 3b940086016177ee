"""The MCP server, driven by the SDK's own client over standard input and output."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client, StdioServerParameters

from envcheck import api
from envcheck.cli import mcp
from envcheck.model import UserError
from envcheck.render.json_contracts import render_snapshot
from tests.hosts.test_hosts import snapshot_of

LOG = "ImportError: libcudnn.so.9: cannot open shared object file: No such file or directory"
SECRET = "password-of-nobody"
OF_PACKAGES = {"python": "3.12", "platform": "linux_x86_64"}
UNDEFINED = "ImportError: /v/lib/flash_attn_2_cuda.so: undefined symbol: _ZN3c104cuda9SetDeviceEa"

# Tool and arguments -> what the answer holds.
ANSWERED: list[tuple[str, dict[str, Any], str]] = [
    ("doctor", {"snapshot": "machine.json", "requirements": ["torch>=2"]}, "torch"),
    ("doctor", {"snapshot": "machine.json", "as_json": True}, '"schema": "envcheck/report/1"'),
    ("explain", {"text": LOG}, "cudnn-missing"),
    (
        "plan",
        {"requirements": ["torch"], "python": "3.11", "driver": "550.54", "gpu": ["RTX 4090"]},
        "-m venv",
    ),
    (
        "plan",
        {"requirements": ["vllm>=0.30"], "driver": "570", "gpu": ["L4"], **OF_PACKAGES},
        "vllm==0.19",
    ),
    ("matrix", {"requirement": "torch==2.8.0"}, "vllm==0.11.0"),
    ("explain", {"text": UNDEFINED}, "built for torch 2.3 to 2.7"),
    ("check", {"file": "Dockerfile", "driver": "300", "gpu": ["L4"]}, "driver-too-old"),
    ("matrix", {"requirement": "cuda==12.4"}, "CUDA Toolkit 12.4"),
    ("matrix", {"requirement": "torch"}, "more lines; ask for one release"),
    ("check", {"file": "Dockerfile"}, "Dockerfile"),
    ("diff", {"a": "machine.json", "b": "machine.json"}, "do not differ"),
    ("rule", {"finding": "numpy-abi"}, "compiled using NumPy 1.x"),
    ("doctor", {"snapshot": "machine.json", "requirements": "torch>=2"}, "torch"),
    ("plan", {"requirements": "torch", "gpu": "L4", "driver": "570", **OF_PACKAGES}, "-m venv"),
    ("plan", {"requirements": '["torch"]', **OF_PACKAGES}, "PLAN  torch"),
    ("plan", {"requirements": "torch==99", **OF_PACKAGES}, "does not list torch==99"),
    ("explain", {"text": ""}, "Read 0 lines"),
    ("explain", {"text": "\0\x1b[31m"}, "Read 0 lines"),
]
# Tool and hostile arguments -> the sentence.
REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("doctor", {"snapshot": "../secret.json"}, "is not below the folder"),
    ("doctor", {"snapshot": "/etc/passwd"}, "is not below the folder"),
    ("doctor", {"snapshot": "link.json"}, "is not below the folder"),
    ("doctor", {"snapshot": "a\0.json"}, "no file has such a name"),
    ("doctor", {"snapshot": "secret.key"}, "a file of that name is not read"),
    ("doctor", {"env": "../.."}, "is not below the folder"),
    ("doctor", {"env": "--help"}, "no Python environment found"),
    ("doctor", {"expect": "--help"}, "expect: Input should be 'auto', 'gpu' or 'cpu'."),
    ("plan", {"requirements": []}, "name what to plan"),
    ("plan", {"requirements": 5}, "requirements: Input should be a valid "),
    ("rule", {"finding": "numpy-ab"}, "Did you mean numpy-abi?"),
    ("doctor", {"full": "perhaps"}, "full: Input should be a valid boolean"),
    ("doctor", {"requirements": ["--index-url=https://example.org"]}, "is not a requirement"),
    ("doctor", {"requirements": ["x"] * 21}, "give at most 20 texts"),
    ("check", {"config": ".env"}, "a file of that name is not read"),
    ("check", {"config": "secret.toml"}, "it is not TOML"),
    ("check", {"file": "deep.yml"}, "deep.yml nests its YAML deeper than 100 levels"),
    ("check", {"file": "-"}, "a file of that name is not read"),
    ("explain", {"text": "x" * ((1 << 20) + 1)}, "give at most 1,048,576 characters"),
    ("explain", {"text": 5}, "Input should be a valid string"),
    ("explain", {}, "Field required"),
    ("plan", {"requirements": ["-r /etc/passwd"]}, "is not a requirement such as"),
    ("plan", {"requirements": ["torch"], "installer": "sh -c"}, "installer: Input should be"),
    ("plan", {"requirements": ["torch"], "gpu": ["$(id)"]}, "--gpu"),
    ("matrix", {"requirement": "x" * 1001}, "give at most 1,000 characters"),
    ("matrix", {"requirement": "\ufffd\u202e'; drop"}, "'"),
    ("solve", {}, "Unknown tool"),
    # What agents get wrong.
    ("plan", {"requirements": "torch, torchvision", **OF_PACKAGES}, "is not a requirement such as"),
    ("plan", {"requirements": "torch", "gpu": "A100, H100", **OF_PACKAGES}, "no such GPU is known"),
    ("plan", {"requirements": "torch", "driver": "latest"}, "give a driver release such as"),
    ("plan", {"requirements": "torch", "platform": "linux"}, "give one of linux_x86_64"),
    ("plan", {"requirements": "torch", "glibc": "musl"}, "give a version such as 2.31"),
    ("plan", {"requirements": ["torch", {"a": 1}]}, "requirements: Input should be a valid string"),
    ("plan", {"requirement": "torch"}, "requirements: Field required."),
    ("doctor", {"requirements": None}, "requirements: Input should be a valid string"),
    ("doctor", {"expect": "GPU"}, "expect: Input should be 'auto', 'gpu' or 'cpu'."),
    ("matrix", {}, "name at least one condition"),
    ("matrix", {"driver": -1}, "driver: Input should be a valid string."),
    ("matrix", {"framework": "Pytorch"}, "unknown framework. The matrix has tensorflow, torch"),
    ("diff", {"a": "machine.json"}, "b: Field required."),
    ("diff", {"a": "missing.json", "b": "machine.json"}, "cannot read missing.json"),
    ("check", {"file": "missing.txt"}, "cannot read missing.txt"),
    ("check", {"gpu": "L4"}, "cannot read pyproject.toml"),
    ("check", {"file": "Dockerfile", "driver": "0"}, "give a driver release such as"),
    ("rule", {"finding": ""}, "no finding has the id ''"),
    ("rule", {"finding": "../../x"}, "no finding has the id"),
    ("explain", {"text": "x", "snapshot": "Dockerfile"}, "a file of that name is not read"),
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    project = tmp_path / "project"
    project.mkdir()
    text = render_snapshot(snapshot_of("wsl-healthy"))
    for path in (project / "machine.json", tmp_path / "secret.json"):
        path.write_text(text, encoding="utf-8")
    for name in ("secret.key", "secret.toml", ".env"):
        (project / name).write_text(SECRET, encoding="utf-8")
    (project / "Dockerfile").write_text(
        "FROM python:3.11\nRUN pip install torch==2.4.0\n", encoding="utf-8"
    )
    (project / "deep.yml").write_text("[" * 30_000, encoding="utf-8")
    (project / "link.json").symlink_to(tmp_path / "secret.json")
    return project


def ask(server: Any, questions: list[tuple[str, dict[str, Any]]]) -> list[Any]:
    """Ask all questions in one session."""

    async def talk() -> list[Any]:
        async with Client(server) as client:
            return [await client.call_tool(*question) for question in questions]

    return anyio.run(talk)


def started(folder: Path) -> StdioServerParameters:
    return StdioServerParameters(
        command=sys.executable, args=["-m", "envcheck", "mcp"], cwd=folder, env={**os.environ}
    )


CHARACTERS_OF_A_TOKEN = 4


def test_an_agent_gets_answers_and_sentences(folder: Path) -> None:
    cases = [*ANSWERED, *REFUSED, ANSWERED[2]]
    answers = ask(started(folder), [case[:2] for case in cases])
    for (tool, arguments, wanted), answer in zip(cases, answers, strict=True):
        text, said = answer.content[0].text, (tool, str(arguments)[:200])
        assert answer.is_error == ((tool, arguments, wanted) in REFUSED), (said, text)
        assert wanted in text, (said, text)
        assert SECRET not in text, said
        assert len(text) <= 1_000_000
        if answer.is_error:
            assert "\n" not in text
            assert "Traceback" not in text
            assert "internal error" not in text
            assert "Error executing" not in text
            assert len(text) <= 1000
        else:
            (verdict,) = answer.structured_content.values()  # what is said stands there once
            assert verdict in ("compatible", "incompatible", "undetermined")
            if not arguments.get("as_json"):
                assert len(text) <= 2000 * CHARACTERS_OF_A_TOKEN
    document = json.loads(answers[1].content[0].text)
    assert "snapshot" not in document


@pytest.mark.parametrize(
    "question",
    [
        {"driver": "535.104"},
        {"driver": "525.60"},
        {"driver": "470.57.02", "gpu": "RTX 5090"},
        {"python": "3.13", "gpu": "GTX 1080", "driver": "580.65.06"},
        {"driver": "550.54", "gpu": "GTX 950"},
        {"platform": "win_amd64", "driver": "560.70"},
        {"framework": "torch", "gpu": "A100"},
        {"requirement": "torch"},
        {"requirement": "tensorflow==2.15.*"},
        {"requirement": "jax"},
        {"requirement": "jax==0.7.2"},
        {"requirement": "driver"},
        {"requirement": "cudnn"},
        {"requirement": "cuda==12.4"},
    ],
)
def test_an_answer_of_the_matrix_takes_at_most_800_tokens(question: dict[str, str]) -> None:
    report = mcp.answer("matrix", **question)["text"]  # type: ignore[arg-type]  # as_json keeps its default
    assert report.endswith("\n")
    assert 100 < len(report) <= 800 * CHARACTERS_OF_A_TOKEN


def test_every_tool_is_read_only_and_says_what_it_does() -> None:
    async def listed() -> Any:
        async with Client(mcp._make_server()) as client:
            return (await client.list_tools()).tools

    tools = anyio.run(listed)
    assert [tool.name for tool in tools] == [
        "doctor",
        "explain",
        "plan",
        "matrix",
        "check",
        "diff",
        "rule",
    ]
    for tool in tools:
        assert tool.annotations.read_only_hint
        assert tool.annotations.destructive_hint is False
        assert all(f"{name}" in tool.description for name in tool.input_schema.get("required", ()))


def test_an_answer_that_takes_too_long_ends_in_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mcp, "_SECONDS", 0.05)
    monkeypatch.setattr(api, "doctor", lambda **_: time.sleep(0.5))
    (answer,) = ask(mcp._make_server(), [("doctor", {})])
    assert answer.is_error
    assert "doctor did not answer within 0.05 s" in answer.content[0].text


def test_a_defect_ends_in_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api, "doctor", lambda **_: 1 / 0)
    (answer,) = ask(mcp._make_server(), [("doctor", {})])
    assert "internal error: ZeroDivisionError" in answer.content[0].text


def test_nothing_but_the_protocol_is_on_standard_output() -> None:
    hello = {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    }
    first = json.dumps(
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}
    ).encode()
    server = [sys.executable, "-m", "envcheck", "mcp"]
    done = subprocess.run(
        server,
        input=b"\xff\xfe\n[1]\n" + first + b"\n",
        capture_output=True,
        check=False,
        timeout=60,
    )
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0
    assert all(line["jsonrpc"] == "2.0" for line in lines)
    assert [line["result"]["serverInfo"]["name"] for line in lines if line.get("id") == 1] == [
        "envcheck"
    ]


def test_without_the_extra_the_command_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "mcp.server.mcpserver", None)
    from envcheck.cli.group import run

    with pytest.raises(UserError, match=r"the extra mcp.* pip install (--python \S+ )?'mcp>=2'"):
        run(["mcp"])
