"""Run small computations on each GPU and the CPU, each in its own process."""
