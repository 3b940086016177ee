"""`fix` and `doctor` cannot disagree: over many broken states of an environment they say and return the same."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from envcheck.cli.group import run
from envcheck.install.journal import Journal
from envcheck.install.places import MARKER, place_of
from envcheck.install.replacement import begin, commit, put_in_place
from envcheck.model import UserError
from tests.install.conftest import memory_folder
from tests.install.wheels import make_environment_with_pip, make_wheel, site_packages, tree_hash

pytestmark = [pytest.mark.needs("posix"), pytest.mark.usefixtures("here")]
VERSION = "0.6.0"
IDENTITY = "20260101T000000-7"
Break = Callable[[Path], object]


@pytest.fixture(scope="module")
def whole() -> Iterator[Path]:
    """Make an environment whose jax, jaxlib and demo_one go together."""
    with memory_folder() as name:
        wheels = Path(name).resolve() / "wheels"
        jax = make_wheel(wheels, "jax", VERSION, (f"jaxlib=={VERSION}", "demo_one>=2.0"))
        parts = (make_wheel(wheels, "jaxlib", VERSION), make_wheel(wheels, "demo_one", "2.0"))
        make_environment_with_pip(wheels.parent / "env", jax, *parts)
        yield wheels.parent


@pytest.fixture
def environment(whole: Path, here: Path) -> Path:
    shutil.copytree(whole / "wheels", here / "wheels")
    shutil.copytree(whole / "env", here / "env", symlinks=True)
    return here / "env"


def remove(name: str) -> Break:
    def change(folder: Path) -> None:
        for path in site_packages(folder).glob(name):
            if path.is_symlink():
                path.unlink()
            else:
                shutil.rmtree(path)

    return change


def write(name: str, text: str) -> Break:
    return lambda folder: (site_packages(folder) / name).write_text(text)


def downgrade(name: str, version: str) -> Break:
    """Let an older release lie in the place of the one that is required."""

    def change(folder: Path) -> None:
        for path in site_packages(folder).glob(f"{name}-*.dist-info"):
            shutil.rmtree(path)
        wheel = make_wheel(folder.parent / "old", name, version)
        subprocess.run(
            [sys.executable, "-m", "zipfile", "-e", wheel, site_packages(folder)], check=True
        )

    return change


def rename_aside(folder: Path) -> None:
    """Leave a distribution as pip leaves it when it is killed while it replaces it."""
    info = site_packages(folder) / f"jaxlib-{VERSION}.dist-info"
    info.rename(info.with_name(f"~axlib-{VERSION}.dist-info"))


def mark(folder: Path) -> None:
    (folder / MARKER).write_text("")


def interrupt(*, after: str) -> Break:
    """Cut a transaction off: its journal says what it had begun."""

    def change(folder: Path) -> None:
        place = place_of(folder)
        place.state.mkdir()
        journal = Journal(place, IDENTITY)
        begin(journal, ("jax",))
        if after != "begun":
            put_in_place(journal)
        if after == "settled":
            commit(journal)
        if after == "without its folder":
            shutil.rmtree(folder)

    return change


def garble_journal(folder: Path) -> None:
    place = place_of(folder)
    place.state.mkdir()
    place.journal(IDENTITY).write_text("garbage\n")


def both(*changes: Break) -> Break:
    return lambda folder: [change(folder) for change in changes]


STATES: dict[str, Break] = {
    "whole": lambda _: None,
    "dependency missing": both(remove("demo_one"), remove("demo_one-2.0.dist-info")),
    "dependency too old": downgrade("demo_one", "1.0"),
    "parts of two releases": downgrade("jaxlib", "0.5.0"),
    "module empty": write("jax/__init__.py", ""),
    "module of a part empty": write("jaxlib/__init__.py", ""),
    "module gone": remove("jax"),
    "module of a part gone": remove("jaxlib"),
    "metadata gone": remove(f"jaxlib-{VERSION}.dist-info"),
    "record gone": lambda folder: (
        site_packages(folder) / f"jax-{VERSION}.dist-info/RECORD"
    ).unlink(),
    "replaced halfway by pip": rename_aside,
    "no framework": both(
        *(
            remove(name)
            for part in ("jax", "jaxlib")
            for name in (part, f"{part}-{VERSION}.dist-info")
        )
    ),
    "no pip": remove("pip*"),
    "no pip, dependency too old": both(
        remove("pip*"),
        downgrade("demo_one", "1.0"),
    ),
    "marker alone": mark,
    "marker, module empty": both(mark, write("jax/__init__.py", "")),
    "marker, dependency too old": both(mark, downgrade("demo_one", "1.0")),
    "marker, replaced halfway by pip": both(mark, rename_aside),
    "journal begun": interrupt(after="begun"),
    "journal and copy": interrupt(after="copied"),
    "journal and copy, module empty": both(write("jax/__init__.py", ""), interrupt(after="copied")),
    "journal settled": interrupt(after="settled"),
    "journal settled, dependency too old": both(
        interrupt(after="settled"), downgrade("demo_one", "1.0")
    ),
    "journal without its folder": interrupt(after="without its folder"),
    "journal broken": garble_journal,
    "interpreter gone": lambda folder: shutil.rmtree(folder / "bin"),
    "settings gone": lambda folder: (folder / "pyvenv.cfg").unlink(),
    "everything gone": shutil.rmtree,
}
TARGETS = {
    "cpu": ("--expect", "cpu"),
    # a machine without one: what is wrong with it no step in an environment mends
    "gpu": ("--expect", "gpu"),
    "for": ("--expect", "cpu", "--for", "jax>=0.6.1"),
}


def answer(words: list[str], capfd: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """Run a command; return its exit code and what it printed, or 2 and why it is refused."""
    capfd.readouterr()
    try:
        code = run(words)
    except UserError as error:
        return 2, str(error)
    return code, capfd.readouterr().out


# What else is expected of an environment decides in these as in the others.
BY_EACH_TARGET = {
    "whole",
    "dependency too old",
    "module empty",
    "no framework",
    "no pip",
    "marker, replaced halfway by pip",
    "journal and copy",
    "interpreter gone",
}


@pytest.mark.parametrize(
    ("state", "target"),
    [(state, target) for state in STATES for target in TARGETS
     if target == "cpu" or state in BY_EACH_TARGET],
)  # fmt: skip
def test_fix_finds_nothing_exactly_where_the_doctor_offers_no_fix(
    environment: Path, state: str, target: str, capfd: pytest.CaptureFixture[str]
) -> None:
    STATES[state](environment)
    before = tree_hash(environment.parent)
    asked = ["--env", "env", *TARGETS[target]]
    doctor_code, said = answer(["doctor", *asked, "--format", "json", "--no-snapshot"], capfd)
    fix_code, fixed = answer(["fix", *asked, "--dry-run"], capfd)
    assert tree_hash(environment.parent) == before
    if doctor_code == 2:  # there is no environment to judge
        assert (fix_code, fixed) == (2, said)
        return
    report = json.loads(said)
    is_offered, is_well = bool(report["plan"].get("command")), report["verdict"] == "compatible"
    if state == "settings gone":  # what is left is no environment, so nothing in it may be changed
        assert (fix_code, is_offered) == (2, False)
        return
    # what was interrupted is settled first, by the command that the doctor names, too
    if fix_code == 2:
        assert "envcheck install --resume" in fixed
        is_marked = any(each["id"] == "install-interrupted" for each in report["findings"])
        # which leave no mark in the environment
        assert is_marked or state in {"journal begun", "journal broken"}
        return
    assert ("Nothing was changed: --dry-run." in fixed) is is_offered
    assert ("There is nothing to fix" in fixed) is (is_well and not is_offered)
    assert ("No step changes" in fixed) is (not is_well and not is_offered)
    assert fix_code == (0 if is_offered else doctor_code)


@pytest.mark.parametrize(
    "state",
    [
        "dependency missing",
        "dependency too old",
        "parts of two releases",
        "module empty",
        "module of a part gone",
        "marker alone",
        "marker, dependency too old",
        "marker, replaced halfway by pip",
        "journal and copy, module empty",
        "replaced halfway by pip",
    ],
)
def test_a_fix_ends_as_the_doctor_judges_the_environment_then(
    environment: Path, state: str, capfd: pytest.CaptureFixture[str]
) -> None:
    STATES[state](environment)
    asked = ["--env", "env", "--expect", "cpu"]
    fix_code, printed = answer(["fix", *asked, "--yes", "--format", "json"], capfd)
    fixed = json.loads(printed)
    doctor_code, said = answer(["doctor", *asked, "--format", "json", "--no-snapshot"], capfd)
    report = json.loads(said)
    assert fixed["report"]["verdict"] == report["verdict"]
    assert fixed["report"]["findings"] == report["findings"]
    assert fix_code == (4 if fixed["outcome"] in {"restored", "unsettled"} else doctor_code)


def raise_at_import(folder: Path) -> None:
    """Let jax fail in a way that no file and no metadata shows."""
    write("jax/__init__.py", 'raise ImportError("nobody knows this")\n')(folder)
    record = site_packages(folder) / f"jax-{VERSION}.dist-info/RECORD"
    record.write_text(re.sub(r"jax/__init__.py,.*", "jax/__init__.py,,", record.read_text()))


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (raise_at_import, "ImportError: nobody knows this"),
        (
            both(remove("jax"), remove(f"jax-{VERSION}.dist-info")),
            "ModuleNotFoundError: No module named 'jax'",
        ),
    ],
)
def test_what_the_doctor_cannot_see_fix_does_not_call_well(
    environment: Path, change: Break, why: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """The import that fix tries is one more witness: `doctor --smoke` asks it, too, and says the same."""
    change(environment)
    asked = ["--env", "env", "--expect", "cpu"]
    assert answer(["doctor", *asked], capfd)[0] == 0
    document = json.loads(answer(["fix", *asked, "--dry-run", "--format", "json"], capfd)[1])
    assert document["outcome"] == ("planned" if "No module" in why else "unchanged")
    assert document["report"]["verdict"] == "incompatible"
    name = "jax (jaxlib 0.6.0)" if "No module" in why else "jax 0.6.0"
    assert document["report"]["headline"] == f"{name} does not import: {why}."
    smoke = answer(["doctor", *asked, "--smoke", "--format", "json", "--no-snapshot"], capfd)[1]
    assert json.loads(smoke)["verdict"] == (
        "undetermined" if "No module" in why else "incompatible"
    )
