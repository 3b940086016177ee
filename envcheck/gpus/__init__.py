"""Judge what was read of the GPUs: who holds their memory, how to end it, and whether a job fits."""
