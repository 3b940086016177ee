"""An environment in which a real CPU build of TensorFlow 2 finds the stand-in GPU: a venv over the tester's own."""

from __future__ import annotations

import subprocess
from pathlib import Path

SOURCE = Path(__file__).with_name("tensorflow_gpu") / "standin_gpu.cc"
_WHERE = (
    "import importlib.util as u; print(u.find_spec('tensorflow').submodule_search_locations[0])"
)
_PACKAGES = "import sysconfig; print(sysconfig.get_paths()['purelib'])"


def make_tensorflow_env(python: str, folder: Path) -> Path:
    """Make a venv in `folder` that imports from `python`'s environment and holds the plugin; return its Python."""
    tensorflow = Path(_ask(python, _WHERE))
    subprocess.run([python, "-m", "venv", "--without-pip", str(folder)], check=True)
    made = folder / "bin" / "python"
    packages = Path(_ask(str(made), _PACKAGES))
    (packages / "under.pth").write_text(f"{tensorflow.parent}\n", encoding="utf-8")
    plugins = packages / "tensorflow-plugins"
    plugins.mkdir()
    libraries = ["-l:libtensorflow_framework.so.2", "-l:libtensorflow_cc.so.2"]
    flags = [
        "-std=c++17",
        "-O2",
        "-shared",
        "-fPIC",
        f"-isystem{tensorflow / 'include'}",
        "-Wall",
        "-Wextra",
    ]
    out = ["-o", str(plugins / "libstandin_gpu.so"), f"-L{tensorflow}", *libraries]
    subprocess.run(["g++", *flags, str(SOURCE), *out], check=True)
    return made


def _ask(python: str, code: str) -> str:
    asked = [python, "-I", "-c", code]
    return subprocess.run(asked, check=True, capture_output=True, text=True).stdout.strip()
