"""Rounds of pairs: everything meets everything else once, and in one round nothing meets two others.

Round-robin by the circle method: one stays, the others move on by a place each round (R. Lucas, "Récréations
mathématiques", 1883). N nodes need N - 1 rounds of N / 2 pairs; an odd number needs N, in each of which one pauses.
"""

from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


def rounds(nodes: Sequence[T]) -> list[list[tuple[T, T]]]:
    """All pairs, each in the order of `nodes`, in rounds of disjoint ones; none of fewer than two nodes."""
    places = list(range(len(nodes) + len(nodes) % 2))  # the last one of an odd number is a pause
    found = []
    for _ in places[1:]:
        met = zip(places[: len(places) // 2], reversed(places), strict=False)
        pairs = sorted((min(pair), max(pair)) for pair in met)
        found.append([(nodes[a], nodes[b]) for a, b in pairs if b < len(nodes)])
        places = [places[0], places[-1], *places[1:-1]]
    return [each for each in found if each]
