"""The screen of each kind of result."""
