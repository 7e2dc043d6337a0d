"""What records mean: readers of records, which measure nothing."""
