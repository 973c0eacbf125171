"""Certified bound on the margins of a deep gated network with fixed gates, for any depth and all weights."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from implicit_bias._utils.checks import Array, InputError, as_floats, as_positive, as_signs, check_size
from implicit_bias.features import GatedFeatures
from implicit_bias.margin.problem import MarginProblem
from implicit_bias.margin.solution import Status
from implicit_bias.norms import NuclearNorm
from implicit_bias.solvers import solve

if TYPE_CHECKING:
    from implicit_bias.networks import GatedNetwork


@dataclass(frozen=True, eq=False)
class MarginBound:
    """Certified bound on the margins of all networks with given gates, relative to their norm (`margin_bound`).

    Attributes
    ----------
    lower_bound : float
        B with (‖w‖²/L)^{L/2} / min_i y_i f_w(x_i) ≥ B for all weights w of the network that separate the samples.
    objective : float
        Σ_p ‖ζ_p‖_* of `weights` divided by their smallest margin. No λ proves a larger bound B than this. The weights
        need not be those of a network, because each path has its own.
    dual : array, shape (n,)
        λ ≥ 0 that proves the bound: B ≤ Σλ / max_p ‖G_p‖ in exact arithmetic.
    weights : array, shape (paths, outer contexts, contexts, d)
        ζ_p of each path p in the relaxed problem.
    degree : int
        The degree L.

    Examples
    --------
    >>> from implicit_bias.extensions.best_networks.depth import MarginBound
    >>> MarginBound(1.0, 1.1, np.ones(1), np.ones((1, 1, 1, 2)), 3).degree
    3
    """

    lower_bound: float
    objective: float
    dual: Array = field(repr=False)
    weights: Array = field(repr=False)
    degree: int

    def ratio(self, network: GatedNetwork, X: Any, y: Any) -> float:
        """Return (‖w‖²/L)^{L/2} / min_i y_i f_w(x_i) of a network with these gates, divided by the lower bound.

        A ratio of 1 proves that the network is optimal. The ratio is infinite if the network does not separate the
        samples.

        Raises
        ------
        InputError
            If a GLN has a readout bias other than 0.
        """
        if any(bias.any() for bias in network.readout_biases()):
            raise InputError("the bound requires a readout bias of 0; set it to 0, as descend_to_limit does")
        margin = float((as_signs(y, len(X)) * network.decision_function(X)).min())
        size = (network.norm() ** 2 / self.degree) ** (self.degree / 2)
        return size / margin / self.lower_bound if margin > 0 else np.inf

    def decision_function(self, network: GatedNetwork, X: Any) -> Array:
        """Return Σ_p ⟨ζ_p, 1_p(x) xᵀ⟩ (n,) for the relaxed problem's weights ζ_p and the gates 1_p of `network`."""
        X = as_floats(X, "X", 2)
        outer, first = _gates(network, X)
        outputs = np.zeros(len(X))
        for index, (j, h) in enumerate(itertools.product(range(outer.shape[1]), range(first.shape[1]))):
            if self.weights[index].any():
                values = np.einsum("nd,eCd->neC", X, self.weights[index])
                outputs += np.einsum("neC,ne,nC->n", values, outer[:, j], first[:, h])
        return outputs


def margin_bound(network: GatedNetwork, X: Any, y: Any, tol: float = 1e-3) -> MarginBound | None:
    """Bound from below the norm of all weights with margins of 1, for a network of any depth L with fixed gates.

    If the loss vanishes and the direction of the weights converges, the limit is by Theorem 3.1 of Lippl, Abbott &
    Chung (section 3.2) a stationary point of min ‖w‖² subject to y_i f_w(x_i) ≥ 1. For L > 2 this problem is not convex
    in w. This bound on its global optimum is ours; the page "The limit" derives it.

    For fixed gates, f_w sums over paths p with one unit per gated layer. ζ_p is the outer product of the weights along
    a path over their contexts, a matrix of rank one: outer contexts by first contexts and inputs. For all λ ≥ 0,

        Σ_p ‖ζ_p‖_* ≤ (‖w‖²/L)^{L/2},    min_i y_i f_w(x_i) Σλ ≤ Σ_p ⟨ζ_p, G_p⟩ ≤ max_p ‖G_p‖ · (‖w‖²/L)^{L/2}

    with G_p = Σ_i λ_i y_i 1(…) x_i, where 1(…) are the path's gates, and the spectral norm ‖·‖. The best λ solves the
    dual of min Σ_p ‖ζ_p‖_* subject to margins ≥ 1, where paths share no weights. This is a margin problem over the
    gates of all paths with the `NuclearNorm`; the lower bound is that of its certificate. For one gated layer it is
    SVM-GLN (SVM-LC), and the bound is attained. For two, no λ proves a better bound: one path attains the last
    inequality.

    Parameters
    ----------
    network : GatedLinearNetwork, FrozenReLUNetwork or ReLUNetwork
        Only its gates are used. For a ReLU network they are the current ones, and the bound holds for weights with the
        same activation patterns.
    X : array, shape (n, d)
    y : array of −1 and +1, shape (n,)
    tol : float
        Relative gap between bound and objective at which the solver stops.

    Returns
    -------
    MarginBound or None
        None if not even paths with separate weights can separate the samples.

    Raises
    ------
    InputError
        If arrays are invalid or the network is of another kind.
    KeyboardInterrupt
        After Ctrl-C.

    Examples
    --------
    >>> from implicit_bias import GatedLinearNetwork, HyperplaneGates, LossScaled, descend_to_limit, load_binary
    >>> from implicit_bias.extensions.best_networks.depth import margin_bound
    >>> task = load_binary("digits", train_size=40)
    >>> X, y = task.X_train, task.y_train
    >>> network = GatedLinearNetwork([HyperplaneGates(2, 2, seed=s).fit(task.X_pool) for s in (1, 2)])
    >>> bound = margin_bound(network, X, y, tol=0.01)
    >>> descent = descend_to_limit(network, X, y, LossScaled(tolerance=0.05))
    >>> bound.degree, bool(1 < bound.ratio(network, X, y) < 3)
    (3, True)
    """
    X = as_floats(X, "X", 2)
    signs = as_signs(y, len(X))
    as_positive(tol, "tol")
    outer, first = _gates(network, X)
    (_, outside, rows), (_, inside, contexts) = outer.shape, first.shape
    paths = outside * inside
    check_size(len(X) * paths * rows * contexts, "the gates of all paths")
    gates = np.einsum("nje,nhc->njhec", outer, first).reshape(len(X), -1)
    each = np.repeat(np.arange(paths), rows * contexts), np.tile(np.repeat(np.arange(rows), contexts), paths)
    solution = solve(MarginProblem(GatedFeatures(X, gates), signs, NuclearNorm(*each), name="the bound"), tol=tol)
    if solution.status is Status.INTERRUPTED:
        raise KeyboardInterrupt
    if solution.status.inseparable:
        return None
    weights = solution.weights.reshape(paths, rows, contexts, -1)
    return MarginBound(solution.lower_bound, solution.objective, solution.dual, weights, network.degree)


def _gates(network: GatedNetwork, X: Array) -> tuple[Array, Array]:
    """Return the gate values (n, J, E) of J combinations of upper units, E of their contexts; first layer (n, H, C)."""
    layers = network.layer_gates(X) if hasattr(network, "layer_gates") else None
    if layers is None:
        raise InputError(f"network must be a GLN or a ReLU network with one output, not {type(network).__name__}")
    first, *others = layers
    outer = np.ones((len(X), 1, 1))
    for values in others:
        outer = np.einsum("njc,nhk->njhck", outer, values)
        outer = outer.reshape(len(X), outer.shape[1] * outer.shape[2], -1)
    return outer, first
