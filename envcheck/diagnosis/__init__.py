"""From facts to a finished report."""

from __future__ import annotations

from envcheck.diagnosis.diagnose import diagnose, with_remedies, with_steps

__all__ = ["diagnose", "with_remedies", "with_steps"]
