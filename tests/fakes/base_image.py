"""Stand-ins of the public images of Python: Debian with this machine's Python in /usr/local; nothing is pulled."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

LIBRARIES = {
    "bookworm": "libssl3 libreadline8",
    "trixie": "libssl3t64 libreadline8t64",
}
COMMON = "ca-certificates libffi8 libbz2-1.0 libsqlite3-0 liblzma5 zlib1g libncursesw6 libuuid1 libexpat1"
_DOCKERFILE = """FROM scratch
ADD debian.tar /
COPY python /usr/local
COPY pip.conf /etc/
COPY ca-certificates.crt /etc/ssl/certs/
ENV SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt
RUN ldconfig && python -m ensurepip && python -c "import ssl, ctypes, sqlite3, bz2, lzma"
CMD ["python3"]
"""


def write_base(context: Path, python: str, suite: str) -> None:
    """Write the build context of an image of Debian `suite` with a Python `python`; needs mmdebstrap and patchelf."""
    context.mkdir()
    packages = ",".join([*COMMON.split(), *LIBRARIES[suite].split()])
    system = [
        "mmdebstrap",
        "-q",
        "--variant=minbase",
        f"--include={packages}",
        suite,
        str(context / "debian.tar"),
    ]
    subprocess.run(system, check=True)
    _put_python(python, context / "python")
    shutil.copy("/etc/ssl/certs/ca-certificates.crt", context)
    (context / "pip.conf").write_text(
        "[global]\ncert = /etc/ssl/certs/ca-certificates.crt\ntimeout = 180\n"
    )
    (context / "Dockerfile").write_text(_DOCKERFILE)


def _put_python(python: str, target: Path) -> None:
    """Copy this machine's Python of a minor version, and have it find its library beside itself, wherever it lies."""
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions")
    found = max(versions.glob(f"{python}.*"))
    leave = shutil.ignore_patterns("test", "__pycache__", "site-packages", "*.a")
    shutil.copytree(found, target, symlinks=True, ignore=leave)
    (target / f"lib/python{python}/site-packages").mkdir()
    program = target / f"bin/python{python}"
    subprocess.run(["patchelf", "--set-rpath", "$ORIGIN/../lib", str(program)], check=True)
    for name in ("python", "python3"):
        (target / "bin" / name).unlink(missing_ok=True)
        (target / "bin" / name).symlink_to(program.name)
