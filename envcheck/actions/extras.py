"""Say which extra of this program a command needs, and how to add it here."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

from envcheck import DISTRIBUTION
from envcheck.actions.program import is_single_file, is_throwaway
from envcheck.actions.shells import type_here
from envcheck.host.documents import dig, parse_toml
from envcheck.model import UserError

# Extra -> the modules that it brings and that a command cannot do without.
EXTRAS = {
    "conda": ("rattler", "uv"),
    "files": ("yaml",),
    "fleet": ("ansible",),
    "html": ("jinja2",),
    "kubernetes": ("kubernetes",),
    "matrix": ("pefile", "platformdirs", "pypi_simple", "remotezip", "requests"),
    "mcp": ("mcp",),
    "plan": ("uv",),
}


class MissingExtraError(UserError):
    """A command needs an extra that is not installed.

    The message is one sentence with the line that adds it.
    """


@contextmanager
def needs_extra(extra: str, purpose: str) -> Iterator[None]:
    """Import modules of an extra inside this block.

    Raises MissingExtraError if one is not installed.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "envcheck").partition(".")[0] == "envcheck":
            raise  # a module of ours: no extra brings it
        raise describe_missing_extra(extra, purpose) from None


def require_extra(extra: str, purpose: str) -> None:
    """Raise MissingExtraError if a module of an extra is not installed; imports none of them."""
    if any(find_spec(module) is None for module in EXTRAS[extra]):
        raise describe_missing_extra(extra, purpose)


def describe_missing_extra(extra: str, purpose: str) -> MissingExtraError:
    """Return the error for a missing extra: "--format html needs the extra html.

    To add it, type: ...".
    """
    return MissingExtraError(f"{purpose} needs the extra {extra}. {_describe_addition(extra)}")


def _describe_addition(extra: str) -> str:
    """Say what adds the packages of an extra to the installation that runs."""
    from pathlib import Path  # 3 ms, and few runs lack an extra

    packages = _list_packages(extra)
    if Path(sys.prefix, "pipx_metadata.json").is_file():
        return f"To add it, type: {type_here('pipx', 'inject', Path(sys.prefix).name, *packages)}"
    options = tuple(word for package in packages for word in ("--with", package))
    if is_throwaway():
        return f"To add it, type the same command with: {type_here('uvx', *options)}"
    receipt = Path(sys.prefix, "uv-receipt.toml")
    if receipt.is_file():
        again = _read_receipt(receipt.read_text(encoding="utf-8"))
        return f"To add it, type: {type_here('uv', 'tool', 'install', *again, *options)}"
    if is_single_file() and sys.prefix == sys.base_prefix:
        made = type_here(*_pip_words("~/.envcheck/bin/python"), *packages)
        return (
            "The single file needs an environment that has its packages: start it with"
            f" ~/.envcheck/bin/python. To make it, type: python3 -m venv ~/.envcheck && {made}"
        )
    return f"To add it, type: {type_here(*_pip_words(sys.executable), *packages)}"


def _read_receipt(text: str) -> tuple[str, ...]:
    """Return the words with which `uv tool install` makes this installation again.

    Sample: [tool]
            requirements = [{ name = "envcheck-gpu", directory = "/srv/envcheck" },
            { name = "pyyaml", specifier = ">=6" }]
    """
    own: tuple[str, ...] = (DISTRIBUTION,)
    beside: list[str] = []
    for row in dig(parse_toml(text), "tool", "requirements") or ():
        wanted = row["name"] + row.get("specifier", "")
        if row["name"] != DISTRIBUTION:
            beside += ["--with", wanted]
        elif "editable" in row:
            own = ("--editable", row["editable"])
        else:
            own = (row.get("directory") or row.get("path") or row.get("url") or wanted,)
    return (*own, *beside)


def _pip_words(python: str) -> tuple[str, ...]:
    """Return the command that installs beside a Python.

    pip where the Python that runs has it, else uv.
    """
    if find_spec("pip") is None and not python.startswith("~"):
        return "uv", "pip", "install", "--python", python
    return python, "-m", "pip", "install"


def _list_packages(extra: str) -> list[str]:
    """List the requirements of an extra as this distribution states them.

    From a bare checkout, its own name.
    """
    from importlib.metadata import PackageNotFoundError, requires
    from pathlib import Path

    from envcheck.model.versions import evaluate_marker, read_requirement

    try:
        stated = [read_requirement(text) for text in requires(DISTRIBUTION) or ()]
    except PackageNotFoundError:
        return [f"{Path(__file__).parents[2]}[{extra}]"]
    conditional = [item for item in stated if item.marker]
    return [
        f"{item.name}{item.specifier}"
        for item in conditional
        if evaluate_marker(item.marker, {"extra": extra})
        and not evaluate_marker(item.marker, {"extra": ""})
    ]
