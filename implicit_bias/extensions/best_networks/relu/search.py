"""Best two-layer ReLU network by column generation over activation patterns, with certified bounds."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from implicit_bias._utils.checks import Array, InputError, as_count, as_positive, as_seed, check_range, shown
from implicit_bias._utils.floats import UNIT, largest_entries, length, nearest_power_of_two
from implicit_bias._utils.limits import Deadline
from implicit_bias._utils.missing import torch_is_needed
from implicit_bias.extensions.best_networks.limits import Progress, run_with_limits, search_arguments
from implicit_bias.extensions.best_networks.relu import dual_norm
from implicit_bias.extensions.best_networks.relu.network import basic_solution, bound_of, network_of, units_of
from implicit_bias.extensions.best_networks.relu.problem import cone_problem
from implicit_bias.solvers import solve
from implicit_bias.solvers.base import as_tolerance
from implicit_bias.solvers.native.cones import solve_in_cones
from implicit_bias.solvers.native.loop import upper_bound

if TYPE_CHECKING:
    from implicit_bias.networks import ReLUNetwork

#: λ_i at or below this share of the largest are set to 0, which keeps any dual feasible.
NEGLIGIBLE = 1e-9
#: Largest number of patterns that are added in a round.
MAX_NEW_PATTERNS = 40
#: Length, relative to the longest unit, below which the pattern of a unit is dropped.
INACTIVE = 1e-6
#: Nodes per level of the branch and bound for the last λ, if a limit ends the search before any other.
FINAL_NODES = 100
#: First upper bound C of λ_i while no network separates, times the inputs' root mean square length.
FIRST_C = 30.0
#: Factor by which this C is increased if no pattern is added.
C_FACTOR = 30.0
#: Largest such C, times the inputs' root mean square length.
LARGEST_C = 1e8
#: Rounds without any improvement of a bound after which new patterns are ignored.
PATIENCE = 10
#: Share of C up to which the largest λ_i counts as below it.
FREE = 0.99
#: Relative increase of weights that leaves no slack after rounding.
MARGIN_ROUNDING = 1e-11
#: Tolerance of the convex problems and the dual norms, relative to the tolerance of the gap.
RELATIVE_TOLERANCE = 0.1
#: Share of the time for the rounds; the rest is for the lower bound of the last dual.
ROUNDS_SHARE = 2 / 3
#: Share of the time of the rounds for the first patterns.
FIRST_SHARE = 0.25


@dataclass(frozen=True, eq=False)
class BestNetwork:
    """Two-layer ReLU network with certified bounds of the optimum over all such networks (`best_network`).

    Attributes
    ----------
    network : ReLUNetwork or None
        Best network found, in float64, for a hard margin with margins of at least 1 up to rounding. None if no network
        was found that separates, or if the best one for a soft margin has no units.
    objective : float
        Upper bound of the optimum: for a hard margin, ``Σ_j |a_j|‖w_j‖`` of `network` over its smallest margin; for a
        soft margin, ``Σ_j |a_j|‖w_j‖ + C Σ_i (1 − y_i f(x_i))_+``. Rounded up.
    lower_bound : float
        Lower bound of the optimum over networks of any width: Σ_i λ_i over a bound of the dual norm. Rounded down.
    gap : float
        (objective − lower_bound)/objective.
    margins : array, shape (n,)
        y_i f(x_i).
    dual : array, shape (n,)
        λ, scaled to a dual norm of at most 1 and, for a soft margin, to λ_i ≤ C.
    complete : bool
        True if the lower bound is as large as its λ allows: every subset was evaluated or pruned.
    end : 'certified', 'no pattern', 'max_rounds', 'max_seconds', 'not separated' or 'interrupted'
        Why the search ended. 'certified': the gap is within `tol`. 'no pattern': no pattern was found that improves the
        objective. 'not separated': no network separates up to the lower bound, which is beyond any reasonable norm.
    table : DataFrame
        A row for each round: round, seconds, patterns, objective, lower_bound, and dual_correlation, the largest
        ``|Σ_i λ_i y_i (⟨u, x_i⟩)_+|`` of the units with ‖u‖ = 1 found for its λ.

    Examples
    --------
    >>> from implicit_bias.extensions.best_networks import best_network
    >>> best = best_network([[-1.0, 1.0], [0.0, 1.0], [1.0, 1.0]], [1, -1, 1])
    >>> best.end, round(best.objective, 4), best.gap < 1e-6
    ('certified', 5.0, True)
    """

    network: ReLUNetwork | None
    objective: float
    lower_bound: float
    gap: float
    margins: Array
    dual: Array
    complete: bool
    end: str
    table: pd.DataFrame = field(repr=False)

    def __repr__(self) -> str:
        units = "no network" if self.network is None else f"{self.network.units[0]} units"
        return f"BestNetwork({self.end}, objective={self.objective:.9g}, gap={self.gap:.1e}, {units})"


def best_network(
    X: Any,
    y: Any,
    *,
    start: Any = None,
    C: float = np.inf,
    tol: float = 1e-6,
    max_rounds: int = 100,
    max_seconds: float | None = None,
    nodes: int = 2000,
    seed: int = 1,
    progress: Progress | None = None,
) -> BestNetwork:
    """Find the two-layer ReLU network of any width with the least norm and margins of 1, and certify it.

        minimise Σ_j |a_j|‖w_j‖   subject to   y_i Σ_j a_j (⟨w_j, x_i⟩)_+ ≥ 1

    The optimum is also the least ½ Σ_j (a_j² + ‖w_j‖²). A finite C allows slack: the objective is then
    ``Σ_j |a_j|‖w_j‖ + C Σ_i (1 − y_i f(x_i))_+``.

    Column generation alternates two problems. The convex problem of `svm_relu` over a few patterns gives a network, and
    thereby an **upper bound**, and a dual λ. The pricing problem bounds the dual norm of λ: it finds p with
    ``|Σ_i λ_i y_i (⟨u, x_i⟩)_+| ≤ p‖u‖`` for all units u. This proves the **lower bound** Σλ_i/p, for a finite C Σλ_i
    over the larger of p and max_i λ_i/C. Patterns of units with a dual correlation above 1 are added until both bounds
    meet.

    The dual norm is a distance between two zonotopes, a maximum over the subsets of a class. For samples of rank up to
    4 the subsets are enumerated. Otherwise branch and bound with a semidefinite relaxation searches them; its bound
    holds wherever it stops, but may be loose. The network is a certified optimum if `gap` is within `tol`. Otherwise
    the optimum is between the two bounds, whatever `end` is.

    Parameters
    ----------
    X : array, shape (n, d)
        Inputs; add a constant column for units with biases.
    y : array of −1 and +1, shape (n,)
    start : ReLUNetwork with one hidden layer, or BestNetwork, optional
        Network whose patterns are added to the first ones, those of the largest dual correlations for equal λ_i.
    C : float
        Upper bound of each λ_i, the weight of the slack; inf for the hard margin.
    tol : float
        Relative gap at which the search ends.
    max_rounds : int
    max_seconds : float, optional
        Limits of the search. Two thirds of the time are for the rounds, the rest for the lower bound of the last dual.
    nodes : int
        Nodes per level of the branch and bound; with 1, its bound is close to that of the root relaxation.
    seed : int
        Seed of the random directions in which local ascent for the dual norm starts.
    progress : callable(row), optional
        Called with each row of the table.

    Returns
    -------
    BestNetwork
        The best answer so far after Ctrl-C or at a limit.

    Raises
    ------
    InputError
        If arrays, labels or options are invalid, sizes are out of range, or the start has another shape. TooLargeError,
        a subclass, if a step needs more memory than is free.

    Examples
    --------
    >>> import numpy as np
    >>> from implicit_bias.extensions.best_networks import best_network
    >>> points = np.random.default_rng(1).uniform(-1, 1, size=(30, 2))
    >>> X = np.column_stack([points, np.ones(30)])
    >>> best = best_network(X, np.sign(points[:, 0] * points[:, 1]))
    >>> best.end, best.complete, bool(best.gap < 1e-6), bool(best.margins.min() > 0.999)
    ('certified', True, True, True)
    """
    X, y, deadline = search_arguments(X, y, max_seconds, progress)
    tol, max_rounds, nodes = as_tolerance(tol), as_count(max_rounds, "max_rounds"), as_count(nodes, "nodes")
    C = as_positive(C, "C", infinite=True)
    if np.inf > C:
        check_range(C * largest_entries(X).max(keepdims=True), "C times the inputs X", 1e-120, 1e120)
    seed, units = as_seed(seed), _starting_units(start, X.shape[1])
    with deadline:
        search = _PatternSearch(X, y, C, tol, nodes, seed, units, deadline)
        return search.answer(*run_with_limits(search.steps(max_rounds), "round", search.rounds, progress))


def _starting_units(start: Any, d: int) -> Array:
    with torch_is_needed("best_network"):
        from implicit_bias.networks import ReLUNetwork

    network = start.network if isinstance(start, BestNetwork) else start
    if network is None:
        return np.zeros((0, d))
    if not isinstance(network, ReLUNetwork) or len(network.units) != 1 or network.inputs != d:
        raise InputError(f"start must be a ReLUNetwork with one hidden layer and {d} inputs, not {shown(start)}")
    return network.layers[0].detach().cpu().double().numpy()


class _PatternSearch:
    """Column generation: the current patterns and the best bounds so far."""

    def __init__(
        self, X: Array, y: Array, C: float, tol: float, nodes: int, seed: int, units: Array, deadline: Deadline
    ) -> None:
        self.deadline, self.rounds = deadline, deadline.part(ROUNDS_SHARE)
        #: Power of 4 that divides the inputs: exact in binary, also for the square roots in the network's layers.
        self.scale = nearest_power_of_two(float(np.mean(length(X, axis=1) ** 2)) ** 0.25) ** 2
        X, C = X / self.scale, C * self.scale
        self.X, self.y, self.C, self.tol, self.nodes, self.seed = X, y, C, tol, nodes, seed
        self.inputs = dual_norm.RotatedInputs.of(X)
        self.mean_length = float(np.sqrt(np.mean(length(X, axis=1) ** 2))) or 1.0
        #: C of the convex problem: it rises to C, because large ones cost accuracy. Where all λ_i are below it, the
        #: solution is that of every larger C, and for a hard margin it rises until a network separates.
        self.current_C = min(FIRST_C / self.mean_length, C)
        self.patterns, self.signs = np.zeros((0, len(X)), dtype=bool), np.zeros(0)
        self.network: ReLUNetwork | None = None
        self.upper, self.margins = np.inf, np.full(len(X), np.nan)
        if np.inf > C:
            # Without units every sample has a slack of 1.
            self.upper, self.margins = C * len(X) * (1 + 2 * UNIT), np.zeros(len(X))
        #: True if the convex problem is left to `solve`, which has several solvers.
        self.careful = False
        #: Bounds after the last round, and the rounds since they improved.
        self.reached, self.stalled = (np.inf, 0.0), 0
        #: Factor of the inputs in the convex problem.
        self.input_factor = 1.0
        self.end, self.last_dual = "", np.full(len(X), 1 / len(X))
        self.lower, self.dual, self.complete = 0.0, np.zeros(len(X)), False
        #: Largest |h(u)| of the units found for the last λ.
        self.largest_value = np.nan
        #: True if the lower bound of the last dual was computed.
        self.bounded = False
        #: If the subsets can be enumerated, a bound costs no more than local ascent.
        self.enumerates = dual_norm.can_enumerate(self.inputs.T, y)
        first = self._update_lower(self.last_dual, self.enumerates, self.rounds.part(FIRST_SHARE))
        for sign in (1.0, -1.0):
            self._add_patterns(units @ self.inputs.Q, np.full(len(units), sign))
        order = np.argsort(-np.abs(first.values))[:MAX_NEW_PATTERNS]
        self._add_patterns(first.units[order], np.sign(first.values[order]))
        if not len(self.patterns):
            # All dual correlations vanish, for example if each sample has both labels. Any pattern will do.
            self._add_patterns(self.inputs.T[:1], np.ones(1))

    def steps(self, max_rounds: int) -> Iterator[dict[str, float]]:
        """Yield a row of the table after each round, until `_round` returns why the search ends, kept in `end`."""
        for _ in range(max_rounds):
            ended = self._round()
            self.end = ended or self.end
            bounds = {"objective": self.upper / self.scale, "lower_bound": self.lower / self.scale}
            yield {"patterns": len(self.patterns)} | bounds | {"dual_correlation": self.largest_value}
            if ended:
                return

    def _round(self) -> str | None:
        """Solve the convex problem, update both bounds and the patterns; return why the search ends, if it does."""
        W, dual = self._solve_convex()
        self._update_upper(self.input_factor * W @ self.inputs.Q.T, self.signs)
        dual = np.clip(dual, 0.0, self.C)
        dual = np.where(dual > NEGLIGIBLE * dual.max(), dual, 0.0)
        if not dual.any():
            # At the limit, before the first iterate.
            return None
        self.last_dual, self.bounded, added = dual, False, 0
        for with_bound in (True,) if self.enumerates else (False, True):
            extremes = self._update_lower(dual, with_bound, self.deadline if with_bound else self.rounds)
            if self.gap <= self.tol:
                return "certified"
            values = np.abs(extremes.values)
            violated = np.flatnonzero(values > 1 + self.tol * RELATIVE_TOLERANCE)
            violated = violated[np.argsort(-values[violated])]
            added = self._add_patterns(extremes.units[violated], np.sign(extremes.values[violated]))
            if added or self.rounds.passed():
                break
        if self.rounds.passed():
            return None
        self._drop_inactive(W)
        # Where rounding dominates, the same patterns may be added and dropped in turn.
        improved = (self.upper, self.lower) != self.reached
        self.reached, self.stalled = (self.upper, self.lower), 0 if improved else self.stalled + 1
        if added and self.stalled < PATIENCE:
            return None
        self.stalled = 0
        return self._without_pattern(float(dual.max()))

    def _solve_convex(self) -> tuple[Array, Array]:
        inputs, tol, C = self.input_factor * self.inputs.T, self.tol * RELATIVE_TOLERANCE, self.current_C
        if not self.careful:
            answer = solve_in_cones(inputs, self.y, self.patterns, self.signs, C, tol, self.rounds.passed)
            return answer.weights, answer.dual
        problem = cone_problem(inputs, self.y, self.patterns, self.signs, C=C)
        solution = solve(problem, tol=tol, max_seconds=self.rounds.left())
        return np.nan_to_num(solution.weights), solution.dual

    def _without_pattern(self, largest: float) -> str | None:
        """If no pattern is new, change C, the inputs' factor or the solver; return why the search ends, or None."""
        if np.inf == self.C > self.current_C:
            # Once these patterns separate, the convex problem needs no slack.
            self.current_C = self.C if self.network is not None else C_FACTOR * self.current_C
            return "not separated" if LARGEST_C < self.current_C * self.mean_length < np.inf else None
        if self.current_C < self.C and largest > FREE * self.current_C:
            self.current_C = min(C_FACTOR * self.current_C, self.C)
        elif self.input_factor == 1.0 < self.largest_value and np.inf > self.C:
            # Dividing λ by its dual norm loses a share of the whole objective. Longer inputs make the dual norm
            # at most 1 and lose a share of the norm only.
            self.input_factor = 2 * self.largest_value - 1
        elif not self.careful:
            self.careful = True
        else:
            return "no pattern"
        return None

    @property
    def gap(self) -> float:
        """Relative gap (upper − lower)/upper; inf without an upper bound."""
        return (self.upper - self.lower) / self.upper if self.upper < np.inf else np.inf

    @property
    def allowed_gap(self) -> float:
        """Largest gap at which a network with fewer units may replace the best: `tol` if certified, else gap + tol."""
        return self.tol if self.gap <= self.tol else self.gap + self.tol

    def answer(self, stopped: str, table: pd.DataFrame) -> BestNetwork:
        """Return the result of the search; if the gap allows it, its network has at most one unit per margin of 1."""
        if self.end == "" and not self.bounded:
            # A limit ended the search, perhaps before any bound was computed.
            self.nodes = min(self.nodes, FINAL_NODES)
            self._update_lower(self.last_dual, True, self.deadline)
        if self.network is not None:
            left = self.deadline.left()
            last = Deadline(None if left is None else max(left, 0.1))
            units = basic_solution(*units_of(self.network), self.X, self.y, self.C, last)
            self._update_upper(*units, self.allowed_gap)
            for layer in self.network.layers:
                layer.data /= self.scale**0.5
        bounds = self.upper / self.scale, self.lower / self.scale, self.gap
        end = "certified" if self.gap <= self.tol else self.end or stopped or "max_rounds"
        return BestNetwork(self.network, *bounds, self.margins, self.dual / self.scale, self.complete, end, table)

    def _update_lower(self, dual: Array, with_bound: bool, deadline: Deadline) -> dual_norm.DualNormBound:
        """Return units u with large |h_λ(u)| at λ = `dual`; raise the lower bound if `with_bound` and it improves."""
        self.bounded |= with_bound
        accuracy, nodes = RELATIVE_TOLERANCE * self.tol, self.nodes if with_bound else 0
        limits: dict[str, Any] = {"accuracy": accuracy, "nodes": nodes, "threshold": 1 + accuracy}
        dual_bound = dual_norm.bound_dual_norm(self.inputs.T, self.y, dual, **limits, seed=self.seed, deadline=deadline)
        self.largest_value = float(np.abs(dual_bound.values).max(initial=0.0))
        size = max(self.inputs.bound(dual_bound.bound, dual), float(dual.max()) / self.C * (1 + 2 * UNIT))
        lower = math.fsum(dual.tolist()) / size * (1 - 8 * UNIT) if size > 0 else 0.0
        if lower > self.lower:
            self.lower, self.dual, self.complete = lower, dual / size, dual_bound.complete
        return dual_bound

    def _update_upper(self, W: Array, signs: Array, allowed_gap: float = 0.0) -> None:
        """Keep the network of units W (k, d), rescaled to its least objective, if it is best or its gap is allowed."""
        if not W.any():
            return
        margins = bound_of(network_of(W, signs > 0), self.X, self.y)[1]
        C = None if np.inf == self.C else np.full(len(self.X), self.C)
        size = math.fsum(length(W, axis=1).tolist())
        # For large C, also the multiple without any slack, rounded so that none is left.
        for target in {upper_bound(size, margins, C)[1], upper_bound(size, margins, None)[1] * (1 - MARGIN_ROUNDING)}:
            if not 0 < target < np.inf:
                continue
            network = network_of(W / target, signs > 0)
            upper, reached = bound_of(network, self.X, self.y, self.C)
            if upper < self.upper or upper - self.lower <= allowed_gap * upper:
                self.network, self.upper, self.margins = network, upper, reached

    def _add_patterns(self, units: Array, signs: Array) -> int:
        """Add the new patterns of units (N, r) with signs (N,), at most MAX_NEW_PATTERNS; return their number."""
        present = {(row.tobytes(), sign) for row, sign in zip(self.patterns, self.signs, strict=True)}
        new: dict[tuple[bytes, float], np.ndarray] = {}
        for pattern, sign in zip(units @ self.inputs.T.T >= 0, signs, strict=True):
            key = pattern.tobytes(), float(sign)
            if key not in present and len(new) < MAX_NEW_PATTERNS:
                new[key] = pattern
        self.patterns = np.vstack([self.patterns, *new.values()])
        self.signs = np.append(self.signs, [sign for _, sign in new])
        return len(new)

    def _drop_inactive(self, W: Array) -> None:
        """Drop the patterns whose units W (k, r) vanish; patterns after the first k are new and stay."""
        lengths = length(W, axis=1)
        active = np.append(lengths >= INACTIVE * lengths.max(), np.ones(len(self.signs) - len(W), dtype=bool))
        self.patterns, self.signs = self.patterns[active], self.signs[active]
