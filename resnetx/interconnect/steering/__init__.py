"""Bandwidth steering: which links a node should have for a traffic, where its links can be rearranged.

    problem = steering_problem(traffic, built)      # [to][from]: bytes, and bandwidth units as the node is built
    best(problem).units                             # [to][from]: units that minimise the total RTL

RTL, the relative transmission latency of a pair, is its traffic over its units; a GPU's is the sum over what it sends,
a column of the matrices. The units of a source GPU are its own, so each source is a problem by itself: `exhaustive`
tries every division of its units, as the paper does, `greedy` gives one unit after the other to where it saves most.
Limits on what GPUs can receive tie the sources together: `receivers` solves that. docs/steer.md has the proofs.

Reference: Anderson et al. 2018, "Optically Connected and Reconfigurable GPU Architecture for Optimized Peer-to-Peer
Access" (MEMSYS), section 2.2.
"""
