"""The differences between two machines, the most likely cause first."""
