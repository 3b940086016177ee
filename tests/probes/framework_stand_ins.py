"""Stand-ins for frameworks in real virtual environments: real ELF files of our own, real build_info contents."""

from __future__ import annotations

import subprocess
from pathlib import Path

BUILDS = Path(__file__).parent / "data" / "builds"
OPENER = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
const char *opened(const char *name) {
    void *handle = dlopen(name, RTLD_LAZY);
    struct link_map *map;
    if (!handle || dlinfo(handle, RTLD_DI_LINKMAP, &map)) return "";
    return map->l_name;
}
"""


def library(path: Path, *flags: str, source: str = "int x;", soname: str = "") -> Path:
    """Compile a shared library."""
    path.parent.mkdir(parents=True, exist_ok=True)
    code = path.with_suffix(".c")
    code.write_text(source, encoding="utf-8")
    named = f"-Wl,-soname,{soname or path.name}"
    command = [
        "gcc",
        "-shared",
        "-fPIC",
        named,
        "-Wl,--no-as-needed",
        "-o",
        str(path),
        str(code),
        *flags,
        "-ldl",
    ]
    subprocess.run(command, check=True, capture_output=True)
    code.unlink()
    return path


def cuda_library(folder: Path, soname: str, *flags: str, real: str = "") -> Path:
    """Compile a library with a name of CUDA's, behind a link where its real file has another name."""
    path = library(folder / (real or soname), *flags, soname=soname)
    if real:
        (folder / soname).symlink_to(real)
    return path


def tensorflow(site: Path, release: str, *flags: str, dist: str = "tensorflow") -> Path:
    """Install a fake TensorFlow that opens libraries like the real one; return the file that opens them."""
    package = site / "tensorflow"
    info = package / "python/platform/build_info.py"
    info.parent.mkdir(parents=True)
    info.write_bytes((BUILDS / f"{dist}-{release}-build_info.txt").read_bytes())
    (package / "__init__.py").touch()
    metadata(site, dist, release, "tensorflow")
    return library(package / "libtensorflow_framework.so.2", *flags, source=OPENER)


def metadata(
    site: Path, name: str, version: str, module: str = "", *, record: str = "", requires: str = ""
) -> None:
    """Write a .dist-info folder."""
    folder = site / f"{name.replace('-', '_')}-{version}.dist-info"
    folder.mkdir(parents=True)
    text = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{requires}\n"
    (folder / "METADATA").write_text(text, encoding="utf-8")
    (folder / "top_level.txt").write_text(module, encoding="utf-8")
    (folder / "RECORD").write_text(record, encoding="utf-8")
    (folder / "INSTALLER").write_text("pip\n", encoding="utf-8")
