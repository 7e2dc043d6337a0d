"""Hypothesis draws the same examples in every run, without a time limit, and keeps none: a failure prints its own.

Imported for its effect by modules whose tests draw examples.
"""

from hypothesis import settings

settings.register_profile("resnetx", deadline=None, derandomize=True, database=None)
settings.load_profile("resnetx")
