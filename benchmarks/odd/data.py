"""Samples, gates and margin problems to draw: ordinary, degenerate, and of every scale."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from implicit_bias import (
    Frobenius,
    GatedFeatures,
    GroupLasso,
    HyperplaneGates,
    KernelFeatures,
    MarginProblem,
    Norm,
    PredictorL2,
)
from odd.draw import Array, Draw, Given, Refused, in_range
from odd.judge import Raw

Samples = tuple[Array, Array]


def _linear(draw: Draw, n: int, d: int) -> Samples:
    X = draw.normal(n, d)
    y = np.where(X @ draw.normal(d) > 0, 1.0, -1.0)
    X[:, 0] += y
    return X, y


def _random_labels(draw: Draw, n: int, d: int) -> Samples:
    return draw.normal(n, d), draw.rng.choice([-1.0, 1.0], n)


def _duplicates(draw: Draw, n: int, d: int) -> Samples:
    X, y = _linear(draw, n, d)
    rows = draw.rng.integers(0, n, n)
    return X[rows], y[rows]


def _conflict(draw: Draw, n: int, d: int) -> Samples:
    X, y = _linear(draw, n, d)
    X[0], y[0] = X[-1], -y[-1]
    return X, y


def _near_conflict(draw: Draw, n: int, d: int) -> Samples:
    X, y = _linear(draw, n, d)
    X[0], y[0] = X[-1], -y[-1]
    X[0, -1] += 10.0 ** -draw.whole(4, 15) * abs(X[0, -1])
    return X, y


def _collinear(draw: Draw, n: int, d: int) -> Samples:
    t = draw.normal(n, 1)
    return t * draw.normal(1, d), np.where(t[:, 0] > draw.pick([0.0, 0.3]), 1.0, -1.0)


def _constant(draw: Draw, n: int, d: int) -> Samples:
    return np.full((n, d), draw.pick([0.0, 1.0, -3.0])), draw.rng.choice([-1.0, 1.0], n)


def _integers(draw: Draw, n: int, d: int) -> Samples:
    X = draw.rng.integers(-2, 3, (n, d)).astype(float)
    return X, np.where(X @ draw.rng.integers(-2, 3, d) > 0, 1.0, -1.0)


def _signed_zeros(draw: Draw, n: int, d: int) -> Samples:
    X, y = _linear(draw, n, d)
    X[draw.rng.random((n, d)) < 0.5] = draw.pick([0.0, -0.0])
    return X, y


def _one_class(draw: Draw, n: int, d: int) -> Samples:
    return draw.normal(n, d), np.full(n, draw.pick([1.0, -1.0]))


def _constant_last(draw: Draw, n: int, d: int) -> Samples:
    X, y = _linear(draw, n, d)
    X[:, -1] = 1.0
    return X, y


def _columns_of_all_scales(draw: Draw, n: int, d: int) -> Samples:
    X, y = _linear(draw, n, d)
    return X * 10.0 ** draw.rng.integers(-12, 13, d), y


def _rows_of_all_scales(draw: Draw, n: int, d: int) -> Samples:
    X, y = _linear(draw, n, d)
    return X * 10.0 ** draw.rng.integers(-6, 7, (n, 1)), y


SAMPLES: dict[str, Callable[[Draw, int, int], Samples]] = {
    "linear": _linear,
    "random labels": _random_labels,
    "duplicates": _duplicates,
    "a conflict": _conflict,
    "nearly a conflict": _near_conflict,
    "collinear": _collinear,
    "constant": _constant,
    "integers": _integers,
    "signed zeros": _signed_zeros,
    "one class": _one_class,
    "constant last": _constant_last,
    "columns of all scales": _columns_of_all_scales,
    "rows of all scales": _rows_of_all_scales,
}
#: Factors of all inputs: mostly 1, else up to where squares overflow and underflow.
SCALES = [*[1.0] * 8, 1e-8, 1e8, 1e-100, 1e100, 1e-150, 1e150, 1e-200, 1e200, 1e-300, 1e300]


def size(draw: Draw) -> tuple[int, int]:
    """Numbers of samples and inputs: tiny ones, ordinary ones, more inputs than samples."""
    n, d = draw.pick([(1, 1), (2, 1), (2, 2), (3, 1), (5, 3), (8, 4), (12, 30), (20, 5), (40, 12), (60, 4)])
    return max(1, n + draw.whole(-1, 1)), max(1, d + draw.whole(-1, 1))


def samples(draw: Draw, scaled: bool = True) -> Samples:
    """Clean inputs (n, d) and labels (n,), of every kind and scale."""
    n, d = size(draw)
    kind, scale = draw.pick(list(SAMPLES)), draw.pick(SCALES) if scaled else 1.0
    X, y = SAMPLES[kind](draw, n, d)
    draw.story.append(f"samples: {kind}, n = {n}, d = {d}, times {scale:g}")
    with np.errstate(over="ignore", under="ignore"):
        scaled_X = X * scale
    return (scaled_X if np.isfinite(scaled_X).all() else X), y


def gate_values(draw: Draw, n: int) -> Array:
    """Gate values (n, k): hard, one-hot, soft, closed for a sample, or of any size."""
    k = draw.whole(1, 6)
    kind = draw.pick(["open", "hard", "one-hot", "soft", "negative", "tiny", "huge"])
    draw.story.append(f"gates: {kind}, k = {k}")
    hard = (draw.rng.random((n, k)) < 0.6).astype(float)
    if kind == "open":
        return np.ones((n, k))
    if kind == "one-hot":
        return np.eye(k)[draw.rng.integers(0, k, n)]
    if kind == "soft":
        return draw.rng.random((n, k))
    if kind == "negative":
        return draw.normal(n, k)
    return hard * {"hard": 1.0, "tiny": 1e-120, "huge": 1e120}[kind]


def one_hot(draw: Draw, n: int, units: int, contexts: int) -> Array:
    """One-hot contexts of several units, (n, units·contexts)."""
    return np.hstack([np.eye(contexts)[draw.rng.integers(0, contexts, n)] for _ in range(units)])


def features_in_range(X: Given, G: Given) -> bool:
    """Whether inputs, gates and their products are of sizes that the toolkit takes; True where they are damaged."""
    if X.plain is None or G.plain is None or len(X.plain) != len(G.plain):
        return True
    x, g = np.abs(X.plain).max(axis=1).astype(np.longdouble), np.abs(G.plain).max(axis=1).astype(np.longdouble)
    return in_range(x.max(), g.max(), x * g)


def prices_in_range(raw: Raw) -> bool:
    """Whether the prices of slack are, as they are and in units of the features."""
    if np.isinf(raw.C):
        return True
    size = np.sqrt(np.sum(raw.blocks**2, axis=(1, 2))).max() or np.longdouble(1)
    # A sum of squares is not computed alike everywhere: near the ends of the range both is right.
    return in_range(raw.prices, raw.prices * raw.m * size * 10, raw.prices * raw.m * size / 10)


#: Prices of slack.
PRICES = [np.inf] * 4 + [1.0, 0.03, 1e-3, 100.0, 1e-8, 1e8, 1e-300, 1e300, 5e-324, 1e15]


def problem(draw: Draw, scaled: bool = True) -> tuple[MarginProblem, Raw]:
    """A margin problem of disguised or damaged inputs, and what it means in raw numbers."""
    X, y = samples(draw, scaled)
    kind = draw.pick(["gates", "gates", "gates", "plain", "one-hot", "kernels"])
    C, more = _price(draw, len(X))
    intercept = draw.chance(0.2)
    given_y = draw.array(y)
    one_class = given_y.plain is not None and len(set(given_y.plain.tolist())) < 2
    odd_labels = given_y.plain is not None and not set(given_y.plain.tolist()) <= {-1.0, 1.0}
    if kind == "kernels":
        factors = np.stack([X, draw.normal(*X.shape)], axis=1)
        given = draw.array(factors)
        sizes = np.zeros(1) if given.plain is None else np.abs(given.plain).max(axis=(1, 2))
        features: Any = draw.call(KernelFeatures, given, may_refuse=not in_range(sizes))
        norm, about = group_norm(draw, 2)
        raw = Raw(np.asarray(given.plain), given_y.plain, **about, C=C.plain, intercept=intercept, **_plain(more))
    else:
        given = draw.array(X)
        shape = draw.whole(1, 3), draw.pick([1, 2, 4])
        G = {"gates": gate_values, "plain": lambda *_: np.ones((len(X), 1))}.get(
            kind, lambda *_: one_hot(draw, len(X), *shape)
        )(draw, len(X))
        given_G = draw.array(G) if kind != "plain" else Given(None, G, "no gates")
        if given_G.value is None:
            kind, shape = "plain", (1, 1)
            G = np.ones((len(X), 1))
            given_G = Given(None, G, "no gates")
        features = draw.call(GatedFeatures, given, given_G, may_refuse=not features_in_range(given, given_G))
        if kind == "one-hot":
            norm, about = PredictorL2(*shape), {"norm": "predictor", "shape": shape}
        else:
            norm, about = group_norm(draw, G.shape[1])
        if given.plain is None or given_G.plain is None or given_y.plain is None:
            raw = Raw(np.zeros((1, 1, 1)), np.zeros(1), "frobenius")
        else:
            about |= {"C": C.plain, "intercept": intercept} | _plain(more)
            raw = Raw.gated(given.plain, given_G.plain, given_y.plain, **about)
    built = draw.call(
        MarginProblem,
        features,
        given_y,
        norm,
        C,
        may_refuse=any(part.plain is None for part in (given_y, *more.values())) or not prices_in_range(raw),
        must_refuse=odd_labels or (intercept and one_class),
        intercept=intercept,
        **more,
    )
    return built, raw


def _price(draw: Draw, n: int) -> tuple[Given, dict[str, Any]]:
    value = draw.pick(PRICES)
    C = Given(value, value, repr(value))
    more: dict[str, Any] = {}
    for name in ("required_margin", "sample_weight"):
        if draw.chance(0.2):
            more[name] = draw.array(np.exp(draw.normal(n)), rounded=False)
            if more[name].note in ("a number", "one dimension less"):
                # One number for all samples is fine.
                more[name] = Given(2.0, np.full(n, 2.0), "2.0")
    return C, more


def _plain(more: dict[str, Any]) -> dict[str, Any]:
    names = {"required_margin": "required", "sample_weight": "sample_weight"}
    return {names[name]: given.plain for name, given in more.items()}


def group_norm(draw: Draw, k: int) -> tuple[Norm, dict[str, Any]]:
    """The Frobenius norm, or a group lasso over odd groups, and its description for the judge."""
    if draw.chance(0.3):
        return Frobenius(), {"norm": "frobenius"}
    groups = draw.rng.choice(draw.pick([[0], [0, 1], [-7, 3, 2**40], list(range(k))]), k)
    labels = len(set(groups.tolist()))
    weights = draw.pick([None, np.exp(draw.normal(labels)), 10.0 ** draw.rng.integers(-5, 6, labels)])
    norm = GroupLasso(groups) if weights is None else GroupLasso(groups, weights)
    return norm, {"norm": "groups", "groups": groups, "weights": weights}


def fitted_gates(draw: Draw, X: Array) -> HyperplaneGates:
    """Hyperplane contexts, fitted on clean inputs of scale 1."""
    return HyperplaneGates(draw.whole(1, 3), draw.pick([1, 2, 4]), seed=draw.whole(0, 99), cutoff="random").fit(X)


def clean_task(draw: Draw) -> Samples:
    """Ordinary samples of both classes."""
    n, d = draw.whole(4, 30), draw.whole(2, 6)
    X, y = _linear(draw, n, d)
    y[:2] = -1.0, 1.0
    X[:, 0] = np.where(y > 0, abs(X[:, 0]), -abs(X[:, 0])) + y
    return X, y


__all__ = ["Refused", "Samples", "clean_task", "fitted_gates", "gate_values", "group_norm", "problem", "samples"]
