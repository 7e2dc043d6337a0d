"""Which links a reconfigurable node should have for a traffic, and what training gains by it."""
