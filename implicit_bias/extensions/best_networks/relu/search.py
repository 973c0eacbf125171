"""The best two-layer ReLU network by column generation: patterns that pull more than they may join a convex problem."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from implicit_bias._utils.checks import (
    Array,
    InputError,
    as_count,
    as_positive,
    as_seed,
    check_range,
    shown,
)
from implicit_bias._utils.rounding import UNIT
from implicit_bias._utils.scaling import largest_entries, length, nearest_power_of_two
from implicit_bias.extensions.best_networks.limits import Progress, run_with_limits, search_arguments
from implicit_bias.extensions.best_networks.relu.network import basic, bound_of, network_of, units_of
from implicit_bias.extensions.best_networks.relu.pricing import Pull, Rotated, listed, pull
from implicit_bias.solvers.base import as_tolerance
from implicit_bias.solvers.native.cones import solve_in_cones
from implicit_bias.solvers.native.interior_point import upper_bound

if TYPE_CHECKING:
    from implicit_bias.networks import ReLUNetwork

#: λ_i below this share of the largest are set to 0, which any dual may be.
IDLE = 1e-9
#: Patterns that join in a round.
JOIN = 40
#: Share of the longest unit below which the patterns of others leave.
LEAVE = 1e-6
#: Subsets that the tree keeps where a limit ends the search before it came to the tree.
LAST = 100
#: First upper bound C of λ_i until a network separates, times the samples' size.
PRICE = 30.0
#: Factor by which it rises if no pattern joins.
DEARER = 30.0
#: Last one, times the samples' size.
DEAREST = 1e8
#: How much finer the convex problems are solved than the gap asked for.
FINER = 0.1


@dataclass(frozen=True, eq=False)
class BestNetwork:
    """A two-layer ReLU network, and what is proved of all others (`best_network`).

    Attributes
    ----------
    network : ReLUNetwork or None
        Float64, margins of at least 1 but for rounding; None if none was found that separates. Of a soft margin the
        network of least cost, None if it is the one without units.
    objective : float
        Σ_j |a_j|‖w_j‖ over the least margin, of `network` as it stands, rounded up: an upper bound of the optimum. Of a
        soft margin Σ_j |a_j|‖w_j‖ and the price of its slack.
    lower_bound : float
        Σ_i λ_i over a bound of every unit's pull, rounded down: no network of any width has less.
    gap : float
        (objective − lower_bound)/objective.
    margins : array, shape (n,)
        y_i f(x_i).
    dual : array, shape (n,)
        λ, scaled so that no unit pulls more than 1, and of a soft margin no λ_i is above C.
    complete : bool
        Whether the lower bound is as large as its λ allows: every subset was followed to its end.
    end : 'certified', 'no pattern', 'max_rounds', 'max_seconds', 'not separated' or 'interrupted'
        Why the search ended: the gap is within `tol`; nothing was found that pulls more; a limit; no network up to the
        lower bound separates, which then is out of scale.
    table : DataFrame
        A row for each round: round, seconds, patterns, objective, lower_bound, pull (the most found under its λ).

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
    """The two-layer ReLU network of least norm with margins of 1, of any width, by column generation, with proof.

        minimise Σ_j |a_j|‖w_j‖   subject to   y_i Σ_j a_j (⟨w_j, x_i⟩)_+ ≥ 1,   the least ½ Σ_j (a_j² + ‖w_j‖²) as well

    The convex problem of `svm_relu` is solved for a few patterns. Its network is an **upper bound**. Its λ, with any
    bound p of what units pull, |Σ_i λ_i y_i (⟨u, x_i⟩)_+| ≤ p‖u‖, proves the **lower bound** Σλ_i/p: for margins of at
    least 1, Σ_i λ_i ≤ Σ_i λ_i y_i f(x_i) ≤ Σ_j |a_j| p ‖w_j‖. Patterns of units that pull more than 1 join, and so on.
    The largest pull is a distance between two zonotopes, which is computed over subsets of one class: listed where the
    samples have rank 2 to 4, and else grown in a tree and bounded by a semidefinite relaxation of signs, which holds
    wherever the tree is cut off, but need not be tight.
    The answer is a certified optimum where `gap` is within `tol`; else what is proved is that the optimum lies between
    the two bounds, whatever `end` says.

    With a finite C slack is allowed: minimise Σ_j |a_j|‖w_j‖ + C Σ_i (1 − y_i f(x_i))_+. The dual then has λ_i ≤ C as
    well, and the lower bound is Σλ over the larger of p and max_i λ_i/C.

    Parameters
    ----------
    X : array, shape (n, d)
        Inputs, with a constant column if units are to have biases.
    y : array of −1 and +1, shape (n,)
    start : ReLUNetwork with one hidden layer, or BestNetwork, optional
        Its units' patterns are the first, beside those that pull most under equal λ.
    C : float
        The price of slack; inf for the hard margin.
    tol : float
        The relative gap asked for.
    max_rounds : int; max_seconds : float, optional
        Limits, looked at after each round.
    nodes : int
        Subsets that the tree keeps at once; 1 leaves little more than the relaxation of all.
    seed : int
        Of random directions from which pulls are looked for.
    progress : callable(row), optional
        Called with every row of the table.

    Returns
    -------
    BestNetwork
        Ctrl-C gives the best answer so far.

    Raises
    ------
    InputError
        For bad arrays or labels, sizes out of range, a start of another shape, or bad options; a TooLargeError where a
        step takes more memory than is free.

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
    X, y, limit = search_arguments(X, y, max_seconds, progress)
    tol, max_rounds, nodes = as_tolerance(tol), as_count(max_rounds, "max_rounds"), as_count(nodes, "nodes")
    C = as_positive(C, "C", infinite=True)
    if np.inf > C:
        check_range(C * largest_entries(X).max(keepdims=True), "C times the inputs X", 1e-120, 1e120)
    search = _Search(X, y, C, tol, nodes, as_seed(seed), _starting_units(start, X.shape[1]))
    return search.answer(*run_with_limits(search.steps(max_rounds), "round", limit, progress))


def _starting_units(start: Any, d: int) -> Array:
    from implicit_bias.networks import ReLUNetwork

    network = start.network if isinstance(start, BestNetwork) else start
    if network is None:
        return np.zeros((0, d))
    if not isinstance(network, ReLUNetwork) or len(network.units) != 1 or network.inputs != d:
        raise InputError(f"start must be a ReLUNetwork of one hidden layer with {d} inputs, not {shown(start)}")
    return network.layers[0].detach().cpu().double().numpy()


class _Search:
    """Patterns, the prices of slack, and the best bounds so far with what proves them."""

    def __init__(self, X: Array, y: Array, C: float, tol: float, nodes: int, seed: int, units: Array) -> None:
        #: Inputs are divided by this power of 4, which changes no digit of them or of the network.
        self.unit = nearest_power_of_two(float(np.mean(length(X, axis=1) ** 2)) ** 0.25) ** 2
        X, C = X / self.unit, C * self.unit
        self.X, self.y, self.C, self.tol, self.nodes, self.seed = X, y, C, tol, nodes, seed
        self.inputs = Rotated.of(X)
        self.size = float(np.sqrt(np.mean(length(X, axis=1) ** 2))) or 1.0
        self.price = PRICE / self.size if np.inf == C else C
        self.patterns, self.signs = np.zeros((0, len(X)), dtype=bool), np.zeros(0)
        self.network: ReLUNetwork | None = None
        self.upper, self.margins = np.inf, np.full(len(X), np.nan)
        if np.inf > C:
            # Without units all is slack.
            self.upper, self.margins = C * len(X) * (1 + 2 * UNIT), np.zeros(len(X))
        #: By how much inputs are longer in the convex problem.
        self.longer = 1.0
        self.end, self.last = "", np.full(len(X), 1 / len(X))
        self.lower, self.dual, self.complete, self.pull = 0.0, np.zeros(len(X)), False, np.nan
        #: Whether bounds come with the pulls, or cost a tree of their own.
        self.listed = listed(self.inputs.T, y)
        first = self._prove(self.last, self.listed)
        for sign in (1.0, -1.0):
            self._join(units @ self.inputs.Q, np.full(len(units), sign))
        order = np.argsort(-np.abs(first.values))[:JOIN]
        self._join(first.units[order], np.sign(first.values[order]))
        if not len(self.patterns):
            # No unit pulls, as where every sample has both labels: any pattern makes a problem.
            self._join(self.inputs.T[:1], np.ones(1))

    def steps(self, max_rounds: int) -> Iterator[dict[str, float]]:
        """Rounds until one ends the search, a row of the table after each."""
        for _ in range(max_rounds):
            ended = self._round()
            self.end = ended or self.end
            bounds = {"objective": self.upper / self.unit, "lower_bound": self.lower / self.unit}
            yield {"patterns": len(self.patterns)} | bounds | {"pull": self.pull}
            if ended:
                return

    def _round(self) -> str | None:
        """Solve for the patterns there are, judge both sides, let patterns join; why the search ends, if it does."""
        inputs, tol = self.longer * self.inputs.T, self.tol * FINER
        answer = solve_in_cones(inputs, self.y, self.patterns, self.signs, self.price, tol)
        self._measure(self.longer * answer.weights @ self.inputs.Q.T, self.signs)
        dual = np.clip(answer.dual, 0.0, self.C)
        dual = np.where(dual > IDLE * dual.max(), dual, 0.0)
        self.last, joined = dual, 0
        for bounded in (True,) if self.listed else (False, True):
            found = self._prove(dual, bounded)
            if self.gap <= self.tol:
                return "certified"
            pulls = np.abs(found.values)
            more = np.flatnonzero(pulls > 1 + self.tol * FINER)
            more = more[np.argsort(-pulls[more])]
            joined = self._join(found.units[more], np.sign(found.values[more]))
            if joined:
                break
        self._leave(answer.weights)
        if self.network is not None or np.inf > self.C:
            # Of a hard margin these patterns separate, and need no slack.
            ended = None if joined or self.price < self.C else "no pattern"
            self.price = self.C
            if ended and self.longer == 1.0 < self.pull and np.inf > self.C:
                # A λ that pulls less costs a share of the norm, and one that is divided by its pull a share of all.
                self.longer, ended = 2 * self.pull - 1, None
            return ended
        self.price *= 1.0 if joined else DEARER
        return "not separated" if self.price * self.size > DEAREST else None

    @property
    def gap(self) -> float:
        """(upper − lower)/upper; infinity without a network."""
        return (self.upper - self.lower) / self.upper if self.upper < np.inf else np.inf

    @property
    def allowed(self) -> float:
        """The gap that fewer units may leave: `tol`, and where that is not reached, `tol` more than there is."""
        return self.tol if self.gap <= self.tol else self.gap + self.tol

    def answer(self, stopped: str, table: pd.DataFrame) -> BestNetwork:
        """The best so far, of as few units as margins are 1, where the gap allows it, and what ended the search."""
        if stopped != "interrupted" and self.end == "" and not self.listed:
            # A limit came before the tree.
            self.nodes = min(self.nodes, LAST)
            self._prove(self.last, True)
        if self.network is not None:
            self._measure(*basic(*units_of(self.network), self.X, self.y, self.C), self.allowed)
            for layer in self.network.layers:
                layer.data /= self.unit**0.5
        bounds, end = (self.upper / self.unit, self.lower / self.unit, self.gap), self.end or stopped or "max_rounds"
        return BestNetwork(self.network, *bounds, self.margins, self.dual / self.unit, self.complete, end, table)

    def _prove(self, dual: Array, bounded: bool) -> Pull:
        """The pulls under λ, and the lower bound that they prove if it is the best; none unless `bounded`."""
        finer, nodes = FINER * self.tol, self.nodes if bounded else 0
        found = pull(self.inputs.T, self.y, dual, accuracy=finer, nodes=nodes, enough=1 + finer, seed=self.seed)
        self.pull = float(np.abs(found.values).max(initial=0.0))
        size = max(self.inputs.bound(found.bound, dual), float(dual.max()) / self.C * (1 + 2 * UNIT))
        lower = math.fsum(dual.tolist()) / size * (1 - 8 * UNIT) if size > 0 else 0.0
        if lower > self.lower:
            self.lower, self.dual, self.complete = lower, dual / size, found.complete
        return found

    def _measure(self, W: Array, signs: Array, allowed: float = 0.0) -> None:
        """Keep the network of units W (k, d) if it is the best, or leaves a gap that is allowed."""
        if not W.any():
            return
        margins = bound_of(network_of(W, signs > 0), self.X, self.y)[1]
        prices = None if np.inf == self.C else np.full(len(self.X), self.C)
        asked = upper_bound(math.fsum(length(W, axis=1).tolist()), margins, prices)[1]
        if not 0 < asked < np.inf:
            return
        network = network_of(W / asked, signs > 0)
        upper, margins = bound_of(network, self.X, self.y, self.C)
        if upper < self.upper or upper - self.lower <= allowed * upper:
            self.network, self.upper, self.margins = network, upper, margins

    def _join(self, units: Array, signs: Array) -> int:
        """How many of the units' patterns were new; these join, at most JOIN of them."""
        known = {(row.tobytes(), sign) for row, sign in zip(self.patterns, self.signs, strict=True)}
        new: dict[tuple[bytes, float], np.ndarray] = {}
        for pattern, sign in zip(units @ self.inputs.T.T >= 0, signs, strict=True):
            key = pattern.tobytes(), float(sign)
            if key not in known and len(new) < JOIN:
                new[key] = pattern
        self.patterns = np.vstack([self.patterns, *new.values()])
        self.signs = np.append(self.signs, [sign for _, sign in new])
        return len(new)

    def _leave(self, W: Array) -> None:
        """Patterns whose units have no weights leave; the last, which just joined, have none yet."""
        lengths = length(W, axis=1)
        kept = np.append(lengths >= LEAVE * lengths.max(), np.ones(len(self.signs) - len(W), dtype=bool))
        self.patterns, self.signs = self.patterns[kept], self.signs[kept]
