"""Cases about least squares on gated features: a solution is held against the singular values of the dense matrix."""

from __future__ import annotations

from typing import Any

import numpy as np

from implicit_bias import (
    Alternation,
    FilterSearch,
    GatedFeatures,
    KernelFeatures,
    LeastSquares,
    alternate_convex_search,
    improve_filters,
    least_squares,
)
from odd import data
from odd.draw import Array, Draw, Given, close, expect, in_range, is_count, is_number
from odd.judge import Raw
from odd.surface import entry

EPS = float(np.finfo(float).eps)
#: Sizes of targets; beyond 1e±100 they may be refused.
SIZES = [1.0, 1.0, 1.0, 0.0, 1e-8, 1e90, 1e-90, 1e100, 1e-100, 1e200, 1e-200, 1e300]


def targets(draw: Draw, n: int, several: bool = True) -> Given:
    """Targets (n,) or (n, q) of every size, in disguise or damaged."""
    Y = draw.normal(n, draw.whole(1, 3)) if several and draw.chance(0.4) else draw.normal(n)
    given = draw.array(Y * draw.pick(SIZES))
    if given.note in ("one dimension more", "one dimension less"):
        # Which may be targets of another kind.
        return Given(Y, Y, "targets")
    return given


def features_of(draw: Draw) -> tuple[Any, Array]:
    """Features, and their dense matrix (n, k·d) in longdouble."""
    X, _ = data.samples(draw)
    given = draw.array(X)
    if draw.chance(0.15):
        factors = np.stack([X, draw.normal(*X.shape) * np.abs(X).max()], axis=1)
        kernels = draw.array(factors)
        wild = kernels.plain is not None and not in_range(np.abs(kernels.plain).max(axis=(1, 2)))
        features: Any = draw.call(KernelFeatures, kernels, may_refuse=wild)
        return features, kernels.plain.astype(np.longdouble).reshape(len(X), -1)
    G = draw.array(data.gate_values(draw, len(X)))
    if G.value is None:
        G = Given(None, np.ones((len(X), 1)), "no gates")
    features = draw.call(GatedFeatures, given, G, may_refuse=not data.features_in_range(given, G))
    return features, Raw.gated(given.plain, G.plain, np.ones(len(X)), "frobenius").blocks.reshape(len(X), -1)


def spectrum(dense: Array) -> tuple[Array, Array, Array, np.longdouble]:
    """U, σ and V of a dense matrix, divided by its largest entry, and that entry."""
    size = np.max(np.abs(dense), initial=0) or np.longdouble(1)
    U, s, Vt = np.linalg.svd((dense / size).astype(float), full_matrices=False)
    return U, s, Vt.T, size


def ranks(s: Array, tol: float) -> tuple[int, int]:
    """The smallest and largest rank that rounding leaves possible: singular values next to the tolerance may count."""
    room = 2e-3 * tol + 2e-11
    return int(np.sum(s > s[0] * (tol + room))), int(np.sum(s > s[0] * (tol - room)))


@entry("least_squares", share=6)
def _least_squares(draw: Draw) -> str:
    """Weights, loss, rank, condition and gap, for ridges and tolerances of every kind and targets of every size."""
    features, dense = features_of(draw)
    y = targets(draw, len(dense))
    ridge = draw.scalar([0, 0.0, 0.0, 1e-3, 1.0, 1e10, 1e-200, 1e200], lambda v: is_number(0)(v) or is_zero(v))
    tol = draw.scalar([1e-9, 1e-9, 1e-10, 1e-6, 0.1], is_number(1e-10, 0.1, ends=True))
    wrapped = draw.scalar([features], lambda v: False)
    wild = not sizes_in_range(dense, y.plain, ridge.plain)
    found = draw.call(least_squares, wrapped, y, may_refuse=wild, must_refuse=not dense.any(), ridge=ridge, tol=tol)
    several = np.ndim(y.plain) == 2
    W = (found.weights if several else found.weights[None]).reshape(-1, dense.shape[1]).astype(np.longdouble)
    expect(found.weights.shape[:-2] == y.plain.shape[1:], f"weights of shape {found.weights.shape}")
    check_solution(found, W, dense, y.plain.reshape(len(dense), -1), float(ridge.value), float(tol.value))
    expect("array" not in repr(found), "it prints its arrays")
    return "correct"


def is_zero(value: Any) -> bool:
    """Whether a number is 0."""
    return is_number()(value) and value == 0


def sizes_in_range(dense: Array, y: Any, ridge: Any) -> bool:
    """Whether features, targets, weights and a ridge in units of squared features are well within floating point."""
    if y is None or not is_number()(ridge):
        return True
    size, top = np.max(np.abs(dense), initial=0), np.max(np.abs(np.asarray(y, dtype=np.longdouble)), initial=0)
    if top and not 1e-100 <= top <= 1e100:
        return False
    ratio = top / (size or 1)
    return in_range(size, ratio * 1e30, ratio / 1e30) and bool(np.longdouble(ridge) / (size or 1) ** 2 < 1e95)


def check_solution(found: LeastSquares, W: Array, dense: Array, Y: Array, ridge: float, tol: float) -> None:
    """A solution W (q, k·d) in longdouble, and all that is said of it."""
    n, _ = dense.shape
    U, s, V, size = spectrum(dense)
    to = np.max(np.abs(Y), initial=0) or 1.0
    A, Y, Z = dense / size, (Y / to).astype(np.longdouble), W * (size / np.longdouble(to))
    shift = float(np.longdouble(ridge) * n / size**2)
    expect(bool(np.isfinite(W).all()), "weights that are not finite")
    rank, most = ranks(s, tol)
    expect(rank <= found.rank <= most, f"rank {found.rank}, not {rank} to {most}")
    rank = found.rank
    kappa = s[0] / s[rank - 1]
    expect(abs(found.condition / kappa - 1) < 1e-2, f"condition {found.condition:g}, not {kappa:g}")
    missing = Y - A @ Z.T
    # What the rounding of products may add to a residual.
    noise = 100 * EPS * float(np.linalg.norm((np.abs(A) @ np.abs(Z.T)).astype(float)) + np.linalg.norm(Y.astype(float)))
    loss, stated = np.sum(missing**2), np.longdouble(found.loss) * n / np.longdouble(to) ** 2
    expect(abs(np.sqrt(stated) - np.sqrt(loss)) <= 1e-9 * np.sqrt(loss) + noise, f"loss {stated:g}, not {loss:g}")
    length = np.sqrt(np.sum(Z**2))
    expect(close(np.longdouble(found.norm) * size / to, length, 1e-12), "another norm")
    wanted = (U[:, :rank].T @ Y.astype(float)) * (s[:rank] / (s[:rank] ** 2 + shift))[:, None]
    best = Y.astype(float) - U[:, :rank] @ (s[:rank, None] * wanted)
    least = np.sum(best**2) + shift * np.sum(wanted**2)
    gap = np.longdouble(found.gap) * n / np.longdouble(to) ** 2
    above = float(loss + shift * length**2 - least)
    expect(
        above <= 1.001 * gap + noise * (noise + 2 * float(np.sqrt(loss))) + 1e-9 * least, "further above than its gap"
    )
    below = s[rank] if rank < len(s) else 0.0
    room = 300 * EPS * max(A.shape) * kappa * s[0] / (s[rank - 1] - below)
    room *= np.linalg.norm(wanted) + kappa * np.linalg.norm(best) / s[0]
    apart = np.linalg.norm((Z.T - V[:, :rank] @ wanted).astype(float))
    expect(apart <= room + 1e-300, f"weights off by {apart:.1e}, more than {room:.1e}; condition {kappa:.1e}")


@entry("LeastSquares", share=1)
def _record(draw: Draw) -> str:
    record = draw.call(LeastSquares, draw.normal(1, 2), 0.0, 1.0, 1, 1.0, np.nan, 0.0, "samples", 0.0)
    expect("array" not in repr(record), "it prints its arrays")
    return "correct"


def count(draw: Draw, good: list[int], least: int = 1) -> Given:
    """A number of steps, none so large that it would take long."""
    given = draw.scalar(good, is_count(least, 10**500))
    return Given(100, 100, "100") if is_count(101, 10**500)(given.value) else given


@entry("improve_filters", share=4)
def _improve_filters(draw: Draw) -> str:
    """What is lowered never rises, and the solution is the least squares solution of the filters that come out."""
    if draw.chance(0.3):
        X, _ = data.samples(draw)
    else:
        X = draw.normal(draw.whole(14, 60), draw.whole(1, 4)) * draw.pick([1.0, 1.0, 1e-8, 1e30])
    given = draw.array(X)
    y = targets(draw, len(X), several=draw.chance(0.2)) if draw.chance(0.25) else draw.array(draw.normal(len(X)))
    if y.note == "one dimension more":
        y = Given(np.ones(len(X)), np.ones(len(X)), "ones")
    first = draw.array(draw.normal(draw.whole(1, 4), X.shape[1]))
    begin: dict[str, Any] = {"units": draw.scalar([1, 2, 4, 9], is_count(most=2**10))}
    if draw.chance(0.4) and first.value is not None:
        begin = {"directions": first}
    if draw.chance(0.05):
        begin = draw.pick([{}, {"units": 2, "directions": first}])
    ridge = draw.scalar([0, 0.0, 0.1, 1e-6, 100.0], lambda v: is_number(0)(v) or is_zero(v))
    options: dict[str, Any] = {"ridge": ridge, "steps": count(draw, [0, 1, 20, 90], least=0)}
    options["seed"] = draw.scalar([0, 1, 2**40], is_count(0, 2**63 - 1))
    plain = np.zeros((1, 1)) if given.plain is None else given.plain
    odd = np.ndim(y.plain) == 2 and np.shape(y.plain)[1] > 1
    size = float(np.max(np.abs(plain)))
    wild = not sizes_in_range(plain, y.plain, ridge.plain) or not 1e-100 <= size <= 1e100
    odd = odd or len(begin) != 1 or not plain.any()
    # Few filters may be closed for all of few samples, or for inputs that are all positive.
    closed = not (plain * plain[:1] < 0).any(axis=0).all()
    may = wild or len(X) < 14 or closed
    found = draw.call(improve_filters, given, y, may_refuse=may, must_refuse=odd, **begin, **options)
    expect(isinstance(found, FilterSearch) and "array" not in repr(found), "it prints its arrays")
    steps, history = int(options["steps"].value), found.history
    expect(len(history) == steps + 1 and np.isfinite(history).all(), "another history")
    expect(np.all(np.diff(history) <= 1e-7 * abs(history[0])), "uphill")
    G = (given.plain @ found.directions.T >= 0).astype(float)
    dense = Raw.gated(given.plain, G, np.ones(len(X)), "frobenius").blocks.reshape(len(X), -1)
    solution = found.solution
    W = solution.weights.reshape(1, -1).astype(np.longdouble)
    check_solution(solution, W, dense, y.plain.reshape(-1, 1), float(ridge.value), 1e-9)
    if solution.condition < 1e3 and solution.rank == min(dense.shape):
        value = np.longdouble(solution.loss) + np.longdouble(found.ridge) * np.longdouble(solution.norm) ** 2
        # `solution` lacks the little that the search adds to the ridge.
        squares = len(found.directions) * np.sum(given.plain.astype(np.longdouble) ** 2) / len(X)
        extra = 1e-9 * squares * np.longdouble(solution.norm) ** 2
        expect(
            abs(history[-1] - value) <= 1e-4 * abs(history[0]) + extra, f"history ends at {history[-1]}, not {value}"
        )
    if begin.keys() == {"directions"} and not steps:
        expect(np.array_equal(found.directions, first.plain), "other filters")
    return "correct"


@entry("FilterSearch", share=1)
def _search_record(draw: Draw) -> str:
    U = draw.normal(2, 3)
    found = draw.call(FilterSearch, U, None, np.zeros(1), 0.0, 0, False, 0.0)
    new = draw.array(draw.normal(4, 3))
    values = draw.call(found.gates().transform, new)
    expect(np.array_equal(values, (new.plain @ U.T >= 0).astype(float)), "other gates")
    return "correct"


@entry("alternate_convex_search", share=4)
def _alternate(draw: Draw) -> str:
    """The history never rises and ends at the loss of the layer and the readout, not below that of free weights."""
    features, dense = features_of(draw)
    if not isinstance(features, GatedFeatures):
        draw.call(alternate_convex_search, features, np.ones(len(dense)), must_refuse=True)
    Y = targets(draw, len(dense))
    options: dict[str, Any] = {
        "steps": count(draw, [1, 3, 30]),
        "tol": draw.scalar([1e-4, 0, 0.0, 1, 1e-12], lambda v: is_number(0, 1, ends=True)(v)),
        "seed": draw.scalar([0, 1, 2**40], is_count(0, 2**63 - 1)),
    }
    wrapped = draw.scalar([features], lambda v: False)
    plain = features.X, features.gate_values
    wild = not all(in_range(1e225 * np.abs(part).max(), 1e-225 * np.abs(part).max()) for part in (*plain, dense))
    wild = wild or not sizes_in_range(dense, Y.plain, 0.0)
    found = draw.call(alternate_convex_search, wrapped, Y, may_refuse=wild, must_refuse=not dense.any(), **options)
    expect(isinstance(found, Alternation) and "array" not in repr(found), "it prints its arrays")
    wanted = Y.plain.reshape(len(dense), -1).astype(np.longdouble)
    k, d, q = features.k, features.d, wanted.shape[1]
    expect(found.hidden.shape == (k, d) and found.readout.shape == (q, k), "other shapes")
    expect(np.isfinite(found.hidden).all() and np.isfinite(found.readout).all(), "weights that are not finite")
    expect(np.isfinite(found.history).all() and np.all(np.diff(found.history) <= 0), "uphill")
    W = found.effective_weights()
    A, B = found.hidden.astype(np.longdouble), found.readout.astype(np.longdouble)
    expect(close(W, B[:, :, None] * A, 1e-12), "other weights")
    flat = (B[:, :, None] * A).reshape(q, -1)
    loss = np.sum((wanted - dense @ flat.T) ** 2) / len(dense)
    noise = 100 * EPS * (np.sqrt(np.sum((np.abs(dense) @ np.abs(flat.T)) ** 2) / len(dense)) + np.abs(wanted).max())
    room = noise * (noise + 2 * np.sqrt(loss)) + 1e-9 * loss
    expect(abs(found.loss - loss) <= room, f"loss {found.loss}, not {loss}")
    expect(abs(found.history[-1] - loss) <= room, f"the history ends at {found.history[-1]}, not {loss}")
    expect(len(found.history) <= 1 + 2 * int(options["steps"].value), "more steps")
    U, s, _, _ = spectrum(dense)
    U = U[:, s > 1e-13 * s[0]]
    free = wanted - U @ (U.T.astype(np.longdouble) @ wanted)
    expect(loss >= np.sum(free**2) / len(dense) * (1 - 1e-6) - room, "below the least loss of free weights")
    return "correct"


@entry("Alternation", share=1)
def _alternation_record(draw: Draw) -> str:
    A, B = draw.normal(2, 3), draw.normal(4, 2)
    found = draw.call(Alternation, A, B, 0.0, np.zeros(1), True, 0.0)
    expect(close(found.effective_weights(), np.einsum("cj,jd->cjd", B, A)), "other weights")
    return "correct"
