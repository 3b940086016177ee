"""Run small computations on each GPU and the CPU, each in its own process, and describe the results."""
