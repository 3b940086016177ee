"""Ends the program."""

raise SystemExit(7)
