"""Which interpreter is inspected."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from envcheck.model import NO_ENVIRONMENT, Absent, Known
from envcheck.probes.environment_choice import PythonSelection, choose_python
from tests.hosts.recorded_host import RecordedHost
from tests.known import known


def machine(
    variables: dict[str, str],
    *files: str,
    own: str = "/usr",
    extra: Mapping[str, Any] | None = None,
    folder: str = "",
) -> RecordedHost:
    """Build a machine whose interpreters answer with their own path; `folder` is the working directory."""
    pythons = [*files, *(path for path in extra or () if path.endswith("/bin/python"))]
    answers: list[dict[str, Any]] = [
        {"script": "interpreter_info", "python": path, "result": {"executable": path}}
        for path in pythons
    ]
    answers.append(
        {
            "script": "interpreter_info",
            "python": "",
            "result": {"executable": own + "/bin/python", "prefix": own},
        }
    )
    return RecordedHost(
        {
            "environment": {"PATH": "/usr/bin", "HOME": "/home/u", **variables},
            "system_facts": {"folder": folder},
            "files": {
                **dict.fromkeys(files, ""),
                **(extra or {}),
                "/home/u/.conda/environments.txt": "/data/envs/far\n/opt/conda\n",
            },
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


PROGRAM = "Name: envcheck-gpu\nRequires-Dist: click>=8\nRequires-Dist: rich; extra == 'html'\n\nRequires-Dist: no\n"
CACHE = "/ci/cache/archive-v0/3kYd1"  # UV_CACHE_DIR=/ci/cache
THROW_AWAY = "/ci/cache/builds-v0/.tmp1"


def environment(
    prefix: str, *distributions: str, settings: str = "", **others: str
) -> dict[str, str]:
    """List the files of a virtual environment with distributions; `others` are further files below its prefix."""
    site = f"{prefix}/lib/python3.11/site-packages"
    return {
        f"{prefix}/bin/python": "",
        f"{prefix}/pyvenv.cfg": f"home = /usr/bin\n{settings}",
        **{
            f"{site}/{name.replace('-', '_')}-1.0.dist-info/METADATA": f"Name: {name}\n"
            for name in distributions
        },
        **(
            {f"{site}/envcheck_gpu-1.0.dist-info/METADATA": PROGRAM}
            if "envcheck-gpu" in distributions
            else {}
        ),
        **{f"{prefix}/{name}": text for name, text in others.items()},
    }


OWN = ("envcheck-gpu", "click")
TOOLS = {
    "uvx, with UV_CACHE_DIR": environment(CACHE, *OWN),
    "uvx --with requests": {**environment(CACHE, *OWN, "requests"), "/ci/cache/CACHEDIR.TAG": ""},
    "uv tool install, with UV_TOOL_DIR": environment(
        "/ci/tools/x", *OWN, "requests", **{"uv-receipt.toml": ""}
    ),
    "pipx, with PIPX_HOME": environment(
        "/ci/pipx/venvs/x", *OWN, "requests", **{"pipx_metadata.json": "{}"}
    ),
    "a venv for envcheck alone": environment("/ci/venv", *OWN, "pip", "setuptools"),
    "uv run --with": environment(THROW_AWAY, settings="extends-environment = /usr\n"),
    "uv run --with, of an older uv": environment(
        THROW_AWAY, **{"lib/python3.11/site-packages/_uv_ephemeral_overlay.pth": "import site"}
    ),
}


def tool_machine(
    files: dict[str, str], *others: str, variables: dict[str, str] | None = None, folder: str = ""
) -> RecordedHost:
    """Build a machine on which this program runs from the first environment among `files`; `others` are Pythons."""
    own = next(iter(files)).removesuffix("/bin/python")
    host = machine(
        {"PATH": f"{own}/bin:/usr/bin", **(variables or {})},
        *others,
        own=own,
        extra=files,
        folder=folder,
    )
    assert known(host.find_program("python")) == f"{own}/bin/python"
    return host


@pytest.mark.parametrize("files", TOOLS.values(), ids=list(TOOLS))
def test_an_environment_made_for_a_tool_is_skipped_wherever_it_lies(files: dict[str, str]) -> None:
    choice = choose_python(tool_machine(files, "/usr/bin/python3"), PythonSelection())
    assert (known(choice.executable), choice.chosen_by) == ("/usr/bin/python3", "PATH")
    alone = choose_python(tool_machine(files), PythonSelection())
    assert (alone.executable.__class__, alone.chosen_by) == (Absent, NO_ENVIRONMENT)
    assert known(alone.answer)["prefix"] == next(iter(files)).removesuffix("/bin/python")


def test_the_throw_away_environment_of_uv_run_leads_to_the_one_that_it_extends() -> None:
    files = {
        **environment(THROW_AWAY, settings="extends-environment = /project/.venv\n"),
        **environment("/project/.venv", "torch"),
    }
    host = tool_machine(
        files, "/usr/bin/python3", variables={"VIRTUAL_ENV": THROW_AWAY}, folder="/elsewhere"
    )
    choice = choose_python(host, PythonSelection())
    assert (known(choice.executable), choice.chosen_by) == ("/project/.venv/bin/python", "uv run")


@pytest.mark.parametrize(
    "files",
    [
        environment("/opt/ml", *OWN, "torch"),
        environment("/opt/ml", *OWN, "requests"),
        {**environment(CACHE, *OWN, "torch"), "/ci/cache/CACHEDIR.TAG": ""},
        environment("/ci/pipx/venvs/x", *OWN, "torch", **{"pipx_metadata.json": "{}"}),
    ],
    ids=[
        "an installation",
        "without a framework",
        "uvx --with torch",
        "pipx inject envcheck-gpu torch",
    ],
)
def test_our_own_python_is_judged_where_it_is_more_than_a_tools(files: dict[str, str]) -> None:
    own = next(iter(files))
    choice = choose_python(tool_machine(files, "/usr/bin/python3"), PythonSelection())
    assert (known(choice.executable), choice.chosen_by) == (own, "own")


def test_an_active_environment_is_judged_even_while_it_holds_envcheck_alone() -> None:
    host = tool_machine(
        environment("/v", *OWN), "/usr/bin/python3", variables={"VIRTUAL_ENV": "/v"}
    )
    assert choose_python(host, PythonSelection()).chosen_by == "VIRTUAL_ENV"


PROJECT = {
    **environment("/repo/.venv", "torch"),
    "/repo/.pixi/envs/default/bin/python": "",
    "/repo/.pixi/envs/default/conda-meta/history": "",
    **environment("/repo/built", "torch"),
    "/repo/pyproject.toml": "",
    **environment("/.venv", "torch"),
    "/repo/.git/HEAD": "",
    "/repo/sub/train.py": "",
}
RANKS = {  # in this order; each is judged once those before it are gone
    "VIRTUAL_ENV": "/v/bin/python",
    "CONDA_PREFIX": "/opt/conda/envs/tf/bin/python",
    "UV_PROJECT_ENVIRONMENT": "/repo/built/bin/python",
    ".venv": "/repo/.venv/bin/python",
    ".pixi": "/repo/.pixi/envs/default/bin/python",
    "folder": "/repo/built/bin/python",
    "own": "/opt/ml/bin/python",
    "base": "/opt/conda/bin/python",
    "PATH": "/usr/bin/python3",
}


@pytest.mark.parametrize("rank", range(len(RANKS)), ids=list(RANKS))
def test_each_rank_of_the_order_is_judged_where_nothing_better_is_there(rank: int) -> None:
    left = list(RANKS)[rank:]
    conda = (
        {"CONDA_PREFIX": "/opt/conda/envs/tf"}
        if "CONDA_PREFIX" in left
        else {"CONDA_PREFIX": "/opt/conda"}
    )
    variables = {
        **({"VIRTUAL_ENV": "/v"} if "VIRTUAL_ENV" in left else {}),
        **(conda if "base" in left else {}),
        "CONDA_EXE": "/opt/conda/bin/conda",
        **({"UV_PROJECT_ENVIRONMENT": "built"} if "UV_PROJECT_ENVIRONMENT" in left else {}),
    }
    places = {".venv": ".venv", ".pixi": ".pixi", "folder": "built"}
    gone = tuple(f"/repo/{folder}/" for name, folder in places.items() if name not in left)
    files = {path: text for path, text in PROJECT.items() if not path.startswith(gone)}
    own = environment("/opt/ml", *OWN, *(("torch",) if "own" in left else ()))
    others = (
        "/v/bin/python",
        "/opt/conda/envs/tf/bin/python",
        "/opt/conda/bin/python",
        "/usr/bin/python3",
    )
    host = tool_machine({**own, **files}, *others, variables=variables, folder="/repo/sub/")
    choice = choose_python(host, PythonSelection())
    assert (known(choice.executable), choice.chosen_by) == (RANKS[left[0]], left[0])


@pytest.mark.parametrize(
    ("folder", "files", "expected"),
    [
        ("/repo/sub", {**environment("/repo/sub/.venv"), **PROJECT}, "/repo/sub/.venv/bin/python"),
        ("/repo/sub", {"/.venv/bin/python": "", "/.venv/pyvenv.cfg": "", "/repo/.git": "gitdir: /x"}, "own"),
        ("/home/u/a/b", environment("/home/u/.venv"), "/home/u/.venv/bin/python"),
        ("/home/u/a/b", environment("/home/.venv"), "own"),
        ("/tmp/a", environment("/tmp/.venv"), "own"),
        ("/repo", {"/repo/.venv/bin/python": ""}, "own"),
        ("/repo", {"/repo/.venv/pyvenv.cfg": ""}, "own"),
        ("", environment("/.venv"), "own"),
    ],
    ids=["nearest", "not above the repository", "up to home", "not above home", "not where anybody writes",
         "not without pyvenv.cfg", "not without a Python", "no folder"],
)  # fmt: skip
def test_the_project_is_searched_up_to_its_root(
    folder: str, files: dict[str, str], expected: str
) -> None:
    extra = {**files, "/tmp": {"kind": "folder", "mode": "drwxrwxrwt"}}
    choice = choose_python(machine({}, extra=extra, folder=folder), PythonSelection())
    assert expected in (known(choice.executable), choice.chosen_by)


@pytest.mark.parametrize("variable", ["VIRTUAL_ENV", "CONDA_PREFIX"])
def test_a_missing_active_environment_selects_the_next_python_on_path(variable: str) -> None:
    choice = choose_python(
        machine({variable: "/gone"}, "/usr/bin/python3", own="/srv/tool"), PythonSelection()
    )
    assert (known(choice.executable), choice.chosen_by) == ("/usr/bin/python3", "PATH")
    alone = choose_python(machine({variable: "/gone"}, own="/srv/tool"), PythonSelection())
    assert (known(alone.executable), alone.chosen_by) == ("/srv/tool/bin/python", "own")


@pytest.mark.parametrize(
    "selection",
    [
        PythonSelection(python="/gone"),
        PythonSelection(python="python9"),
        PythonSelection(env="nosuch"),
    ],
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
            "answers": [
                {"script": "interpreter_info", "result": {"executable": "/v/Scripts/python.exe"}}
            ],
        }
    )
    assert (
        known(choose_python(host, PythonSelection(env="/v")).executable) == "/v/Scripts/python.exe"
    )


@pytest.mark.parametrize(
    "variables", [{}, {"VIRTUAL_ENV": "/project/.venv"}], ids=["project", "active"]
)
def test_an_environment_whose_python_is_gone_is_named(variables: dict[str, str]) -> None:
    files = {"/project/.venv/pyvenv.cfg": "home = /opt/python3.9/bin\n", "/project/.git/HEAD": ""}
    choice = choose_python(
        machine(variables, "/usr/bin/python3", extra=files, folder="/project"), PythonSelection()
    )
    assert choice.broken_environment == "/project/.venv"
    assert known(choice.executable) != "/project/.venv/bin/python"


def test_an_environment_that_cannot_be_read_is_not_called_broken() -> None:
    closed = {"/project/.venv/bin/python": {"error": "denied"}}
    files = {"/project/.venv/pyvenv.cfg": "", "/project/.git/HEAD": "", **closed}
    choice = choose_python(
        machine({}, "/usr/bin/python3", extra=files, folder="/project"), PythonSelection()
    )
    assert not choice.broken_environment
