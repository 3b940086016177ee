"""Put README.md on the package page, with links that work there: `links` in pyproject.toml is where they lead."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_RELATIVE = re.compile(r"\]\((?!https?:|#)(?=[^)])")


class ReadmeHook(MetadataHookInterface):
    """State the README; without an address of the repository its links stay relative."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Add the README to the metadata."""
        text = Path(self.root, "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {
            "content-type": "text/markdown",
            "text": _RELATIVE.sub(f"]({self.config['links']}", text),
        }
