"""Systems as link graphs: their parts, their files, and the paths through them."""
