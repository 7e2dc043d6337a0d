"""The dataset of published figures: one row a figure, from every file of `results/published`, in one form.

    python -m resnetx.api.dataset        writes results/published/figures.csv

A source is a function that yields its figures, each with what resnetx and the textbook's alpha-beta model say of it.
Another file of figures is another function in `sources.SOURCES`.
"""
