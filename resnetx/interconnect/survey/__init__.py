"""From what other programs and the kernel say of a machine to its description as a system."""
