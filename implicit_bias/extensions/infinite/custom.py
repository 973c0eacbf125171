"""Activations of one's own, as functions of torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from implicit_bias._utils.checks import Array, InputError, check_callable, shown
from implicit_bias._utils.missing import torch_is_needed
from implicit_bias.extensions.infinite.activations import Activation

if TYPE_CHECKING:
    from torch import Tensor


def custom_activation(function: Callable[[Tensor], Tensor], name: str = "the function") -> Activation:
    """An activation σ of your own, entry by entry in torch; σ' by automatic differentiation.

    E[σ'(z)σ'(z')] is a Hermite series with coefficients by quadrature, made for σ' that is smooth but for a jump or
    bend at 0. The error of the quadrature is estimated by halving its panels; that of the tail is bounded. A feature
    of σ' much narrower than a panel (at most 1 wide, in units of a point's length), away from 0, may fall between the
    nodes of all of them: it is missed, and the estimate does not tell.

    Parameters
    ----------
    function : callable
        From a tensor of float64 to a tensor of the same shape and precision, differentiable by torch, each entry by
        itself; what is no such function raises InputError.
    name : str
        For messages.

    Examples
    --------
    >>> import torch
    >>> from implicit_bias.extensions.infinite.custom import custom_activation
    >>> from implicit_bias.extensions.infinite.gram import gram_matrix
    >>> wave = custom_activation(torch.sin)
    >>> gram_matrix([[1.0, 0.0], [0.6, 0.8]], wave).values.round(6).tolist()
    [[0.567668, 0.261665], [0.261665, 0.567668]]
    """
    with torch_is_needed("an activation of your own"):
        import torch

    check_callable(function, "the activation")
    if function is None or not isinstance(name, str):
        raise InputError(f"the activation must be a function with a name, not {shown(function)} and {shown(name)}")

    def at(z: Any) -> tuple[Tensor, Tensor]:
        """z as a tensor that gradients go to, and the function's values there."""
        tensor = torch.as_tensor(np.asarray(z, dtype=np.float64)).clone().requires_grad_()
        value = function(tensor)
        if not isinstance(value, torch.Tensor) or value.shape != tensor.shape or not value.requires_grad:
            raise InputError(
                f"{name} must map a tensor to one of the same shape that torch can differentiate; write it in torch"
            )
        if value.dtype != tensor.dtype:
            raise InputError(
                f"{name} maps float64 to {str(value.dtype).removeprefix('torch.')}, whose rounding hides what is asked "
                "for; keep float64 throughout"
            )
        return tensor, value

    def values(z: Any) -> Array:
        """φ(z)."""
        return at(z)[1].detach().numpy()

    def derivative(z: Any) -> Array:
        """φ'(z), by automatic differentiation."""
        tensor, value = at(z)
        (slope,) = torch.autograd.grad(value.sum(), tensor)
        return slope.numpy()

    derivative(np.array([-0.5, 0.5]))
    return Activation(name, values, derivative)
