"""What collectives cost on a system: rings, trees, sends, and what is published or measured of them."""
