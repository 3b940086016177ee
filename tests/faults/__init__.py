"""Fault tests: the whole program on machines that misbehave."""
