"""Reports of steerings."""
