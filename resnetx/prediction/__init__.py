"""What would happen: from a trace and a described system to iteration times. Pure arithmetic; loads no torch."""
