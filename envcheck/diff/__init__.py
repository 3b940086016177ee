"""What differs between two machines, most likely cause first."""
