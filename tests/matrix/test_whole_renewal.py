"""`envcheck matrix refresh` and `verify` without options cover all sections; refresh corrects what verify finds."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from envcheck.cli.group import run
from envcheck.matrix.companions import companion_sections, matrix_sections, section_of
from envcheck.matrix.refresh.files import find_user_matrix
from envcheck.matrix.refresh.refresh import first_releases
from envcheck.model import UserError
from tests.matrix.documents import document
from tests.matrix.index.renewal import FRAMEWORKS
from tests.matrix.index.server import LocalIndex, archive
from tests.matrix.test_verify import recorded_matrix

COMPOSED = "99.1"  # the release of each package that the local index has no recorded wheel of


def add_composed_wheels(index: LocalIndex) -> list[str]:
    """Serve a composed wheel of one package of each section that has no recorded one; name the packages."""
    added = []
    for section in (name for name in companion_sections() if name not in FRAMEWORKS):
        name = next(iter(first_releases(section)))
        folder = f"{name.replace('-', '_')}-{COMPOSED}"
        metadata = (
            f"Metadata-Version: 2.1\nName: {name}\nVersion: {COMPOSED}\nRequires-Python: >=3.10\n"
        )
        wheel = f"{folder}-py3-none-manylinux_2_28_x86_64.whl"
        index.archives[wheel] = archive(
            {f"{folder}.dist-info/METADATA": metadata.encode()}, folder=folder
        )
        index.wheels[wheel] = {
            "sha256": hashlib.sha256(index.archives[wheel]).hexdigest(),
            "size": len(index.archives[wheel]),
            "members": {},
        }
        added.append(name)
    return added


def test_refresh_and_verify_cover_every_section(
    configured_index: LocalIndex, capsys: pytest.CaptureFixture[str]
) -> None:
    added = add_composed_wheels(configured_index)
    assert len(added) > 15
    assert run(["matrix", "refresh"]) == 0
    printed = capsys.readouterr()
    for name in added:
        assert f"+ {name} {COMPOSED} on linux_x86_64: " in printed.out
    new = str(find_user_matrix())
    assert f"envcheck doctor --matrix {new}" in printed.err
    assert set(json.loads(Path(new).read_text(encoding="utf-8"))["releases"]) == set(
        matrix_sections()
    )

    # the index has a part of the releases alone
    assert run(["matrix", "verify", "--all", "--matrix", new]) == 3
    assert " 0 differences, " in capsys.readouterr().out
    assert run(["matrix", "verify"]) == 1
    assert f"vllm {COMPOSED} on linux_x86_64 is on the index" in capsys.readouterr().out


def test_refresh_corrects_what_verify_reports(
    configured_index: LocalIndex, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Rows that another edition of this program drew differently: their wheels are those that they cite."""
    matrix, own, new = recorded_matrix(), tmp_path / "own.json", str(tmp_path / "new.json")
    row = next(
        row
        for row in matrix["releases"]["tensorflow"]["2.21.0"]
        if row["platform"] == "linux_x86_64"
    )
    right = row["requires"]
    row["requires"] = {**right, "numpy": ">=0.1"}
    own.write_text(json.dumps(matrix), encoding="utf-8")
    asked = ["--framework", "tensorflow"]
    assert run(["matrix", "verify", "--all", *asked, "--matrix", str(own)]) == 1
    assert "1 differences" in capsys.readouterr().out
    assert run(["matrix", "refresh", *asked, "--matrix", str(own), "-o", new]) == 0
    assert "1 row changed." in capsys.readouterr().out
    assert run(["matrix", "verify", "--all", *asked, "--matrix", new]) == 0
    found = json.loads(Path(new).read_text(encoding="utf-8"))
    assert found["releases"]["tensorflow"] == recorded_matrix()["releases"]["tensorflow"]
    same = {name: body for name, body in found["citations"].items() if name in matrix["citations"]}
    assert same != {}
    unchanged = {name for name, body in same.items() if body == document()["citations"][name]}
    # only the row that changed was dated anew
    assert set(same) - unchanged <= {row["citations"][0]}


@pytest.mark.parametrize(
    ("asked", "section"),
    [
        ("tensorflow", "tensorflow"),
        ("cudf", "rapids"),
        ("cudf-cu12", "rapids"),
        ("cupy", "cupy"),
        ("tf-keras", "keras"),
    ],
)
def test_a_framework_or_package_names_its_section(asked: str, section: str) -> None:
    assert section_of(asked) == section


def test_an_unknown_framework_is_named_with_those_of_the_matrix(
    configured_index: LocalIndex,
) -> None:
    assert section_of("nothing") == ""
    with pytest.raises(
        UserError, match=r"unknown framework. The matrix has .*rapids.* Did you mean torch\?"
    ):
        run(["matrix", "verify", "--framework", "torhc"])
