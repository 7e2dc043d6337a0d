"""This machine: its GPUs and CPUs, and what they did during a run."""
