"""A search for gates that lower the loss of the best readout, from several random starts."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from implicit_bias.ground.checks import Array, InputError, as_count, as_floats, as_seed
from implicit_bias.regression import FilterSearch, improve_filters

#: Searches that are asked for on purpose.
MOST_RESTARTS = 10**6


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
    >>> from implicit_bias.datasets import nonlinear_gaussian_process
    >>> from implicit_bias import search_gates
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
    X, y : as for `improve_filters`
    units : int
        k, with k·d < n; more weights than samples fit any targets, whatever the gates.
    restarts, steps : int
        Starts, and proposals of each.
    seed : int
        Seed of NumPy's PCG64 that the seeds of the starts are drawn from.

    Raises
    ------
    InputError
        As for `improve_filters`, and for too many units.

    Examples
    --------
    >>> import numpy as np
    >>> from implicit_bias import search_gates
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
