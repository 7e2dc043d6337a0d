"""Nodes and pairs of nodes beside the fleet and their description: which stand out, and why, most likely."""
