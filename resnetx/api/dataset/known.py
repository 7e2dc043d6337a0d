"""A published figure, and what two models say of it: the form that all sources of figures have."""

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass

from resnetx.record.score import FigurePrediction, PublishedFigure


@dataclass(frozen=True)
class KnownFigure:
    """A figure, and what two models say of it, asked only where a score is wanted; None: nothing."""

    figure: PublishedFigure
    own: Callable[[], FigurePrediction | None]
    alpha_beta: Callable[[], float | None]  # in the figure's unit


def id_of(*parts: object, source: str) -> str:
    """Readable, and told apart by the source: "allreduce/dgx1-p100/nccl2/8/64MiB/busbw/1c0ffe"."""
    words = [re.sub(r"[^\w.+-]+", "-", str(part)) for part in parts if part is not None]
    return "/".join([*words, hashlib.sha256(source.encode()).hexdigest()[:6]])


def nothing() -> None:
    """Of what a model has no figure for."""
