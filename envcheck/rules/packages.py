"""What each family of distributions calls what is to be installed, from data/packages.json."""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import Any

from envcheck.host.data_files import read_data
from envcheck.model import Command, Way, get_value
from envcheck.rules.context import Context
from envcheck.rules.fixes_system import OTHER, as_root, distribution_family

_VALUE = re.compile(r"[\d.-]+")


@lru_cache(maxsize=1)
def packages_data() -> dict[str, Any]:
    """Read data/packages.json."""
    loaded: dict[str, Any] = json.loads(read_data("packages.json"))
    return loaded


def package_names(family: str, what: str, **values: str) -> tuple[str, ...]:
    """Name packages for a family; () where it has none. ValueError for values that are no numbers."""
    if not all(map(_VALUE.fullmatch, values.values())):
        raise ValueError(values)
    names = packages_data()["packages"][what].get(family, ())
    return tuple(name.format(**values) for name in names)


def install(context: Context, what: str, purpose: str, **values: str) -> tuple[Command, ...]:
    """Install something with the package manager of this distribution; () where it has none of it."""
    return _install(context, distribution_family(context), what, purpose, **values) if context.os == "linux" else ()


def install_somewhere(
    context: Context, what: str, purpose: str, **values: str
) -> tuple[tuple[Command, ...], tuple[Way, ...]]:
    """Install something on a Linux whose distribution may not be known: then Debian's way, and the others' instead."""
    if distribution_family(context) != OTHER:
        return install(context, what, purpose, **values), ()
    called = packages_data()["called"]
    first, *others = [(name, _install(context, name, what, purpose, **values)) for name in called]
    ways = tuple(Way(f"On {called[name]} it is installed by:", commands) for name, commands in others if commands)
    return tuple(_said(command, called[first[0]]) for command in first[1]), ways


def compiler_beside(context: Context, lowest: int, highest: int) -> tuple[int, str, tuple[Command, ...]]:
    """Choose the newest GCC within bounds that this distribution has beside its own; the highest where none is known.

    Returns its major, the path of its g++ and what installs it; ("", ()) where the distribution has none.
    """
    family, known = distribution_family(context), packages_data()["compilers"]
    version = str(get_value(context.facts.host.distribution_version) or "")
    released = known["released"].get(family, {})
    majors = released.get(version, released.get(version.partition(".")[0]))
    fitting = [major for major in majors or (highest,) if lowest <= major <= highest]
    if context.os != "linux" or family not in known["path"] or not fitting:
        return highest, "", ()
    return max(fitting), *compiler_named(context, family, str(max(fitting)), is_known=majors is not None)


def compiler_named(
    context: Context, family: str, major: str, *, is_known: bool = False
) -> tuple[str, tuple[Command, ...]]:
    """Return the path of a family's g++ of one major, and what installs it."""
    path = packages_data()["compilers"]["path"][family].format(major=major)
    purpose = f"GCC {major}, beside the one that is there" + ("" if is_known else "; where this release has it")
    return path, _install(context, family, "compiler-release", purpose, major=major)


def compiler_families() -> dict[str, str]:
    """Name the families whose other GCCs are called alike in every release, each with its distributions."""
    called: dict[str, str] = packages_data()["compilers"]["called"]
    return called


def why_no_compiler(context: Context) -> str:
    """Say why a distribution's packages bring no other GCC; "" where nothing is known."""
    none: dict[str, str] = packages_data()["compilers"]["none"]
    return none.get(distribution_family(context), "")


def visual_studio(highest: int) -> tuple[str, tuple[Command, ...]]:
    """Name the newest Visual Studio whose compiler stays within an _MSC_VER, and what installs its Build Tools."""
    rows = [row for row in packages_data()["msvc"]["rows"] if row["highest"] <= highest]
    if not rows:
        return "", ()
    row = rows[-1]
    wanted = " ".join(f"--add {name}" for name in row["components"])
    argv = ("winget", "install", row["package"], "--override", f"--passive --wait {wanted} --includeRecommended")
    return row["studio"], (Command(argv, "system", f"the C++ compiler of Visual Studio {row['studio']}"),)


def _install(context: Context, family: str, what: str, purpose: str, **values: str) -> tuple[Command, ...]:
    names = package_names(family, what, **values)
    return (as_root(context, *packages_data()["install"][family], *names, purpose=purpose),) if names else ()


def _said(command: Command, family: str) -> Command:
    return Command(command.argv, command.scope, f"{command.purpose} ({family})")
