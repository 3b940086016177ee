"""Start envcheck from one file, on a Python that has nothing else; older Pythons must be able to read this."""

import os
import sys

# Another Python runs files of the package for these; the others leave nothing behind.
NEED_FILES = {"fix", "fleet", "install", "smoke", "--smoke"}


def unpack(archive):
    """Return a folder with the content of the archive: in the user's cache, else a temporary one."""
    import hashlib
    import tempfile
    import zipfile

    with open(archive, "rb") as stream:
        name = hashlib.sha256(stream.read()).hexdigest()[:16]
    cache = os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "envcheck"
    )
    folder = os.path.join(cache, name)
    if os.path.isdir(folder):
        return folder
    try:
        os.makedirs(cache, exist_ok=True)
        new = tempfile.mkdtemp(dir=cache)
    except OSError:
        folder = new = tempfile.mkdtemp(prefix="envcheck-")
    with zipfile.ZipFile(archive) as content:
        content.extractall(new)
    if new != folder:
        try:
            os.rename(new, folder)
        except OSError:  # another process was first
            return new
    return folder


def start():
    """Run the command line; from its files where the command needs them."""
    if sys.version_info < (3, 10):
        sys.exit(
            "envcheck needs Python 3.10 or newer; this is Python %d.%d." % sys.version_info[:2]
        )
    archive = os.path.abspath(sys.path[0])
    if os.path.isfile(archive) and NEED_FILES.intersection(sys.argv[1:]):
        command = [sys.executable, unpack(archive)] + sys.argv[1:]
        if os.name != "nt":
            os.execv(sys.executable, command)
        import subprocess

        sys.exit(subprocess.call(command))
    from envcheck.cli import main

    main()


start()
