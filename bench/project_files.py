"""Judge the build files of real projects bare, as a first user would, and count the verdicts.

    python bench/project_files.py FOLDER [--list undetermined]

FOLDER holds one folder for each project. Each of its Dockerfiles, compose files, environment files,
requirements, pyproject.toml and lock files is judged from the project's root, without a driver, a
GPU or a goal. A file *names a framework* where a line that is no comment holds the name of one.
`--list VERDICT` prints the files of that verdict with what decided it.
"""

from __future__ import annotations

import argparse
import os
import re
from collections import Counter
from pathlib import Path

from envcheck import api
from envcheck.model import UserError

FRAMEWORK = re.compile(
    r"torch|tensorflow|\bjax|onnxruntime|cupy|vllm|sglang|deepspeed|rapidsai|keras|paddle|mxnet"
    r"|nemo|merlin",
    re.IGNORECASE,
)
KINDS = {
    "Dockerfile": r"[^/]*dockerfile[^/]*",
    "compose": r"[^/]*compose[^/]*\.ya?ml",
    "environment": r"env(?:ironment)?[^/]*\.ya?ml",
    "lock": r"[^/]*\.lock|pylock[^/]*\.toml|[^/]*conda-lock\.ya?ml",
    "project": r"pyproject\.toml",
    "requirements": r"[^/]*requirement[^/]*\.(?:txt|in)",
}


def main() -> None:
    """Judge the files and print the figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--list", default="", metavar="VERDICT")
    options = parser.parse_args()
    counts: Counter[tuple[str, bool, str]] = Counter()
    for project in sorted(item.resolve() for item in options.folder.iterdir()):
        os.chdir(project)
        for path in sorted(item for item in project.rglob("*") if item.is_file()):
            kind = _kind_of(path.name)
            if kind:
                file = str(path.relative_to(project))
                verdict, reasons = _judge(file)
                counts[kind, _names_framework(path), verdict] += 1
                if verdict == options.list:
                    print(project.name, file, *reasons, sep="\n    ")
    for kind in KINDS:
        for names in (True, False):
            found = {
                verdict: count
                for (k, n, verdict), count in counts.items()
                if (k, n) == (kind, names)
            }
            if found:
                print(kind, "with a framework" if names else "without one", found)


def _kind_of(name: str) -> str:
    matches = (
        kind for kind, pattern in KINDS.items() if re.fullmatch(pattern, name, re.IGNORECASE)
    )
    return next(matches, "")


def _names_framework(path: Path) -> bool:
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    return any(FRAMEWORK.search(line) for line in lines if not line.lstrip().startswith("#"))


def _judge(file: str) -> tuple[str, list[str]]:
    try:
        report = api.check(file=file).report
    except UserError as error:
        return "refused", [str(error)]
    return report.verdict, [item.message for item in report.findings if item.severity == "error"]


if __name__ == "__main__":
    main()
