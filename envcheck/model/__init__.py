"""Facts, snapshots, findings and reports: frozen values that import nothing else of the project."""
