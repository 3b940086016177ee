"""Compose a small conda channel whose packages are real: a CPython, pip, wheels of the index, each repacked.

    python bench/conda_channel.py FOLDER [--pythons 3.7 3.8 3.11] [--wheels 3.11:jax==0.6.2 ...]

Needs `pip install conda-package-streaming py-rattler` and Pythons of pyenv. The channel lies in FOLDER/conda-forge, so
that FOLDER's address can be given as CONDA_CHANNEL_ALIAS. **It is a stand-in**: the packages' names, versions and build
strings are spelled as conda-forge spells them, their contents come from elsewhere, and `cudatoolkit` and `cudnn` hold
libraries that are empty.
"""

from __future__ import annotations

import argparse
import asyncio
import fnmatch
import hashlib
import io
import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from email.parser import Parser
from pathlib import Path
from typing import Any

SUBDIR = "linux-64"
LEFT_OUT = (
    "*/test/*",
    "*/tests/*",
    "*/__pycache__/*",
    "*/site-packages/*",
    "*/config-3*",
    "*/idlelib/*",
    "*/ensurepip/*",
)
CUDA_11 = (
    "cudart.so.11.0",
    "cublas.so.11",
    "cublasLt.so.11",
    "cufft.so.10",
    "curand.so.10",
    "cusolver.so.10",
    "cusparse.so.11",
)
# path in the environment -> where it comes from, or what it holds
Content = dict[str, "Path | bytes"]


def write_package(
    channel: Path, name: str, version: str, build: str, files: Content, **told: Any
) -> None:
    """Write one package; `told` goes into its index.json, `link` beside it and `prefix` is what text files hold."""
    from conda_package_streaming.create import conda_builder

    link, prefix, subdir = (
        told.pop("link", None),
        told.pop("prefix", ""),
        told.get("subdir", SUBDIR),
    )
    folder = channel / subdir
    folder.mkdir(parents=True, exist_ok=True)
    if (folder / f"{name}-{version}-{build}.conda").exists():
        return
    number = int(build.rpartition("_")[2]) if build.rpartition("_")[2].isdigit() else 0
    index = {
        "name": name,
        "version": version,
        "build": build,
        "build_number": number,
        "depends": [],
        **told,
    }
    info = {
        "index.json": {**index, "subdir": subdir},
        "paths.json": {"paths": [], "paths_version": 1},
    }
    if link:
        info["link.json"] = link
    import conda_package_streaming.create as streaming

    streaming.ZSTD_COMPRESS_LEVEL = 1
    with conda_builder(f"{name}-{version}-{build}", folder) as packed:
        for path, source in sorted(files.items()):
            info["paths.json"]["paths"].append(_add(packed, path, source, prefix))
        _bytes(packed, "info/files", "".join(f"{path}\n" for path in sorted(files)).encode())
        held = [entry for entry in info["paths.json"]["paths"] if "prefix_placeholder" in entry]
        if held:
            lines = [f'"{prefix}" "text" "{entry["_path"]}"\n' for entry in held]
            _bytes(packed, "info/has_prefix", "".join(lines).encode())
        for file, document in info.items():
            _bytes(packed, f"info/{file}", json.dumps(document, indent=1).encode())


def _add(packed: tarfile.TarFile, path: str, source: Path | bytes, prefix: str) -> dict[str, Any]:
    """Add a file, and describe it for paths.json."""
    if isinstance(source, Path) and source.is_symlink():
        packed.add(source, path, recursive=False)
        return {
            "_path": path,
            "path_type": "softlink",
            "sha256": hashlib.sha256(b"").hexdigest(),
            "size_in_bytes": 0,
        }
    data = source.read_bytes() if isinstance(source, Path) else source
    _bytes(
        packed,
        path,
        data,
        0o755 if isinstance(source, Path) and os.access(source, os.X_OK) else 0o644,
    )
    entry = {"_path": path, "path_type": "hardlink", "sha256": hashlib.sha256(data).hexdigest()}
    text = {"file_mode": "text", "prefix_placeholder": prefix}
    holds = bool(prefix) and b"\0" not in data and prefix.encode() in data
    return {**entry, "size_in_bytes": len(data), **(text if holds else {})}


def _bytes(packed: tarfile.TarFile, path: str, data: bytes, mode: int = 0o644) -> None:
    member = tarfile.TarInfo(path)
    member.size, member.mode, member.mtime = len(data), mode, 1700000000
    packed.addfile(member, io.BytesIO(data))


def add_python(channel: Path, minor: str) -> str:
    """Repack a CPython of pyenv; return its full version."""
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions")
    home = next(path for path in sorted(versions.glob(f"{minor}.*")))
    kept = [home / "bin" / name for name in ("python", "python3", f"python{minor}")]
    kept += [
        path
        for path in (home / "lib" / f"python{minor}").rglob("*")
        if not path.is_dir() and _is_kept(path)
    ]
    kept += [
        *(home / "lib").glob("libpython*.so*"),
        *(home / "include" / f"python{minor}").rglob("*.h"),
    ]
    files: Content = {str(path.relative_to(home)): path for path in kept}
    files[f"lib/python{minor}/site-packages/README.txt"] = b"Packages lie here.\n"
    write_package(
        channel,
        "python",
        home.name,
        "h0_0_cpython",
        files,
        prefix=str(home),
        depends=["__glibc >=2.17"],
    )
    return home.name


def _is_kept(path: Path) -> bool:
    return not any(fnmatch.fnmatchcase(str(path), pattern) for pattern in LEFT_OUT)


def add_wheels(channel: Path, minor: str, requirements: list[str]) -> None:
    """Install wheels of the index into a folder, and make each distribution that lies there a package."""
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        asked = [
            sys.executable,
            "-m",
            "pip",
            "install",
            "-q",
            "--target",
            name,
            "--python-version",
            minor,
        ]
        subprocess.run([*asked, "--only-binary=:all:", "--no-compile", *requirements], check=True)
        for metadata in sorted(home.glob("*.dist-info/METADATA")):
            _add_distribution(channel, minor, home, metadata)


def _add_distribution(channel: Path, minor: str, home: Path, metadata: Path) -> None:
    told = Parser().parsestr(metadata.read_text(encoding="utf-8"), headersonly=True)
    name, version = re.sub(r"[-_.]+", "-", told["Name"]).lower(), told["Version"]
    conda = {"tensorflow-cpu": "tensorflow", "torch": "pytorch"}.get(name, name)
    site = f"lib/python{minor}/site-packages"
    files: Content = {}
    for path in _recorded(metadata.with_name("RECORD")):
        if (home / path).is_file() and not path.startswith(".."):
            files[f"{site}/{path}"] = home / path
    files[f"{site}/{metadata.parent.name}/INSTALLER"] = b"conda"
    if conda == "tensorflow":
        files = _renamed(files, "tensorflow_cpu", "tensorflow")
    build = f"py{minor.replace('.', '')}h0_0"
    is_cpu = conda in ("tensorflow", "pytorch", "jaxlib")
    depends = [
        f"python {minor}.*",
        *sorted(set(_required(told.get_all("Requires-Dist") or [], home))),
    ]
    write_package(
        channel, conda, version, f"cpu_{build}" if is_cpu else build, files, depends=depends
    )


def _renamed(files: Content, old: str, new: str) -> Content:
    """Give a CPU wheel of another name the usual one, which conda-forge's build bears."""
    found: Content = {}
    for path, source in files.items():
        data: Path | bytes
        if (
            isinstance(source, Path)
            and source.name in ("METADATA", "RECORD")
            and f"/{old}-" in path
        ):
            text = source.read_text(encoding="utf-8").replace(f"{old}-", f"{new}-")
            data = re.sub(rf"(?m)^Name: {old.replace('_', '[-_]')}$", f"Name: {new}", text).encode()
        else:
            data = source
        found[path.replace(f"/{old}-", f"/{new}-")] = data
    return found


def _recorded(record: Path) -> Iterator[str]:
    for line in record.read_text(encoding="utf-8").splitlines():
        yield line.rsplit(",", 2)[0].strip('"')


def _required(texts: list[str], home: Path) -> Iterator[str]:
    """Name the requirements that were installed too, in the versions that pip chose."""
    stems = [
        path.name.removesuffix(".dist-info").partition("-") for path in home.glob("*.dist-info")
    ]
    there = {re.sub(r"[-_.]+", "-", name).lower(): version for name, _, version in stems}
    for text in texts:
        name = re.sub(r"[-_.]+", "-", re.split(r"[^A-Za-z0-9._-]", text, maxsplit=1)[0]).lower()
        if name in there and "extra ==" not in text:
            yield f"{name} {there[name]}"


def add_pip(channel: Path) -> None:
    """Repack pip as conda does: for every Python, its command made where it is linked."""
    with tempfile.TemporaryDirectory() as name:
        wanted = [
            sys.executable,
            "-m",
            "pip",
            "install",
            "-q",
            "--target",
            name,
            "--no-compile",
            "pip<24.1",
        ]
        subprocess.run(wanted, check=True)
        home = Path(name)
        kept = [
            path
            for path in home.rglob("*")
            if path.is_file() and path.relative_to(home).parts[0] != "bin"
        ]
        files: Content = {f"site-packages/{path.relative_to(home)}": path for path in kept}
        version = next(home.glob("pip-*.dist-info")).name.split("-")[1].removesuffix(".dist")
        link = {"noarch": {"type": "python", "entry_points": ["pip = pip._internal.cli.main:main"]}}
        told = {"noarch": "python", "subdir": "noarch", "depends": ["python >=3.7"]}
        write_package(
            channel,
            "pip",
            version,
            "pyhd8ed1ab_0",
            files,
            link={**link, "package_metadata_version": 1},
            **told,
        )


def add_cuda(channel: Path) -> None:
    """Add cudatoolkit 11.0 and its cudnn: the runtime is that of a wheel with the same soname, the rest is empty."""
    with tempfile.TemporaryDirectory() as name:
        wanted = [
            sys.executable,
            "-m",
            "pip",
            "install",
            "-q",
            "--target",
            name,
            "nvidia-cuda-runtime-cu11",
        ]
        subprocess.run(wanted, check=True)
        files: Content = {"lib/libdevice.10.bc": b""}
        files.update({f"lib/lib{each}": b"" for each in CUDA_11})
        files["lib/libcudart.so.11.0"] = Path(name, "nvidia/cuda_runtime/lib/libcudart.so.11.0")
        write_package(channel, "cudatoolkit", "11.0.3", "h0_0", files, constrains=["__cuda >=11"])
    held: Content = {"lib/libcudnn.so.8": b""}
    write_package(channel, "cudnn", "8.0.5.39", "ha5ca753_1", held, depends=["cudatoolkit 11.0.*"])


def index(channel: Path) -> None:
    """Write the repodata, as the real indexer does."""
    import rattler.index

    for subdir in (SUBDIR, "noarch"):
        (channel / subdir).mkdir(parents=True, exist_ok=True)
    asyncio.run(rattler.index.index_fs(channel, force=True))


def compose(folder: Path, pythons: list[str], wheels: list[str]) -> Path:
    """Write the whole channel below a folder; return where it lies."""
    channel = folder / "conda-forge"
    for minor in pythons:
        add_python(channel, minor)
    add_pip(channel)
    add_cuda(channel)
    for text in wheels:
        minor, _, requirement = text.partition(":")
        add_wheels(channel, minor, [requirement])
    index(channel)
    return channel


def main() -> int:
    """Compose a channel."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--pythons", nargs="*", default=["3.7", "3.8", "3.11"])
    parser.add_argument(
        "--wheels",
        nargs="*",
        default=[
            "3.11:jax==0.6.2",
            "3.11:jax==0.5.3",
            "3.11:tensorflow-cpu==2.16.2",
            "3.11:six==1.17.0",
        ],
    )
    asked = parser.parse_args()
    print(compose(asked.folder, asked.pythons, asked.wheels))
    return 0


if __name__ == "__main__":
    sys.exit(main())
