"""The best chains: reweighted group lassos from several starts, and branch and bound over lengths, all certified."""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from implicit_bias._utils.checks import (
    Array,
    InputError,
    as_count,
    as_floats,
    as_seed,
    shown,
)
from implicit_bias._utils.rounding import UNIT, share
from implicit_bias.extensions.best_networks.chains.cost import POWER, Box, ChainCost, without_idle
from implicit_bias.extensions.best_networks.limits import Progress, run_with_limits, search_arguments
from implicit_bias.features import GatedFeatures
from implicit_bias.gates import Gates
from implicit_bias.margin.solution import Status
from implicit_bias.solvers import solve
from implicit_bias.solvers.base import as_tolerance

if TYPE_CHECKING:
    from implicit_bias.extensions.best_networks.chains.network import ChainNetwork

#: Layers of chains at most.
MOST_LAYERS = 100
#: Tolerance of the convex problems, as a share of the gap that is asked for.
FINER = 0.1
#: Most problems that one start is reweighted to.
REWEIGHTED = 100
#: The spread of the logarithms of the weights from which further starts begin.
SPREAD = 2.0


@dataclass(frozen=True, eq=False)
class BestChains:
    """Chains of L layers, and what is proved of all others (`best_chains`).

    Attributes
    ----------
    network : ChainNetwork or None
        Float64, balanced, margins of at least 1 but for rounding; None if nothing separates.
    weights : array, shape (k, d)
        Its effective weights ζ; NaN if nothing separates.
    objective : float
        F(ζ) = ‖w‖²/L of `network`, over the power 2/L of its least margin, rounded up: an upper bound of the optimum.
    lower_bound : float
        No chains behind these gates have less; rounded down, infinity if it is proved that nothing separates.
    gap : float
        (objective − lower_bound)/objective.
    convex_bound : float
        The lower bound from the convex problem alone, (min Σ_b s_b)^{2/L}.
    end : 'certified', 'max_nodes', 'max_seconds', 'not separated' or 'interrupted'
        Why the search ended: the gap is within `tol`; a limit; nothing was found that separates.
    table : DataFrame
        A row for each convex problem: solve, seconds, start (from 0 on, `start` last; −1 for boxes and reweighting
        from what they found), objective of the weights that it gave, best (so far) and lower_bound.

    >>> from implicit_bias import ConstantGate
    >>> from implicit_bias.extensions.best_networks import best_chains
    >>> best = best_chains([[2.0, 1.0], [-2.0, 1.0]], [1, -1], ConstantGate(), layers=4)
    >>> best.end, round(best.objective, 6), best.gap < 1e-3
    ('certified', 0.707107, True)
    """

    network: ChainNetwork | None
    weights: Array = field(repr=False)
    objective: float
    lower_bound: float
    gap: float
    convex_bound: float
    end: str
    table: pd.DataFrame = field(repr=False)

    def __repr__(self) -> str:
        return f"BestChains({self.end}, objective={self.objective:.9g}, gap={self.gap:.1e}, {len(self.table)} solves)"


def best_chains(
    X: Any,
    y: Any,
    gates: Gates,
    layers: int = 3,
    *,
    gated: int | None = None,
    start: Any = None,
    starts: int = 10,
    nodes: int = 200,
    tol: float = 1e-3,
    max_seconds: float | None = None,
    seed: int = 1,
    progress: Progress | None = None,
) -> BestChains:
    """The chains of L layers of least norm with margins of 1, behind gates that their layers share.

        minimise F(ζ) = Σ_h (Σ_{j∈h} ‖ζ_j‖^{2/G})^{G/L}   subject to   y_i (Φζ)_i ≥ 1,   the least ‖w‖²/L as well

    over weights w of `ChainNetwork`, whose first G layers are gated; for G = 1, or one gate a unit, F is Σ_h
    ‖ζ_h‖^{2/L}. For L > 2 this is not convex, and every set of units that separates holds
    a stationary point.

    **Upper bound.** F is concave in the lengths s_b of blocks of ζ, so that a tangent bounds it from above: the group
    lasso with weights ∂F/∂s_b has an optimum of no larger F, and so on. Blocks whose length is 0 stay there. This
    begins at `starts` weightings, the first with equal weights, and from `start`.

    **Lower bound.** F ≥ (Σ_b s_b)^{2/L} ≥ (the group lasso's certified lower bound)^{2/L}. In a box of lengths, F is no
    less than its chords, a constant and a group lasso. Boxes are cut in two until `nodes` are solved or the least of
    their bounds is within `tol` of the objective: then it is the global optimum, up to `tol`. All bounds are those of
    certificates, their rounding counted. A chord is wrong by less the smaller its interval is, so that the search ends
    with enough nodes; in practice for few units.

    Parameters
    ----------
    X : array, shape (n, d); y : array of −1 and +1, shape (n,)
    gates : Gates
        Fitted ones, or others that are fitted on X. For several gated layers as `ChainNetwork` takes them.
    layers, gated : int
        L ≥ 2 and G, as for `ChainNetwork`.
    start : ChainNetwork with these gates, BestChains, or array of weights ζ (k, d), optional
        From which reweighting begins, too.
    starts : int
        How many weightings.
    nodes : int
        Boxes; 0 for the convex lower bound alone.
    tol : float
        The relative gap asked for. Reweighting ends where it gains a tenth of that.
    max_seconds : float, optional
        A limit, looked at after each convex problem.
    seed : int
        Of the weightings.
    progress : callable(row), optional
        Called with every row of the table.

    Returns
    -------
    BestChains
        Ctrl-C gives the best answer so far.

    Raises
    ------
    InputError
        For bad arrays, labels or gates, sizes out of range, or a start of another shape.

    References
    ----------
    Ours, with the proofs on the page "Deeper".

    Examples
    --------
    >>> from implicit_bias import HyperplaneGates, load_binary
    >>> from implicit_bias.extensions.best_networks import best_chains
    >>> task = load_binary("digits", train_size=60)
    >>> best = best_chains(task.X_train, task.y_train, HyperplaneGates(4, 2).fit(task.X_pool), layers=3)
    >>> best.end, best.gap <= 1e-3, round(best.network.norm() ** 2 / 3 / best.objective, 6)
    ('certified', True, 1.0)
    """
    from implicit_bias.extensions.best_networks.chains.network import check_depth, check_exclusive

    if not isinstance(gates, Gates):
        raise InputError(f"gates must be Gates such as HyperplaneGates(10, 2), not {shown(gates)}")
    X, y, limit = search_arguments(X, y, max_seconds, progress)
    depth, gated = check_depth(layers, gated)
    if depth > MOST_LAYERS:
        raise InputError(f"layers must be at most {MOST_LAYERS}: the costs of deeper chains leave the range of floats")
    tol, starts, nodes = as_tolerance(tol), as_count(starts, "starts"), as_count(nodes, "nodes", least=0)
    gates = gates.fitted(X)
    features = gates(X)
    units = np.unique(gates.groups, return_inverse=True)[1]
    check_exclusive(features.gate_values, units, gated)
    search = _Search(features, y, ChainCost(units, depth, gated), tol)
    first = _starting_weights(start, (features.k, features.d))
    steps = search.steps(first, starts, nodes, np.random.default_rng(as_seed(seed)))
    return search.answer(gates, *run_with_limits(steps, "solve", limit, progress))


def _starting_weights(start: Any, shape: tuple[int, int]) -> Array | None:
    from implicit_bias.extensions.best_networks.chains.network import ChainNetwork
    from implicit_bias.networks import GatedNetwork

    if start is None or (isinstance(start, BestChains) and start.network is None):
        return None
    if isinstance(start, GatedNetwork) and not isinstance(start, ChainNetwork):
        raise InputError(f"start must be a ChainNetwork, an earlier answer, or weights (k, d), not {shown(start)}")
    weights = start.weights if isinstance(start, BestChains) else start
    weights = weights.effective_weights() if isinstance(weights, ChainNetwork) else as_floats(weights, "start", 2)
    if weights.shape != shape or not weights.any():
        raise InputError(f"start must have weights of shape {shape} that are not all 0")
    return np.asarray(weights)


class _Search:
    """The best weights so far, the boxes that are left, and the lower bounds of those that are not."""

    def __init__(self, features: GatedFeatures, y: Array, cost: ChainCost, tol: float) -> None:
        self.features, self.y, self.cost, self.tol = features, y, cost, tol
        self.weights, self.upper = np.full((features.k, features.d), np.nan), np.inf
        self.convex, self.closed = 0.0, 0.0
        self.boxes: list[tuple[float, int, Box]] = []
        self.start = 0

    @property
    def lower(self) -> float:
        """What is proved of all chains."""
        left = self.boxes[0][0] if self.boxes else np.inf
        return min(self.upper, max(self.convex, min(left, self.closed)))

    @property
    def gap(self) -> float:
        """(upper − lower)/upper."""
        return (self.upper - self.lower) / self.upper if self.upper < np.inf else np.inf

    def steps(
        self, first: Array | None, starts: int, nodes: int, rng: np.random.Generator
    ) -> Iterator[dict[str, float]]:
        """Reweighting from every start, then the search over boxes; a row of the table after every convex problem."""
        blocks, units = len(self.cost.owners), int(self.cost.units.max()) + 1
        slopes = np.ones(blocks)
        for self.start in range(starts):
            yield from self._reweight(slopes)
            if self.upper == np.inf or self.gap <= self.tol:
                return
            slopes = np.exp(SPREAD * rng.normal(size=units))[self.cost.owners]
        if first is not None:
            self.start = starts
            yield from self._reweight(self.cost.tangent(self.cost.lengths(without_idle(first, self.cost))))
        self.start = -1
        yield from self._branch(nodes)

    def _reweight(self, slopes: Array) -> Iterator[dict[str, float]]:
        """Group lassos whose weights are the tangent of F where the last one led to, while F falls."""
        last = np.inf
        for _ in range(REWEIGHTED):
            lower, _, W = self._solved(slopes)
            if self.start == 0 and last == np.inf:
                self.convex = lower ** (2 / self.cost.layers) * (1 - POWER)
            value = self._offered(W)
            yield self._row(value)
            if not value < last * (1 - FINER * self.tol):
                return
            last, slopes = value, self.cost.tangent(self.cost.lengths(W))

    def _branch(self, nodes: int) -> Iterator[dict[str, float]]:
        """Boxes, the one of the least bound first, cut in two where their chords do not prove enough."""
        self.boxes, self.closed = [(self.convex, 0, Box.below(self.cost, self.upper))], np.inf
        ties = itertools.count(1)
        for _ in range(nodes):
            if not self.boxes or self.gap <= self.tol:
                return
            bound, _, box = self.boxes[0]
            alpha, slopes = box.chord()
            lower, lengths, W = self._solved(slopes)
            value = self._offered(W)
            bound, left = max(bound, (alpha + lower) * (1 - 8 * UNIT)), self.boxes[1:]
            # An answer without weights says nowhere to cut.
            if bound >= self.upper * (1 - self.tol) or not lengths.any():
                self.closed = min(self.closed, bound)
            else:
                for half in box.halves(lengths):
                    bisect.insort(left, (bound, next(ties), half))
            # In one assignment, so that no interruption loses a box, and with it the bound.
            self.boxes = left
            yield self._row(value)
            if value <= self.upper:
                yield from self._reweight(self.cost.tangent(self.cost.lengths(W)))

    def _solved(self, slopes: Array) -> tuple[float, Array, Array]:
        """The group lasso with such weights, blocks of infinite ones left out.

        Its lower bound, the lengths of its answer, and the answer without idle blocks.
        """
        problem, kept = self.cost.problem(self.features, self.y, slopes)
        solution = solve(problem, tol=FINER * self.tol)
        if solution.status is Status.INTERRUPTED:
            raise KeyboardInterrupt
        W = np.zeros((self.features.k, self.features.d))
        if solution.objective < np.inf:
            W[kept] = solution.weights
            # A box is cut by these lengths, of which F must be no less than the best.
            self._offered(W)
        return solution.lower_bound, self.cost.lengths(W), without_idle(W, self.cost)

    def _offered(self, W: Array) -> float:
        """F of weights (k, d) over the power 2/L of their least margin, rounded up; kept if it is the best."""
        least = self._least(W)
        if not least > 0:
            return np.inf
        W = W / least
        least = self._least(W)
        value = self.cost.value(W) / least ** (2 / self.cost.layers)
        value *= 1 + POWER + share(self.features.d + 4 * self.features.k + 32)
        if value < self.upper:
            self.weights, self.upper = W, value
        return value

    def _least(self, W: Array) -> float:
        """The least margin, rounded down."""
        f, rest, error = self.features.apply_bounded(W)
        return float((self.y * (f + rest) - (1 + share(4)) * error - share(4) * np.abs(f)).min())

    def _row(self, value: float) -> dict[str, float]:
        return {"start": self.start, "objective": value, "best": self.upper, "lower_bound": self.lower}

    def answer(self, gates: Gates, end: str, table: pd.DataFrame) -> BestChains:
        """The best so far; why the search ended, if nothing else ended it."""
        from implicit_bias.extensions.best_networks.chains.network import ChainNetwork

        found = self.upper < np.inf
        if not end:
            end = "certified" if self.gap <= self.tol else "max_nodes" if found else "not separated"
        G, L = self.cost.gated, self.cost.layers
        network = ChainNetwork.from_weights(gates, self.weights, L, gated=G) if found else None
        return BestChains(network, self.weights, self.upper, self.lower, self.gap, self.convex, end, table)
