"""Judge the activity of GPUs: which processes hold memory, how to end them, and whether a job fits."""
