"""Smoke tests of frameworks and of the driver, on stand-ins."""
