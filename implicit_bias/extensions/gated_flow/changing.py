"""Gradient flow behind gates that change over time: in closed form piece by piece, or to an error that is told."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from implicit_bias._utils.checks import Array, InputError, as_floats, as_positive, check_callable, check_size, shown
from implicit_bias.extensions.gated_flow.flow import as_start, as_times, shares_of
from implicit_bias.extensions.gated_flow.moments import Moments
from implicit_bias.extensions.gated_flow.orbits import OrbitMoments

#: Pieces between two times that are tried at most.
MOST_PIECES = 2**14
#: What changes of gates from piece to piece make of w becomes a quarter where they are smooth and half where they jump.
SMOOTH = 0.35


@dataclass(frozen=True, eq=False)
class ChangingFlow:
    """w(t) of `changing_flow` at the times that were asked for.

    Attributes
    ----------
    times : array, shape (T,)
    weights : array, shape (T, k, d)
    losses : array, shape (T,)
        ⟨(y − ŷ)²⟩ with the gates of that time; at a time of change, of those after it.
    pieces : int
        How many pieces of constant gates were gone through in the end.
    error : float
        An estimate of the largest error of a weight; 0 where the gates given are piecewise constant, but for rounding.

    Examples
    --------
    >>> from implicit_bias.extensions.gated_flow.moments import Moments
    >>> from implicit_bias.extensions.gated_flow.changing import changing_flow
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
    """The flow Kτ dw/dt = b(t) − A(t)w of gates g(t, x) that change over time, from w(0) = w₀.

    Where the gates are constant in pieces, each piece is the closed form of `gradient_flow` from where the last one
    ended, exact but for rounding. Where they are not, [t, t + h] is one piece with the gates of its middle (the
    exponential midpoint rule: of second order, stable for every h as A has no negative eigenvalue, exact where A and b
    are constant); pieces are halved until the change, a third of which is the error that is left by Richardson's
    extrapolation, is small enough, and was at most eight times as large before. The weights returned are the
    extrapolated ones. How far the gates of one piece would lead in the next one is compared as well: where gates
    jump, that becomes half with h, not a quarter, and where it does so the largest is the error. So jumps take many
    pieces, or are refused: give them in pieces. What comes and goes between the middles of two pieces is not seen.

    Parameters
    ----------
    gates : list of (time, moments), or callable(time) → moments
        From when on moments are in force, the first time being 0; or the moments at each time t ≥ 0. All are `Moments`,
        or all `OrbitMoments`, which share the ring's Fourier basis at all times: n problems of size n, not one of n².
    w0 : array, shape (k, d)
    times : array, shape (T,)
        From 0, in order.
    tau : float
        τ > 0.
    tolerance : float
        Of callable gates: how large `error` may be, against the largest weight.
    progress : callable(pieces, error), optional
        Called after each halving.

    Raises
    ------
    InputError
        For times and weights as `gradient_flow` does, pieces that do not begin at 0 or are not in order, moments of
        different shapes, and gates that need more than 16 384 pieces between two times.

    References
    ----------
    Ours; the notes on localization ask for it in their section 5, "Some ideas", 1.

    Examples
    --------
    >>> from implicit_bias.extensions.gated_flow.moments import Moments
    >>> from implicit_bias.extensions.gated_flow.changing import changing_flow
    >>> rising = lambda t: Moments.from_arrays([[t]], [[1.0]], 100.0)
    >>> found = changing_flow(rising, [[0.0]], [0.0, 1.0])
    >>> abs(found.weights[1].item() - np.exp(-1)) < 2 * found.error + 1e-12 < 1e-5
    True
    """
    at, tau = as_times(times), as_positive(tau, "tau")
    check_callable(progress, "progress")
    if callable(gates):
        first = _known(gates(float(at[0])))
        start = as_start(w0, (first.k, first.d))
        weights, pieces, error = _refined(gates, first, start, at, tau, as_positive(tolerance, "tolerance"), progress)
        found = [_alike(gates(float(t)), first) for t in at]
    else:
        begins, known = _pieces(gates)
        start = as_start(w0, (known[0].k, known[0].d))
        weights, pieces, error = _through(begins, known, start, at, tau)[0], len(known), 0.0
        found = [known[int(np.searchsorted(begins, t, side="right")) - 1] for t in at]
    losses = np.array([moments.loss(w) for moments, w in zip(found, weights, strict=True)])
    return ChangingFlow(at, weights, losses, pieces, error)


def _pieces(gates: Any) -> tuple[Array, list[Any]]:
    """When pieces begin, and their moments."""
    given = list(gates) if isinstance(gates, list | tuple) else []
    if not given or not all(isinstance(pair, tuple | list) and len(pair) == 2 for pair in given):
        raise InputError("gates must be a list of (time, moments), or a function from the time to moments")
    begins = as_floats([time for time, _ in given], "the times of change", 1)
    if begins[0] != 0 or (np.diff(begins) <= 0).any():
        raise InputError("the times of change must begin with 0 and rise; sort the pieces")
    first = _known(given[0][1])
    return begins, [_alike(moments, first) for _, moments in given]


def _known(moments: Any) -> Any:
    if not isinstance(moments, Moments | OrbitMoments):
        raise InputError(f"gates that change over time are Moments or OrbitMoments, not {shown(moments)}")
    return moments


def _alike(moments: Any, first: Any) -> Any:
    """The moments, if they are of as many gates and inputs as the first."""
    if (type(moments), _known(moments).k, moments.d) != (type(first), first.k, first.d):
        raise InputError(
            f"moments at one time are of {moments.k} gates and {moments.d} inputs, at another of {first.k} and "
            f"{first.d}; give the same gates, and inputs, at all times"
        )
    return moments


def _through(
    begins: Array, known: Sequence[Any], w: Array, at: Array, tau: float, compare: bool = False
) -> tuple[Array, float]:
    """The weights (T, k, d) at times, by the closed form of each piece.

    And, to `compare`, the most that a weight moves otherwise in a piece by the gates of the piece before; else 0.
    """
    check_size(len(at) * w.size, "the weights at all times")
    found, otherwise = np.empty((len(at), *w.shape)), 0.0
    for piece, moments in enumerate(known):
        last = piece + 1 == len(known) or begins[piece + 1] > at[-1]
        end = np.inf if last else begins[piece + 1]
        inside = (at >= begins[piece]) & (at < end)
        until = at[inside] - begins[piece]
        stops = until if last else np.append(until, end - begins[piece])
        if len(stops):
            reached = moments.moved(w, shares_of(stops, moments.k, tau))
            if compare and piece:
                other = known[piece - 1].moved(w, shares_of(stops[-1:], moments.k, tau))[0]
                otherwise = max(otherwise, float(np.abs(reached[-1] - other).max()))
            found[inside] = reached[: len(until)]
            w = reached[-1]
        if last:
            break
    return found, otherwise


def _refined(
    gates: Callable[[float], Any], first: Any, w0: Array, at: Array, tau: float, tolerance: float, progress: Any
) -> tuple[Array, int, float]:
    """Weights at times, pieces and the error, for gates of any kind."""
    before, last, count, jump_before = None, np.inf, 1, np.inf
    edges = np.unique(np.append(0.0, at))
    while count <= MOST_PIECES:
        cuts = [np.linspace(a, b, count, endpoint=False) for a, b in pairwise(edges)]
        begins = np.concatenate(cuts) if cuts else np.zeros(1)
        middles = (begins + np.append(begins[1:], edges[-1])) / 2
        known = [_alike(gates(float(t)), first) for t in middles]
        found, jump = _through(begins, known, w0, at, tau, compare=True)
        if before is not None:
            better = found + (found - before) / 3
            error = float(np.abs(better - found).max())
            near = tolerance * np.abs(better).max()
            if jump > SMOOTH * jump_before:
                error = max(error, jump)
            if progress is not None:
                progress(len(begins), error)
            # A jump may by chance look the same from two grids; errors of second order were four times as large before.
            if error <= near and last <= 8 * near:
                return better, len(begins), error
            last = error
        before, jump_before, count = found, jump, 2 * count
    raise InputError(
        f"the gates need more than {MOST_PIECES} pieces between two times; give them in pieces if they jump"
    )
