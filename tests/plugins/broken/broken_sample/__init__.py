"""Plugins that are broken, each in its own way."""

NOTHING = None
FRAMEWORK = {"distributions": {"torch": "torch"}}
UNKNOWN_CELL = {"distributions": {"sitegrad": "sitegrad"}, "colour": "blue"}


def fail(*_: object) -> str:
    """Fail."""
    raise ValueError("broken on\npurpose")
