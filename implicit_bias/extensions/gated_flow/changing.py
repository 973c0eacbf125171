"""Gradient flow of gates that change over time: exact for piecewise constant gates, else with an error estimate."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from implicit_bias._utils.checks import Array, InputError, as_floats, as_positive, check_callable, check_size, shown
from implicit_bias.extensions.gated_flow.flow import as_start, as_times, scaled_times
from implicit_bias.extensions.gated_flow.moments import Moments
from implicit_bias.extensions.gated_flow.orbits import OrbitMoments

#: Maximum number of pieces between two times.
MAX_PIECES = 2**14
#: Threshold between smooth gates and jumps: halving the pieces multiplies `jump` by 1/4 or by 1/2, respectively.
SMOOTH_RATIO = 0.35


@dataclass(frozen=True, eq=False)
class ChangingFlow:
    """Weights w(t) of `changing_flow` at the requested times.

    Attributes
    ----------
    times : array, shape (T,)
    weights : array, shape (T, k, d)
    losses : array, shape (T,)
        ⟨(y − ŷ)²⟩ with the gates of that time; at a time of change, with the new gates.
    pieces : int
        Number of pieces of constant gates in the final solution.
    error : float
        Estimate of the largest error of a weight; 0 if the given gates are piecewise constant.

    Examples
    --------
    >>> from implicit_bias.extensions.gated_flow import Moments, changing_flow
    >>> halves = [(0.0, Moments.from_arrays([[1.0]], [[1.0]], 1.0)), (1.0, Moments.from_arrays([[0.0]], [[1.0]], 1.0))]
    >>> found = changing_flow(halves, [[0.0]], [0.0, 1.0, 2.0])
    >>> found.weights.ravel().round(6).tolist(), found.pieces
    ([0.0, 0.632121, 0.232544], 2)
    """

    times: Array = field(repr=False)
    weights: Array = field(repr=False)
    losses: Array = field(repr=False)
    pieces: int
    error: float


def changing_flow(
    gates: Sequence[tuple[float, Any]] | Callable[[float], Any],
    w0: ArrayLike,
    times: ArrayLike,
    *,
    tau: float = 1.0,
    tolerance: float = 1e-6,
    progress: Callable[[int, float], None] | None = None,
) -> ChangingFlow:
    """Solve the flow Kτ dw/dt = b(t) − A(t)w of K = k gates g(t, x) that change over time, from w(0) = w₀.

    Piecewise constant gates: each piece is the closed form of `gradient_flow`, started at the end of the previous
    piece, and exact up to rounding. Other gates: the exponential midpoint rule treats [t, t + h] as one piece with the
    gates of its midpoint. The rule is of second order, stable for every h, and exact if A and b are constant.

    Pieces are halved, and the weights are extrapolated by Richardson's formula. The error estimate is a third of the
    last change. Halving ends if this estimate is within the tolerance and the one before was at most eight times the
    tolerance. To detect jumps, each piece is also solved with the gates of the piece before. Halving quarters the
    largest difference if gates are smooth, and halves this difference if gates jump; the difference is then the error
    estimate. Jumps therefore need many pieces, so give such gates as pieces. Changes between two midpoints remain
    undetected. This is ours; section 5, "Some ideas", 1, of the notes on localization suggests it.

    Parameters
    ----------
    gates : list of (time, moments), or callable(time) → moments
        Start times of the pieces, the first 0, with their moments; or the moments at each time t ≥ 0. All are
        `Moments` or all are `OrbitMoments`, which reduce one problem of size n² to n problems of size n.
    w0 : array, shape (k, d)
    times : array, shape (T,)
        Non-negative and in order.
    tau : float
        τ > 0.
    tolerance : float
        Largest `error` of callable gates, relative to the largest weight.
    progress : callable(pieces, error), optional
        Called after each halving.

    Raises
    ------
    InputError
        As for `gradient_flow`, and if pieces do not start at 0 or are not in order, moments differ in shape, or gates
        need more than 16 384 pieces between two times.

    Examples
    --------
    >>> from implicit_bias.extensions.gated_flow import Moments, changing_flow
    >>> rising = lambda t: Moments.from_arrays([[t]], [[1.0]], 100.0)
    >>> found = changing_flow(rising, [[0.0]], [0.0, 1.0])
    >>> abs(found.weights[1].item() - np.exp(-1)) < 2 * found.error + 1e-12 < 1e-5
    True
    """
    at, tau = as_times(times), as_positive(tau, "tau")
    check_callable(progress, "progress")
    if callable(gates):
        tolerance = as_positive(tolerance, "tolerance")
        first = _check_kind(gates(float(at[0])))
        start = as_start(w0, (first.k, first.d))
        weights, pieces, error = _solve_callable(gates, first, start, at, tau, tolerance, progress)
        all_moments = [_check_alike(gates(float(t)), first) for t in at]
    else:
        starts, stages = _pieces(gates)
        start = as_start(w0, (stages[0].k, stages[0].d))
        weights, pieces, error = _solve_pieces(starts, stages, start, at, tau)[0], len(stages), 0.0
        all_moments = [stages[int(np.searchsorted(starts, t, side="right")) - 1] for t in at]
    losses = np.array([moments.loss(w) for moments, w in zip(all_moments, weights, strict=True)])
    return ChangingFlow(at, weights, losses, pieces, error)


def _pieces(gates: Any) -> tuple[Array, list[Any]]:
    given = list(gates) if isinstance(gates, list | tuple) else []
    if not given or not all(isinstance(pair, tuple | list) and len(pair) == 2 for pair in given):
        raise InputError("gates must be a list of (time, moments), or a function from the time to moments")
    starts = as_floats([time for time, _ in given], "the times of change", 1)
    if starts[0] != 0 or (np.diff(starts) <= 0).any():
        raise InputError("the times of change must begin with 0 and rise; sort the pieces")
    first = _check_kind(given[0][1])
    return starts, [_check_alike(moments, first) for _, moments in given]


def _check_kind(moments: Any) -> Any:
    if not isinstance(moments, Moments | OrbitMoments):
        raise InputError(f"gates that change over time must be Moments or OrbitMoments, not {shown(moments)}")
    return moments


def _check_alike(moments: Any, first: Any) -> Any:
    if (type(moments), _check_kind(moments).k, moments.d) != (type(first), first.k, first.d):
        raise InputError(
            f"moments at one time are of {moments.k} gates and {moments.d} inputs, at another of {first.k} and "
            f"{first.d}; give the same gates and inputs at all times"
        )
    return moments


def _solve_pieces(
    starts: Array, stages: Sequence[Any], w: Array, at: Array, tau: float, compare: bool = False
) -> tuple[Array, float]:
    """Return the weights (T, k, d) at the times `at`, by closed forms, and if `compare` the largest jump of gates."""
    check_size(len(at) * w.size, "the weights at all times")
    path, jump = np.empty((len(at), *w.shape)), 0.0
    for piece, moments in enumerate(stages):
        last = piece + 1 == len(stages) or starts[piece + 1] > at[-1]
        end = np.inf if last else starts[piece + 1]
        inside = (at >= starts[piece]) & (at < end)
        until = at[inside] - starts[piece]
        stops = until if last else np.append(until, end - starts[piece])
        if len(stops):
            reached = moments.moved(w, scaled_times(stops, moments.k, tau))
            if compare and piece:
                other = stages[piece - 1].moved(w, scaled_times(stops[-1:], moments.k, tau))[0]
                jump = max(jump, float(np.abs(reached[-1] - other).max()))
            path[inside] = reached[: len(until)]
            w = reached[-1]
        if last:
            break
    return path, jump


def _solve_callable(
    gates: Callable[[float], Any], first: Any, w0: Array, at: Array, tau: float, tolerance: float, progress: Any
) -> tuple[Array, int, float]:
    """Return weights (T, k, d), the number of pieces and their absolute error estimate, by halving pieces."""
    before, last, count, jump_before = None, np.inf, 1, np.inf
    edges = np.unique(np.append(0.0, at))
    while count <= MAX_PIECES:
        cuts = [np.linspace(a, b, count, endpoint=False) for a, b in pairwise(edges)]
        starts = np.concatenate(cuts) if cuts else np.zeros(1)
        middles = (starts + np.append(starts[1:], edges[-1])) / 2
        stages = [_check_alike(gates(float(t)), first) for t in middles]
        path, jump = _solve_pieces(starts, stages, w0, at, tau, compare=True)
        if before is not None:
            better = path + (path - before) / 3
            error = float(np.abs(better - path).max())
            accepted = tolerance * np.abs(better).max()
            if jump > SMOOTH_RATIO * jump_before:
                error = max(error, jump)
            if progress is not None:
                progress(len(starts), error)
            # Two grids may agree by chance at a jump. A true second-order error was four times as large before.
            if error <= accepted and last <= 8 * accepted:
                return better, len(starts), error
            last = error
        before, jump_before, count = path, jump, 2 * count
    raise InputError(
        f"the gates need more than {MAX_PIECES} pieces between two times; give them in pieces if they jump"
    )
