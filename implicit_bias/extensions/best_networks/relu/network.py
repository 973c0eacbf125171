"""Conversion between units and ReLU networks, and bounds of a network's objective, including rounding errors."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from implicit_bias._utils.checks import Array, InputError
from implicit_bias._utils.floats import UNIT, length, share
from implicit_bias._utils.limits import Deadline
from implicit_bias._utils.missing import torch_is_needed

if TYPE_CHECKING:
    from implicit_bias.networks import ReLUNetwork

#: Length, relative to the longest unit, at or below which a unit is left out of a network.
INACTIVE = 1e-9
#: Length, relative to the longest unit, at or below which a unit is left out of a basic solution.
NONBASIC = 1e-6


def network_of(W: Array, positive: np.ndarray) -> ReLUNetwork:
    """Return the network of units w_h (k, d), but vanishing ones: a_h = ±√‖w_h‖, + where `positive`, and w_h/√‖w_h‖."""
    with torch_is_needed("a ReLU network"):
        import torch

        from implicit_bias.networks import ReLUNetwork

    lengths = np.linalg.norm(W, axis=1)
    used = lengths > INACTIVE * lengths.max()
    if not used.any():
        raise InputError("all weights are zero; a network needs at least one unit that is not")
    roots = np.sqrt(lengths[used])
    network = ReLUNetwork(W.shape[1], len(roots)).double()
    layers = (W[used] / roots[:, None], np.where(positive[used], roots, -roots)[None])
    with torch.no_grad():
        for layer, values in zip(network.layers, layers, strict=True):
            layer.copy_(torch.as_tensor(values))
    return network


def units_of(network: ReLUNetwork) -> tuple[Array, Array]:
    """Return |a_j| w_j of each unit (k, d) and the signs of a_j (k,), for one hidden layer w and a readout a."""
    hidden, readout = (layer.detach().cpu().double().numpy() for layer in network.layers)
    return np.abs(readout[0])[:, None] * hidden, np.sign(readout[0])


def bound_of(network: ReLUNetwork, X: Array, y: Array, C: float = np.inf) -> tuple[float, Array]:
    """Return the objective of a network, rounded up, and its margins y_i f(x_i) (n,), not rounded.

    For a hard margin the objective is Σ_j |a_j|‖w_j‖ divided by a lower bound of the smallest margin, or infinity if
    that bound is not positive. For a finite C it is Σ_j |a_j|‖w_j‖ + C Σ_i (1 − y_i f(x_i))_+.
    """
    hidden, readout = (layer.detach().cpu().double().numpy() for layer in network.layers)
    a, d = readout[0], X.shape[1]
    active = np.maximum(X @ hidden.T, 0.0)
    error = share(d + 4) * (np.abs(X) @ np.abs(hidden).T) + share(len(a) + 4) * active
    margins = y * (active @ a)
    lower = margins - 2 * error @ np.abs(a)
    norm = math.fsum((np.abs(a) * length(hidden, axis=1)).tolist()) * (1 + share(d + 16))
    if np.inf > C:
        slack = np.maximum(1 - lower, 0.0) * (1 + 4 * UNIT)
        return math.fsum([norm, *(C * slack).tolist()]) * (1 + 4 * UNIT), margins
    smallest = float(lower.min())
    return (norm / smallest * (1 + 4 * UNIT) if smallest > 0 else np.inf), margins


def basic_solution(
    W: Array, signs: Array, X: Array, y: Array, C: float = np.inf, deadline: Deadline | None = None
) -> tuple[Array, Array]:
    """Rescale units W (k, d) to the least Σ_j |a_j|‖w_j‖ + C Σ_i ξ_i, at a vertex: at most n of them remain.

    `signs` (k,) are those of a_j. Return the remaining units and their signs, or the given ones if the linear program
    fails or exceeds the time left until the `deadline`. The linear program is solved again with the remaining units
    until none is dropped: within its tolerance, the simplex method may keep units that a smaller program does not need,
    or nonbasic ones of nearly no length.
    """
    from scipy.optimize import linprog

    deadline = deadline or Deadline()
    units = W / length(W, axis=1)[:, None]
    outputs = (y[:, None] * signs) * np.maximum(X @ units.T, 0.0)
    slack = np.eye(len(X)) if np.inf > C else np.zeros((len(X), 0))
    costs = np.append(np.ones(len(W)), np.full(slack.shape[1], C))
    A, limit = -np.hstack([outputs, slack]), {"time_limit": deadline.left()}
    basic = linprog(costs, A_ub=A, b_ub=-np.ones(len(X)), method="highs-ds", options=limit)
    lengths = basic.x[: len(W)] if basic.status == 0 else np.zeros(len(W))
    used = lengths > NONBASIC * lengths.max()
    if not used.any():
        return W, signs
    W, fewer = (units * lengths[:, None])[used], not used.all()
    return basic_solution(W, signs[used], X, y, C, deadline) if fewer else (W, signs)
