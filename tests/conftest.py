"""Plugins of the whole test suite."""

pytest_plugins = ("tests.listed_skips",)
