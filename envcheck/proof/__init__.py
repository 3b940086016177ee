"""What really runs here: the imports of an environment, and the smoke test."""
