"""Losses of what models return in training."""

from typing import Any

from torch import Tensor
from torch.nn import functional

AUXILIARY_WEIGHT = 0.3  # Szegedy et al. 2015, section 5


def with_auxiliary_classifiers(outputs: Any, labels_N: Tensor) -> Tensor:
    """Cross-entropy; auxiliary classifiers (outputs behind the first) count with their weight, absent ones are None."""
    if isinstance(outputs, Tensor):
        return functional.cross_entropy(outputs, labels_N)
    main, *auxiliary = (output for output in outputs if output is not None)
    loss = functional.cross_entropy(main, labels_N)
    for output in auxiliary:
        loss = loss + AUXILIARY_WEIGHT * functional.cross_entropy(output, labels_N)
    return loss
