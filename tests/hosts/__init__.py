"""Recorded machines and the recorder."""
