"""Record which files importing a framework, or what comes beside one, loads: by importing it in each given Python.

    python bench/record_imports.py jax /path/to/env/bin/python ... [--shadow] [--empty]
    python bench/record_imports.py torchvision /path/to/env/bin/python ... --shadow --empty

Adds each release to data/frameworks/imports/NAME-imports.json: the files of each distribution, as far as modules or
mapped libraries. With --shadow it also puts an empty file of each loaded module's name in front of the import, one by
one, and writes to data/frameworks/imported_modules.json which of them the import needs. With --empty it empties each
small __init__.py in a copy of the environment, and leaves those out that the import does without. The environment
should be fresh: what else is installed there may be imported, too.

Of torchvision and the like only that is recorded which importing their framework does not load; with --empty each
library and each package of the two is taken away instead, and left out where the import does without.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from envcheck.frameworks import framework_names, identity, imported_modules
from envcheck.matrix.companions import companion_row
from envcheck.model import numbers
from envcheck.rules.python import expand_places, normalize_path

DATA = Path(__file__).parents[1] / "data"
SMALL = 1000  # bytes
OPTIONAL = {"google/_upb/_message.so"}  # protobuf computes in Python where it does not load
CHILD = r"""
import json, os, sys
started = set(sys.modules)
name = sys.argv[1]
try:
    __import__(name)
except BaseException as error:
    sys.exit("no import: %r" % error)
site = os.path.dirname(os.path.dirname(os.path.abspath(sys.modules[name].__file__)))
library = os.path.dirname(os.__file__)
owners = {}
for entry in os.listdir(site):
    record = os.path.join(site, entry, "RECORD")
    if entry.endswith(".dist-info") and os.path.isfile(record):
        for line in open(record, encoding="utf-8"):
            owners[line.split(",")[0].strip('"')] = entry[:-10].rsplit("-", 1)
files, modules, standard = set(), set(), set()
for key, module in list(sys.modules.items()):
    path = vars(module).get("__file__") or ""  # to ask a lazy module for an attribute loads it
    if key in started or not path:
        continue
    path = os.path.abspath(path)
    if path.startswith(site + os.sep):
        files.add(os.path.relpath(path, site))
        modules.add(key.split(".")[0])
    elif path.startswith(library + os.sep):
        standard.add(key.split(".")[0])
if os.path.exists("/proc/self/maps"):
    mapped = {line.split(None, 5)[5].strip() for line in open("/proc/self/maps") if len(line.split(None, 5)) > 5}
    real = os.path.realpath(site)
    files.update(os.path.relpath(each, real) for each in mapped if each.startswith(real + os.sep))
found = {}
for path in sorted(files):
    if path in owners:
        found.setdefault("|".join(owners[path]), []).append(path)
print(json.dumps({"python": sys.version.split()[0], "files": found, "modules": sorted(modules),
                  "standard_library": sorted(standard)}))
"""


def main() -> int:
    """Record every given Python."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("framework")
    parser.add_argument("pythons", nargs="+")
    parser.add_argument("--shadow", action="store_true")
    parser.add_argument("--empty", action="store_true")
    options = parser.parse_args()
    path = DATA / "frameworks" / "imports" / f"{options.framework}-imports.json"
    loaded = read_document(path)
    for python in options.pythons:
        answer = import_in(python, options.framework)
        if answer is None:
            continue
        host = find_host(options.framework)
        if host:
            leave_out(answer, import_in(python, host), imported_modules(host)[0])
        unneeded = (
            find_unneeded(Path(python), options.framework, answer) if options.empty else set()
        )
        for owner, files in answer["files"].items():
            distribution, version = name_distribution(owner, options.framework)
            found = {normalize_path(each) for each in files if each not in unneeded} - OPTIONAL
            before = loaded[distribution].get(version)
            loaded[distribution][version] = found if before is None else before & found
        if options.shadow:
            record_shadows(python, options.framework, answer)
        path.write_text(write_document(options.framework, loaded), encoding="utf-8")
    return 0


def find_host(name: str) -> str:
    """Name the framework that a package comes beside: torch of torchvision; "" for a framework."""
    return "" if name in framework_names() else companion_row(name).frameworks[0]


def leave_out(answer: Any, host: Any, needed: frozenset[str]) -> None:
    """Leave out the files that importing the framework loads, and the standard library's modules that it needs."""
    loaded = {file for files in host["files"].values() for file in files}
    answer["files"] = {owner: sorted({*files} - loaded) for owner, files in answer["files"].items()}
    answer["files"] = {owner: files for owner, files in answer["files"].items() if files}
    answer["standard_library"] = sorted({*answer["standard_library"]} - needed)


def import_in(python: str, framework: str, folder: str = "") -> Any:
    """Import a framework in a Python and a folder, and return what it loads; None where it does not import."""
    with tempfile.TemporaryDirectory() as empty:
        environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONNOUSERSITE": "1"}
        environment.pop("PYTHONPATH", None)
        command = [python, "-c", CHILD, framework.replace("-", "_")]
        done = subprocess.run(
            command,
            cwd=folder or empty,
            env=environment,
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
        )
    if done.returncode:
        if not folder:
            print(f"{python}: {done.stderr[-300:]}", file=sys.stderr)
        return None
    return json.loads(done.stdout.splitlines()[-1])


def find_unneeded(python: Path, framework: str, answer: Any) -> set[str]:
    """Find the files that the import does without, in a copy of the environment.

    Tried are the small __init__.py below the uppermost folders; beside a framework libraries and
    its packages.
    """
    unneeded = set()
    with tempfile.TemporaryDirectory(dir=python.parents[2]) as folder:
        copy = Path(folder, "env")
        shutil.copytree(python.parents[1], copy, symlinks=True, copy_function=os.link)
        (site,) = copy.glob("lib/python*/site-packages")
        for names in list_tries(site, framework, answer["files"]):
            contents = {name: (site / name).read_bytes() for name in names}
            for name in names:
                (site / name).unlink()  # its other link is the environment's
                if name.endswith("__init__.py") and len(names) == 1:
                    (site / name).touch()
            if import_in(str(copy / "bin" / python.name), framework, folder) is not None:
                unneeded.update(names)
            for name, content in contents.items():
                (site / name).write_bytes(content)
    return unneeded


def list_tries(site: Path, framework: str, owned: dict[str, list[str]]) -> Iterator[list[str]]:
    """List what is emptied or taken away at once: beside a framework each library, and each of their own packages."""
    files = sorted(file for each in owned.values() for file in each)
    if not find_host(framework):
        small = (name for name in files if name.endswith("/__init__.py") and name.count("/") > 1)
        yield from ([name] for name in small if (site / name).stat().st_size < SMALL)
        return
    yield from ([name] for name in files if ".so" in name)
    packages: dict[str, list[str]] = defaultdict(list)
    for owner, names in owned.items():
        if name_distribution(owner, framework)[0] in {framework, find_host(framework)}:
            for name in names:
                packages["/".join(name.split("/")[:-1][:2])].append(name)
    kept = (".so", "__init__.py")  # a folder without __init__.py is a package, too
    tries = (
        [name for name in names if not any(part in name for part in kept)]
        for names in packages.values()
    )
    yield from filter(None, tries)


def name_distribution(owner: str, framework: str) -> tuple[str, str]:
    """Name a distribution; those that hold the framework's own module are one."""
    name, version = owner.split("|")
    name = name.lower().replace("_", "-").replace(".", "-")
    row = identity(find_host(framework) or framework)
    if row.distributions.get(name) == row.name:
        return row.name, version.partition("+")[0]
    return name, version.partition("+")[0]


def record_shadows(python: str, framework: str, answer: Any) -> None:
    """Import once for each module with an empty file of its name in the working directory."""
    path = DATA / "frameworks" / "imported_modules.json"
    document = json.loads(path.read_text(encoding="utf-8"))
    rows = {row["framework"]: row for row in document["frameworks"]}
    beside = {"beside": find_host(framework)} if find_host(framework) else {}
    row = rows.setdefault(
        framework, {"framework": framework, **beside, "needed": "", "loaded": "", "recorded": []}
    )
    module = framework.replace("-", "_")
    names = sorted({*answer["modules"], *answer["standard_library"]} - {module})
    dies = {name for name in names if dies_with_empty(python, framework, name)} | {module}
    others = set(names) - dies
    if row["recorded"]:
        needed, loaded = set(row["needed"].split()), set(row["loaded"].split())
        dies, others = needed & dies, (loaded | others | needed | dies) - (needed & dies)
    row["needed"], row["loaded"] = " ".join(sorted(dies)), " ".join(sorted(others))
    row["recorded"].append(f"{get_release(answer, framework)} in Python {answer['python']}")
    document["frameworks"] = list(rows.values())
    path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def dies_with_empty(python: str, framework: str, module: str) -> bool:
    """Tell whether the import dies where an empty file has the name of a module."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / f"{module}.py").write_text("", encoding="utf-8")
        return import_in(python, framework, folder) is None


def get_release(answer: Any, framework: str) -> str:
    """Return the release of the framework that was imported."""
    owners = (name_distribution(owner, framework) for owner in answer["files"])
    return next(f"{name} {version}" for name, version in owners if name == framework)


Loaded = dict[str, dict[str, set[str]]]


def read_document(path: Path) -> Loaded:
    """Read what is recorded already."""
    loaded: Loaded = defaultdict(dict)
    if not path.exists():
        return loaded
    for row in json.loads(path.read_text(encoding="utf-8"))["distributions"]:
        versions = {version: set[str]() for version in row["releases"]}
        for group in row["files"]:
            for place in expand_places(group["releases"]):
                for name in group["names"].split():
                    file = f"{group['folder']}/{name}".lstrip("/") + (
                        "" if ".so" in name else ".py"
                    )
                    versions[row["releases"][place]].add(file)
        loaded[row["name"]] = versions
    return loaded


def write_document(framework: str, loaded: Loaded) -> str:
    """Write the document: one line for each folder and list of releases."""
    today = dt.datetime.now(dt.timezone.utc).date().isoformat()
    citation = {
        "url_or_artifact": f"the wheels of {framework} and of what it requires",
        "locator": (
            f"python bench/record_imports.py {framework}: sys.modules and the mapped libraries"
            " after the import"
        ),
        "checked": today,
    }
    rows = ",\n".join(write_distribution(name, loaded[name]) for name in sorted(loaded))
    about = (
        "The files that importing the framework loads, for each recorded release of each"
        " distribution; "
    )
    about += "without libraries and small __init__.py that it was seen to do without."
    head = (
        f'{{\n "schema": "envcheck/imports/1",\n "about": "{about}",\n "framework":'
        f' "{framework}",\n'
    )
    return f'{head} "distributions": [\n{rows}\n ],\n "citation": {json.dumps(citation)}\n}}\n'


def write_distribution(name: str, versions: dict[str, set[str]]) -> str:
    """Write one distribution."""
    releases = sorted(versions, key=numbers)
    groups: dict[tuple[str, str], list[str]] = defaultdict(list)
    for file in sorted(set().union(*versions.values())):
        folder, _, base = file.rpartition("/")
        places = [place for place, release in enumerate(releases) if file in versions[release]]
        groups[join_places(places), folder].append(base.removesuffix(".py"))
    lines = (
        json.dumps({"releases": places, "folder": folder, "names": " ".join(names)})
        for (places, folder), names in sorted(groups.items())
    )
    files = ",\n   ".join(lines)
    return (
        f'  {{"name": "{name}", "releases": {json.dumps(releases)}, "files": [\n   {files}\n  ]}}'
    )


def join_places(places: list[int]) -> str:
    """Write places as ranges: 0, 1, 2, 5 to "0-2 5"."""
    parts: list[list[int]] = []
    for place in places:
        if parts and parts[-1][-1] == place - 1:
            parts[-1].append(place)
        else:
            parts.append([place])
    return " ".join(f"{part[0]}-{part[-1]}" if len(part) > 1 else str(part[0]) for part in parts)


if __name__ == "__main__":
    sys.exit(main())
