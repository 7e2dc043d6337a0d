"""Measuring a study: which run comes next, how long it takes, and experiment trackers."""
