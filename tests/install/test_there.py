"""Installing into what is there already, and going back from it: what is said first, and what is left alone."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from envcheck import api
from envcheck.cli.group import run
from envcheck.cli.installation import expand_home
from envcheck.install import preflight, replacement
from envcheck.install.journal import Journal
from envcheck.install.judgement import PlannedEnvironment
from envcheck.install.places import place_of
from envcheck.install.replacement import begin, put_in_place
from envcheck.model import UserError, replace
from envcheck.plan.build import InstalledFramework
from tests.install.test_command import document, install, make_wheels, planned
from tests.install.test_preflight import UNMANAGED, said
from tests.install.test_states import FIRST, installed
from tests.install.wheels import make_environment_with_pip, make_wheel, site_packages, tree_hash

pytestmark = [pytest.mark.needs("posix"), pytest.mark.usefixtures("here")]


def bare(folder: Path) -> Path:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    return folder


def unpacked(environment: Path, wheel: Path) -> None:
    argv = [sys.executable, "-m", "zipfile", "-e", str(wheel), str(site_packages(environment))]
    subprocess.run(argv, check=True)


def test_what_is_there_and_well_is_not_installed_again(
    here: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    version = make_wheels(here)
    environment = bare(here / "env")
    for wheel in (here / "wheels").iterdir():
        unpacked(environment, wheel)
    before = tree_hash(here)
    for more in ([], ["--dry-run"], ["--yes"]):
        assert install("jax", "--env", "env", *more) == 0
        told = f"{environment} already holds jax {version}, which works: nothing was changed.\n"
        assert capfd.readouterr().out == told
    assert install("jax", "--env", "env", "--format", "json") == 0
    assert document(capfd)["outcome"] == "unchanged"
    assert tree_hash(here) == before


def by_other_ways(environment: Path) -> dict[Path, str]:
    """Put in what came from a file, from a repository and as an editable install; return where each says so."""
    ways: tuple[tuple[str, dict[str, object]], ...] = (
        ("local", {"url": "file:///srv/local-1.0-py3-none-any.whl", "archive_info": {}}),
        (
            "fetched",
            {
                "url": "https://example.org/fetched",
                "vcs_info": {"vcs": "git", "commit_id": "1" * 40},
            },
        ),
        ("edited", {"url": f"file://{environment.parent}/source", "dir_info": {"editable": True}}),
    )
    for name, origin in ways:
        unpacked(environment, make_wheel(environment.parent / "other", name, "1.0"))
        info = site_packages(environment) / f"{name}-1.0.dist-info/direct_url.json"
        info.write_text(json.dumps(origin), encoding="utf-8")
    source = environment.parent / "source"
    source.mkdir()
    (source / "edited.py").write_text("WHERE = __file__\n")
    shutil.rmtree(site_packages(environment) / "edited")
    (site_packages(environment) / "__editable__.edited.pth").write_text(f"{source}\n")
    return {path: path.read_text() for path in site_packages(environment).glob("*/direct_url.json")}


def test_what_is_in_the_way_goes_first_and_comes_back(
    here: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    make_wheels(here)
    environment = bare(here / "env")
    unpacked(environment, make_wheel(here / "left", "jax_cuda12_plugin", "0.0.1"))
    origins = by_other_ways(environment)
    before = tree_hash(environment)
    assert install("jax", "--env", "env", "--installer", "uv", "--yes", "-v") == 0
    told = capfd.readouterr()
    assert "uv pip uninstall --python env/bin/python jax-cuda12-plugin" in told.out
    assert "- jax-cuda12-plugin==0.0.1" in told.err
    assert not (site_packages(environment) / "jax_cuda12_plugin").exists()
    assert {path: path.read_text() for path in origins} == origins
    asked = [
        str(environment / "bin/python"),
        "-c",
        "import edited, local, fetched; print(edited.WHERE)",
    ]
    assert (
        subprocess.run(asked, capture_output=True, text=True, check=True)
        .stdout.strip()
        .endswith("edited.py")
    )
    assert run(["install", "--rollback", "--env", "env", "--yes"]) == 0
    assert tree_hash(environment) == before


def test_a_package_that_would_be_broken_brings_the_old_environment_back(
    here: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    make_wheels(here)
    make_wheel(here / "wheels", "jax", "0.0.1")
    environment = bare(here / "env")
    for name, needs in (("mine", ("jax<0.0.2",)), ("theirs", ("surely-not-here",))):
        unpacked(environment, make_wheel(here / "other", name, "1.0", needs))
    unpacked(environment, here / "wheels/jax-0.0.1-py3-none-any.whl")
    before = tree_hash(environment)
    assert install("jax", "--env", "env", "--installer", "uv", "--yes", "-q") == 4
    told = capfd.readouterr().err
    assert (
        "Not installed: it would break an installed package: mine 1.0 requires jax<0.0.2;" in told
    )
    assert tree_hash(environment) == before


def test_a_framework_that_was_to_stay_and_is_gone_is_missed(here: Path) -> None:
    plan = replace(planned().plan, releases=())
    stays = InstalledFramework("torch", "torch", "2.13.0+cpu", "", "torch==2.13.0+cpu", ())
    wanted = PlannedEnvironment(bare(here / "env"), plan, api.make_doctor("cpu"), kept=(stays,))
    assert wanted.judge() == "the environment does not hold torch 2.13.0+cpu"


def test_what_was_cut_off_is_put_right_before_anything_is_planned(
    here: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    version = make_wheels(here)
    place = place_of(bare(here / "env"))
    place.state.mkdir()
    journal = Journal(place, FIRST)
    begin(journal, ("jax",))
    put_in_place(journal)
    # the half that is there would do: the whole one does not hold it
    for wheel in (here / "wheels").iterdir():
        unpacked(place.folder, wheel)
    half = tree_hash(here)
    with pytest.raises(
        UserError, match=r"was interrupted: if interrupted, run `envcheck install --resume"
    ):
        install("jax", "--env", "env", "--dry-run")
    assert run(["install", "--resume", "--env", "env", "--dry-run"]) == 0
    assert f"This would finish or undo the installation {FIRST}." in capfd.readouterr().out
    assert tree_hash(here) == half
    assert install("jax", "--env", "env", "--installer", "uv", "--yes", "-q") == 0
    told = capfd.readouterr()
    assert f"Not installed: it was interrupted. {place.folder} is the old environment" in told.err
    assert f"PLAN  jax on the CPU: jax=={version}" in told.out


def test_half_an_environment_without_a_journal_is_refused(here: Path) -> None:
    environment = bare(here / "env")
    (environment / ".envcheck-incomplete").write_text("")
    (why,) = said(environment, facts=UNMANAGED)
    assert why.startswith(f"{environment} is an interrupted installation")


def test_what_belongs_to_another_user_is_refused(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = bare(here / "env")
    monkeypatch.setattr(os, "geteuid", lambda: environment.stat().st_uid + 1)
    (why,) = preflight._check_folder(place_of(environment), mends=False, as_root=False)
    assert "belongs to another user" in why


def test_an_environment_whose_python_is_gone_is_named(here: Path) -> None:
    environment = bare(here / "env")
    for path in (environment / "bin").glob("python*"):
        path.unlink()
    with pytest.raises(
        UserError, match=r"the Python of .*env does not start: its base Python, /.*, is missing"
    ):
        install("jax", "--env", "env", "--yes")


def test_a_folder_that_cannot_be_looked_at_is_no_fault_of_ours(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "a" * 250  # what is kept beside it would have too long a name
    with pytest.raises(UserError, match=r"nothing was changed: .*: File name too long\."):
        install("jax", "--env", name, "--yes")
    with pytest.raises(UserError, match=r"nothing was changed: .*: File name too long\."):
        run(["install", "--rollback", "--env", name, "--yes"])


def test_a_home_is_put_in_where_no_shell_did(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/somebody")
    assert expand_home("~/env") == "/home/somebody/env"
    assert [expand_home(name) for name in ("./env", "env//", "/")] == ["./env", "env", "/"]
    with pytest.raises(UserError, match="that home folder is unknown"):
        expand_home("~surely-nobody/env")


def test_nobody_is_asked_where_standard_input_is_closed(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_wheels(here)
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(UserError, match="nobody can confirm"):
        install("jax", "--env", "env", "--installer", "pip")


@pytest.mark.needs("root")
def test_what_root_installs_belongs_to_the_user_of_the_environment(here: Path) -> None:
    version = make_wheels(here)
    make_environment_with_pip(here / "env", is_own=True)
    for path in (here, *here.rglob("*")):
        os.lchown(path, 65534, 65534)
    words = (f"jax=={version}", "--env", "env", "--installer", "pip", "--yes")
    with pytest.raises(UserError, match="belongs to another user"):
        install(*words)
    assert install(*words, "--as-root") == 0
    below = [*(here / "env").rglob("*"), *(here / ".envcheck-env").rglob("*")]
    assert [path for path in below if path.lstat().st_uid != 65534] == []


def test_going_back_says_first_what_is_lost(
    here: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    place = place_of(here / "env")
    place.state.mkdir()
    # the installation was long ago
    monkeypatch.setattr(time, "gmtime", lambda *_: time.localtime(0))
    installed(place)
    monkeypatch.undo()
    before = tree_hash(here)
    asked = ["install", "--rollback", "--env", str(place.folder)]
    words = f"Remove {place.folder}, which did not exist before {FIRST}? This discards what was changed since: new."
    assert run([*asked, "--dry-run"]) == 0
    assert capfd.readouterr().out == f"{words} Nothing was changed: --dry-run.\n"
    assert run([*asked, "--dry-run", "--format", "json"]) == 0
    assert json.loads(capfd.readouterr().out)["outcome"] == "planned"
    assert tree_hash(here) == before
    assert run([*asked, "--yes"]) == 0
    assert "This discards what was changed since: new." in capfd.readouterr().err
    assert not place.folder.exists()


@pytest.mark.parametrize("installer", ["uv", "pip"])
@pytest.mark.parametrize("damaged", ["jax", "jaxlib"])
def test_what_is_there_and_damaged_is_installed_again(
    here: Path, capfd: pytest.CaptureFixture[str], damaged: str, installer: str
) -> None:
    version = make_wheels(here)
    environment = here / "env"
    make_environment_with_pip(environment, *(here / "wheels").iterdir())
    module = site_packages(environment) / damaged / "__init__.py"
    module.write_bytes(b"")
    assert install(f"jax=={version}", "--env", "env", "--installer", installer, "--yes") == 0
    said = capfd.readouterr()
    assert "Reinstall the packages whose files are damaged" in said.out
    assert f"{damaged}=={version}" in said.out
    assert "which works" not in said.out
    assert module.read_text().startswith("VERSION")
    assert install(f"jax=={version}", "--env", "env", "--yes") == 0
    assert "already holds" in capfd.readouterr().out


def test_every_script_that_activates_warns_until_the_installation_counts(here: Path) -> None:
    (here / "env/bin").mkdir(parents=True)
    scripts = [
        here / "env/bin" / name
        for name in ("activate", "activate.fish", "activate.csh", "Activate.ps1")
    ]
    for script in scripts:
        script.write_bytes(b"echo one\r\n# SIG # End signature block\r\n")
    replacement.warn_on_activation(here / "env")
    assert all(b"is not complete" in script.read_bytes() for script in scripts)
    replacement._clear_activation(here / "env")
    assert {script.read_bytes() for script in scripts} == {
        b"echo one\r\n# SIG # End signature block\r\n"
    }
