"""Losses of margins, and of outputs at targets or classes, with their derivatives; targets as losses take them."""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, softplus

from implicit_bias._utils.checks import Array, InputError, as_floats, as_signs, as_targets, dimensions, one_of

Loss = Callable[[Tensor], Tensor]
#: ℓ(f, y) of outputs f (b,) or (b, q) and targets y: the losses of the samples, or their mean.
CustomLoss = Callable[[Tensor, Tensor], Tensor]


class MarginLoss(NamedTuple):
    """A loss ℓ(m) of margins m = y·f(x), and its derivative ℓ′(m), at a kink that of autograd."""

    value: Loss
    slope: Loss


MARGIN_LOSSES = {
    "logistic": MarginLoss(lambda margins: softplus(-margins), lambda margins: -torch.sigmoid(-margins)),
    "exponential": MarginLoss(lambda margins: torch.exp(-margins), lambda margins: -torch.exp(-margins)),
    "hinge": MarginLoss(lambda margins: torch.relu(1 - margins), lambda margins: -(margins < 1).to(margins.dtype)),
    "squared": MarginLoss(lambda margins: (1 - margins) ** 2, lambda margins: 2 * (margins - 1)),
}


def log_sum_exp(margins: Tensor) -> Tensor:
    """Return log Σ_i exp(−q_i) of margins q (n,), without overflow."""
    return torch.logsumexp(-margins, 0)


def _crammer_singer(outputs: Tensor, classes: Tensor) -> Tensor:
    others = outputs.scatter(2, classes[..., None], -torch.inf).amax(dim=2)
    return torch.relu(1 + others - outputs.gather(2, classes[..., None])[..., 0])


#: ℓ(f, y) of outputs f (R, b, q) at classes y (R, b), shape (R, b).
CLASS_LOSSES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "logistic": lambda outputs, classes: cross_entropy(outputs.transpose(1, 2), classes, reduction="none"),
    "hinge": _crammer_singer,
}


def check_loss(loss: Any, names: Iterable[str]) -> None:
    """Raise InputError unless a loss is one of `names` or a function."""
    if isinstance(loss, str) or not callable(loss):
        one_of(loss, names, "loss")


def mean_losses(outputs: Tensor, targets: Tensor, loss: str | CustomLoss) -> Tensor:
    """Return the mean losses (R,) of outputs (R, b, q) at targets (R or 1, b, q), or at classes (R or 1, b).

    >>> mean_losses(torch.tensor([[[2.0], [0.5]]]), torch.tensor([[[1.0], [-1.0]]]), "hinge").tolist()
    [0.75]
    """
    if not isinstance(loss, str):
        every = targets.expand(len(outputs), *targets.shape[1:])
        return torch.stack([_custom_mean(loss, one, target) for one, target in zip(outputs, every, strict=True)])
    if loss == "squared":
        return ((outputs - targets) ** 2).mean(dim=(1, 2))
    if outputs.shape[2] == 1:
        return MARGIN_LOSSES[loss].value((outputs * targets)[..., 0]).mean(dim=1)
    return CLASS_LOSSES[loss](outputs, targets.expand(outputs.shape[:2])).mean(dim=1)


def _custom_mean(loss: CustomLoss, outputs: Tensor, targets: Tensor) -> Tensor:
    outputs, targets = (each[:, 0] if each.ndim == 2 and each.shape[1] == 1 else each for each in (outputs, targets))
    try:
        values = loss(outputs, targets)
    except (TypeError, RuntimeError, ValueError, IndexError) as error:
        reason = (str(error) or type(error).__name__).splitlines()[0]
        text = f"the loss fails on outputs {tuple(outputs.shape)} and targets {tuple(targets.shape)}, {targets.dtype}"
        raise InputError(f"{text} ({reason}); it takes (outputs, targets)") from None
    shapes = ((), (len(outputs),), outputs.shape)
    if not isinstance(values, Tensor) or values.shape not in shapes or not values.dtype.is_floating_point:
        given = f"shape {tuple(values.shape)}" if isinstance(values, Tensor) else type(values).__name__
        text = f"the loss must return a tensor, one number or one for each of the {len(outputs)} samples"
        raise InputError(f"{text}, not {given}")
    if outputs.requires_grad and not values.requires_grad:
        raise InputError("the loss has no gradient; compute it from the outputs with torch functions")
    return values.mean()


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
