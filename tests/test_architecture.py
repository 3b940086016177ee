"""What a machine can check of the architecture, one check each, and lists that must be complete.

Which layer imports which is held by the contracts of import-linter in pyproject.toml.
"""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from collections.abc import Iterator

import pytest

from envcheck.explain.signatures import load_signatures
from envcheck.frameworks import all_frameworks, framework_names, identities
from tests.structure import PACKAGE, ROOT, Module, figures, modules, references

# The third-party packages of a layer; a layer that is not named needs none.
THIRD_PARTY = {
    # packaging inside functions, for requirements that are not plain: the collector reads none.
    # typing_extensions for type checkers alone, which bring it.
    "model": {"packaging", "typing_extensions"},
    "host": {"tomli"},
    "probes": {"pynvml"},
    "actions": {"packaging"},
    "matrix": {"packaging", "fastjsonschema"},
    "matrix.refresh": {
        "packaging",
        "pefile",
        "platformdirs",
        "pypi_simple",
        "remotezip",
        "requests",
        "urllib3",
    },
    "rules": {"packaging"},
    "remedies": {"packaging"},
    "check": {"fastjsonschema", "packaging", "tomli", "yaml"},
    "diff": {"packaging"},
    "explain": {"packaging", "hyperscan", "ahocorasick"},
    "plan": {"packaging", "rattler", "uv"},
    "fleet": {"ansible", "kubernetes"},  # Ansible's is a plugin of ours that it runs
    "render": {"click", "jinja2", "markupsafe"},
    "cli": {"anyio", "click", "mcp"},
}
# What a smoke script may import: its framework, and what that framework cannot do without.
SMOKE_SCRIPTS = {
    "smoke_tensorflow": {"tensorflow"},
    "check_tensorflow1": {"tensorflow", "numpy"},
    "check_tensorflow2": {"tensorflow", "numpy"},
    "check_torch": {"torch"},
    "check_jax": {"jax", "jaxlib", "numpy"},
    "check_onnxruntime": {"onnxruntime", "numpy"},
    "check_cupy": {"cupy", "numpy"},
    "smoke_numbers": {"numpy"},
}
TOUCHES_THE_MACHINE = {
    "ctypes",
    "fcntl",
    "msvcrt",
    "multiprocessing",
    "pty",
    "resource",
    "shutil",
    "signal",
}
TOUCHES_THE_MACHINE |= {"socket", "subprocess", "termios", "winreg"}
# sent to other hosts, where Python may be 3.8
COLLECTED = {"model", "host", "probes", "frameworks"}


def imports(module: Module) -> Iterator[tuple[str, str]]:
    """Yield where each import of a module stands, and the name of what it imports."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            yield from ((module.at(node), alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield module.at(node), node.module


def listed(wrong: list[tuple[str, str]]) -> str:
    """Write one place a line."""
    return "\n".join(f"{place}: {what}" for place, what in wrong)


def runs_elsewhere(module: Module) -> bool:
    """Tell whether it is a script that another Python runs."""
    return "children" in module.path.parts


def test_the_contracts_of_import_linter_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    from importlinter.cli import lint_imports

    monkeypatch.chdir(ROOT)
    monkeypatch.syspath_prepend(str(ROOT))
    assert lint_imports(no_cache=True) == 0, "see what it printed"


def test_names_given_to_importlib_stay_in_their_layer() -> None:
    named = {(item.importer, item.imported) for item in references() if item.kind == "named"}
    assert named, "none was recognised"
    crossing = {
        (one, other) for one, other in named if modules()[one].layer != modules()[other].layer
    }
    # A local host asks the scripts of the probes in its own process where that is the inspected
    # Python.
    assert {
        one for one, other in crossing if not other.startswith("envcheck.probes.children.")
    } == set()
    assert {one for one, _ in crossing} <= {"envcheck.host.local"}


def test_the_program_imports_no_typing_extensions() -> None:
    code = "import sys, envcheck, envcheck.model; assert 'typing_extensions' not in sys.modules"
    assert subprocess.run([sys.executable, "-I", "-c", code], cwd=ROOT, check=False).returncode == 0


def test_no_modules_import_each_other() -> None:
    assert figures().cycles == ()


def test_third_party_imports_are_the_allowed_ones() -> None:
    standard = sys.stdlib_module_names | {"envcheck", "winreg", "msvcrt"}
    wrong: list[tuple[str, str]] = []
    for module in modules().values():
        allowed = THIRD_PARTY.get(module.layer, set())
        if "refresh" in module.path.parts:
            allowed = allowed | THIRD_PARTY["matrix.refresh"]
        # they import each other by their bare names, from the folder they lie in
        if runs_elsewhere(module):
            siblings = {sibling.stem for sibling in module.path.parent.glob("*.py")}
            allowed = allowed | siblings | SMOKE_SCRIPTS.get(module.path.stem, set())
        foreign = (
            (place, name) for place, name in imports(module) if name.split(".")[0] not in standard
        )
        wrong += ((place, name) for place, name in foreign if name.split(".")[0] not in allowed)
    assert not wrong, listed(wrong)


def test_only_host_touches_the_machine() -> None:
    elsewhere = [
        module
        for module in modules().values()
        if module.layer != "host" and not runs_elsewhere(module)
    ]
    touching = [item for module in elsewhere for item in imports(module)]
    wrong = [item for item in touching if item[1].split(".")[0] in TOUCHES_THE_MACHINE]
    assert not wrong, listed(wrong)


def said_or_ended(module: Module) -> Iterator[tuple[str, str]]:
    """Yield where a module prints, ends the program, or writes to a standard stream itself."""
    ending = {"print", "input", "exit", "quit", "sys.exit", "os._exit", "os.abort"}
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ending:
            yield module.at(node), ast.unparse(node.func)
        elif isinstance(node, ast.Name) and node.id == "SystemExit":
            yield module.at(node), node.id
        elif isinstance(node, ast.Attribute) and ast.unparse(node) in ("sys.stdout", "sys.stderr"):
            yield module.at(node), "a standard stream"


def test_only_cli_prints_and_exits() -> None:
    """A renderer may write what it rendered to a standard stream; a signal that comes again ends the program."""
    allowed = {
        ("host/interruption.py", "os._exit"),
        ("fleet/ansible_plugins/envcheck_events.py", "a standard stream"),
    }
    wrong: list[tuple[str, str]] = []
    for module in modules().values():
        file = module.path.relative_to(PACKAGE).as_posix()
        if module.layer == "cli" or runs_elsewhere(module):
            continue
        wrong += (
            (place, what)
            for place, what in said_or_ended(module)
            if (file, what) not in allowed
            and (module.layer, what) != ("render", "a standard stream")
        )
    assert not wrong, listed(wrong)


def test_what_is_collected_parses_on_python_3_8() -> None:
    for module in modules().values():
        if module.layer in COLLECTED:
            ast.parse(module.text, module.path.name, feature_version=(3, 8))
            assert not re.search(r"^\s*with \($", module.text, re.MULTILINE), (
                f"{module.path}: 3.8 knows no such with"
            )


def test_smoke_scripts_are_python_3_6_and_hide_no_framework() -> None:
    scripts = sorted((PACKAGE / "smoke" / "children").glob("*.py"))
    assert scripts
    for path in scripts:
        ast.parse(path.read_text(encoding="utf-8"), path.name, feature_version=(3, 6))
    modules = {
        module for each in all_frameworks() for module in (each.name, *each.distributions.values())
    }
    assert {path.stem for path in scripts} & {*modules, "numpy", "keras"} == set()


def strings_in_code(module: Module) -> Iterator[ast.Constant]:
    """Return the strings of a module that are neither docstrings nor parts of a message."""
    scopes = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = list(ast.walk(module.tree))
    docstrings = {
        ast.get_docstring(node, clean=False) for node in nodes if isinstance(node, scopes)
    }
    in_messages = {
        id(part) for node in nodes if isinstance(node, ast.JoinedStr) for part in node.values
    }
    strings = (
        node for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )
    return (
        node for node in strings if id(node) not in in_messages and node.value not in docstrings
    )


def test_no_version_number_stands_in_a_rule_a_reason_or_a_remedy() -> None:
    judging = [
        module for module in modules().values() if module.layer in ("rules", "explain", "remedies")
    ]
    assert {module.layer for module in judging} == {"rules", "explain", "remedies"}
    found = [
        (module.at(node), str(node.value)) for module in judging for node in strings_in_code(module)
    ]
    wrong = [item for item in found if re.search(r"(?<![\w.])\d+\.\d+", item[1])]
    assert not wrong, listed(wrong)


# The packages in which no framework is compared by its name; the goal is all of them but frameworks
# itself.
NAMELESS = {
    "",
    "actions",
    "cli",
    "diagnosis",
    "diff",
    "fleet",
    "gpus",
    "host",
    "install",
    "matrix",
    "model",
    "probes",
}
NAMELESS |= {"check", "explain", "plan", "remedies", "render", "rules", "smoke"}


def compared_names(module: Module) -> Iterator[tuple[str, str]]:
    """Yield where a module compares a value with the name of a framework, looks it up or matches it."""
    names = set(framework_names())
    for node in ast.walk(module.tree):
        parts: list[ast.expr] = []
        if isinstance(node, ast.Compare):
            parts = [node.left, *node.comparators]
        elif isinstance(node, ast.Match):
            parts = [
                case.pattern.value
                for case in node.cases
                if isinstance(case.pattern, ast.MatchValue)
            ]
        elif isinstance(node, ast.Dict):
            parts = [key for key in node.keys if key is not None]
        items = [item for part in parts for item in getattr(part, "elts", [part])]
        yield from (
            (module.at(item), str(item.value))
            for item in items
            if isinstance(item, ast.Constant) and item.value in names
        )


def test_no_framework_is_compared_by_its_name() -> None:
    checked = [item for item in modules().values() if item.layer in NAMELESS]
    wrong = [
        found
        for module in checked
        if not runs_elsewhere(module)
        for found in compared_names(module)
    ]
    assert not wrong, listed(wrong)


def test_no_version_is_compared_with_numbers_in_a_reason_or_a_remedy() -> None:
    compared = [
        (module.at(side), ast.unparse(side))
        for module in modules().values()
        if module.layer in ("explain", "remedies")
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Compare)
        for side in (node.left, *node.comparators)
        if isinstance(side, ast.Tuple)
        and any(isinstance(item, ast.Constant) and item.value != 0 for item in side.elts)
        if all(isinstance(item, ast.Constant) and isinstance(item.value, int) for item in side.elts)
    ]
    assert not compared, listed(compared)


def test_no_framework_is_named_in_a_reason_or_a_remedy() -> None:
    names = {name for each in identities() for name in (each.name, *each.distributions)}
    names -= {item.name for item in load_signatures()}
    judging = [module for module in modules().values() if module.layer in ("explain", "remedies")]
    named = [
        (module.at(node), str(node.value)) for module in judging for node in strings_in_code(module)
    ]
    wrong = [item for item in named if item[1] in names]
    assert not wrong, listed(wrong)


def test_only_actions_look_into_the_words_of_an_action() -> None:
    read = [
        (module.at(node), ast.unparse(node))
        for module in modules().values()
        if module.layer != "actions" and not runs_elsewhere(module)
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Attribute)
        if node.value.attr in ("argv", "words", "check_argv", "undo_argv", "windows_argv")
    ]
    wrong = [item for item in read if not item[1].startswith("sys.argv")]
    assert not wrong, listed(wrong)


def test_every_rule_has_its_catalogue_entry() -> None:
    from envcheck.rules import RULES, catalogue

    assert {name for item in RULES for name in item.ids} <= set(catalogue())


def test_every_rule_module_is_registered() -> None:
    registered = re.findall(
        r"^    (\w+),$", (PACKAGE / "rules" / "engine.py").read_text(encoding="utf-8"), re.MULTILINE
    )
    with_rules = [
        p.stem
        for p in (PACKAGE / "rules").glob("*.py")
        if "\n@rule(" in p.read_text(encoding="utf-8")
    ]
    assert with_rules
    assert [name for name in with_rules if name not in (*registered, "engine")] == []


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

    assert {name for names in PROBES for name in names.split()} == {
        field.name for field in fields(Facts)
    }


def test_every_command_is_listed_and_has_help() -> None:
    from click.testing import CliRunner

    from envcheck.cli.group import COMMANDS, group

    files = {
        p.stem
        for p in (PACKAGE / "cli").glob("*.py")
        if "@click.command(" in p.read_text(encoding="utf-8")
    }
    assert files == {module for module, _ in COMMANDS.values()}
    for name in COMMANDS:
        result = CliRunner().invoke(group, [name, "--help"])
        assert result.exit_code == 0
        assert "Example: envcheck " in result.output


def test_no_finding_explains_its_own_cause() -> None:
    rows = json.loads((ROOT / "data" / "advice" / "findings.json").read_text(encoding="utf-8"))[
        "findings"
    ]
    ids = {row["id"] for row in rows}
    explains = {row["id"]: row["explains"] for row in rows}
    assert all(set(consequences) <= ids for consequences in explains.values())
    assert {found for row in rows for found in row.get("there", {}).values()} <= ids

    def no_cycle(finding_id: str, path: tuple[str, ...] = ()) -> None:
        assert finding_id not in path, path
        for consequence in explains[finding_id]:
            no_cycle(consequence, (*path, finding_id))

    for finding_id in ids:
        no_cycle(finding_id)
