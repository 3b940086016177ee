"""No module needs more than its installation brings, and a missing extra is named with the line that adds it."""

from __future__ import annotations

import ast
import functools
import re
import shlex
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from importlib import import_module
from importlib.metadata import distribution, packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from envcheck import DISTRIBUTION
from envcheck.actions import extras, program
from envcheck.actions.extras import EXTRAS, MissingExtraError, needs_extra, require_extra
from tests.structure import ROOT, Module, modules

# The one name: pyproject.toml, the messages and a release's workflow say the same.
assert f'name = "{DISTRIBUTION}"' in Path(ROOT, "pyproject.toml").read_text(encoding="utf-8")
STATED = [Requirement(text) for text in distribution(DISTRIBUTION).requires or ()]
# Extras for those who work on this program, and those that bring a framework to judge.
OF_OTHERS = {"docs", "jax", "lint", "release", "tensorflow", "test", "torch"}
SETS = ((), *((name,) for name in (*EXTRAS, "logs")), tuple(EXTRAS))


def stated_extras(item: Requirement) -> set[str]:
    return set(re.findall(r'extra == "(.+?)"', str(item.marker)))


@functools.cache
def brought(extra: str) -> frozenset[str]:
    """Return the distributions that an extra brings with all that they need; "" stands for the plain installation."""
    waiting = [
        item
        for item in STATED
        if (extra in stated_extras(item) if extra else not stated_extras(item))
    ]
    found: set[str] = set()
    while waiting:
        item = waiting.pop()
        name = canonicalize_name(item.name)
        if name == DISTRIBUTION:
            found |= {each for inner in item.extras for each in brought(inner)}
        elif name not in found:
            found.add(name)
            waiting += requirements_of(name)
    return frozenset(found)


def requirements_of(name: str) -> Iterator[Requirement]:
    try:
        texts = distribution(name).requires or ()
    except ModuleNotFoundError:  # of another platform, by a marker
        return
    for item in map(Requirement, texts):
        if item.marker is None or item.marker.evaluate({"extra": ""}):
            yield item


@functools.cache  # reads the metadata of every distribution
def hidden_modules(chosen: tuple[str, ...]) -> set[str]:
    """Return the top-level modules that are installed here and that an installation with these extras lacks."""
    there = {name for extra in ("", *chosen) for name in brought(extra)} | {DISTRIBUTION}
    owners = packages_distributions()
    return {
        module
        for module, names in owners.items()
        if not there & {canonicalize_name(name) for name in names}
    }


IMPORT_ALL = """
import sys
hidden = set(sys.argv[1].split())
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in hidden:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Finder())
from importlib import import_module
for name in sys.argv[2:]:
    import_module(name)
"""


@pytest.mark.parametrize("chosen", SETS, ids=lambda chosen: "+".join(chosen) or "plain")
def test_every_module_imports_with_what_the_extras_bring(chosen: tuple[str, ...]) -> None:
    names = [module.name for module in modules().values() if not runs_elsewhere(module)]
    assert len(names) > 100
    command = [sys.executable, "-c", IMPORT_ALL, " ".join(hidden_modules(chosen)), *names]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_plain_installation_hides_what_extras_bring() -> None:
    assert {"jinja2", "yaml", "requests", "platformdirs", "uv"} <= hidden_modules(())
    assert not {"click", "packaging"} & hidden_modules(())


def runs_elsewhere(module: Module) -> bool:
    parts = module.path.parts
    return "children" in parts or "ansible_plugins" in parts or module.path.stem == "__main__"


def named_extras(module: Module) -> set[str]:
    """Return the extras that a module asks for by name; the renewal of the matrix is behind one question."""
    calls = (node for node in ast.walk(module.tree) if isinstance(node, ast.Call))
    asked = {"needs_extra", "require_extra", "describe_missing_extra"}
    named = {ast.literal_eval(node.args[0]) for node in calls if ast.unparse(node.func) in asked}
    return named | ({"matrix"} if "refresh" in module.path.parts else set())


def imported(module: Module) -> Iterator[tuple[str, str]]:
    """Yield what a module imports when it runs, with the place."""
    for node in walk_what_runs(module.tree):
        if isinstance(node, ast.Import):
            yield from ((module.at(node), alias.name.partition(".")[0]) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield module.at(node), node.module.partition(".")[0]


def walk_what_runs(tree: ast.AST) -> Iterator[ast.AST]:
    """Walk a tree without what stands there for type checkers alone."""
    yield tree
    for child in ast.iter_child_nodes(tree):
        if not (isinstance(child, ast.If) and getattr(child.test, "id", "") == "TYPE_CHECKING"):
            yield from walk_what_runs(child)


def test_what_an_extra_brings_is_imported_where_the_extra_is_named() -> None:
    """An import in a function runs in no test of imports: its file must ask for the extra that brings it."""
    wrong = []
    for module in modules().values():
        if runs_elsewhere(module) or module.path.name == "extras.py":
            continue
        hidden = hidden_modules(tuple(named_extras(module)))
        wrong += [f"{place}: {name}" for place, name in imported(module) if name in hidden]
    assert wrong == []


def test_each_extra_is_known_with_the_modules_of_its_packages() -> None:
    declared = {name for item in STATED for name in stated_extras(item)}
    # reading logs goes on without its library, only slower
    assert declared - OF_OTHERS == {*EXTRAS, "logs"}
    owners = packages_distributions()
    for extra, names in EXTRAS.items():
        own = {canonicalize_name(owner) for name in names for owner in owners[name]}
        assert own <= brought(extra), extra
        direct = {canonicalize_name(item.name) for item in STATED if extra in stated_extras(item)}
        assert direct == own, extra


def message(extra: str) -> str:
    return str(extras.describe_missing_extra(extra, "It"))


def test_the_environment_of_the_readme_gets_a_line_for_its_pip() -> None:
    line = f"To add it, type: {shlex.quote(sys.executable)} -m pip install 'jinja2>=3.1'"
    assert message("html") == f"It needs the extra html. {line}"
    assert "'uv>=0.5'" in message("conda")  # the extras that an extra names come, too


def test_an_environment_without_pip_gets_a_line_for_uv(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pip", None)
    assert f"uv pip install --python {shlex.quote(sys.executable)} 'jinja2>=3.1'" in message("html")


def test_pipx_gets_its_own_command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    environment = tmp_path / "envcheck-gpu"
    environment.mkdir()
    (environment / "pipx_metadata.json").write_text("{}")
    monkeypatch.setattr(sys, "prefix", str(environment))
    assert message("html").endswith("type: pipx inject envcheck-gpu 'jinja2>=3.1'")


@pytest.mark.parametrize(
    ("requirements", "words"),
    [
        ('{ name = "envcheck-gpu", directory = "/srv/my clone" }', "'/srv/my clone'"),
        ('{ name = "envcheck-gpu", editable = "/srv/clone" }', "--editable /srv/clone"),
        ('{ name = "envcheck-gpu", path = "/srv/x.whl" }', "/srv/x.whl"),
        (
            '{ name = "envcheck-gpu", specifier = "==0.1.0" }, { name = "pyyaml", specifier = ">=6" }',
            "envcheck-gpu==0.1.0 --with 'pyyaml>=6'",
        ),
    ],
)
def test_a_tool_of_uv_is_installed_again_with_what_it_has(
    requirements: str, words: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    receipt = f"[tool]\nrequirements = [{requirements}]\n"  # as uv 0.13 writes it
    (tmp_path / "uv-receipt.toml").write_text(receipt, encoding="utf-8")
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    assert message("html").endswith(f"type: uv tool install {words} --with 'jinja2>=3.1'")


def test_a_throw_away_environment_of_uvx_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "prefix", "/home/u/.cache/uv/archive-v0/Xy1")
    assert message("html").endswith("type the same command with: uvx --with 'jinja2>=3.1'")


def test_the_single_file_is_started_in_an_environment_that_has_the_packages(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    archive = tmp_path / "envcheck.pyz"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("x", "")
    monkeypatch.setattr(program, "__file__", str(archive / "envcheck" / "actions" / "program.py"))
    monkeypatch.setattr(sys, "prefix", sys.base_prefix)
    made = "python3 -m venv ~/.envcheck && ~/.envcheck/bin/python -m pip install 'jinja2>=3.1'"
    assert message("html").endswith(
        f"start it with ~/.envcheck/bin/python. To make it, type: {made}"
    )


def test_a_checkout_without_metadata_names_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extras, "DISTRIBUTION", "envcheck-nowhere")
    assert f"'{ROOT}[html]'" in message("html")


def test_a_module_that_is_missing_is_laid_to_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    with (
        pytest.raises(MissingExtraError, match="A YAML file needs the extra files"),
        needs_extra("files", "A YAML file"),
    ):
        import yaml  # noqa: F401
    with pytest.raises(MissingExtraError, match="It needs the extra files"):
        require_extra("files", "It")
    require_extra("html", "It")
    with pytest.raises(ModuleNotFoundError), needs_extra("files", "It"):
        import_module("envcheck.nowhere")
