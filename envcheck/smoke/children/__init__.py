"""Scripts that run in the inspected Python (3.6 or newer): its framework and the standard library, nothing of ours."""
