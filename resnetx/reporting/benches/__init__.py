"""Reports of benches."""
