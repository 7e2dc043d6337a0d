"""Flat buffers in which gradients are sent: each gradient has its place, and is scaled on its way there."""

from collections.abc import Iterable

import torch
from torch import nn


def copy_scaled(gradient: torch.Tensor, share: float, view: torch.Tensor) -> None:
    """Puts a rank's share of a gradient into its place in a message."""
    torch.mul(gradient, share, out=view)


class MessageBuffer:
    """One flat buffer, and the places of a group's gradients in it."""

    def __init__(self, parameters: list[nn.Parameter]) -> None:
        elements = sum(parameter.numel() for parameter in parameters)
        self.buffer = torch.zeros(elements, dtype=parameters[0].dtype, device=parameters[0].device)
        self.views: list[tuple[nn.Parameter, torch.Tensor]] = []
        offset = 0
        for parameter in parameters:
            # With the parameter's own strides (channels_last, say) the update reads both in the same order.
            view = self.buffer.as_strided(parameter.size(), parameter.stride(), offset)
            self.views.append((parameter, view))
            offset += parameter.numel()
        self.missing = len(parameters)


def trainable(parameters: Iterable[nn.Parameter]) -> list[nn.Parameter]:
    return [parameter for parameter in parameters if parameter.requires_grad]
