"""Whole machines in a few words each, read by the real probes and judged by the real rules; none was recorded."""
