"""What all records share: the version of their schema, their kind of struct, and how they state a moment."""

from datetime import UTC, datetime

import msgspec

SCHEMA = 1


class RecordPart(msgspec.Struct, frozen=True, kw_only=True):
    """A record, or a part of one."""


def timestamp(epoch_s: float) -> str:
    """A moment as records have it: UTC, ISO 8601, to the millisecond."""
    return datetime.fromtimestamp(epoch_s, UTC).isoformat(timespec="milliseconds")
