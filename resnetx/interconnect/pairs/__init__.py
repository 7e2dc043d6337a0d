"""Copies between pairs of GPUs: what they cost, which are alike, and what stands out."""
