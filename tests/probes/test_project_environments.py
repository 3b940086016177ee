"""Environments that the tools of a project keep or name, each by its own convention."""

from __future__ import annotations

from typing import Any

import pytest

from envcheck.probes.project_environments import (
    find_saved,
    list_after_usual,
    list_before_usual,
    read_project,
    read_venv_file,
)
from tests.hosts.recorded_host import RecordedHost

FOLDER = "/home/u/proj"


def project(files: dict[str, Any], system: str = "linux", **environment: str) -> Any:
    """Return the project in FOLDER; names without a slash in front lie in it."""
    found = {name if name[0] == "/" else f"{FOLDER}/{name}": text for name, text in files.items()}
    found.setdefault(f"{FOLDER}/README", "")
    variables = {"HOME": "/home/u", **environment}
    host = RecordedHost({"system": system, "environment": variables, "files": found})
    names = host.list_folder(FOLDER).value
    assert names is not None
    return read_project(host, FOLDER, names)


def venv(folder: str) -> dict[str, str]:
    return {f"{folder}/pyvenv.cfg": "home = /usr/bin\n"}


@pytest.mark.parametrize(
    ("files", "found"),
    [
        ({"pyproject.toml": "[tool.ty.environment]\npython = 'env'\n"}, (f"{FOLDER}/env", "ty")),
        ({"ty.toml": '[environment]\npython = "e"\n'}, (f"{FOLDER}/e", "ty")),
        ({"pyproject.toml": '[tool.pyright]\nvenvPath = "/v"\nvenv = "a"\n'}, ("/v/a", "Pyright")),
        ({"pyrightconfig.json": '{"venvPath": "..", "venv": "a"}'}, (f"{FOLDER}/../a", "Pyright")),
    ],
)
def test_what_the_settings_of_checkers_name(files: dict[str, str], found: tuple[str, str]) -> None:
    assert list(list_before_usual(project(files))) == [(*found, "")]


@pytest.mark.parametrize(
    ("python", "folder"),
    [
        ("~/envs/x/bin/python", "/home/u/envs/x"),
        ("${workspaceFolder}/e/bin/python3.11", f"{FOLDER}/e"),
        ("${env:VENVS}/y/bin/python", "/data/y"),
        ("e/Scripts/python.exe", f"{FOLDER}/e"),
    ],
)
def test_the_interpreter_of_visual_studio_code(python: str, folder: str) -> None:
    text = f'{{\n  // "python.defaultInterpreterPath": "/no"\n  "python.defaultInterpreterPath": "{python}"\n}}'
    made = project({".vscode/settings.json": text}, VENVS="/data")
    assert list(list_before_usual(made)) == [(folder, "VS Code", "")]


def test_the_interpreter_of_pycharm_is_in_the_table_of_the_newest_program() -> None:
    row = '<jdk version="2"><name value="p" /><homePath value="{}" /></jdk>'
    tables = "/home/u/.config/JetBrains/PyCharm2025.{}/options/jdk.table.xml"
    files = {
        ".idea/misc.xml": '<component project-jdk-name="p" />',
        tables.format(1): row.format("$USER_HOME$/old/bin/python"),
        tables.format(2): row.format("$USER_HOME$/new/bin/python"),
    }
    assert list(list_before_usual(project(files))) == [("/home/u/new", "PyCharm", "")]


def test_pipenv_names_its_environment_by_the_path_of_the_pipfile() -> None:
    path = "/home/u/.local/share/virtualenvs/proj-kl-QKK3C"
    assert list(list_before_usual(project({"Pipfile": "", **venv(path)}))) == [(path, "Pipenv", "")]
    assert list(list_before_usual(project({"Pipfile": ""}))) == [(path, "Pipenv", "not-made")]
    named = project({"Pipfile": ""}, PIPENV_CUSTOM_VENV_NAME="own", WORKON_HOME="~/w")
    assert list(list_before_usual(named)) == [("/home/u/w/own", "Pipenv", "not-made")]
    assert list(list_before_usual(project({"Pipfile": ""}, PIPENV_VENV_IN_PROJECT="1"))) == []


POETRY = '[tool.poetry]\nname = "My_Proj.x"\n'


def test_poetry_has_one_environment_for_each_python() -> None:
    root = "/home/u/.cache/pypoetry/virtualenvs"
    name = "my-proj-x-nAn4BVom"
    files = {"pyproject.toml": POETRY, f"{root}/{name}-py3.9/x": "", f"{root}/{name}-py3.12/x": ""}
    found = [path for path, _, _ in list_after_usual(project(files))]
    assert found == [f"{root}/{name}-py3.12", f"{root}/{name}-py3.9"]
    chosen = {**files, f"{root}/envs.toml": f'[{name}]\nminor = "3.9"\npatch = "3.9.18"\n'}
    assert next(iter(list_after_usual(project(chosen))))[0] == f"{root}/{name}-py3.9"
    none = project({"pyproject.toml": POETRY})
    assert list(list_after_usual(none)) == [(f"{root}/{name}-py*", "Poetry", "not-made")]


@pytest.mark.parametrize(
    ("files", "environment", "root"),
    [
        ({"poetry.toml": '[virtualenvs]\npath = "{project-dir}/e"\n'}, {}, f"{FOLDER}/e"),
        ({}, {"POETRY_VIRTUALENVS_PATH": "/p"}, "/p"),
        ({}, {"POETRY_CACHE_DIR": "/c"}, "/c/virtualenvs"),
        ({"/home/u/.config/pypoetry/config.toml": 'cache-dir = "/d"\n'}, {}, "/d/virtualenvs"),
        ({"/q/config.toml": '[virtualenvs]\npath = "/r"\n'}, {"POETRY_CONFIG_DIR": "/q"}, "/r"),
    ],
)
def test_where_poetry_keeps_them(
    files: dict[str, str], environment: dict[str, str], root: str
) -> None:
    made = project({"pyproject.toml": POETRY, **files}, **environment)
    assert next(iter(list_after_usual(made)))[0].startswith(f"{root}/my-proj-x-")


def test_poetry_on_other_systems() -> None:
    files = {"pyproject.toml": POETRY}
    on_macos = next(iter(list_after_usual(project(files, "darwin"))))[0]
    assert on_macos.startswith("/home/u/Library/Caches/pypoetry/virtualenvs/")
    on_windows = next(iter(list_after_usual(project(files, "windows", LOCALAPPDATA="C:/L"))))[0]
    assert on_windows.startswith("C:/L/pypoetry/Cache/virtualenvs/")


def test_pdm_keeps_environments_by_the_hash_of_the_folder() -> None:
    root = "/home/u/.local/share/pdm/venvs"
    files = {"pdm.lock": "", f"{root}/proj-T6_OZwU--3.9/x": "", f"{root}/proj-T6_OZwU--3.12/x": ""}
    found = list(list_after_usual(project({**files, f"{root}/proj-OTHER-3.12/x": ""})))
    assert found == [
        (f"{root}/proj-T6_OZwU--3.12", "PDM", ""),
        (f"{root}/proj-T6_OZwU--3.9", "PDM", ""),
    ]
    assert find_saved(project({".pdm-python": "/v/bin/python\n"})) == "/v"
    assert find_saved(project({".pdm-python": "/v/bin/python"}, PDM_IGNORE_SAVED_PYTHON="1")) == ""


@pytest.mark.parametrize(
    ("table", "environment", "path"),
    [
        ("", {}, "/home/u/.local/share/hatch/env/virtual/my-proj/nAn4BVom/my-proj"),
        ("", {"HATCH_DATA_DIR": "/h"}, "/h/env/virtual/my-proj/nAn4BVom/my-proj"),
        ("", {"HATCH_ENV_TYPE_VIRTUAL_PATH": ".env"}, f"{FOLDER}/.env"),
        ('path = ".e"\n', {}, f"{FOLDER}/.e"),
    ],
)
def test_hatch_names_its_environment_as_the_project(
    table: str, environment: dict[str, str], path: str
) -> None:
    text = f'[project]\nname = "My_Proj"\n[tool.hatch.envs.default]\n{table}'
    made = project({"pyproject.toml": text, **venv(path)}, **environment)
    assert list(list_after_usual(made)) == [(path, "Hatch", "")]


def test_a_file_named_venv_holds_a_path_or_a_name() -> None:
    assert read_venv_file(project({".venv": ""})) == (f"{FOLDER}/.venv", ".venv file", "empty")
    beside = project({".venv": "../e\n", **venv("/home/u/e")})
    assert read_venv_file(beside) == ("/home/u/e", ".venv file", "")
    named = "/home/u/.local/share/virtualenvs/own"
    assert read_venv_file(project({".venv": "own", **venv(named)})) == (named, ".venv file", "")
    assert read_venv_file(project({".venv": "own"})) == (named, ".venv file", "gone")


def test_pixi_conda_pyenv_and_direnv() -> None:
    pixi = f"{FOLDER}/.pixi/envs"
    files = {f"{pixi}/gpu/conda-meta/x": "", f"{pixi}/default/conda-meta/x": "", f"{pixi}/no/x": ""}
    assert list(list_after_usual(project(files))) == [
        (f"{pixi}/default", ".pixi", ""),
        (f"{pixi}/gpu", ".pixi", ""),
    ]
    conda = {"environment.yml": "name: ml\n", "/opt/conda/envs/ml/conda-meta/x": ""}
    made = project(conda, CONDA_EXE="/opt/conda/bin/conda")
    assert list(list_after_usual(made)) == [("/opt/conda/envs/ml", "environment.yml", "")]
    pyenv = "/home/u/.pyenv/versions/ml"
    made = project({".python-version": "ml\n", **venv(pyenv)})
    assert list(list_after_usual(made)) == [(pyenv, ".python-version", "")]
    direnv = f"{FOLDER}/.direnv/python-3.11"
    assert list(list_after_usual(project({".envrc": "layout python", **venv(direnv)}))) == [
        (direnv, "direnv", "")
    ]
