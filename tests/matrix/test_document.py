"""The built-in matrix fits its schema, is in canonical form, and every row has its sources."""

from __future__ import annotations

import json
from urllib.parse import urlsplit

import fastjsonschema
import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from pypi_simple import PYPI_SIMPLE_ENDPOINT

from envcheck.host.data_files import read_data
from envcheck.matrix import load
from envcheck.matrix.load import check_document, iterate_rows
from envcheck.matrix.refresh.files import format_document
from tests.matrix.documents import changed_copy, document, releases, text

NO_CELLS = {
    "distribution",
    "platform",
    "citations",
    "note",
    "proof",
    "cuda_major",
    "soname",
    "tegra",
}


def test_fits_its_schema() -> None:
    check_document(document(), "built-in")
    matrix = json.loads(read_data("compat_matrix.json"))
    fastjsonschema.compile(json.loads(read_data("compat_matrix.schema.json")))(matrix)


def test_schema_closes_every_object_with_named_cells() -> None:
    def open_objects(node: object, path: str = "") -> list[str]:
        if not isinstance(node, dict):
            return []
        found = (
            [path] if "properties" in node and node.get("additionalProperties") is not False else []
        )
        return found + [
            item for key, value in node.items() for item in open_objects(value, f"{path}/{key}")
        ]

    schema = load._document_schema()
    assert [path for path in open_objects(schema) if not path.endswith("/if")] == []


def test_canonical_form_does_not_depend_on_the_order_of_what_it_reads() -> None:
    shuffled = changed_copy()
    for section in ("citations", "toolkits", "drivers", "cudnn", "architectures", "removed"):
        shuffled[section] = dict(reversed(shuffled[section].items()))
    shuffled["problems"].reverse()
    for versions in shuffled["releases"].values():
        for rows in versions.values():
            rows.reverse()
    assert format_document(dict(reversed(shuffled.items()))) == text()


def test_every_row_cites_and_every_citation_is_used() -> None:
    cited = {name for row in iterate_rows(document()) for name in row["citations"]}
    assert all(row["citations"] for row in iterate_rows(document()))
    assert cited == set(document()["citations"])


def test_wheels_are_cited_with_their_hash() -> None:
    citations = document()["citations"].values()
    assert [
        item
        for item in citations
        if item["url_or_artifact"].endswith(".whl") and "sha256" not in item
    ] == []
    for framework in document()["frameworks"]:
        for version, row in releases(framework):
            wheel = document()["citations"][row["citations"][0]]["url_or_artifact"]
            name = row["distribution"].replace("-", "_")
            assert wheel.startswith((f"{name}-{version}-", f"{row['distribution']}-{version}-")), (
                wheel
            )


def test_every_null_has_a_note() -> None:
    nulls = [row for row in iterate_rows(document()) if None in row.values()]
    assert nulls
    assert [row for row in nulls if not row.get("note")] == []


def test_unread_architectures_have_a_note() -> None:
    empty = [row for row in iterate_rows(document()) if row.get("compute_capabilities") == []]
    assert [row for row in empty if "Compute capabilities were not read" not in row["note"]] == []


def test_every_cell_has_its_proof() -> None:
    for row in iterate_rows(document()):
        proof = row.get("proof")
        if not isinstance(proof, dict):
            continue
        assert set(proof) <= set(row) | {"*"}, row
        known = {name for name, value in row.items() if name not in NO_CELLS and value is not None}
        assert "*" in proof or known <= set(proof), (known - set(proof), row)


def test_tier_1_rows_cite_a_wheel() -> None:
    for row in iterate_rows(document()):
        proof = row.get("proof")
        if isinstance(proof, dict) and "tier1" in proof.values():
            assert any("sha256" in document()["citations"][name] for name in row["citations"]), row


def test_binaries_of_toolkits_drivers_and_cudnn_have_a_hash_or_say_that_none_was_kept() -> None:
    table = document()["citations"]
    for section in ("toolkits", "drivers", "cudnn"):
        for held in document()[section].values():
            for row in held if isinstance(held, list) else [held]:
                cited = [table[name] for name in row["citations"]]
                hashed = any("sha256" in item for item in cited)
                admitted = any(
                    "the hash of the package was not kept" in item["locator"] for item in cited
                )
                surveyed = set(row["proof"].values()) == {"documented"} or section == "drivers"
                assert hashed or admitted or surveyed, row


def test_names_no_host_of_a_package_index() -> None:
    host = urlsplit(PYPI_SIMPLE_ENDPOINT).hostname
    assert host
    assert host not in text() + read_data("nvidia/gpus.json").decode()


@pytest.mark.parametrize("row", document()["problems"], ids=lambda row: row["id"])
def test_problems_are_well_formed(row: dict[str, str]) -> None:
    findings = {item["id"] for item in json.loads(read_data("advice/findings.json"))["findings"]}
    assert row["finding"] in findings
    for cell in ("specifier", "pythons", "compute_capabilities"):
        SpecifierSet(row.get(cell, ""))
    for requirement in [*row.get("fix", "").split(), row.get("condition", "x")]:
        Requirement(requirement)
    assert row.get("fix") or row.get("remedy") or row.get("stage") in ("install", "advice")


def test_problem_ids_are_unique() -> None:
    ids = [row["id"] for row in document()["problems"]]
    assert len(ids) == len(set(ids))


def test_requirements_parse() -> None:
    for framework in document()["frameworks"]:
        for _version, row in releases(framework):
            for requirement in row.get("cuda_wheels", ()):
                Requirement(requirement)
            for specifier in row["requires"].values():
                SpecifierSet(specifier)
