"""Say whether GPU deep learning works on this machine, what is wrong, why, and what to type."""

__version__ = "0.1.0"
