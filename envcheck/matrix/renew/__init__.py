"""Renew and verify the matrix from the published wheels: index pages, metadata, a few texts; nothing is run."""
