"""A study measured run after run: what comes next, how long it takes, and who else is told."""
