"""Labels and targets in the form that losses take."""

from typing import Any

import numpy as np

from implicit_bias._utils.checks import Array, InputError, as_floats, as_signs, as_targets, dimensions
from implicit_bias.training.losses import CLASS_LOSSES, CustomLoss


def as_aims(y: Any, samples: int, outputs: int, loss: str | CustomLoss, both: bool = True) -> Array:
    """Return y as floats in the form that `loss` needs for a network of q = `outputs`; raise InputError otherwise.

    'squared' needs real targets, other losses signs for q = 1, of both classes unless `both` is False, and classes
    0 … q − 1 for q > 1. A function takes real targets, and for q > 1 also classes.
    """
    has_classes = outputs > 1 and dimensions(y) == 1
    if loss == "squared" or not (isinstance(loss, str) or has_classes):
        targets = as_targets(y, samples)
        if targets.shape[1] != outputs:
            raise InputError(f"y has {targets.shape[1]} targets per sample for {outputs} output(s); give one each")
        return targets[:, 0] if outputs == 1 and dimensions(y) != 2 else targets
    if outputs == 1:
        return as_signs(y, samples, both=both)
    if isinstance(loss, str) and loss not in CLASS_LOSSES:
        raise InputError(f"several outputs take the losses squared, {', '.join(CLASS_LOSSES)}, not {loss}")
    classes = as_floats(y, "y", 1)
    if len(classes) != samples or not np.isin(classes, np.arange(outputs)).all():
        raise InputError(f"y must hold a class from 0 to {outputs - 1} for each of the {samples} samples")
    return classes


def are_signs(aims: Array) -> bool:
    """True for labels −1 and +1 of both classes."""
    return aims.ndim == 1 and np.array_equal(np.unique(aims), (-1.0, 1.0))
