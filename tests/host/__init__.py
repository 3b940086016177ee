"""Tests of the host room, on this very machine."""
