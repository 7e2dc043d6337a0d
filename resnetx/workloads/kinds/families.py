"""Families: models of a stem, x blocks that are alike, and a head, whose counts are arithmetic for any x.

A family's settings have `x`; its table is `workloads.tables.families`. What each dial does to the work per parameter
is in docs/families.md.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from resnetx.choices import GptXSettings, MlpXSettings, ResNetXSettings
from resnetx.workloads.kinds.kind import Kind

if TYPE_CHECKING:
    from torch import Tensor, nn

Member = TypeVar("Member", ResNetXSettings, GptXSettings, MlpXSettings)


class Family(Kind[Member]):
    """What families have in common."""

    checked_by_table = False

    def total(self, model: Member, count: Callable[[Member], int]) -> int:
        """From the sums of the members with one block and with two, as each block adds the same."""
        one, two = (count(msgspec.structs.replace(model, x=x)) for x in (1, 2))
        return one + (model.x - 1) * (two - one)


class GptXKind(Family[GptXSettings]):
    def build(self, model: GptXSettings, image_size: int) -> "nn.Module":
        from resnetx.workloads import gptx

        return gptx.GptX(model.x, model.width, model.attention_heads, model.seq, model.vocabulary)

    def loss(self, outputs: Any, labels_N: "Tensor") -> "Tensor":
        """Of the next token, at every place of every sequence."""
        return super().loss(outputs.flatten(0, 1), labels_N.flatten())

    def notes(self, model: GptXSettings, image_size: int) -> list[str]:
        return [
            f"a sample is a sequence of {model.seq:,} tokens. Training takes {1.5 * model.seq:,.0f} FLOP for each byte "
            "of gradients and sequence on a GPU (attention's own left out), whatever the width: docs/families.md",
            "Caffe has neither attention nor GELU: compare with other networks by convention=conv",
        ]


class MlpXKind(Family[MlpXSettings]):
    def build(self, model: MlpXSettings, image_size: int) -> "nn.Module":
        from resnetx.workloads import mlpx

        return mlpx.MlpX(model.x, model.width, model.classes, image_size)
