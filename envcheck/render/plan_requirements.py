"""A plan as a requirements file for pip and uv."""

from __future__ import annotations

from envcheck.model.plans import Plan, RequirementSet
from envcheck.render.inert import inert
from envcheck.render.plan_files import paths_hint, the_environment


def render_requirements(plan: Plan) -> str:
    """Render the requirements; exact and with hashes where the plan was verified. ValueError: not one file."""
    made = the_environment(plan)
    if not made.sets:
        raise ValueError("conda brings this plan's frameworks: ask for --format environment-yml.")
    if len(made.sets) > 1:
        raise ValueError("this plan installs from two indexes, which one file must not mix: ask for --format script.")
    lines = [f"# {inert(' and '.join(plan.requirements))}, Python {made.python}, {made.platform}"]
    lines += [f"# {inert(plan.verified)}"] if plan.verified else []
    lines += [f"# conda brings, beside what stands here: {inert(' '.join(made.packages))}"] if made.packages else []
    lines += paths_hint(made)
    return "\n".join([*lines, *_options(made.sets[0]), *(made.sets[0].pins or made.sets[0].requirements)]) + "\n"


def _options(wanted: RequirementSet) -> list[str]:
    index = [f"--index-url {wanted.index}"] if wanted.index else []
    return [*index, "--only-binary :all:", *(f"--no-binary {name}" for name in wanted.source_only)]
