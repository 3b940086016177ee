"""The situations of bench/discovery.py that need no tool, judged in this process, and what stands beside them."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from bench.discovery import SITUATIONS, Expected, Place
from envcheck.diagnosis.overview import summarize_machine
from envcheck.host.local import LocalHost
from envcheck.model import NO_ENVIRONMENT, Facts, PythonFacts, replace
from envcheck.probes.environment_choice import PythonSelection, choose_python, is_trusted
from envcheck.probes.python import collect_python
from tests.hosts.recorded_host import RecordedHost

pytestmark = pytest.mark.needs("posix")
# a tool makes it, the Python of a kernel asks, or an installation of envcheck alone
_ELSEWHERE = {"T32", "T35"}
BY_FILES = [
    name
    for name, (_, made_by, _) in SITUATIONS.items()
    if made_by in {"files", "composed"} and name not in _ELSEWHERE
]


def enter(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work in a situation, with its variables."""
    for name in (
        "VIRTUAL_ENV",
        "CONDA_PREFIX",
        "CONDA_DEFAULT_ENV",
        "JPY_PARENT_PID",
        "PYENV_ROOT",
    ):
        monkeypatch.delenv(name, raising=False)
    for name, value in place.environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(place.folder / place.working)


def read(selection: PythonSelection | None = None) -> tuple[PythonFacts, str]:
    """Return the chosen Python, and the line about it."""
    python = collect_python(LocalHost(), selection or PythonSelection(without_packages=True))
    return python, dict(summarize_machine(Facts(python=python)))["Python"]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    folder = tmp_path / "home/work/p"
    folder.mkdir(parents=True)
    return Place(tmp_path / "home", folder, tmp_path)


@pytest.mark.parametrize("name", BY_FILES)
def test_the_environment_that_is_meant_is_judged_and_others_are_named(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "home/work" / name
    folder.mkdir(parents=True)
    place = Place(tmp_path / "home", folder, tmp_path)
    expected: Expected = SITUATIONS[name][2](place)
    enter(place, monkeypatch)
    python, line = read()
    prefix = python.prefix.value or ""
    if expected.judged is None:
        assert not prefix.startswith(str(place.home))
    else:
        assert os.path.realpath(prefix) == os.path.realpath(expected.judged)
    assert [word for word in expected.named if word not in line] == []
    active = python.chosen_by in {"VIRTUAL_ENV", "CONDA_PREFIX"}
    assert python.is_found == (expected.judged is not None and not active)


def test_folders_that_are_meant_alike_are_named_and_none_is_judged(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.venv("venv"), place.venv("env")
    enter(place, monkeypatch)
    python, line = read()
    assert python.chosen_by == NO_ENVIRONMENT
    assert [Path(item.path).name for item in python.others] == ["env", "venv"]
    assert line.startswith("none was judged: ")


def test_the_python_that_asks_is_judged_and_others_are_named(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.venv(".venv")
    enter(place, monkeypatch)
    python, line = read(PythonSelection(without_packages=True, asks=True))
    assert (python.chosen_by, python.is_found) == ("asking", False)
    assert f".venv means {place.folder}/.venv, too" in line


GIVEN_AWAY = pytest.param("of another", marks=pytest.mark.needs("root"))


@pytest.mark.parametrize("how", ["made", "moved", "older", GIVEN_AWAY, "forged"])
def test_what_envcheck_install_made_is_known_by_its_journal(
    place: Place, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    made = place.venv(".venv")
    state = place.folder / ".envcheck-.venv"
    state.mkdir()
    inode = made.stat().st_ino + (how == "moved")
    at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - 60 * (how == "older")))
    lines = [{"event": "installed", "at": at, "inode": inode}, {"event": "finished", "at": at}]
    journal = state / "20261127T130000-1.jsonl"
    journal.write_text("".join(json.dumps(line) + "\n" for line in lines))
    if how == "of another":
        os.chown(made, 1000, 1000)
    if how == "forged":  # a second one, as a repository would bring it
        (state / "20991231T000000-1.jsonl").write_text("not a journal\n")
    enter(place, monkeypatch)
    assert is_trusted(LocalHost(), str(made)) == (how == "made")
    assert choose_python(LocalHost(), PythonSelection()).is_found == (how != "made")


def kernel_machine(variables: dict[str, str]) -> RecordedHost:
    stat = "({}) S {} 1 1".format
    files = {
        "/proc/self/cmdline": "/tool/bin/python\0/tool/bin/envcheck\0doctor\0",
        "/proc/self/stat": "9 " + stat("envcheck", 8),
        "/proc/8/cmdline": "/bin/sh\0-c\0envcheck doctor\0",
        "/proc/8/stat": "8 " + stat("sh (x)", 7),
        "/proc/7/cmdline": "/k/bin/python\0-m\0ipykernel_launcher\0-f\0x.json\0",
        "/k/bin/python": "",
        "/v/bin/python": "",
        "/v/pyvenv.cfg": "",
    }
    answers = [
        {
            "script": "interpreter_info",
            "python": path,
            "result": {"executable": path, "prefix": path[:2]},
        }
        for path in ("/k/bin/python", "/v/bin/python", "")
    ]
    return RecordedHost(
        {"environment": {"VIRTUAL_ENV": "/v", **variables}, "files": files, "answers": answers}
    )


def test_a_command_in_a_notebook_is_about_its_kernel() -> None:
    choice = choose_python(kernel_machine({"JPY_PARENT_PID": "7"}), PythonSelection())
    assert (choice.executable.value, choice.chosen_by) == ("/k/bin/python", "kernel")
    assert choose_python(kernel_machine({}), PythonSelection()).chosen_by == "VIRTUAL_ENV"


SHIMS = {
    "pyenv": (
        "/home/u/.pyenv",
        {"versions/3.11.7/bin/python": "", "versions/3.12.1/bin/python": "", "version": "3.11.7\n"},
        ".python-version",
        "3.12\n",
        ("/home/u/.pyenv/versions/3.12.1/bin/python", "/home/u/.pyenv/versions/3.11.7/bin/python"),
    ),
    "asdf": (
        "/home/u/.asdf",
        {"installs/python/3.11.7/bin/python": "", "installs/python/3.12.1/bin/python": ""},
        ".tool-versions",
        "nodejs 20.1.0\npython 3.12.1 3.11.7\n",
        ("/home/u/.asdf/installs/python/3.12.1/bin/python", ""),
    ),
    "mise": (
        "/home/u/.local/share/mise",
        {"installs/python/3.12.1/bin/python": ""},
        "mise.toml",
        '[tools]\nnode = "20"\npython = "3.12"\n',
        ("/home/u/.local/share/mise/installs/python/3.12.1/bin/python", ""),
    ),
    "rye": (
        "/home/u/.rye",
        {"py/cpython@3.12.1/bin/python3": ""},
        ".python-version",
        "cpython@3.12.1\n",
        ("/home/u/.rye/py/cpython@3.12.1/bin/python3", ""),
    ),
}


@pytest.mark.parametrize("kind", list(SHIMS))
@pytest.mark.parametrize("has_file", [True, False])
def test_a_shim_is_resolved_from_files(kind: str, *, has_file: bool) -> None:
    root, installs, name, text, (by_file, by_default) = SHIMS[kind]
    tool = {
        "/t/bin/python": "",
        "/t/pyvenv.cfg": "home = /usr/bin\n",
        "/t/lib/python3.11/site-packages/envcheck_gpu-1.0.dist-info/METADATA": "Name: envcheck-gpu\n",
    }
    files = {
        **tool,
        **{f"{root}/{path}": content for path, content in installs.items()},
        f"{root}/shims/python3": "#!/bin/sh\n",
        "/usr/bin/python3": "",
        "/home/u/p/x.py": "",
        **({f"/home/u/{name}": text} if has_file else {}),  # above the working folder
    }
    expected = (by_file if has_file else by_default) or "/usr/bin/python3"
    answers = [
        {
            "script": "interpreter_info",
            "python": "",
            "result": {"executable": "/t/bin/python", "prefix": "/t"},
        },
        {"script": "interpreter_info", "python": expected, "result": {"executable": expected}},
    ]
    host = RecordedHost(
        {
            "environment": {"PATH": f"{root}/shims:/usr/bin", "HOME": "/home/u"},
            "system_facts": {"folder": "/home/u/p"},
            "files": files,
            "answers": answers,
        }
    )
    choice = choose_python(host, PythonSelection())
    assert (choice.executable.value, choice.chosen_by) == (expected, "PATH")
    assert host.unrecorded == []


def test_a_python_below_a_relative_entry_of_path_is_nobodys() -> None:
    tool = {"/t/pyvenv.cfg": "", "/t/uv-receipt.toml": "", "/repo/python3": ""}
    answers = [
        {
            "script": "interpreter_info",
            "python": "",
            "result": {"executable": "/t/bin/python", "prefix": "/t"},
        }
    ]
    host = RecordedHost(
        {"environment": {"PATH": ":.:", "HOME": "/home/u"}, "system_facts": {"folder": "/repo"},
         "files": tool, "answers": answers}
    )  # fmt: skip
    assert choose_python(host, PythonSelection()).chosen_by == NO_ENVIRONMENT


def test_a_verdict_without_an_environment_is_not_green() -> None:
    from envcheck.diagnosis import diagnose
    from envcheck.matrix import load_matrix
    from envcheck.model import COMPATIBLE, NOTE, UNDETERMINED, Absent, OtherEnvironment
    from envcheck.render.report import describe_report
    from envcheck.rules import Context, Target

    absent = Absent(("PATH",))
    python = PythonFacts(
        executable=absent, chosen_by=NO_ENVIRONMENT, distributions=absent, frameworks=absent
    )
    facts = Facts(python=python, gpus=Absent(("/sys",)))
    report = diagnose(Context(facts, load_matrix(None), Target("cpu")))
    assert report.headline.endswith("no Python environment was judged.")
    assert report.judged.environment is None
    if report.verdict == COMPATIBLE:
        assert describe_report(report, None).kind == NOTE
    alike = tuple(OtherEnvironment(f"/p/{name}", "folder") for name in ("env", "venv"))
    facts = replace(facts, python=replace(python, others=alike))
    report = diagnose(Context(facts, load_matrix(None), Target("cpu")))
    assert report.verdict == UNDETERMINED
    assert report.judged.others == alike
