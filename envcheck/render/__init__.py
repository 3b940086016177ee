"""Draw reports: one file per format."""
