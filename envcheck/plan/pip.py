"""Steps that make an environment with venv and pip."""

from __future__ import annotations

from envcheck.model.plans import IN_ENVIRONMENT, Environment, RequirementSet, Step
from envcheck.plan.paths import interpreter, removal, starter
from envcheck.plan.plan_data import plan_data
from envcheck.rules.fixes_python import is_requirement


def environment_steps(made: Environment, base: str = "") -> tuple[Step, ...]:
    """Create the environment and install its requirements; `base` is the interpreter it is made with."""
    python = interpreter(made)
    create = Step(
        "create-environment",
        f"Create an environment with Python {made.python}.",
        (*starter(made, base), "-m", "venv", made.folder),
        verify=(python, "-c", "import sys; sys.exit(sys.prefix == sys.base_prefix)"),
        undo=removal(made),
        environment=made.folder,
    )
    return (create, *install_steps(made))


def install_steps(made: Environment) -> tuple[Step, ...]:
    """Install the requirements of an environment that is there, its pip renewed where it may be too old for them."""
    python = interpreter(made)
    upgrade = Step(
        "upgrade-pip",
        f"Bring pip up to date: the wheels need pip {made.pip_too_old} or newer.",
        (python, "-m", "pip", "install", "--upgrade", plan_data().bundled_pip.last.get(made.python, "pip")),
        verify=(python, "-m", "pip", "--version"),
        environment=made.folder,
        lasting=IN_ENVIRONMENT,
    )
    installs = tuple(_install(made, item, number) for number, item in enumerate(made.sets))
    return (*((upgrade,) if made.pip_too_old else ()), *installs)


def install_argv(python: str, wanted: RequirementSet) -> tuple[str, ...]:
    """Write pip's command for one set: wheels only, but for what has none; ValueError for no plain requirement."""
    for text in (*wanted.requirements, *wanted.kept):
        if not is_requirement(text):
            raise ValueError(text)
    options = ("--only-binary=:all:", *(f"--no-binary={name}" for name in wanted.source_only))
    index = ("--index-url", wanted.index) if wanted.index else ()
    return (python, "-m", "pip", "install", *options, *index, *wanted.requirements, *wanted.kept)


def uninstall_argv(python: str, names: tuple[str, ...]) -> tuple[str, ...]:
    """Write pip's command that removes distributions from an environment."""
    return (python, "-m", "pip", "uninstall", "-y", *names)


def install_step(
    made: Environment, wanted: RequirementSet, number: int, argv: tuple[str, ...], verify: tuple[str, ...]
) -> Step:
    """Describe the installation of one of an environment's sets by the command of its installer."""
    exact = [text.partition("==")[0] for text in wanted.requirements if "==" in text]
    return Step(
        "install" if len(made.sets) == 1 else f"install-{number + 1}",
        f"Install {', '.join(exact)} with what {'they need' if len(exact) > 1 else 'it needs'}"
        + (" from an index of its own" if wanted.index else "")
        + (f"; {', '.join(wanted.kept)} must stay." if wanted.kept else "."),
        argv,
        verify=verify,
        environment=made.folder,
        lasting=IN_ENVIRONMENT,
    )


def _install(made: Environment, wanted: RequirementSet, number: int) -> Step:
    python = interpreter(made)
    return install_step(made, wanted, number, install_argv(python, wanted), (python, "-m", "pip", "check"))
