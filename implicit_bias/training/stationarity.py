"""The stationarity that Theorem 3.1 asks of the limit of gradient descent."""

import copy
from dataclasses import dataclass, field

import numpy as np
import scipy.optimize
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn
from torch.nn import Parameter

from implicit_bias.ground.checks import Array, InputError, as_floats, as_positive, as_signs, check_size
from implicit_bias.ground.scaling import length
from implicit_bias.ground.threads import one_thread
from implicit_bias.networks.base import GatedNetwork
from implicit_bias.training.homogeneous import DEVIATION, homogeneous_parameters


@dataclass(frozen=True, eq=False)
class Stationarity:
    """How far a network is from ŵ = Σ_i λ_i y_i ∇f_ŵ(x_i), λ ≥ 0 on the samples of minimum margin.

    Attributes
    ----------
    residual : float
        min_λ ‖ŵ − Σ_i λ_i y_i ∇f_ŵ(x_i)‖, from 0 (stationary) to 1.
    dual : array, shape (n,)
        The minimising λ, 0 away from the minimum margin.
    support : int
        Number of samples that λ may use.
    margin : float
        min_i y_i f_ŵ(x_i), the normalised margin.
    degree : float
        L, as ⟨ŵ, ∇f_ŵ(x)⟩/f_ŵ(x) gives it.

    Examples
    --------
    >>> from implicit_bias.training.stationarity import Stationarity
    >>> Stationarity.__name__
    'Stationarity'
    """

    residual: float
    dual: Array = field(repr=False)
    support: int
    margin: float
    degree: float


def stationarity(network: nn.Module, X: ArrayLike, y: ArrayLike, tolerance: float = 0.05) -> Stationarity:
    """The stationarity residual of Theorem 3.1, by non-negative least squares, at the direction ŵ = w/‖w‖.

    minimise ‖ŵ − Σ_i λ_i y_i ∇f_ŵ(x_i)‖ over λ ≥ 0, λ_i = 0 unless y_i f_ŵ(x_i) ≤ (1 + tolerance) min_j y_j f_ŵ(x_j)

    Where ReLU units with learned gates sit on a kink for a supporting sample, ∇f is the one gradient that torch picks
    out of Clarke's subdifferential, and the residual is an upper bound only.

    Parameters
    ----------
    network : torch module, homogeneous in its trainable parameters
        Any, of outputs (n,) for inputs (n, d), not only the networks of this toolkit. It is left as it is; the
        computation is in float64. A GLN's readout bias takes no part, and must be 0.
    X : array, shape (n, d); y : array of −1 and +1, shape (n,)
    tolerance : float
        How close to the minimum margin a sample must be to count.

    Raises
    ------
    InputError
        For bad arrays, outputs of another shape, or a network that does not separate the samples or is not
        homogeneous.

    Examples
    --------
    >>> import torch
    >>> from implicit_bias.training.stationarity import stationarity
    >>> linear = torch.nn.Sequential(torch.nn.Linear(2, 1, bias=False), torch.nn.Flatten(0))
    >>> _ = linear[0].weight.data.copy_(torch.tensor([[1.0, 0.0]]))
    >>> stationarity(linear, [[1.0, 3.0], [-1.0, 3.0]], [1, -1]).residual < 1e-12
    True
    """
    if not isinstance(network, nn.Module):
        raise InputError(f"stationarity takes a torch module, not {type(network).__name__}")
    X = as_floats(X, "X", 2)
    signs = as_signs(y, len(X))
    as_positive(tolerance, "tolerance")
    unit = copy.deepcopy(network).cpu().double().eval()
    parameters = homogeneous_parameters(unit)
    # Two steps, for no square must overflow or vanish.
    for size in (_largest, _length):
        norm = size(parameters)
        if not 0 < norm < np.inf:
            raise InputError(f"the network's weights have norm {norm:g}, so they have no direction")
        for parameter in parameters:
            parameter.data = parameter.data / norm
    with one_thread():
        q = signs * _outputs(unit, X).detach().numpy()
        if not q.min() > 0:
            raise InputError(
                f"the network does not separate the samples (normalised margin {q.min():.2g}); train it further"
            )
        support = np.flatnonzero(q <= (1 + tolerance) * q.min())
        A = _gradients(unit, X[support], signs[support], parameters)
        u = torch.cat([p.detach().flatten() for p in parameters]).numpy()
        weights, residual = _nonnegative(A, u)
        degree = _degree(unit, X, q, A @ u / q[support], parameters)
    dual = np.zeros(len(X))
    dual[support] = weights
    return Stationarity(residual, dual, len(support), float(q.min()), degree)


#: Samples whose gradients are taken at once.
CHUNK = 64


def _largest(parameters: list[Parameter]) -> float:
    return max((float(p.detach().abs().max()) for p in parameters if p.numel()), default=0.0)


def _length(parameters: list[Parameter]) -> float:
    return float(torch.sqrt(sum(((p.detach() ** 2).sum() for p in parameters), torch.zeros(()).double())))


def _outputs(network: nn.Module, X: Array) -> Tensor:
    arguments = network.tensors(X) if isinstance(network, GatedNetwork) else (torch.as_tensor(X),)
    try:
        outputs = network(*arguments)
    except RuntimeError as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"the network does not take inputs of shape {X.shape} ({reason})") from None
    if not isinstance(outputs, Tensor) or outputs.numel() != len(X):
        shape = tuple(outputs.shape) if isinstance(outputs, Tensor) else type(outputs).__name__
        raise InputError(f"the network must give outputs of shape ({len(X)},), not {shape}")
    if not outputs.requires_grad:
        raise InputError("the network's outputs have no gradient; its forward must not detach them or run without grad")
    return outputs.flatten()


def _gradients(network: nn.Module, X: Array, signs: Array, parameters: list[Parameter]) -> Array:
    """The gradients of y_i f(x_i) as rows, shape (n, number of weights)."""
    check_size(len(X) * sum(p.numel() for p in parameters), "the samples' gradients")
    rows = []
    for first in range(0, len(X), CHUNK):
        margins = torch.as_tensor(signs[first : first + CHUNK]) * _outputs(network, X[first : first + CHUNK])
        each = torch.eye(len(margins), dtype=torch.float64)
        gradients = torch.autograd.grad(margins, parameters, each, is_grads_batched=True, allow_unused=True)
        pairs = zip(gradients, parameters, strict=True)
        parts = [torch.zeros(len(margins), p.numel()) if g is None else g.flatten(1) for g, p in pairs]
        rows.append(torch.hstack(parts).numpy())
    return np.vstack(rows)


def _degree(network: nn.Module, X: Array, margins: Array, products: Array, parameters: list[Parameter]) -> float:
    """L = ⟨w, ∇q_i⟩/q_i, if f_{2w} = 2^L f_w for all samples; leaves the network at 2w."""
    degree = float(np.mean(products))
    for parameter in parameters:
        parameter.data = 2 * parameter.data
    doubled = np.abs(_outputs(network, X).detach().numpy())
    if not np.abs(doubled - 2**degree * margins).max() <= DEVIATION * doubled.max():
        raise InputError("the network is not homogeneous in its weights; take out its biases (a GLN's must be 0)")
    return degree


def _nonnegative(A: Array, u: Array) -> tuple[Array, float]:
    """min ‖u − Aᵀλ‖ over λ ≥ 0 for A (s, p) and u (p,): by a QR factorisation of [Aᵀ u], which keeps the residual."""
    lengths = length(A, axis=1)
    lengths[lengths == 0] = 1.0
    columns = np.column_stack([(A / lengths[:, None]).T, u])
    R = torch.linalg.qr(torch.as_tensor(columns), mode="r")[1].numpy()
    weights, residual = scipy.optimize.nnls(R[:, :-1], R[:, -1], maxiter=100 * len(A))
    return weights / lengths, float(residual)
