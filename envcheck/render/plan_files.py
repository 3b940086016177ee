"""What the formats that describe one environment have in common."""

from __future__ import annotations

from envcheck.model.plans import Environment, Plan


def paths_hint(made: Environment) -> list[str]:
    """Say, as a comment, what a file cannot bring: the loader paths that an environment's activation sets."""
    folders = ", ".join(made.library_folders)
    said = f"# Its activation must put these folders on LD_LIBRARY_PATH (--format script does): {folders}"
    return [said] if folders else []


def the_environment(plan: Plan) -> Environment:
    """Return a plan's only environment; ValueError where it has two."""
    if len(plan.environments) != 1:
        raise ValueError("this plan needs two environments: plan for each framework by itself in this format.")
    return plan.environments[0]
