"""What makes uv choose a plan's builds, locked and installed by the real uv; PyTorch's index is a local stand-in."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Collection
from hashlib import sha256
from pathlib import Path

import pytest

from envcheck import api
from envcheck.check.requirement_files import read_toml
from envcheck.cli.group import run
from envcheck.model import Environment, Facts, Plan, RequestError, UserError, replace
from envcheck.plan.planner import plan_project
from envcheck.plan.requests import PlanOptions
from envcheck.plan.verify import find_uv
from envcheck.plan.wheelhouse import list_tags
from envcheck.rules.described_machine import Description
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


def read_nothing(without: Collection[str]) -> Facts:
    """Read a machine that is described whole."""
    raise AssertionError(without)


def run_offline(*words: str) -> subprocess.CompletedProcess[str]:
    """Type a command in a network namespace that has no network."""
    argv = ("unshare", "-rn", sys.executable, "-m", "envcheck", *words)
    return subprocess.run(argv, capture_output=True, text=True, check=False)


has_namespaces = subprocess.run(["unshare", "-rn", "true"], check=False).returncode == 0


@pytest.mark.skipif(not has_namespaces, reason="this machine makes no network namespaces")
@pytest.mark.parametrize("installer", ["uv", "pip"])
def test_a_wheelhouse_installs_without_a_network(
    mirror: str, installer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = f"{sys.version_info[0]}.{sys.version_info[1]}"
    options = ("--python", python, "--expect", "cpu", "--torch-index", mirror, "--no-verify")
    Path("wheels").mkdir()
    Path("wheels/earlier-1.0-py3-none-any.whl").write_bytes(b"of an earlier download")
    assert run(["plan", f"torch=={TORCH}", *options, "--download", "wheels"]) == 0
    made = json.loads(Path("wheels/wheelhouse.json").read_text(encoding="utf-8"))
    assert made["requirements"] == [f"torch=={TORCH}"]
    assert (made["python"], made["goal"]) == (python, "cpu")
    names = [wheel["name"] for wheel in made["wheels"]]
    assert names == ["helper-2.0-py3-none-any.whl", f"torch-{TORCH}+cpu-py3-none-any.whl"]
    for wheel in made["wheels"]:
        content = Path("wheels", wheel["name"]).read_bytes()
        assert (wheel["sha256"], wheel["bytes"]) == (sha256(content).hexdigest(), len(content))
    for name in ("simple", "whl", "cache"):
        shutil.rmtree(name)  # nothing but the folder holds them
    monkeypatch.setenv("PYTHONPATH", str(Path(api.__file__).parent.parent))
    monkeypatch.setenv("PATH", f"{Path(find_uv(os.environ)).parent}:{os.environ['PATH']}")
    ended = run_offline(
        "install", "--from", "wheels", "--env", "made", "--yes", "--installer", installer
    )
    assert ended.returncode == 0, ended.stderr
    held = {path.name for path in site_packages(Path("made")).glob("*.dist-info")}
    assert held >= {f"torch-{TORCH}+cpu.dist-info", "helper-2.0.dist-info"}
    wheel = Path("wheels/helper-2.0-py3-none-any.whl")
    wheel.write_bytes(wheel.read_bytes() + b"changed")
    assert run_offline("install", "--from", "wheels", "--env", "other", "--yes").returncode == 4
    assert not Path("other").exists()


def test_a_wheelhouse_is_for_its_machine_alone(mirror: str) -> None:
    options = ("--driver", "580.65", "--gpu", "A100", "--torch-index", mirror, "--no-verify")
    machine = ("--platform", "linux_x86_64", "--python", "3.11", "--glibc", "2.35")
    assert run(["plan", f"torch=={TORCH}", *machine, *options, "--download", "wheels"]) == 0
    project = api.read_wheelhouse("wheels")
    matrix = api.load_matrix()

    def install_on(**described: str) -> Plan:
        said = {"python": "3.11", "platform": "linux_x86_64", "driver": "580.65", **described}
        gpu = (said.pop("gpu", "A100"),)
        here = PlanOptions("gpu", description=Description(gpus=gpu, **said))
        return plan_project(project, (), here, matrix, read_nothing).plan

    assert "--find-links" in install_on().steps[1].action.command()
    for described, message in (
        (
            {"python": "3.12"},
            "for Python 3.11 on linux_x86_64; this is Python 3.12 on linux_x86_64",
        ),
        ({"platform": "linux_aarch64"}, "this is Python 3.11 on linux_aarch64"),
        ({"driver": "470.82"}, ""),
    ):
        if message:
            with pytest.raises(RequestError, match=message):
                install_on(**described)
        else:
            (rejected,) = install_on(**described).rejected
            assert "driver" in rejected.why
    needing = replace(project.made_for, glibc="2.28")
    with pytest.raises(RequestError, match=r"need glibc 2\.28 or newer; this machine has 2\.17"):
        plan_project(
            replace(project, made_for=needing), (),
            PlanOptions("gpu", description=Description("3.11", "580.65", ("A100",), "2.17", "linux_x86_64")),
            matrix, read_nothing,
        )  # fmt: skip


def test_a_wheelhouse_names_every_tag_that_its_machine_takes() -> None:
    made = Environment("", "pip", "3.11", "linux_x86_64", machine_glibc="2.31")
    tags = list_tags(made)
    assert tags[0] == "manylinux_2_31_x86_64"
    assert {"manylinux_2_17_x86_64", "manylinux2014_x86_64", "linux_x86_64"} < {*tags}
    assert list_tags(replace(made, platform="win_amd64")) == ("win_amd64",)
    newer = replace(made, platform="macosx_arm64", macos="14.0")
    assert list_tags(newer) == ("macosx_14_0_arm64",)


def test_a_mistake_with_a_wheelhouse_is_one_sentence(
    mirror: str, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ("--platform", "linux_x86_64", "--python", "3.11", "--expect", "cpu", "--no-verify")
    fill = ("plan", f"torch=={TORCH}", *options, "--torch-index", mirror, "--download")
    Path("mine").mkdir()
    Path("mine/thesis.tex").touch()
    with pytest.raises(UserError, match=r"mine holds thesis.tex: name a new folder"):
        run([*fill, "mine"])
    with pytest.raises(UserError, match=r"cannot read mine/wheelhouse\.json"):
        run(["install", "--from", "mine"])
    Path("mine/wheelhouse.json").write_text('{"schema": 1}', encoding="utf-8")
    with pytest.raises(UserError, match="mine holds no wheelhouse"):
        run(["install", "--from", "mine"])
    with pytest.raises(UserError, match="one of them"):
        run(["install", "torch", "--from", "mine"])
    assert run([*fill, "wheels"]) == 0
    next(Path("wheels").glob("torch-*.whl")).unlink()
    with pytest.raises(UserError, match=r"wheels lacks torch-.*: copy the whole folder"):
        run(["install", "--from", "wheels"])
    assert run([*fill, "wheels"]) == 0  # again: what is there stays, what lacks comes
    capsys.readouterr()
    closed = ("plan", "torch", *options, "--torch-index", "http://127.0.0.1:9/whl")
    assert run([*closed, "--download", "new"]) == 3
    assert "not downloaded" in capsys.readouterr().err
    assert not Path("new").exists()


def test_a_lock_keeps_to_every_constraints_file(mirror: str) -> None:
    make_wheel(Path("simple/helper"), "helper", "1.5")
    _write_pages(Path("simple"))
    Path("requirements.txt").write_text("torch\n", encoding="utf-8")
    Path("first.txt").write_text("demo<3\n", encoding="utf-8")
    Path("second.txt").write_text("helper<2\n", encoding="utf-8")  # what torch requires
    files = ("-r", "requirements.txt", "-c", "first.txt", "-c", "second.txt")
    options = ("--platform", "linux_x86_64", "--python", "3.11", "--expect", "cpu", "--no-verify")
    lock = ("--torch-index", mirror, "--with", f"torch=={TORCH}", "--lock", "pylock.toml")
    assert run(["plan", *files, *options, *lock]) == 0
    document = read_toml(Path("pylock.toml").read_text(encoding="utf-8"), "pylock.toml")
    assert {item["name"]: item["version"] for item in document["packages"]}["helper"] == "1.5"
