"""Read a machine: one module per subject; `collection` runs them all."""
