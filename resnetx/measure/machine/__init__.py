"""The machine at hand: its GPUs and CPUs, what they did during a run, and what `doctor` says of them."""
