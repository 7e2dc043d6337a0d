"""GPU clocks: locking one, keeping GPUs under load, and finding the highest clock that all sustain."""
