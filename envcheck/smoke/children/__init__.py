"""Scripts that run in the inspected Python (3.6 or newer).

Its framework and the standard library, nothing of ours.
"""
