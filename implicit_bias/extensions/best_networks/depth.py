"""How large the margins of a deep gated network can be, whatever its weights: a certified bound for every depth."""

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
    """What `margin_bound` found: no weights behind these gates have larger margins for their size.

    Attributes
    ----------
    lower_bound : float
        B with (‖w‖²/L)^{L/2} / min_i y_i f_w(x_i) ≥ B for all weights w of the network that separate the samples.
    objective : float
        The least Σ_p ‖ζ_p‖_* / min margin that was found, of weights that the paths do not share: B is at most this.
    dual : array, shape (n,)
        λ ≥ 0 that proves the bound: B is at most Σλ / max_p ‖G_p‖, in exact arithmetic.
    weights : array, shape (paths, outer contexts, contexts, d)
        The ζ of `objective`, each path's own.
    degree : int
        L.

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
        """(‖w‖²/L)^{L/2} / min_i y_i f_w(x_i) of a network with these gates, over the bound: 1 is proved to be optimal.

        Infinity if it does not separate the samples. Raises InputError for a GLN whose readout bias is not 0.
        """
        if any(bias.any() for bias in network.readout_biases()):
            raise InputError("the bound is for networks without a readout bias; set it to 0, as descend_to_limit does")
        margin = float((as_signs(y, len(X)) * network.decision_function(X)).min())
        size = (network.norm() ** 2 / self.degree) ** (self.degree / 2)
        return size / margin / self.lower_bound if margin > 0 else np.inf

    def decision_function(self, network: GatedNetwork, X: Any) -> Array:
        """The outputs (n,) of the relaxed problem's weights behind the network's gates."""
        X = as_floats(X, "X", 2)
        outer, first = _gates(network, X)
        outputs = np.zeros(len(X))
        for index, (j, h) in enumerate(itertools.product(range(outer.shape[1]), range(first.shape[1]))):
            if self.weights[index].any():
                values = np.einsum("nd,eCd->neC", X, self.weights[index])
                outputs += np.einsum("neC,ne,nC->n", values, outer[:, j], first[:, h])
        return outputs


def margin_bound(network: GatedNetwork, X: Any, y: Any, tol: float = 1e-3) -> MarginBound | None:
    """A lower bound on the weights' norm that margins of 1 need, for gates as they are: ours, for any depth L.

    Theorem 3.1 promises a stationary point of min ½‖w‖² s.t. y_i f_w(x_i) ≥ 1, which is not convex in w for L > 2, nor
    in any other coordinates that we know. With the gates fixed f_w sums over paths p = (h_1, …), a unit a gated layer,

        f_w(x) = Σ_p Σ_c Π_l 1(c_{h_l}(x) = c_l) ⟨ζ_{p,c}, x⟩,    ‖ζ_p‖_F = Π_l ‖W^{(l)}_{h_l ·, h_{l−1}}‖_F,

    for ζ_p is the outer product of each layer's weights over its contexts. The sum over all paths is a product of
    matrices of norms, at most that of their Frobenius norms, and means of squares exceed those of products:

        Σ_p ‖ζ_p‖_F ≤ Π_l ‖W^{(l)}‖_F ≤ (‖w‖²/L)^{L/2}

    As a matrix of the outer layers' contexts by those of the first (and inputs) ζ_p has rank one: ‖ζ_p‖_F is its
    nuclear norm. For all λ ≥ 0, with G_p = Σ_i λ_i y_i 1(…) x_i of that shape and ‖·‖ the spectral norm, therefore

        min_i y_i f_w(x_i) Σλ ≤ Σ_i λ_i y_i f_w(x_i) = Σ_p ⟨ζ_p, G_p⟩ ≤ max_p ‖G_p‖ · (‖w‖²/L)^{L/2}

    The best λ solves the dual of min Σ_p ‖ζ_p‖_* s.t. margins ≥ 1, paths sharing nothing. For one gated layer this is
    SVM-GLN (SVM-LC), and the bound is attained. For two it is the best that weights λ can prove: one path alone attains
    the second inequality. It is a margin problem over the gates of all paths in the `NuclearNorm`, and the bound is the
    lower one of its certificate, which counts its own rounding.

    Parameters
    ----------
    network : GatedLinearNetwork, FrozenReLUNetwork or ReLUNetwork
        Its gates only; of a ReLU network the present ones, and the bound is one for weights with that pattern alone.
    X : array, shape (n, d); y : array of −1 and +1, shape (n,)
    tol : float
        Relative distance of bound and objective that is asked for.

    Returns
    -------
    MarginBound, or None if paths with weights of their own, and hence the network, cannot separate the samples.

    Raises
    ------
    InputError
        For bad arrays and other networks.

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
    found = solve(MarginProblem(GatedFeatures(X, gates), signs, NuclearNorm(*each), name="the bound"), tol=tol)
    if found.status is Status.INTERRUPTED:
        raise KeyboardInterrupt
    if found.status.inseparable:
        return None
    weights = found.weights.reshape(paths, rows, contexts, -1)
    return MarginBound(found.lower_bound, found.objective, found.dual, weights, network.degree)


def _gates(network: GatedNetwork, X: Array) -> tuple[Array, Array]:
    """The gates of all paths through the outer layers (n, paths, contexts), and of the first (n, H, K)."""
    # Loads torch, which all other theory does without.
    from implicit_bias.networks import FrozenReLUNetwork, GatedLinearNetwork, ReLUNetwork
    from implicit_bias.networks.base import to_array

    network = network.freeze() if isinstance(network, ReLUNetwork) else network
    if isinstance(network, GatedLinearNetwork):
        shape = network.shape
    elif isinstance(network, FrozenReLUNetwork) and network.outputs == 1:
        shape = [(units, 1) for units in network.units]
    else:
        raise InputError(f"margin_bound takes a GLN or a ReLU network with one output, not {type(network).__name__}")
    found = network.contexts(X)
    assert found is not None
    each = np.split(to_array(found), np.cumsum([units for units, _ in shape])[:-1], axis=1)
    first, *others = [
        values[:, :, None] if contexts == 1 and isinstance(network, FrozenReLUNetwork)
        else np.eye(contexts)[values.astype(int)]
        for values, (_, contexts) in zip(each, shape, strict=True)
    ]  # fmt: skip
    outer = np.ones((len(X), 1, 1))
    for values in others:
        outer = np.einsum("njc,nhk->njhck", outer, values)
        outer = outer.reshape(len(X), outer.shape[1] * outer.shape[2], -1)
    return outer, first
