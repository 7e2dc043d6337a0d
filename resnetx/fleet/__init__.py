"""Which nodes of a fleet, and pairs of nodes, are slow, and why, most likely."""
