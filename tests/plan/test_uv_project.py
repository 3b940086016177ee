"""What makes uv choose a plan's builds, locked and installed by the real uv; PyTorch's index is a local stand-in."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from envcheck import api
from envcheck.check.requirement_files import read_toml
from envcheck.cli.group import run
from envcheck.model import UserError
from envcheck.plan.verify import find_uv
from tests.install.wheels import make_wheel, site_packages

TORCH, VISION = "2.14.1", "0.29.2"  # composed wheels of these names and versions
MACHINE = {"platform": "linux_x86_64", "python": "3.11", "driver": "550.67", "gpu": "A100"}


@pytest.fixture
def mirror(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Make PyTorch's index for cu126 and the CPU, and a usual one, with the same names."""
    for label in ("cu126", "cpu"):
        build = f"+{label}"
        own = tmp_path / "whl" / label
        make_wheel(own / "torch", "torch", TORCH + build, ("helper>=1",))
        make_wheel(own / "torchvision", "torchvision", VISION + build, (f"torch=={TORCH}",))
        make_wheel(own / "helper", "helper", "1.0")  # an old one: PyTorch's index holds some
        _write_pages(own)
    usual = tmp_path / "simple"
    for name, version in (
        ("torch", TORCH),
        ("torchvision", VISION),
        ("helper", "2.0"),
        ("demo", "1.5"),
        ("demo", "2.0"),
    ):
        make_wheel(usual / name, name, version, ("helper",) if name == "torch" else ())
    _write_pages(usual)
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith(("UV_", "PIP_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_INDEX_URL", usual.as_uri())
    monkeypatch.setenv("UV_DEFAULT_INDEX", usual.as_uri())
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "cache"))
    return (tmp_path / "whl").as_uri()


def _write_pages(index: Path) -> None:
    for folder in index.iterdir():
        links = (
            f'<a href="{file.name.replace("+", "%2B")}">{file.name}</a>'
            for file in folder.glob("*.whl")
        )
        (folder / "index.html").write_text("\n".join(links), encoding="utf-8")


def ask_uv(*words: str) -> str:
    done = subprocess.run(
        [find_uv(os.environ), *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_uv_locks_the_builds_of_the_plan_for_two_machines(mirror: str) -> None:
    gpu = api.plan("torch", "torchvision", torch_index=mirror, **MACHINE)  # type: ignore[arg-type]
    cpu = api.plan(*gpu.cpu_requirements, torch_index=mirror, expect="cpu", **MACHINE)  # type: ignore[arg-type]
    text = gpu.render("uv", cpu=cpu)
    head = '[project]\nname = "mine"\nversion = "0"\nrequires-python = ">=3.11"\n'
    Path("pyproject.toml").write_text(head + text, encoding="utf-8")
    ask_uv("lock")
    for extra in ("cu126", "cpu"):
        exported = ask_uv(
            "export",
            "--extra",
            extra,
            "--no-emit-project",
            "--no-hashes",
            "--no-header",
            "--no-annotate",
        )
        pins = {line.partition(" ")[0] for line in exported.splitlines()}
        assert f"torch=={TORCH}+{extra}" in pins
        assert f"torchvision=={VISION}+{extra}" in pins
        assert "helper==2.0" in pins  # all else comes from the usual index


def test_a_plan_for_the_cpu_has_one_side_and_a_build_of_the_usual_index_needs_no_source(
    mirror: str,
) -> None:
    cpu = api.plan("torch", torch_index=mirror, platform="linux_x86_64", python="3.11").render("uv")
    assert "extra" not in cpu
    assert f'url = "{mirror}/cpu"' in cpu
    default = api.plan("tensorflow==2.18.*", **MACHINE).render("uv")  # type: ignore[arg-type]
    assert "tool.uv.sources" not in default
    assert 'dependencies = ["tensorflow[and-cuda]==2.18' in default


def test_what_lock_writes_is_the_plan_for_its_machine_alone(
    mirror: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("requirements.txt").write_text("torch\ntorchvision\ndemo<2\n", encoding="utf-8")
    options = (
        "--platform",
        "linux_x86_64",
        "--python",
        "3.11",
        "--driver",
        "550.67",
        "--gpu",
        "A100",
    )
    assert (
        run(
            [
                "plan",
                "-r",
                "requirements.txt",
                *options,
                "--torch-index",
                mirror,
                "--lock",
                "pylock.toml",
            ]
        )
        == 0
    )
    assert "4 packages with hashes" in capsys.readouterr().err
    document = read_toml(Path("pylock.toml").read_text(encoding="utf-8"), "pylock.toml")
    pins = {item["name"]: item["version"] for item in document["packages"]}
    assert pins == {
        "demo": "1.5",
        "helper": "2.0",
        "torch": f"{TORCH}+cu126",
        "torchvision": f"{VISION}+cu126",
    }
    assert all(
        wheel["hashes"]["sha256"] for item in document["packages"] for wheel in item["wheels"]
    )
    assert document["environments"] == [
        "sys_platform == 'linux' and platform_machine == 'x86_64' and python_version == '3.11'"
    ]


def test_a_lock_file_is_judged_and_installed_as_one_transaction(mirror: str) -> None:
    python = f"{sys.version_info[0]}.{sys.version_info[1]}"
    options = ("--python", python, "--expect", "cpu", "--torch-index", mirror, "--no-verify")
    assert run(["plan", f"torch=={TORCH}", *options, "--lock", "pylock.toml"]) == 0
    assert run(["install", "--lock", "pylock.toml", "--env", "made", "--yes"]) == 0
    held = {path.name for path in site_packages(Path("made")).glob("*.dist-info")}
    assert held >= {f"torch-{TORCH}+cpu.dist-info", "helper-2.0.dist-info"}
    text = Path("pylock.toml").read_text(encoding="utf-8")
    first = text.index('sha256 = "') + len('sha256 = "')
    wrong = text[:first] + "0" * 64 + text[first + 64 :]
    Path("pylock.toml").write_text(wrong, encoding="utf-8")
    assert run(["install", "--lock", "pylock.toml", "--env", "second", "--yes"]) == 4
    assert not Path("second").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("plan", "torch", "--lock", "my.toml"), "installers read pylock.toml, or pylock.NAME.toml"),
        (("install", "--lock", "uv.lock"), "name a pylock.toml"),
        (("install", "--lock", "pylock.toml"), "cannot read pylock.toml"),
        (("install", "--lock", "pylock.none.toml"), "pylock.none.toml locks no packages"),
        (("install", "torch", "--lock", "pylock.toml"), "one of them"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_sentence(
    words: tuple[str, ...], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("pylock.none.toml").write_text('lock-version = "1.0"\n', encoding="utf-8")
    with pytest.raises(UserError, match=message):
        run([*words])


def test_a_lock_that_uv_does_not_write_changes_the_exit_code_and_writes_nothing(
    mirror: str, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ("--platform", "linux_x86_64", "--python", "3.11", "--expect", "cpu", "--no-verify")

    def run_plan(*more: str) -> int:
        return run(["plan", *more, *options, "--lock", "pylock.toml"])

    assert run_plan("torch==2.13.0", "--torch-index", mirror) == 1
    assert "not locked: torch==2.13.0 does not resolve" in capsys.readouterr().err
    assert run_plan("torch", "--torch-index", "http://127.0.0.1:9/whl") == 3
    assert "did not answer" in capsys.readouterr().err
    assert not Path("pylock.toml").exists()
