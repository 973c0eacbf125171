"""Best chains by reweighted group lassos from several starts and by branch and bound, with certified bounds."""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from implicit_bias._utils.checks import Array, InputError, as_count, as_floats, as_seed, shown
from implicit_bias._utils.floats import TINY, UNIT, share
from implicit_bias._utils.limits import Deadline
from implicit_bias._utils.missing import torch_is_needed
from implicit_bias.extensions.best_networks.chains.cost import POWER_ERROR, Box, ChainCost, without_inactive
from implicit_bias.extensions.best_networks.limits import Progress, run_with_limits, search_arguments
from implicit_bias.features import GatedFeatures
from implicit_bias.gates import Gates
from implicit_bias.solvers import solve
from implicit_bias.solvers.base import as_tolerance

if TYPE_CHECKING:
    from implicit_bias.extensions.best_networks.chains.network import ChainNetwork

#: Largest number of layers.
MAX_LAYERS = 100
#: Tolerance of the convex problems, relative to the tolerance of the gap.
RELATIVE_TOLERANCE = 0.1
#: Standard deviation of the logarithms of the random initial group weights.
START_DEVIATION = 2.0


@dataclass(frozen=True, eq=False)
class BestChains:
    """Chains of L layers with certified bounds of the optimum over all chains with the same gates (`best_chains`).

    Attributes
    ----------
    network : ChainNetwork or None
        Best network found: balanced, in float64, with margins of at least 1 up to rounding. None if none separates.
    weights : array, shape (k, d)
        Its effective weights ζ; NaN if none separates.
    objective : float
        Upper bound of the optimum, rounded up: F(ζ) divided by the power 2/L of the smallest margin, where
        F(ζ) = ‖w‖²/L of `network`.
    lower_bound : float
        Lower bound of the optimum, rounded down; infinite if it is proved that no chains separate.
    gap : float
        (objective − lower_bound)/objective.
    convex_bound : float
        Lower bound of the convex problem alone, (min Σ_b s_b)^{2/L}.
    end : 'certified', 'max_nodes', 'max_seconds', 'not separated' or 'interrupted'
        Why the search ended. 'certified': the gap is within `tol`. 'not separated': no weights were found that
        separate.
    table : DataFrame
        A row for each convex problem: solve, seconds, start, objective, best and lower_bound. `start` counts from 0,
        with the argument `start` last, and is −1 in branch and bound. `objective` is that of this problem's solution,
        inf if it does not separate; `best` is the smallest so far.

    Examples
    --------
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
    """Find the chains of L layers with the least norm and margins of 1, for gates that all gated layers share.

        minimise F(ζ) = Σ_h (Σ_{j∈h} ‖ζ_j‖^{2/G})^{G/L}   subject to   y_i (Φζ)_i ≥ 1

    The optimum is also the least ‖w‖²/L over weights w of a `ChainNetwork` with G gated layers. For G = 1, or one gate
    per unit, F is Σ_h ‖ζ_h‖^{2/L}. For L > 2 the problem is not convex, and every set of units that separates contains
    a stationary point.

    **Upper bound.** F is concave in the lengths s_b of blocks of ζ, so that a tangent bounds it from above. The group
    lasso with weights ∂F/∂s_b has a solution of no larger F; reweighting repeats this until F stalls. Blocks of length
    0 stay there, so reweighting starts from `starts` choices of weights, the first equal, and from `start`.

    **Lower bound.** F ≥ (Σ_b s_b)^{2/L} ≥ (the certified lower bound of the group lasso)^{2/L}. In a box of lengths, F
    is at least the sum of its chords, a constant plus a group lasso. Branch and bound splits boxes until `nodes` are
    solved or the smallest bound is within `tol` of the objective, which is then globally optimal up to `tol`. The gap
    of a chord shrinks with its interval, so enough nodes always suffice; in practice they do for few units. All bounds
    come from certificates and include rounding errors.

    Parameters
    ----------
    X : array, shape (n, d)
    y : array of −1 and +1, shape (n,)
    gates : Gates
        Fitted, or to be fitted on X. For several gated layers, they must meet the conditions of `ChainNetwork`.
    layers, gated : int
        L ≥ 2 and G, as for `ChainNetwork`.
    start : ChainNetwork with these gates, BestChains, or array of weights ζ (k, d), optional
        Additional start of the reweighting.
    starts : int
        Number of choices of initial group weights.
    nodes : int
        Largest number of boxes; 0 for the convex lower bound alone.
    tol : float
        Relative gap at which the search ends. Reweighting stops if it gains less than a tenth of this.
    max_seconds : float, optional
        Time limit of the search.
    seed : int
        Seed of the initial group weights.
    progress : callable(row), optional
        Called with each row of the table.

    Returns
    -------
    BestChains
        The best answer so far after Ctrl-C or at a limit.

    Raises
    ------
    InputError
        If arrays, labels or gates are invalid, sizes are out of range, or the start has another shape.

    References
    ----------
    Ours. The page "Deeper" has the proofs.

    Examples
    --------
    >>> from implicit_bias import HyperplaneGates, load_binary
    >>> from implicit_bias.extensions.best_networks import best_chains
    >>> task = load_binary("digits", train_size=60)
    >>> best = best_chains(task.X_train, task.y_train, HyperplaneGates(4, 2).fit(task.X_pool), layers=3)
    >>> best.end, best.gap <= 1e-3, round(best.network.norm() ** 2 / 3 / best.objective, 6)
    ('certified', True, 1.0)
    """
    with torch_is_needed("best_chains"):
        from implicit_bias.extensions.best_networks.chains.network import check_depth, check_exclusive

    if not isinstance(gates, Gates):
        raise InputError(f"gates must be Gates such as HyperplaneGates(10, 2), not {shown(gates)}")
    X, y, deadline = search_arguments(X, y, max_seconds, progress)
    depth, gated = check_depth(layers, gated)
    if depth > MAX_LAYERS:
        raise InputError(f"layers must be at most {MAX_LAYERS}; the costs of deeper chains leave floating point")
    tol, starts, nodes = as_tolerance(tol), as_count(starts, "starts"), as_count(nodes, "nodes", least=0)
    gates = gates.fitted(X)
    features = gates(X)
    units = np.unique(gates.groups, return_inverse=True)[1]
    check_exclusive(features.gate_values, units, gated)
    search = _ChainSearch(features, y, ChainCost(units, depth, gated), tol, deadline)
    first = _starting_weights(start, (features.k, features.d))
    steps = search.steps(first, starts, nodes, np.random.default_rng(as_seed(seed)))
    with deadline:
        return search.answer(gates, *run_with_limits(steps, "solve", deadline, progress))


def _starting_weights(start: Any, shape: tuple[int, int]) -> Array | None:
    from implicit_bias.extensions.best_networks.chains.network import ChainNetwork
    from implicit_bias.networks import GatedNetwork

    if start is None or (isinstance(start, BestChains) and start.network is None):
        return None
    if isinstance(start, GatedNetwork) and not isinstance(start, ChainNetwork):
        raise InputError(f"start must be a ChainNetwork, a BestChains, or weights (k, d), not {shown(start)}")
    weights = start.weights if isinstance(start, BestChains) else start
    weights = weights.effective_weights() if isinstance(weights, ChainNetwork) else as_floats(weights, "start", 2)
    if weights.shape != shape or not weights.any():
        raise InputError(f"start must have weights of shape {shape} that are not all 0")
    return np.asarray(weights)


class _ChainSearch:
    """Reweighting and branch and bound: the best weights so far, the open boxes, and all lower bounds."""

    def __init__(self, features: GatedFeatures, y: Array, cost: ChainCost, tol: float, deadline: Deadline) -> None:
        self.features, self.y, self.cost, self.tol, self.deadline = features, y, cost, tol, deadline
        self.weights, self.upper = np.full((features.k, features.d), np.nan), np.inf
        #: Convex lower bound, set by the first group lasso, and the smallest bound of boxes that are closed, not split.
        self.convex, self.closed = 0.0, 0.0
        #: Open boxes with their lower bounds, in ascending order; the second entry breaks ties.
        self.boxes: list[tuple[float, int, Box]] = []
        #: Column `start` of the table.
        self.start = 0

    @property
    def lower(self) -> float:
        """Lower bound of the optimum over all chains."""
        return min(self.upper, max(self.convex, min(self.boxes[0][0] if self.boxes else np.inf, self.closed)))

    @property
    def gap(self) -> float:
        """Relative gap (upper − lower)/upper; inf while no weights separate."""
        return (self.upper - self.lower) / self.upper if self.upper < np.inf else np.inf

    def steps(
        self, first: Array | None, starts: int, nodes: int, rng: np.random.Generator
    ) -> Iterator[dict[str, float]]:
        """Reweight from every start, then branch and bound; yield a row of the table after every convex problem.

        The starts are equal weights, `starts` − 1 random ones, and the weights `first` (k, d). The search ends early if
        one of the first `starts` reaches the tolerance, or if no weights separate.
        """
        blocks, units = len(self.cost.owners), int(self.cost.units.max()) + 1
        slopes = np.ones(blocks)
        for self.start in range(starts):
            yield from self._reweight(slopes)
            if self.upper == np.inf or self.gap <= self.tol:
                return
            slopes = np.exp(START_DEVIATION * rng.normal(size=units))[self.cost.owners]
        if first is not None:
            self.start = starts
            yield from self._reweight(self.cost.tangent(self.cost.lengths(without_inactive(first, self.cost))))
        self.start = -1
        yield from self._branch(nodes)

    def _reweight(self, slopes: Array) -> Iterator[dict[str, float]]:
        """Solve group lassos with weights `slopes` (B,), then ∂F/∂s_b, while F decreases; yield a row after each."""
        last = np.inf
        for _ in range(100):
            lower, _, W = self._solve(slopes)
            if self.start == 0 and last == np.inf:
                self.convex = lower ** (2 / self.cost.layers) * (1 - POWER_ERROR)
            value = self._update_upper(W)
            yield self._row(value)
            if not value < last * (1 - RELATIVE_TOLERANCE * self.tol):
                return
            last, slopes = value, self.cost.tangent(self.cost.lengths(W))

    def _branch(self, nodes: int) -> Iterator[dict[str, float]]:
        """Solve up to `nodes` boxes, least bound first; split those with a gap above `tol`; yield a row after each."""
        self.boxes, self.closed = [(self.convex, 0, Box.below(self.cost, self.upper))], np.inf
        ties = itertools.count(1)
        for _ in range(nodes):
            if not self.boxes or self.gap <= self.tol:
                return
            bound, _, box = self.boxes[0]
            alpha, slopes = box.chord()
            lower, lengths, W = self._solve(slopes)
            value = self._update_upper(W)
            bound, left = max(bound, (alpha + lower) * (1 - 8 * UNIT)), self.boxes[1:]
            # Without a solution there is no point to split at, and a norm, with exponents 1, has no chord gaps.
            is_norm = self.cost.p == self.cost.e == 1
            if bound >= self.upper * (1 - self.tol) or not lengths.any() or is_norm:
                self.closed = min(self.closed, bound)
            else:
                for half in box.split(lengths):
                    bisect.insort(left, (bound, next(ties), half))
            # A single assignment: an interruption must not lose a box, and thereby the bound.
            self.boxes = left
            yield self._row(value)
            if value <= self.upper:
                yield from self._reweight(self.cost.tangent(self.cost.lengths(W)))

    def _solve(self, slopes: Array) -> tuple[float, Array, Array]:
        """Solve the group lasso with weights `slopes`, without the blocks of infinite weight.

        Return its lower bound, the lengths (B,) of its solution, and the solution (k, d) with inactive blocks set to 0;
        the best weights are updated with the solution before that. If no weights were found that separate, lengths and
        solution are 0. At the time limit or after Ctrl-C, the solution is the best so far, and its lower bound is
        valid; `run_with_limits` ends the search at the next row.
        """
        problem, finite = self.cost.problem(self.features, self.y, slopes)
        solution = solve(problem, tol=max(RELATIVE_TOLERANCE * self.tol, TINY), max_seconds=self.deadline.left())
        W = np.zeros((self.features.k, self.features.d))
        if solution.objective < np.inf:
            W[finite] = solution.weights
            # Termination needs F ≥ the best objective at the lengths that split a box.
            self._update_upper(W)
        return solution.lower_bound, self.cost.lengths(W), without_inactive(W, self.cost)

    def _update_upper(self, W: Array) -> float:
        """Return F(W)/(smallest margin)^{2/L}, rounded up; inf unless W separates. Keep the best W, rescaled."""
        margin = self._smallest_margin(W)
        if not margin > 0:
            return np.inf
        W = W / margin
        margin = self._smallest_margin(W)
        value = self.cost.value(W) / margin ** (2 / self.cost.layers)
        value *= 1 + POWER_ERROR + share(self.features.d + 4 * self.features.k + 32)
        if value < self.upper:
            self.weights, self.upper = W, value
        return value

    def _smallest_margin(self, W: Array) -> float:
        """Return min_i y_i (ΦW)_i, rounded down."""
        upper, lower, error = self.features.apply_bounded(W)
        return float((self.y * (upper + lower) - (1 + share(4)) * error - share(4) * np.abs(upper)).min())

    def _row(self, value: float) -> dict[str, float]:
        return {"start": self.start, "objective": value, "best": self.upper, "lower_bound": self.lower}

    def answer(self, gates: Gates, end: str, table: pd.DataFrame) -> BestChains:
        """Return the result of the search with its `table`; `end` is the limit that ended it, or ''."""
        from implicit_bias.extensions.best_networks.chains.network import ChainNetwork

        separates = self.upper < np.inf
        if self.gap <= self.tol:
            end = "certified"
        elif not end:
            end = "max_nodes" if separates else "not separated"
        G, L = self.cost.gated, self.cost.layers
        network = ChainNetwork.from_weights(gates, self.weights, L, gated=G) if separates else None
        return BestChains(network, self.weights, self.upper, self.lower, self.gap, self.convex, end, table)
