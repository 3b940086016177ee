"""Commands that change the inspected Python environment, built from validated fields only."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable

from envcheck.model import Absent, Command, Fact, Known
from envcheck.rules.context import Context

_CLAUSE = r"(?:===|==|>=|<=|!=|~=|<|>)[A-Za-z0-9][A-Za-z0-9.*+!-]*"
_REQUIREMENT = rf"[a-z0-9][a-z0-9._-]*(?:\[[a-z0-9,_-]+\])?(?:{_CLAUSE}(?:,{_CLAUSE})*)?"
_CONDA_SPEC = r"[a-z0-9][a-z0-9._-]*(?:[=<>!~]=?[A-Za-z0-9.*+_]+(?:=[A-Za-z0-9.*_]+)?)?"
_PATH = r"[~\w./+:\\ @()-]+"
_INDEX = r"https://download\.pytorch\.org/whl/[a-z0-9]+"


def is_requirement(text: str) -> bool:
    """Tell whether a text is a plain requirement that may stand in a command: tensorflow[and-cuda]==2.15.1."""
    return re.fullmatch(_REQUIREMENT, text) is not None


def python_program(context: Context) -> str:
    """Return the inspected interpreter as it can be typed."""
    found = context.facts.python.executable
    if isinstance(found, Known) and re.fullmatch(_PATH, found.value) and not found.value.startswith("-"):
        return found.value
    return "python" if context.os == "windows" else "python3"


def pip_install(context: Context, *requirements: str, index: str = "", force: bool = False) -> Command:
    """Install requirements into the inspected environment; ValueError for what is no plain requirement."""
    return _pip(python_program(context), requirements, index, force=force)


def install_steps(context: Context, *requirements: str, index: str = "", force: bool = False) -> tuple[Command, ...]:
    """Install requirements with what has to come first: an environment of its own, or pip; () when not plain."""
    if not requirements or not all(map(is_requirement, requirements)):
        return ()
    python = python_program(context)
    if _is_true(context.facts.python.externally_managed):
        inside = ".venv\\Scripts\\python.exe" if context.os == "windows" else ".venv/bin/python"
        create = Command((python, "-m", "venv", ".venv"), "environment", "The system's Python refuses packages.")
        return (create, _pip(inside, requirements, index, force=force))
    steps = (_pip(python, requirements, index, force=force),)
    if isinstance(context.facts.python.pip_version, Absent):
        return (Command((python, "-m", "ensurepip", "--upgrade"), "environment", "There is no pip yet."), *steps)
    return steps


def uninstall_steps(context: Context, *names: str) -> tuple[Command, ...]:
    """Remove distributions from the inspected environment."""
    plain = tuple(name for name in names if re.fullmatch(r"[a-z0-9][a-z0-9._-]*", name))
    return (Command((python_program(context), "-m", "pip", "uninstall", "-y", *plain)),) if plain else ()


def conda_install(*specs: str, channel: str = "conda-forge") -> Command:
    """Install conda packages into the active environment; ValueError for what is no plain spec."""
    for spec in (*specs, channel):
        if not re.fullmatch(_CONDA_SPEC, spec):
            raise ValueError(spec)
    return Command(("conda", "install", "-c", channel, *specs), "environment")


def new_environment(context: Context, python: str) -> tuple[Command, ...]:
    """Create an environment with another Python minor such as 3.12; () when it is no minor."""
    if not re.fullmatch(r"\d+\.\d+", python):
        return ()
    folder = f".venv-{python}"
    if _is(context.facts.python.kind, "conda"):
        return (Command(("conda", "create", "-n", f"py{python.replace('.', '')}", f"python={python}")),)
    starter = ("py", f"-{python}") if context.os == "windows" else (f"python{python}",)
    return (Command((*starter, "-m", "venv", folder)),)


def library_path_hook(context: Context, folders: Iterable[str]) -> tuple[Command, ...]:
    """Put folders on the loader's path whenever the environment is activated."""
    prefix = context.facts.python.prefix
    plain = [folder for folder in dict.fromkeys(folders) if re.fullmatch(r"[~\w./+-]+", folder)]
    if not plain or not isinstance(prefix, Known) or not re.fullmatch(r"[~\w./+-]+", prefix.value):
        return ()
    if _is(context.facts.python.kind, "conda"):
        return (Command(("conda", "env", "config", "vars", "set", f"LD_LIBRARY_PATH={':'.join(plain)}")),)
    if _is(context.facts.python.kind, "system"):
        return ()  # nothing activates it
    from envcheck.model.writing import writing_argv
    from envcheck.rules.loader_hook import venv_writings

    launcher, hook = map(writing_argv, venv_writings(context, prefix.value, plain))
    return (Command(launcher), Command(hook, "environment", "Then activate it again."))


def activate(context: Context) -> tuple[Command, ...]:
    """Activate the inspected environment."""
    prefix = context.facts.python.prefix
    if not isinstance(prefix, Known) or not re.fullmatch(r"[~\w./+-]+", prefix.value):
        return ()
    if _is(context.facts.python.kind, "conda"):
        return (Command(("conda", "activate", prefix.value)),)
    return (Command((".", posixpath.join(prefix.value, "bin", "activate"))),)


def _pip(python: str, requirements: tuple[str, ...], index: str, *, force: bool) -> Command:
    for text in requirements:
        if not is_requirement(text):
            raise ValueError(text)
    if index and not re.fullmatch(_INDEX, index):
        raise ValueError(index)
    options = ("--force-reinstall",) if force else ()
    return Command(
        (python, "-m", "pip", "install", *options, *requirements, *(("--index-url", index) if index else ()))
    )


def _is(fact: Fact[str], value: str) -> bool:
    return isinstance(fact, Known) and fact.value == value


def _is_true(fact: Fact[bool]) -> bool:
    return isinstance(fact, Known) and fact.value
