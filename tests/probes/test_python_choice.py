"""Which interpreter is inspected."""

from __future__ import annotations

from typing import Any

import pytest

from envcheck.model import Absent, Known
from envcheck.probes.python import PythonSelection, choose_python
from tests.hosts.recorded_host import RecordedHost
from tests.known import known


def machine(environment: dict[str, str], *files: str, own: str = "/usr") -> RecordedHost:
    """Build a machine whose interpreters answer with their own path."""
    answers: list[dict[str, Any]] = [
        {"script": "interpreter_info", "python": path, "result": {"executable": path}} for path in files
    ]
    answers.append(
        {"script": "interpreter_info", "python": "", "result": {"executable": own + "/bin/python", "prefix": own}}
    )
    return RecordedHost(
        {
            "environment": {"PATH": "/usr/bin", "HOME": "/home/u", **environment},
            "files": {**dict.fromkeys(files, ""), "/home/u/.conda/environments.txt": "/data/envs/far\n/opt/conda\n"},
            "answers": answers,
        }
    )


@pytest.mark.parametrize(
    ("selection", "environment", "expected"),
    [
        (PythonSelection(), {}, ("/usr/bin/python", "own")),
        (PythonSelection(), {"CONDA_PREFIX": "/opt/conda"}, ("/opt/conda/bin/python", "CONDA_PREFIX")),
        (PythonSelection(), {"CONDA_PREFIX": "/opt/conda", "VIRTUAL_ENV": "/v"}, ("/v/bin/python3", "VIRTUAL_ENV")),
        (PythonSelection(env="tf"), {"CONDA_PREFIX": "/opt/conda", "VIRTUAL_ENV": "/v"},
         ("/opt/conda/envs/tf/bin/python", "option")),
        (PythonSelection(env="tf"), {"CONDA_PREFIX": "/opt/conda/envs/other"},
         ("/opt/conda/envs/tf/bin/python", "option")),
        (PythonSelection(env="tf"), {"CONDA_EXE": "/opt/conda/bin/conda"}, ("/opt/conda/envs/tf/bin/python", "option")),
        (PythonSelection(env="base"), {"CONDA_ROOT": "/opt/conda"}, ("/opt/conda/bin/python", "option")),
        (PythonSelection(env="far"), {}, ("/data/envs/far/bin/python", "option")),
        (PythonSelection(env="/v"), {"VIRTUAL_ENV": "/data/envs/far"}, ("/v/bin/python3", "option")),
        (PythonSelection(python="/v/bin/python3", env="tf"), {}, ("/v/bin/python3", "option")),
        (PythonSelection(python="/v"), {}, ("/v/bin/python3", "option")),
        (PythonSelection(python="python3.12"), {}, ("/usr/bin/python3.12", "option")),
    ],
)  # fmt: skip
def test_interpreters_are_chosen_in_order(
    selection: PythonSelection, environment: dict[str, str], expected: tuple[str, str]
) -> None:
    files = (
        "/opt/conda/bin/python", "/opt/conda/envs/tf/bin/python", "/data/envs/far/bin/python", "/v/bin/python3",
        "/usr/bin/python3.12", "/usr/bin/python3",
    )  # fmt: skip
    choice = choose_python(machine(environment, *files), selection)
    assert (known(choice.executable), choice.chosen_by) == expected


@pytest.mark.parametrize(
    "prefix",
    [
        "/home/u/.local/pipx/venvs/envcheck-gpu",
        "/home/u/.local/share/uv/tools/envcheck-gpu",
        "/home/u/.cache/uv/archive-v0/3kYd1",
        "/home/u/.local/share/pipx/venvs/x",
    ],
)
def test_an_isolated_tool_environment_is_skipped(prefix: str) -> None:
    choice = choose_python(machine({}, "/usr/bin/python3", own=prefix), PythonSelection())
    assert (known(choice.executable), choice.chosen_by) == ("/usr/bin/python3", "PATH")
    activated = machine({"VIRTUAL_ENV": prefix}, "/usr/bin/python3", own=prefix)
    assert choose_python(activated, PythonSelection()).chosen_by == "PATH"
    alone = choose_python(machine({}, own=prefix), PythonSelection())
    assert (known(alone.executable), alone.chosen_by) == (prefix + "/bin/python", "own")


@pytest.mark.parametrize("variable", ["VIRTUAL_ENV", "CONDA_PREFIX"])
def test_a_missing_active_environment_selects_the_next_python_on_path(variable: str) -> None:
    choice = choose_python(machine({variable: "/gone"}, "/usr/bin/python3", own="/srv/tool"), PythonSelection())
    assert (known(choice.executable), choice.chosen_by) == ("/usr/bin/python3", "PATH")
    alone = choose_python(machine({variable: "/gone"}, own="/srv/tool"), PythonSelection())
    assert (known(alone.executable), alone.chosen_by) == ("/srv/tool/bin/python", "own")


@pytest.mark.parametrize(
    "selection", [PythonSelection(python="/gone"), PythonSelection(python="python9"), PythonSelection(env="nosuch")]
)
def test_a_missing_selection_is_absent_with_the_tried_places(selection: PythonSelection) -> None:
    choice = choose_python(machine({"CONDA_PREFIX": "/opt/conda"}), selection)
    assert isinstance(choice.executable, Absent)
    assert choice.executable.tried
    assert choice.answer == choice.executable
    assert not isinstance(choice.answer, Known)


def test_windows_environments_have_python_in_other_folders() -> None:
    host = RecordedHost(
        {
            "system": "windows",
            "files": {"/v/Scripts/python.exe": ""},
            "answers": [{"script": "interpreter_info", "result": {"executable": "/v/Scripts/python.exe"}}],
        }
    )
    assert known(choose_python(host, PythonSelection(env="/v")).executable) == "/v/Scripts/python.exe"
