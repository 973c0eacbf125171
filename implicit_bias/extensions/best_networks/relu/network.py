"""Units as a ReLU network, and the norm and margins of one, rounding counted."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from implicit_bias._utils.checks import Array, InputError
from implicit_bias._utils.rounding import UNIT, share
from implicit_bias._utils.scaling import length

if TYPE_CHECKING:
    from implicit_bias.networks import ReLUNetwork

#: Units shorter than this share of the longest are left out of a network.
IDLE = 1e-9
#: Units shorter than this share of the longest are no part of a vertex if others make up for them.
SHORT = 1e-6


def network_of(W: Array, positive: np.ndarray) -> ReLUNetwork:
    """The network of units w_h (k, d) whose outputs are added or taken away: a_h = ±√‖w_h‖, w_h/√‖w_h‖."""
    import torch

    from implicit_bias.networks import ReLUNetwork

    lengths = np.linalg.norm(W, axis=1)
    used = lengths > IDLE * lengths.max()
    if not used.any():
        raise InputError("these weights are all zero, and make no network")
    roots = np.sqrt(lengths[used])
    network = ReLUNetwork(W.shape[1], len(roots)).double()
    layers = (W[used] / roots[:, None], np.where(positive[used], roots, -roots)[None])
    with torch.no_grad():
        for layer, values in zip(network.layers, layers, strict=True):
            layer.copy_(torch.as_tensor(values))
    return network


def units_of(network: ReLUNetwork) -> tuple[Array, Array]:
    """|a_j| w_j of each unit (k, d), and the signs of a_j (k,), of a network of one hidden layer."""
    hidden, readout = (layer.detach().cpu().double().numpy() for layer in network.layers)
    return np.abs(readout[0])[:, None] * hidden, np.sign(readout[0])


def bound_of(network: ReLUNetwork, X: Array, y: Array, C: float = np.inf) -> tuple[float, Array]:
    """Σ_j |a_j|‖w_j‖ over the least margin, rounded up, infinity where one is not positive; and the margins (n,).

    With a finite C, Σ_j |a_j|‖w_j‖ and C times the slack that margins of 1 need.
    """
    hidden, readout = (layer.detach().cpu().double().numpy() for layer in network.layers)
    a, d = readout[0], X.shape[1]
    active = np.maximum(X @ hidden.T, 0.0)
    lost = share(d + 4) * (np.abs(X) @ np.abs(hidden).T) + share(len(a) + 4) * active
    margins = y * (active @ a)
    sure = margins - 2 * lost @ np.abs(a)
    norm = math.fsum((np.abs(a) * length(hidden, axis=1)).tolist()) * (1 + share(d + 16))
    if np.inf > C:
        slack = np.maximum(1 - sure, 0.0) * (1 + 4 * UNIT)
        return math.fsum([norm, *(C * slack).tolist()]) * (1 + 4 * UNIT), margins
    least = float(sure.min())
    return (norm / least * (1 + 4 * UNIT) if least > 0 else np.inf), margins


def basic(W: Array, signs: Array, X: Array, y: Array, C: float = np.inf) -> tuple[Array, Array]:
    """The least sum of multiples of these units with margins of 1, or slack at C: a vertex, of no more units than n.

    A simplex method's tolerance may leave units that it does without when asked again, of those it left, and so may
    units of nearly no length that others make up for.
    """
    from scipy.optimize import linprog

    units = W / length(W, axis=1)[:, None]
    outputs = (y[:, None] * signs) * np.maximum(X @ units.T, 0.0)
    slack = np.eye(len(X)) if np.inf > C else np.zeros((len(X), 0))
    costs = np.append(np.ones(len(W)), np.full(slack.shape[1], C))
    found = linprog(costs, A_ub=-np.hstack([outputs, slack]), b_ub=-np.ones(len(X)), method="highs-ds")
    lengths = found.x[: len(W)] if found.status == 0 else np.zeros(len(W))
    used = lengths > SHORT * lengths.max()
    if not used.any():
        return W, signs
    W, fewer = (units * lengths[:, None])[used], not used.all()
    return basic(W, signs[used], X, y, C) if fewer else (W, signs)
