"""How large the margins of a deep gated network can be, whatever its weights: a certified bound for every depth."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from implicit_bias.features import GatedFeatures
from implicit_bias.ground.checks import Array, InputError, as_floats, as_positive, as_signs, check_size
from implicit_bias.ground.rounding import share
from implicit_bias.ground.scaling import TINY, length
from implicit_bias.margin.norms import GroupLasso
from implicit_bias.margin.problem import MarginProblem
from implicit_bias.margin.solvers import Solution, solve

if TYPE_CHECKING:
    from implicit_bias.networks import GatedNetwork

#: Rounds in which matrices of contexts are added to the problem.
ROUNDS = 40


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

    >>> from implicit_bias.theory import MarginBound
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
        from implicit_bias.networks import GatedLinearNetwork

        if isinstance(network, GatedLinearNetwork) and network.readout is not None and network.readout.bias.any():
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
    the second inequality. It is solved as group lassos over unit vectors of outer contexts, which are added
    where G_p has a larger singular value than they show. Like the certificates of `solve`, the bound holds in exact
    arithmetic for the doubles of X and λ: the rounding of G_p and of its singular values is counted.

    Parameters
    ----------
    network : GatedLinearNetwork, FrozenReLUNetwork or ReLUNetwork
        Its gates only; of a ReLU network the present ones, and the bound is one for weights with that pattern alone.
    X : array, shape (n, d); y : array of −1 and +1, shape (n,)
    tol : float
        Relative distance of bound and objective at which rounds end.

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
    >>> from implicit_bias.theory import margin_bound
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
    paths, contexts = outer.shape[1] * first.shape[1], outer.shape[2]
    check_size(len(X) * paths * contexts * first.shape[2], "the gates of all paths")
    reduced, V = GatedFeatures(X).reduced()
    atoms = _Atoms(outer, first, reduced.X, signs)
    whole = atoms.solve(np.repeat(np.arange(paths), contexts), np.tile(np.eye(contexts), (paths, 1)), together=True)
    if whole.status.inseparable:
        return None
    best, dual, solution, chosen = 0.0, whole.dual, whole, (np.zeros(0, dtype=int), np.zeros((0, contexts)))
    for _ in range(ROUNDS):
        sizes, directions = atoms.singular(dual)
        if dual.sum() / sizes.max() > best:
            best, proof = dual.sum() / sizes.max(), dual / sizes.max()
        if len(chosen[0]) and solution.objective <= best * (1 + tol):
            break
        # Directions are added to those of weights that are not 0, and kept: the objective then only falls.
        new = np.flatnonzero(sizes > (1 + tol / 4) * (1.0 if len(chosen[0]) else sizes.max() / 2))
        chosen = (np.append(chosen[0], new), np.vstack([chosen[1], directions[new]]))
        solution = atoms.solve(*chosen)
        if solution.status.inseparable:
            missing = np.repeat(np.arange(paths), contexts), np.tile(np.eye(contexts), (paths, 1))
            chosen = (np.append(chosen[0], missing[0]), np.vstack([chosen[1], missing[1]]))
            solution = atoms.solve(*chosen)
        dual = solution.dual
    weights = atoms.weights(solution, *chosen) @ V.T
    proved = proof.sum() * (1 - share(len(X) + 2)) / _Atoms(outer, first, X, signs).largest(proof)
    return MarginBound(float(proved), float(solution.objective), proof, weights, network.degree)


def spectral_bound(G: Array) -> float:
    """A number that the largest singular value of G (m, n) does not exceed in exact arithmetic, and hardly more.

    ‖G‖ ≤ ‖U‖ max s ‖V‖ + ‖G − U diag(s) V‖_F for any U, s, V, and ‖U‖² ≤ 1 + ‖UᵀU − I‖_F: a decomposition need not be
    believed.

    >>> 5 <= spectral_bound(np.array([[3.0, 4.0]])) < 5 + 1e-13
    True
    """
    U, values, V = np.linalg.svd(G, full_matrices=False)
    terms, rank = share(G.size + 8), len(values)
    # By Cauchy-Schwarz every entry of the three products is a sum of terms whose sizes add up to at most max s.
    rest = length(G - (U * values) @ V) + 4 * terms * rank * values[0]
    left, right = (length(A @ A.T - np.eye(rank)) + 4 * terms * rank for A in (U.T, V))
    return float((values[0] * (1 + left) ** 0.5 * (1 + right) ** 0.5 + rest) * (1 + 2 * terms))


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


class _Atoms:
    """Group lassos whose groups are a path p and a unit vector u: the gates Σ_e u_e g_e(x) of the first layer's."""

    def __init__(self, outer: Array, first: Array, X: Array, y: Array) -> None:
        self.outer, self.first, self.X, self.y = outer, first, X, y

    def solve(self, paths: np.ndarray, directions: Array, together: bool = False) -> Solution:
        """The solution over these groups; `together` makes one group of all vectors of a path."""
        j, h = np.divmod(paths, self.first.shape[1])
        mixed = np.einsum("nae,ae->na", self.outer[:, j], directions)
        gates = (mixed[:, :, None] * self.first[:, h]).reshape(len(self.X), -1)
        groups = np.repeat(paths if together else np.arange(len(paths)), self.first.shape[2])
        return solve(MarginProblem(GatedFeatures(self.X, gates), self.y, GroupLasso(groups)))

    def sums(self, weighted: Array) -> Iterator[Array]:
        """G_p (outer contexts, contexts·d) of every path, for λ_i y_i x_i (n, d)."""
        for j, h in itertools.product(range(self.outer.shape[1]), range(self.first.shape[1])):
            gates = np.einsum("ne,nc->ecn", self.outer[:, j], self.first[:, h])
            yield (gates @ weighted).reshape(len(gates), -1)

    def singular(self, dual: Array) -> tuple[Array, Array]:
        """The largest singular value of every path's G_p, and its vector of outer contexts."""
        sizes, directions = [], []
        for G in self.sums((dual * self.y)[:, None] * self.X):
            left, values, _ = np.linalg.svd(G, full_matrices=False)
            sizes.append(values[0])
            directions.append(left[:, 0])
        return np.array(sizes), np.array(directions)

    def largest(self, dual: Array) -> float:
        """A number that max_p ‖G_p‖ does not exceed in exact arithmetic: entries are sums of n, the gates 0 and 1."""
        weighted = (dual * self.y)[:, None] * self.X
        pairs = zip(self.sums(weighted), self.sums(np.abs(weighted)), strict=True)
        rounding = 2 * share(len(self.X) + 2)
        return max(spectral_bound(G) + rounding * length(sizes) + G.size * TINY for G, sizes in pairs)

    def weights(self, solution: Solution, paths: np.ndarray, directions: Array) -> Array:
        """ζ (paths, outer contexts, contexts, rank)."""
        count = self.outer.shape[1] * self.first.shape[1]
        zeta = np.zeros((count, self.outer.shape[2], self.first.shape[2], self.X.shape[1]))
        each = solution.weights.reshape(len(paths), self.first.shape[2], -1)
        np.add.at(zeta, paths, np.einsum("ae,acd->aecd", directions, each))
        return zeta
