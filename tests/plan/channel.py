"""A composed conda channel: the shape of a real one, its few packages made up for the solver alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

# name, version, build, depends, constrains
Row = tuple[str, str, str, tuple[str, ...], tuple[str, ...]]

# What the recipes of the real packages state of each other (cudatoolkit, cudnn, pytorch-cpu,
# tensorflow feedstocks).
LINUX: tuple[Row, ...] = (
    ("python", "3.7.12", "0_cpython", ("__glibc >=2.17",), ()),
    ("python", "3.10.13", "0_cpython", ("__glibc >=2.17",), ()),
    ("python", "3.12.7", "0_cpython", ("__glibc >=2.17",), ()),
    ("cudatoolkit", "10.0.130", "0", (), ("__cuda >=10.0",)),
    ("cudatoolkit", "11.2.2", "0", (), ("__cuda >=11",)),
    ("cudatoolkit", "11.8.0", "0", (), ("__cuda >=11",)),
    ("cudnn", "7.6.5.32", "cuda100_0", ("cudatoolkit 10.0.*",), ()),
    ("cudnn", "7.6.5.32", "cuda101_0", ("cudatoolkit 10.1.*",), ()),
    ("cudnn", "8.1.0.77", "cuda11_0", ("cudatoolkit 11.*",), ()),
    ("cudnn", "8.8.0.121", "cuda11_0", ("cudatoolkit 11.*",), ()),
    ("pytorch", "2.5.1", "cuda126_py312_0", ("python 3.12.*", "__cuda >=12", "__glibc >=2.17"), ()),
    ("pytorch", "2.5.1", "cpu_generic_py312_0", ("python 3.12.*",), ()),
    (
        "tensorflow",
        "2.16.1",
        "cuda120py310_0",
        ("python 3.10.*", "__cuda >=12", "__glibc >=2.28"),
        (),
    ),
    ("tensorflow", "2.16.1", "cpu_py310_0", ("python 3.10.*",), ()),
)
NOARCH: tuple[Row, ...] = (
    ("pip", "24.0", "0", (), ()),
    ("setuptools", "75.8.0", "0", (), ()),
    ("setuptools", "82.0.0", "0", (), ()),
)


def write_channel(folder: Path, name: str = "conda-forge") -> str:
    """Write the channel below a folder; return the alias below which it lies."""
    for subdir, rows in (("linux-64", LINUX), ("noarch", NOARCH), ("win-64", ())):
        place = folder / name / subdir
        place.mkdir(parents=True)
        records = {f"{row[0]}-{row[1]}-{row[2]}.conda": _record(row, subdir) for row in rows}
        document = {
            "info": {"subdir": subdir},
            "packages": {},
            "packages.conda": records,
            "repodata_version": 1,
        }
        (place / "repodata.json").write_text(json.dumps(document), encoding="utf-8")
    return folder.as_uri()


def _record(row: Row, subdir: str) -> dict[str, Any]:
    name, version, build, depends, constrains = row
    return {
        "name": name,
        "version": version,
        "build": build,
        "build_number": 0,
        "depends": list(depends),
        "constrains": list(constrains),
        "subdir": subdir,
        "md5": "0" * 32,
        "sha256": "0" * 64,
        "size": 1,
    }
