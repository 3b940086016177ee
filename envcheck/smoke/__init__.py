"""Run small computations on each GPU and the CPU, each in a process of its own, and say in words what happened."""
