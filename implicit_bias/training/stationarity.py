"""Stationarity of the limit of gradient descent, as Theorem 3.1 states it."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import scipy.optimize
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn
from torch.nn import Parameter

from implicit_bias._utils.checks import Array, InputError, as_floats, as_positive, check_size, one_of
from implicit_bias._utils.floats import length
from implicit_bias._utils.threads import one_thread
from implicit_bias.gates.modules import copied
from implicit_bias.networks.base import GatedNetwork, check_differentiable
from implicit_bias.training.homogeneous import DEVIATION, homogeneous_parameters
from implicit_bias.training.losses import as_aims

#: Samples whose gradients are taken at once.
CHUNK = 64
#: Difference up to which two degrees count as equal.
ALIKE = 1e-3


@dataclass(frozen=True, eq=False)
class Stationarity:
    """Distance of a network from ŵ = Σ_i λ_i ∇q_i(ŵ), λ ≥ 0 on the supporting samples.

    Attributes
    ----------
    residual : float
        min_λ ‖ŵ − Σ_i λ_i ∇q_i(ŵ)‖, q_i = y_i f_ŵ(x_i), from 0 (stationary) to 1.
    dual : array, shape (n,), or (n(K − 1),) for K > 1 outputs
        The minimising λ, 0 away from the support, in the order of `svm_classes`.
    support : int
        Number of samples in S, whose λ_i may be positive.
    margin : float
        min_i q_i, the normalised margin.
    degree : float
        L, the lowest of the `degrees`.
    degrees : array, shape of `dual`
        ν_i of each sample's context, f_{cw}(x_i) = c^{ν_i} f_w(x_i).

    Examples
    --------
    >>> from implicit_bias.training.stationarity import Stationarity
    >>> Stationarity(0.25, dual=np.zeros(3), support=1, margin=0.1, degree=2.0, degrees=np.full(3, 2.0))
    Stationarity(residual=0.25, support=1, margin=0.1, degree=2.0)
    """

    residual: float
    dual: Array = field(repr=False)
    support: int
    margin: float
    degree: float
    degrees: Array = field(repr=False)


def stationarity(
    network: nn.Module, X: ArrayLike, y: ArrayLike, tolerance: float = 0.05, *, support: str | ArrayLike = "tight"
) -> Stationarity:
    """Compute the residual of Theorem 3.1 at the direction ŵ = w/‖w‖, by non-negative least squares.

        minimise ‖ŵ − Σ_i λ_i y_i ∇f_ŵ(x_i)‖  over  λ ≥ 0,  λ_i = 0 for i ∉ S,      q_i = y_i f_ŵ(x_i)

    If gates determine how many layers an input passes, contexts have different degrees ν_i. With one degree for all, S
    contains the samples of least margin q_i. With several degrees, `support` chooses S:

    'tight'
        S = {i: α^{ν_i} q_i = 1}, α = max_j q_j^{−1/ν_j}: the constraints of eq. 6 that are tight at w* = αŵ (eq. 27).
        The theorem states these conditions, the KKT conditions of eq. 6.
    'lowest'
        The samples of least margin among those of the lowest degree. Limits of gradient descent satisfy these
        conditions, not those of the theorem's statement (erratum 7).
    contexts γ(i), an array of shape (n,)
        S = ∪_γ {i: γ(i) = γ, q_i = m_γ}, m_γ the least margin of the context (eqs 7, 26, 30 and 80). These
        conditions follow from the proof, and are weaker than the others: if every sample has its own context, nearly
        all networks satisfy them.

    For K > 1 outputs the samples of these conditions are the pairs of a sample and another class c, with the margins
    q_ic = f_{y_i}(x_i) − f_c(x_i): the KKT conditions of `svm_classes`, of which the theorem does not speak.

    If a supporting sample lies on a kink of a ReLU unit with learned gates, ∇f is the element of Clarke's
    subdifferential that torch computes, and the residual is only an upper bound.

    Parameters
    ----------
    network : torch module, homogeneous in its trainable parameters; the degree may depend on the sample
        Any module with outputs (n,) or (n, K) for inputs (n, d), not only networks of this package. It does not change;
        the computation is in float64. The readout bias of a GLN is not part of w and must be 0.
    X : array, shape (n, d)
    y : array, shape (n,)
        Labels −1 and +1; for K > 1 outputs, classes 0 … K−1.
    tolerance : float
        S contains the samples whose margin exceeds the least one by at most this share.
    support : 'tight', 'lowest' or array of whole numbers, shape (n,)

    Raises
    ------
    InputError
        For bad arrays, outputs of another shape, a network that does not separate the samples or is not homogeneous,
        contexts of more than one degree each, and, for 'tight', one of several degrees that is not positive.

    References
    ----------
    Lippl, Abbott & Chung, Theorem 3.1 and its proof, B.1.

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
    as_positive(tolerance, "tolerance")
    if isinstance(support, str):
        one_of(support, ("tight", "lowest"), "support")
    elif len(support := as_floats(support, "support, the contexts,", 1)) != len(X):
        raise InputError(f"support has {len(support)} contexts for {len(X)} samples; use 'tight', 'lowest' or one each")
    unit = copied(network).cpu().double().eval()
    K = _outputs(unit, X).shape[1]
    aims = as_aims(y, len(X), K, "logistic")
    signs = aims[:, None]
    if K > 1:
        one_hot = np.eye(K)[aims.astype(int)]
        signs = (one_hot[:, None] - np.eye(K))[one_hot == 0]
        X = np.repeat(X, K - 1, axis=0)
        support = support if isinstance(support, str) else np.repeat(support, K - 1)
    parameters = homogeneous_parameters(unit)
    _normalise(parameters)
    with one_thread():
        q = _margins(unit, X, signs).detach().numpy()
        if not q.min() > 0:
            raise InputError(f"the network does not separate the samples (normalised margin {q.min():.2g}); train more")
        degrees = _degrees(unit, X, signs, q, parameters)
        chosen = np.flatnonzero(_ratios(q, degrees, support) <= 1 + tolerance)
        A = _gradients(unit, X[chosen], signs[chosen], parameters)
        u = torch.cat([p.detach().flatten() for p in parameters]).numpy()
        lengths = length(A, axis=1)
        lengths[lengths == 0] = 1.0
        # Only the triangle of [Aᵀ u] = QR matters for ‖u − Aᵀλ‖.
        R = torch.linalg.qr(torch.as_tensor(np.column_stack([(A / lengths[:, None]).T, u])), mode="r")[1].numpy()
        weights, residual = scipy.optimize.nnls(R[:, :-1], R[:, -1], maxiter=100 * len(A))
    dual = np.zeros(len(X))
    dual[chosen] = weights / lengths
    return Stationarity(float(residual), dual, len(chosen), float(q.min()), float(degrees.min()), degrees)


def _outputs(network: nn.Module, X: Array) -> Tensor:
    arguments = network.tensors(X) if isinstance(network, GatedNetwork) else (torch.as_tensor(X),)
    try:
        outputs = network(*arguments)
    except RuntimeError as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"the network does not take float64 inputs {X.shape} ({reason}); change it, or X") from None
    if not isinstance(outputs, Tensor) or len(X) not in (1, *outputs.shape[:1], outputs.numel()):
        shape = tuple(outputs.shape) if isinstance(outputs, Tensor) else type(outputs).__name__
        raise InputError(f"the network must give outputs of shape ({len(X)},) or ({len(X)}, K), not {shape}")
    check_differentiable(outputs)
    return outputs.reshape(len(X), -1)


def _normalise(parameters: list[Parameter]) -> None:
    """Divide the weights by the largest, then by their norm, so that no square overflows or underflows."""
    for order in (np.inf, 2.0):
        w = torch.cat([torch.zeros(1).double(), *(p.detach().flatten() for p in parameters)])
        norm = float(torch.linalg.vector_norm(w, order))
        if not 0 < norm < np.inf:
            raise InputError(f"the network's weights have norm {norm:g}, so they have no direction")
        for parameter in parameters:
            parameter.data = parameter.data / norm


def _margins(network: nn.Module, X: Array, signs: Array) -> Tensor:
    return (torch.as_tensor(signs) * _outputs(network, X)).sum(1)


def _gradients(network: nn.Module, X: Array, signs: Array, parameters: list[Parameter]) -> Array:
    check_size(len(X) * sum(p.numel() for p in parameters), "the samples' gradients")
    rows = []
    for first in range(0, len(X), CHUNK):
        margins = _margins(network, X[first : first + CHUNK], signs[first : first + CHUNK])
        each = torch.eye(len(margins), dtype=torch.float64)
        gradients = torch.autograd.grad(margins, parameters, each, is_grads_batched=True, allow_unused=True)
        pairs = zip(gradients, parameters, strict=True)
        parts = [torch.zeros(len(margins), p.numel()) if g is None else g.flatten(1) for g, p in pairs]
        rows.append(torch.hstack(parts).numpy())
    return np.vstack(rows)


def _degrees(network: nn.Module, X: Array, signs: Array, margins: Array, parameters: list[Parameter]) -> Array:
    """Return the ν_i with q_i(2w) = 2^{ν_i} q_i(w) and q_i(4w) = 4^{ν_i} q_i(w), given margins q_i(w) > 0."""
    sizes = []
    # Powers of 2, so that the weights are restored exactly.
    for factor in (2, 4):
        for parameter in parameters:
            parameter.data = factor * parameter.data
        sizes.append(np.abs(_margins(network, X, signs).detach().numpy()))
        for parameter in parameters:
            parameter.data = parameter.data / factor
    twice, fourfold = sizes
    with np.errstate(all="ignore"):
        degrees = np.log2(twice / margins)
        same = np.abs(fourfold - 4**degrees * margins) <= DEVIATION * fourfold
    if not same.all():
        raise InputError("the network is not homogeneous in its weights; take out its biases (a GLN's must be 0)")
    return degrees


def _ratios(q: Array, degrees: Array, support: str | Array) -> Array:
    """Return ratios (n,) ≥ 1, of which S contains those of at most 1 + `tolerance`."""
    if not isinstance(support, str):
        smallest = np.empty_like(q)
        for context in np.unique(support):
            members = support == context
            if np.ptp(degrees[members]) > ALIKE:
                raise InputError(f"the samples of context {context:g} have several degrees; each degree needs its own")
            smallest[members] = q[members].min()
        return q / smallest
    lowest = degrees <= degrees.min() + ALIKE
    if lowest.all() or support == "lowest":
        return np.where(lowest, q / q[lowest].min(), np.inf)
    if not degrees.min() > 0:
        raise InputError("some outputs do not grow with weights, so no scale makes all margins 1; use support='lowest'")
    return np.asarray(np.exp(degrees * (-np.log(q) / degrees).max() + np.log(q)))
