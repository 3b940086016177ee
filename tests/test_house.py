"""The house rules that a machine can check: import direction, sizes, and lists that must be complete."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path

import pytest

from tests.findings_page import PAGE, page

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "envcheck"
SOURCES = sorted(PACKAGE.rglob("*.py"))

# What each room may import of ours; the order of the house, left to right.
MAY_IMPORT = {
    "model": {"model"},
    "host": {"model", "host"},
    "probes": {"model", "host", "probes"},
    "matrix": {"model", "host", "matrix"},
    "rules": {"model", "host", "matrix", "rules"},
    "check": {"model", "host", "matrix", "rules", "check"},
    "diff": {"model", "host", "matrix", "rules", "diff"},
    "explain": {"model", "host", "matrix", "rules", "explain"},
    "fleet": {"model", "host", "matrix", "rules", "fleet"},
    "gpus": {"model", "host", "probes", "gpus"},
    "plan": {"model", "host", "matrix", "rules", "plan"},
    "smoke": {"model", "host", "rules", "smoke"},
    "install": {"model", "host", "matrix", "rules", "plan", "smoke", "install"},
    "render": {"model", "host", "rules", "fleet", "diff", "explain", "gpus", "plan", "smoke", "render"},
    "cli": {"model", "host", "probes", "matrix", "rules", "render", "cli"}
    | {"check", "diff", "explain", "fleet", "gpus", "plan", "smoke", "install"},
}
# Third-party packages each room may import at all.
THIRD_PARTY = {
    "model": set(),
    "host": {"elftools"},
    "probes": {"pynvml"},
    "matrix": {
        "elftools",
        "packaging",
        "pefile",
        "fastjsonschema",
        "platformdirs",
        "pypi_simple",
        "remotezip",
        "requests",
        "urllib3",
    },
    "rules": {"packaging"},
    "check": {"fastjsonschema", "packaging", "tomli", "yaml"},
    "diff": {"packaging"},
    "explain": {"packaging", "hyperscan", "ahocorasick"},
    "gpus": set(),
    "plan": {"packaging", "rattler", "uv"},
    "smoke": set(),
    "install": set(),
    "fleet": {"ansible"},  # a plugin of ours that runs inside Ansible
    "render": {"jinja2", "markupsafe", "rich"},
    "cli": {"click"},
}
# What a smoke script may import: its framework, by the ending of its name, and what that framework cannot do without.
SMOKE_SCRIPTS = {
    "tensorflow": {"tensorflow"},
    "tensorflow1": {"tensorflow", "numpy"},
    "tensorflow2": {"tensorflow", "numpy"},
    "torch": {"torch", "numpy"},
    "jax": {"jax", "jaxlib", "numpy"},
    "numpy": {"numpy"},  # what those that cannot do without it share
}
# What talks to an index: an extra, so nothing but the renewal of the matrix may need it.
NETWORK = {"platformdirs", "pypi_simple", "remotezip", "requests", "urllib3"}
TOUCHES_THE_MACHINE = {"subprocess", "ctypes", "socket", "signal", "shutil"}


def room(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0] if path.parent != PACKAGE else ""


def imports(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
    return names


@pytest.mark.parametrize("path", [p for p in SOURCES if room(p)], ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_point_one_way(path: Path) -> None:
    ours = {name.split(".")[1] for name in imports(path) if name.startswith("envcheck.")}
    assert ours <= MAY_IMPORT[room(path)], f"{room(path)} may not import {ours - MAY_IMPORT[room(path)]}"


@pytest.mark.parametrize("path", [p for p in SOURCES if room(p)], ids=lambda p: str(p.relative_to(PACKAGE)))
def test_third_party_imports_are_the_allowed_ones(path: Path) -> None:
    import sys

    foreign = {name.split(".")[0] for name in imports(path)} - set(sys.stdlib_module_names) - {"envcheck"}
    scripts = path.parent == PACKAGE / "smoke" / "children"
    if scripts:  # they import each other by their bare names, from the folder they lie in
        foreign -= {sibling.stem for sibling in path.parent.glob("*.py")}
    allowed = SMOKE_SCRIPTS.get(path.stem.rpartition("_")[2], set()) if scripts else THIRD_PARTY[room(path)]
    assert foreign <= allowed, foreign


def test_only_the_renewal_of_the_matrix_talks_to_an_index() -> None:
    talking = [path for path in SOURCES if {name.split(".")[0] for name in imports(path)} & NETWORK]
    assert talking
    assert [path for path in talking if path.parent != PACKAGE / "matrix" / "refresh"] == []


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_only_host_touches_the_machine(path: Path) -> None:
    if room(path) == "host" or "children" in path.parts:
        return
    assert not {name.split(".")[0] for name in imports(path)} & TOUCHES_THE_MACHINE


@pytest.mark.parametrize("path", [p for p in SOURCES if room(p) in {"model", "host", "probes"}], ids=lambda p: p.name)
def test_the_collected_rooms_parse_on_python_3_8(path: Path) -> None:
    ast.parse(path.read_text(encoding="utf-8"), feature_version=(3, 8))
    assert not re.search(r"^\s*with \($", path.read_text(encoding="utf-8"), re.MULTILINE), "3.8 knows no such with"


def strings_in_code(path: Path) -> list[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    scopes = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    docstrings = {ast.get_docstring(node, clean=False) for node in ast.walk(tree) if isinstance(node, scopes)}
    in_messages = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    constants = [
        node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and id(node) not in in_messages
    ]
    return [value for value in constants if isinstance(value, str) and value not in docstrings]


@pytest.mark.parametrize("path", sorted((PACKAGE / "rules").glob("*.py")), ids=lambda p: p.name)
def test_no_version_number_stands_in_a_rule(path: Path) -> None:
    assert [text for text in strings_in_code(path) if re.search(r"(?<![\w.])\d+\.\d+", text)] == []


def test_every_rule_has_its_catalogue_entry() -> None:
    from envcheck.rules import RULES, catalogue

    assert {item.id for item in RULES} <= set(catalogue())


def test_every_rule_module_is_registered() -> None:
    registered = (PACKAGE / "rules" / "__init__.py").read_text(encoding="utf-8")
    with_rules = [p.stem for p in (PACKAGE / "rules").glob("*.py") if "\n@rule(" in p.read_text(encoding="utf-8")]
    assert with_rules
    assert [name for name in with_rules if name not in registered] == []


def test_needs_name_real_facts() -> None:
    from envcheck.matrix.load import load_matrix
    from envcheck.model import Facts
    from envcheck.rules import RULES, Context

    context = Context(Facts(), load_matrix())
    for item in RULES:
        for name in item.needs:
            context.fact(name)


def test_every_section_of_the_facts_has_its_probe() -> None:
    from dataclasses import fields

    from envcheck.model import Facts
    from envcheck.probes.collection import PROBES

    assert {name for names in PROBES for name in names.split()} == {field.name for field in fields(Facts)}


def test_every_command_is_listed_and_has_help() -> None:
    from click.testing import CliRunner

    from envcheck.cli.group import COMMANDS, group

    files = {p.stem for p in (PACKAGE / "cli").glob("*.py") if "@click.command(" in p.read_text(encoding="utf-8")}
    assert files == set(COMMANDS)
    for name in COMMANDS:
        result = CliRunner().invoke(group, [name, "--help"])
        assert result.exit_code == 0
        assert "Example: envcheck " in result.output


def test_the_findings_page_is_the_catalogue() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run: python -m tests.findings_page"


def test_no_finding_explains_its_own_cause() -> None:
    rows = json.loads((ROOT / "data" / "findings.json").read_text(encoding="utf-8"))["findings"]
    ids = {row["id"] for row in rows}
    explains = {row["id"]: row["explains"] for row in rows}
    assert all(set(consequences) <= ids for consequences in explains.values())

    def no_cycle(finding_id: str, path: tuple[str, ...] = ()) -> None:
        assert finding_id not in path, path
        for consequence in explains[finding_id]:
            no_cycle(consequence, (*path, finding_id))

    for finding_id in ids:
        no_cycle(finding_id)
