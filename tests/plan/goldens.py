"""The plans whose every format is kept as text; `python -m tests.plan.goldens` writes them anew."""

from __future__ import annotations

from pathlib import Path

from envcheck.model import Plan
from envcheck.render.plan import render_file
from tests.plan.machines import machine, planned
from tests.plan.shown import render_plan_text

FOLDER = Path(__file__).parent / "golden"
PLANS: dict[str, Plan] = {
    "old-cuda-wheels": planned("tensorflow==2.12.*", on=machine("3.10", "535.104.05", "7.0")),
    "torch-of-its-index": planned(
        "torch==2.7.1+cu118", on=machine("3.11", "535.104.05", "8.9"), installer="uv"
    ),
    "conda-libraries": planned("tensorflow-gpu==1.15.*", on=machine("3.7", "470.256.02", "6.1")),
    "conda-builds": planned(
        "torch==2.5.1", on=machine("3.12", "550.54.14", "8.9"), installer="conda"
    ),
    "windows": planned("tensorflow==2.10.*", on=machine("3.10", "551.61", "8.6", "win_amd64")),
    "blocked": planned("tensorflow==2.15.*", on=machine("3.13")),
}
FILES = {
    "text": "txt",
    "script": "sh",
    "requirements": "in",
    "dockerfile": "dockerfile",
    "environment-yml": "yml",
}


def golden(name: str, form: str) -> Path:
    """Return where one plan in one format is kept."""
    return FOLDER / f"{name}.{FILES[form]}"


def text_of(plan: Plan, form: str) -> str:
    """Render a plan as the command does."""
    try:
        return render_plan_text(plan) if form == "text" else render_file(plan, form)
    except ValueError as error:
        return f"refused: --format {form}: {error}\n"


if __name__ == "__main__":
    for plan_name, plan in PLANS.items():
        for format_name in FILES:
            golden(plan_name, format_name).write_text(text_of(plan, format_name), encoding="utf-8")
