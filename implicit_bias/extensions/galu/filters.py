"""Algorithm 1: better filters for a GaLU layer, by updates of rank d instead of solving anew, from several starts."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from implicit_bias._utils.checks import (
    Array,
    InputError,
    as_column,
    as_count,
    as_floats,
    as_positive,
    as_seed,
    as_targets,
    check_callable,
    check_range,
    check_size,
    dimensions,
)
from implicit_bias._utils.scaling import nearest_power_of_two
from implicit_bias._utils.threads import Interruptible
from implicit_bias.extensions.galu.closed_form import LeastSquares, least_squares, shift_of
from implicit_bias.extensions.galu.rank_updates import least_value
from implicit_bias.features import GatedFeatures
from implicit_bias.gates import ReLUGates, SoftGates

#: Searches that are asked for on purpose.
MOST_RESTARTS = 10**6


@dataclass(frozen=True, eq=False)
class FilterSearch:
    """What `improve_filters` found.

    Attributes
    ----------
    directions : array, shape (k, d)
        The filters u_j as rows.
    solution : LeastSquares
        The solution for these filters, computed anew.
    history : array, shape (steps + 1,)
        What was lowered, before the first step and after each: min_W (1/n)‖ΦW − y‖² + ρ‖W‖².
    ridge : float
        The ρ of `history`: the ridge asked for, and about 1e-11 of the features' mean square, without which a
        rank-deficient matrix has no inverse. So the norm ‖W‖² = history/ρ is lowered where the loss is zero already;
        `solution` has the ridge asked for, and no other.
    accepted : int
        Steps that changed a filter.
    interrupted : bool
        Whether Ctrl-C ended it early.
    seconds : float
    sharpness : float or None
        That of soft gates; None for hard ones.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> found = improve_filters(rng.normal(size=(100, 5)), rng.normal(size=100), units=6, steps=50)
    >>> found.accepted > 0, bool(np.all(np.diff(found.history) <= 0)), found.gates().transform(np.ones((1, 5))).shape
    (True, True, (1, 6))
    """

    directions: Array = field(repr=False)
    solution: LeastSquares
    history: Array = field(repr=False)
    ridge: float
    accepted: int
    interrupted: bool
    seconds: float
    sharpness: float | None = None

    def gates(self) -> ReLUGates | SoftGates:
        """The gates of the filters, 1(⟨u_j, x⟩ ≥ 0) or σ(s⟨u_j, x⟩)."""
        return _gates(self.directions, self.sharpness)


def _gates(filters: Array, sharpness: float | None) -> ReLUGates | SoftGates:
    return ReLUGates(filters) if sharpness is None else SoftGates(filters, sharpness)


def improve_filters(
    X: ArrayLike,
    y: ArrayLike,
    units: int = 0,
    *,
    directions: ArrayLike | None = None,
    sharpness: float | None = None,
    steps: int = 512,
    ridge: float = 0.0,
    sample_weight: ArrayLike | None = None,
    seed: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> FilterSearch:
    """Algorithm 1: replace random filters by fresh Gaussian ones wherever that does not raise the least loss.

    Each step draws a unit j and a filter u ~ N(0, I), and keeps it if min_W (1/n)‖ΦW − Y‖² + ρ‖W‖² does not rise;
    several targets share the filters, and have weights of their own. A step costs one update of rank d of the inverse
    Gram matrix, O(min(n, kd)²·d), instead of a solution.

    Raises InputError for bad arrays or counts, and for both or neither of `units` and `directions`.

    Parameters
    ----------
    X : array, shape (n, d)
    y : array, shape (n,), or (n, q) for q targets
    units : int
        k; the first filters are N(0, I).
    directions : array, shape (k, d), instead of `units`
        The first filters.
    sharpness : float, optional
        s of soft gates σ(s⟨u, x⟩); hard gates 1(⟨u, x⟩ ≥ 0) without it.
    steps : int
    ridge : float
        ρ ≥ 0.
    sample_weight : array, shape (n,), optional
        c ≥ 0, not all zero: the mean of squares becomes Σ_i c_i ‖·‖²/Σ_i c_i, so that a weight of 2 is two copies.
    seed : int
        Seed of NumPy's PCG64.
    progress : callable(step, steps), optional

    References
    ----------
    Fiat, Malach & Shalev-Shwartz, first version, section 4.1.1, Algorithm 1, for one target; its filters are drawn
    "randomly". It keeps those whose solution is better; that ties are kept as well, several targets, the ridge and the
    weights are ours. (Its solution, in section 4.1, is by the pseudo-inverse.)

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.normal(size=(200, 8)), rng.normal(size=200)
    >>> first, last = improve_filters(X, y, units=10, steps=0), improve_filters(X, y, units=10, steps=200)
    >>> last.solution.loss < 0.9 * first.solution.loss
    True
    """
    start = time.perf_counter()
    X = as_floats(X, "X", 2)
    targets = as_targets(y, len(X))
    as_count(steps, "steps", least=0, most=10**9, limit="10^9")
    check_callable(progress, "progress")
    sharpness = None if sharpness is None else as_positive(sharpness, "sharpness")
    rng = np.random.default_rng(as_seed(seed))
    filters = _first(X, units, directions, rng)
    ridge = as_positive(ridge, "ridge", zero=True)
    by, to = nearest_power_of_two(np.abs(X).max()), nearest_power_of_two(np.abs(targets).max())
    check_range(np.array([by, to / by]), "the inputs X and the targets over them", 1e-140, 1e140)
    root = root_weights(sample_weight, len(X))

    def gates(filters: Array) -> Array:
        return _gates(filters, sharpness).transform(X)

    form = least_value(root * X / by, root * targets / to, gates(filters), shift_of(ridge, len(X), by))
    history, accepted = [form.value], 0
    with Interruptible() as run:
        for step in range(steps):
            unit, candidate = int(rng.integers(len(filters))), rng.normal(size=filters.shape[1:])
            if form.replace(unit, gates(candidate[None])[:, 0]):
                filters[unit] = candidate
                accepted += 1
            history.append(min(form.value, history[-1]))
            if progress is not None:
                progress(step + 1, steps)
    wanted = root * targets
    solution = least_squares(
        GatedFeatures(root * X, gates(filters)), wanted if dimensions(y) == 2 else wanted[:, 0], ridge=ridge
    )
    lowered = np.array(history) / len(X) * to**2
    seconds = time.perf_counter() - start
    added = form.shift / len(X) * by**2
    return FilterSearch(filters, solution, lowered, added, accepted, run.interrupted, seconds, sharpness)


def root_weights(sample_weight: Any, samples: int) -> Array:
    """√(n c_i/Σc) of each sample as a column (n, 1), so that their squares are 1 in the mean; ones without weights."""
    if sample_weight is None:
        return np.ones((samples, 1))
    weight = as_column(sample_weight, samples, "sample_weight", "weight")
    if weight.min() < 0 or not weight.any():
        raise InputError("sample_weight must hold numbers of at least 0, not all of them 0")
    weight = weight / weight.max()
    return np.sqrt(weight / np.mean(weight)).reshape(samples, 1)


def _first(X: Array, units: int, directions: Any, rng: np.random.Generator) -> Array:
    if (directions is None) == (isinstance(units, int) and units == 0):
        raise InputError("give either units, the number of filters, or directions, the filters to begin with")
    if directions is None:
        check_size(as_count(units, "units") * max(X.shape), "the filters and their gates")
        return rng.normal(size=(units, X.shape[1]))
    filters = as_floats(directions, "directions", 2)
    if filters.shape[1] != X.shape[1]:
        raise InputError(f"directions must have the {X.shape[1]} columns of X, not {filters.shape[1]}")
    return filters.copy()


@dataclass(frozen=True, eq=False)
class GateSearch:
    """What `search_gates` found, of every start.

    Attributes
    ----------
    first : array, shape (restarts,)
        The best readout's loss (1/n)‖ΦW − y‖² on the random gates that each start began with.
    losses : array, shape (restarts,)
        That of the gates it ended with.
    best : FilterSearch
        The search with the least of these.

    Examples
    --------
    >>> from implicit_bias.extensions.gated_flow import nonlinear_gaussian_process
    >>> X, y = nonlinear_gaussian_process(n=8, length_scales=(1.0, 0.5), gain=3.0).sample(200)
    >>> found = search_gates(X, y, units=3, restarts=2, steps=30)
    >>> found.losses.shape, bool((found.losses <= found.first).all()), found.best.directions.shape
    ((2,), True, (3, 8))
    """

    first: Array
    losses: Array
    best: FilterSearch = field(repr=False)


def search_gates(
    X: ArrayLike, y: ArrayLike, units: int, *, restarts: int = 10, steps: int = 512, seed: int = 1
) -> GateSearch:
    """Hyperplane gates 1(⟨u_j, x⟩ ≥ 0) that lower the loss of the best readout: `improve_filters` from several starts.

    A local search by random proposals: it proves no minimum, and the spread of `losses` over the starts shows how far
    from one it may be. The losses are those of the samples that were searched on; judge the gates on others.

    Parameters
    ----------
    X, y, and errors : as for `improve_filters`
    units : int
        k, with k·d < n; more are refused, for they fit any targets, whatever the gates.
    restarts, steps : int
        Starts, and proposals of each.
    seed : int
        Seed of NumPy's PCG64 that the seeds of the starts are drawn from.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(200, 3))
    >>> found = search_gates(X, abs(X[:, 0]), units=4, restarts=3, steps=100)
    >>> bool(found.losses.min() < 0.5 * found.first.min())
    True
    """
    X, restarts = as_floats(X, "X", 2), as_count(restarts, "restarts", most=MOST_RESTARTS)
    if as_count(units, "units") * X.shape[1] >= len(X):
        raise InputError(
            f"{units} units on {X.shape[1]} inputs fit {len(X)} samples with almost any gates; take fewer units"
        )
    seeds = np.random.default_rng(as_seed(seed)).integers(2**63, size=restarts)
    first, losses, best = [], [], None
    for start in seeds:
        found = improve_filters(X, y, units=units, steps=steps, seed=int(start))
        first.append(found.history[0])
        losses.append(found.solution.loss)
        best = found if best is None or found.solution.loss < best.solution.loss else best
        if found.interrupted:
            break
    assert best is not None
    return GateSearch(np.array(first), np.array(losses), best)
