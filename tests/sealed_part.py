"""A part of a record, sealed as it would be in a record of its own."""

from typing import TypeVar

import msgspec

from resnetx.record import seal

Part = TypeVar("Part", bound=msgspec.Struct)


def sealed_part(part: Part) -> Part:
    """The part with its `Unknown` values made null, and its types checked."""
    record = msgspec.defstruct("_RecordOfOnePart", [("part", type(part)), ("unknown", dict[str, str])])
    return seal(record(part=part, unknown={})).part
