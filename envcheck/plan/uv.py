"""Steps that make an environment with uv, which brings the Python where the machine has none."""

from __future__ import annotations

from envcheck.model.plans import Environment, RequirementSet, Step
from envcheck.plan.paths import interpreter, removal
from envcheck.plan.pip import install_step
from envcheck.rules.fixes_python import is_requirement


def environment_steps(made: Environment, base: str = "") -> tuple[Step, ...]:
    """Create the environment and install its requirements; `base` is the interpreter it is made with."""
    python = interpreter(made)
    create = Step(
        "create-environment",
        f"Create an environment with Python {made.python}.",
        ("uv", "venv", "--allow-existing", "--python", base or made.python, made.folder),
        verify=(python, "-c", "import sys; sys.exit(sys.prefix == sys.base_prefix)"),
        undo=removal(made),
        environment=made.folder,
    )
    return (create, *(_install(made, item, number) for number, item in enumerate(made.sets)))


def install_argv(python: str, wanted: RequirementSet) -> tuple[str, ...]:
    """Write uv's command for one set: wheels only, but for what has none; ValueError for no plain requirement."""
    for text in (*wanted.requirements, *wanted.kept):
        if not is_requirement(text):
            raise ValueError(text)
    options = ("--only-binary", ":all:", *(part for name in wanted.source_only for part in ("--no-binary", name)))
    index = ("--default-index", wanted.index) if wanted.index else ()
    return ("uv", "pip", "install", "--python", python, *options, *index, *wanted.requirements, *wanted.kept)


def uninstall_argv(python: str, names: tuple[str, ...]) -> tuple[str, ...]:
    """Write uv's command that removes distributions from an environment."""
    return ("uv", "pip", "uninstall", "--python", python, *names)


def _install(made: Environment, wanted: RequirementSet, number: int) -> Step:
    python = interpreter(made)
    return install_step(made, wanted, number, install_argv(python, wanted), ("uv", "pip", "check", "--python", python))
