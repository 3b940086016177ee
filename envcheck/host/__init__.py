"""The only room that touches processes, files, the environment and foreign libraries."""
