"""Plugins of the whole test suite, and time for the programs that its hosts start."""

from tests.patience import wait_out_programs

pytest_plugins = ("tests.listed_skips",)
wait_out_programs()
