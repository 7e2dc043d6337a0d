"""A tuple that is a key of many caches: its hash is computed once.

A network's layers, or its gradients, are a hundred structs each, and a comparison asks for what follows from the same
ones at every point.
"""

from collections.abc import Iterable
from functools import cached_property
from typing import Any, TypeVar

T = TypeVar("T", covariant=True)


class HashedTuple(tuple[T, ...]):
    """A tuple like any other, equal to a plain one of the same items."""

    def __new__(cls, items: Iterable[T] = ()) -> "HashedTuple[T]":
        return items if isinstance(items, HashedTuple) else super().__new__(cls, items)

    @cached_property
    def _hash(self) -> int:
        return tuple.__hash__(self)

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[Any, ...]:
        """Without the hash, which is another one in another process: that of a string is."""
        return HashedTuple, (tuple(self),)
