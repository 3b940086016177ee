"""Judge a snapshot: importing this room registers every rule."""

from envcheck.rules.catalogue import catalogue
from envcheck.rules.context import Context, Target
from envcheck.rules.engine import evaluate
from envcheck.rules.registry import RULES
from envcheck.rules.targets import TargetError

# Modules that hold rules, imported for their registration: one line each, alphabetical.
# isort: off
# isort: on

__all__ = ["RULES", "Context", "Target", "TargetError", "catalogue", "evaluate"]
