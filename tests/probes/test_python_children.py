"""The script that runs inside the inspected interpreter."""

from __future__ import annotations

import importlib.metadata
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from envcheck.probes.children import interpreter_info
from tests.probes.pythons import add_distribution, describe, make_venv, pythons

# Describes a normal start of the interpreter, to compare with the script's answer.
TRUTH = """
import json, platform, site, sys, sysconfig
print(json.dumps({
    "version": platform.python_version(),
    "bits": 64 if sys.maxsize > 2**32 else 32,
    "platform": sysconfig.get_platform(),
    "soabi": sysconfig.get_config_var("SOABI"),
    "prefix": sys.prefix,
    "base_prefix": sys.base_prefix,
    "user_site": site.getusersitepackages(),
    "user_site_enabled": bool(site.ENABLE_USER_SITE),
    "path": sys.path,
}))
"""


def truth(python: str) -> dict[str, object]:
    done = subprocess.run(
        [python, "-c", TRUTH], capture_output=True, text=True, check=True, cwd="/"
    )
    answer: dict[str, object] = json.loads(done.stdout)
    return answer


def is_standard_library(entry: str) -> bool:
    path = Path(entry)
    in_library = path.parent.name in ("lib", "lib64") or path.name == "lib-dynload"
    return entry == "" or entry.endswith(".zip") or in_library


@pytest.mark.parametrize("python", pythons())
def test_every_interpreter_is_described_as_after_a_normal_start(python: str) -> None:
    answer, expected = describe(python), truth(python)
    for key in (
        "version",
        "bits",
        "platform",
        "prefix",
        "base_prefix",
        "user_site",
        "user_site_enabled",
    ):
        assert answer[key] == expected[key], key
    assert str(expected["soabi"]).startswith("cpython-" + answer["abi"][2:])
    path = expected["path"]
    assert isinstance(path, list)
    assert [each["path"] for each in answer["folders"]] == [
        each for each in path if not is_standard_library(each)
    ]


@pytest.mark.parametrize("python", pythons())
def test_it_lists_the_distributions_of_pip_or_importlib(python: str) -> None:
    script = "import importlib.metadata as m; print([d.metadata['Name'] + '==' + d.version for d in m.distributions()])"
    if describe(python)["version"] < "3.8" and not describe(python)["version"].startswith("3.1"):
        script = "import pkg_resources as p; print([d.project_name + '==' + d.version for d in p.working_set])"
    done = subprocess.run(
        [python, "-c", script], capture_output=True, text=True, check=True, cwd="/"
    )
    expected = {
        normal(line) for line in done.stdout.strip("[]\n").replace("'", "").split(", ") if line
    }
    assert {
        f"{each['name']}=={each['version']}" for each in describe(python)["distributions"]
    } == expected


def normal(line: str) -> str:
    name, _, version = line.partition("==")
    return f"{interpreter_info.normalize_name(name)}=={version}"


def test_requirements_and_modules_match_importlib() -> None:
    answer = {each["name"]: each for each in describe(sys.executable)["distributions"]}
    for name in ("pytest", "click", "hypothesis"):
        real = importlib.metadata.distribution(name)
        assert answer[name]["requires"] == (real.requires or [])
        assert name in answer[name]["modules"]
        assert answer[name]["installer"] == (real.read_text("INSTALLER") or "").strip()


def test_python_2_reports_its_version() -> None:
    for python in Path.home().glob(".pyenv/versions/2.7*/bin/python"):
        answer = describe(str(python), "-E", "-s", "-S", "-B")
        assert answer == {
            "executable": str(python),
            "version": python.parts[-3],
            "implementation": "cpython",
        }


def test_a_venv_is_detected_and_its_pth_files_are_read_but_not_run(tmp_path: Path) -> None:
    site = make_venv(tmp_path / "v")
    (tmp_path / "editable").mkdir()
    (site / "__editable__.pth").write_text(
        f"# comment\nimport pathlib; pathlib.Path({str(tmp_path / 'ran')!r}).touch()\n{tmp_path}/editable\n/nowhere\n",
        encoding="utf-8",
    )
    add_distribution(tmp_path / "editable", "Mine.Own", "1.0", INSTALLER="pip\n")
    answer = describe(str(tmp_path / "v/bin/python"), PYTHONPATH=f"{tmp_path}:relative::/nowhere")
    assert (answer["kind"], answer["prefix"], answer["externally_managed"]) == (
        "venv",
        str(tmp_path / "v"),
        False,
    )
    assert answer["user_site_enabled"] is False
    assert [(each["path"], each["scope"]) for each in answer["folders"]] == [
        (str(tmp_path), "path"), (str(site), "environment"), (str(tmp_path / "editable"), "environment"),
    ]  # fmt: skip
    assert [(each["name"], each["location"]) for each in answer["distributions"]] == [
        ("mine-own", str(tmp_path / "editable"))
    ]
    assert not (tmp_path / "ran").exists()


def test_a_venv_with_system_packages_lists_user_packages_first(tmp_path: Path) -> None:
    site = make_venv(tmp_path / "v", sys.executable, "--system-site-packages")
    python = str(tmp_path / "v/bin/python")
    user = Path(describe(python, PYTHONUSERBASE=str(tmp_path / "u"))["user_site"])
    user.mkdir(parents=True)
    answer = describe(python, PYTHONUSERBASE=str(tmp_path / "u"))
    scopes = [each["scope"] for each in answer["folders"]]
    assert scopes[:2] == ["environment", "user"]
    assert set(scopes[2:]) == {"system"}
    assert [each["path"] for each in answer["folders"]][:2] == [str(site), str(user)]
    without = describe(python, PYTHONUSERBASE=str(tmp_path / "u"), PYTHONNOUSERSITE="1")
    assert without["user_site_enabled"] is False
    assert "user" not in [each["scope"] for each in without["folders"]]


def test_broken_metadata_is_read_where_possible(tmp_path: Path) -> None:
    site = make_venv(tmp_path / "v")
    (site / "gone-1.0.dist-info").mkdir()
    (site / "~orch-2.0.dist-info").mkdir()
    (site / "dangling-3.0.dist-info").symlink_to("nowhere")
    os.mkfifo(site / "fifo-4.0.egg-info")
    (site / "bytes-5.0.dist-info").mkdir()
    (site / "bytes-5.0.dist-info/METADATA").write_bytes(
        b"Name: b\xffytes\r\nVersion: 5.0\r\n\r\nName: body\r\n"
    )
    (site / "old-6.0-py3.11.egg-info").write_text(
        "Name: Old_One\nVersion: 6.0\nDescription: a\n  b\n", encoding="utf-8"
    )
    answer = describe(str(tmp_path / "v/bin/python"))
    assert [(each["name"], each["version"]) for each in answer["distributions"]] == [
        ("b\ufffdytes", "5.0"), ("dangling", "3.0"), ("fifo", "4.0"), ("gone", "1.0"), ("old-one", "6.0"),
    ]  # fmt: skip


def test_eggs_and_develop_installs_are_found(tmp_path: Path) -> None:
    site = make_venv(tmp_path / "v")
    egg = site / "thing-1.2-py3.11.egg"
    (egg / "EGG-INFO").mkdir(parents=True)
    (egg / "EGG-INFO/PKG-INFO").write_text("Name: thing\nVersion: 1.2\n", encoding="utf-8")
    (egg / "EGG-INFO/requires.txt").write_text(
        'six>=1.9\n\n[gpu:os_name == "x"]\ncupy\n', encoding="utf-8"
    )
    (site / "easy-install.pth").write_text("./thing-1.2-py3.11.egg\n", encoding="utf-8")
    (answer,) = describe(str(tmp_path / "v/bin/python"))["distributions"]
    assert (answer["name"], answer["version"], answer["location"]) == ("thing", "1.2", str(egg))
    assert answer["requires"] == ["six>=1.9", 'cupy ; extra == "gpu" and (os_name == "x")']


def test_library_files_of_nvidia_wheels_are_listed(tmp_path: Path) -> None:
    site = make_venv(tmp_path / "v")
    record = "nvidia/__init__.py,,0\nnvidia/cudnn/lib/libcudnn.so.9,sha256=x,1\nnvidia/cudnn/include/cudnn.h,,\n"
    add_distribution(site, "nvidia-cudnn-cu12", "9.1.0.70", RECORD=record, top_level="nvidia\n")
    (answer,) = describe(str(tmp_path / "v/bin/python"))["distributions"]
    assert answer["files"] == ["nvidia/cudnn/lib/libcudnn.so.9"]
    assert answer["modules"] == ["nvidia"]


def test_distributions_are_limited_to_five_thousand(tmp_path: Path) -> None:
    site = make_venv(tmp_path / "v")
    for number in range(500):
        add_distribution(
            site,
            f"package-{number}",
            "1.0",
            INSTALLER="pip",
            RECORD=f"package_{number}/__init__.py,,\n",
        )
    answer = describe(str(tmp_path / "v/bin/python"))
    assert (len(answer["distributions"]), answer["truncated"]) == (500, False)
    for number in range(500, 5200):
        (site / f"package_{number}-1.0.dist-info").mkdir()
    answer = describe(str(tmp_path / "v/bin/python"))
    assert (len(answer["distributions"]), answer["truncated"]) == (5000, True)


def test_it_runs_in_process_and_changes_nothing() -> None:
    before = (list(sys.path), sys.prefix, dict(os.environ))
    answer = interpreter_info.describe(os.environ)
    assert (list(sys.path), sys.prefix, dict(os.environ)) == before
    assert answer == describe(sys.executable)
    assert json.loads(interpreter_info.encode(answer)) == answer


def test_a_folder_that_start_code_puts_first_is_first_and_the_code_is_not_run(
    tmp_path: Path,
) -> None:
    site = make_venv(tmp_path / "v")
    (tmp_path / "checkout").mkdir()
    code = f"import sys, pathlib; pathlib.Path({str(tmp_path / 'ran')!r}).touch(); "
    code += f"sys.path.insert(0, {str(tmp_path / 'checkout')!r})\n"
    (site / "stale.pth").write_text(code, encoding="utf-8")
    code = "import sys; sys.path[:0] = [os.path.join('/a', 'b')]\nimport sys; sys.modules['json'] = None\n"
    code += "import sys; sys.modules.setdefault('a', 1); sys.modules['b'].x = 1\n"
    code += "import sys; sys.path.insert(0, sys.prefix + '/c'); sys.path.append('/d')\n"
    code += "import sys; sys.path.insert(1, '/e')\n"
    (site / "taken.pth").write_text(code, encoding="utf-8")
    answer = describe(str(tmp_path / "v/bin/python"))
    assert [(each["path"], each["scope"]) for each in answer["folders"]] == [
        (str(tmp_path / "checkout"), "front"),
        (str(site), "environment"),
    ]
    taken = str(site / "taken.pth")
    front = {
        str(tmp_path / "checkout"): str(site / "stale.pth"),
        "/a/b": taken,
        "": taken,
        "/e": taken,
    }
    assert answer["front"] == front
    assert answer["replaced"] == {"json": taken}
    assert not (tmp_path / "ran").exists()


def test_what_a_removal_left_of_another_release_comes_last(tmp_path: Path) -> None:
    site = make_venv(tmp_path / "v")
    add_distribution(site, "ml_dtypes", "0.0.1")
    add_distribution(site, "ml_dtypes", "0.6.0", RECORD="ml_dtypes/__init__.py,,\n")
    found = describe(str(tmp_path / "v/bin/python"))["distributions"]
    assert [each["version"] for each in found if each["name"] == "ml-dtypes"] == ["0.6.0", "0.0.1"]


def test_the_packages_of_another_python_are_seen(tmp_path: Path) -> None:
    make_venv(tmp_path / "v")
    other = tmp_path / "v/lib/python3.2/site-packages"
    other.mkdir(parents=True)
    add_distribution(other, "torch", "2.8.0")
    assert describe(str(tmp_path / "v/bin/python"))["other_libraries"] == ["python3.2"]
    add_distribution(next(tmp_path.glob("v/lib/python3.[1-9]*[0-9]/site-packages")), "rich", "1")
    assert describe(str(tmp_path / "v/bin/python"))["other_libraries"] == []


@pytest.mark.needs("linux")
@pytest.mark.parametrize("python", pythons())
def test_a_python_that_is_whole_has_all_its_compiled_modules(python: str) -> None:
    compiled = describe(python)["compiled"]
    assert [name for name, path in compiled.items() if not Path(path).is_file()] == []
