"""Ways in which a program or a file can be broken."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from tests.host.programs import write_script
from tests.patience import FOREVER

Break = Callable[[Path], None]


def _script(body: str) -> Break:
    def put(path: Path) -> None:
        write_script(path, body)

    return put


def _plain(path: Path) -> None:
    write_script(path, "echo never run", mode=0o644)


def _orphan(path: Path) -> None:
    path.write_text("#!/nowhere/sh\n", encoding="utf-8")
    path.chmod(0o755)


# Name -> how to put such a program at a path; and the reason a fact must give for each.
PROGRAMS: dict[str, tuple[Break, str]] = {
    "hangs": (_script(f"exec sleep {FOREVER}"), "timeout"),
    "garbage": (_script("head -c 3000 /dev/urandom | tr -d '0-9.'"), "unparsable"),
    "non-utf8": (_script(r"printf '\377\376\200 release \303\050'"), "unparsable"),
    "silent": (_script("exit 0"), "unparsable"),
    "endless": (_script("exec yes"), "unparsable"),
    "exit-255": (_script("echo broken >&2; exit 255"), "failed"),
    "crashes": (_script("kill -SEGV $$"), "crashed"),
    "orphan": (_orphan, "failed"),
    "not-executable": (_plain, "denied"),
    "directory": (lambda path: path.mkdir(), "absent"),
}


def _content(data: bytes) -> Break:
    def put(path: Path) -> None:
        path.write_bytes(data)

    return put


def _locked(path: Path) -> None:
    path.write_text("secret", encoding="utf-8")
    path.chmod(0)


# Name -> how to put such a file at a path.
FILES: dict[str, Break] = {
    "empty": _content(b""),
    "truncated": _content(b'{"cuda": {"name": "CUDA SDK", "vers'),
    "binary": _content(bytes(range(256)) * 8),
    "fifo": os.mkfifo,
    "folder": Path.mkdir,
    "loop": lambda path: path.symlink_to(path.name),
    "dangling": lambda path: path.symlink_to("nowhere"),
    "device": lambda path: path.symlink_to("/dev/zero"),
    "locked": _locked,
}
