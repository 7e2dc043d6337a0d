"""What a machine is: systems as link graphs, and what copies and collectives cost on them (pure; no GPU needed)."""
