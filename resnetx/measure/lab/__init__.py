"""The lab: ranks in network namespaces, joined by links that are shaped as a described system has them."""
