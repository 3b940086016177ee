"""Write a renewed matrix where its user wants it, whole or not at all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from envcheck.host.file_changes import write_output
from envcheck.matrix.canonical import canonical_text
from envcheck.matrix.load import check_document
from envcheck.matrix.renew.errors import ArtifactError


def user_matrix() -> Path:
    """Return where a renewed matrix goes unless its user names a file."""
    import platformdirs

    return Path(platformdirs.user_data_dir("envcheck", appauthor=False)) / "compat_matrix.json"


def save_document(document: dict[str, Any], path: Path) -> None:
    """Check a document as a user's file is checked, then write it in canonical form; raises ArtifactError."""
    check_document(document, str(path))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_output(path, canonical_text(document))
    except OSError as error:
        raise ArtifactError(f"{path} cannot be written: {error.strerror}.") from error
