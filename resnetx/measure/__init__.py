"""Measuring: runs, their ranks, their machine, and how they are started and supervised."""
