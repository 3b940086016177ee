"""Judge the activity of GPUs.

Which processes hold memory, how to end them, and whether a job fits.
"""
