"""Samples, gates and margin problems to draw: ordinary, degenerate, and of every scale."""

from collections.abc import Callable
from typing import Any

import numpy as np

import implicit_bias as ib
from implicit_bias import Frobenius, GatedFeatures, GroupLasso, MarginProblem
from implicit_bias.norms import Norm
from tests.fuzz.draw import DIMENSIONS, Draw, Given, in_range, meanings
from tests.fuzz.judge import Raw, judge
from tests.fuzz.values import Array

Samples = tuple[Array, Array]

#: Factors of all inputs: mostly 1, else up to where squares overflow and underflow.
SCALES = [*[1.0] * 8, 1e-8, 1e8, 1e-100, 1e100, 1e-150, 1e150, 1e-200, 1e200, 1e-300, 1e300]
SIZES = [(1, 1), (2, 1), (2, 2), (3, 1), (5, 3), (8, 4), (12, 30), (20, 5), (40, 12), (60, 4)]
#: Prices of slack.
PRICES = [np.inf] * 4 + [1.0, 0.03, 1e-3, 100.0, 1e-8, 1e8, 1e-300, 1e300, 5e-324, 1e15]


def tiny(rng: Any, most: int = 15) -> float:
    return float(10.0 ** -rng.integers(3, most))


def _labels(rng: Any, X: Array) -> Array:
    if rng.random() < 0.6:
        return np.where(X @ rng.integers(-3, 4, X.shape[1]) + rng.integers(-1, 2) / 2 > 0, 1.0, -1.0)
    return np.asarray(rng.choice([-1.0, 1.0], len(X)))


def _normal(rng: Any, n: int, d: int) -> Samples:
    X = rng.normal(size=(n, d))
    return X, _labels(rng, X)


def _integers(rng: Any, n: int, d: int) -> Samples:
    X = rng.integers(-3, 4, (n, d)).astype(float)
    return X, _labels(rng, X)


def _large_integers(rng: Any, n: int, d: int) -> Samples:
    """Return samples with entries of millions and determinants of about one."""
    N = int(rng.choice([1_000, 2_000_000, 2**26])) + int(rng.integers(1000))
    if rng.random() < 0.5:
        return np.array([[N, N + 1], [N + 1, N + 2]], dtype=float), np.array([1.0, -1.0])
    X = N + rng.integers(0, 4, (min(n, d + 1), d)).astype(float)
    return X, rng.choice([-1.0, 1.0], len(X))


def _nearly_parallel(rng: Any, n: int, d: int) -> Samples:
    size = rng.choice([1.0, -1.0, 2.0, 0.1], n)
    X = size[:, None] * (rng.normal(size=d) + tiny(rng) * rng.normal(size=(n, d)))
    return X, np.sign(size) if rng.random() < 0.5 else rng.choice([-1.0, 1.0], n)


def _nearly_separable(rng: Any, n: int, d: int) -> Samples:
    """Return samples some of which are next to the plane, on their own side or on the other."""
    X, w = rng.normal(size=(n, d)), rng.normal(size=d)
    w /= np.linalg.norm(w)
    y = np.where(X @ w > 0, 1.0, -1.0)
    near = rng.random(n) < 0.4
    X[near] += (rng.choice([1, 1, -1]) * tiny(rng) * y[near] - X[near] @ w)[:, None] * w
    return X, y


def _close_to_a_plane(rng: Any, n: int, d: int) -> Samples:
    """Return samples that are all next to a plane, each on the side of its label."""
    X, w = rng.normal(size=(n, d)), rng.normal(size=d)
    w /= np.linalg.norm(w)
    y = np.where(rng.random(n) < 0.5, 1.0, -1.0)
    return X + (y * tiny(rng) * rng.uniform(1, 2, n) - X @ w)[:, None] * w, y


def _conflicting(rng: Any, n: int, d: int) -> Samples:
    """The last samples are copies or sums of others, with labels that no W can give them."""
    X, y = (_integers, _normal)[rng.integers(2)](rng, n, d)
    for i in range(max(1, n - int(rng.integers(1, 3))), n):
        others = rng.choice(i, int(rng.integers(1, min(i, 3) + 1)), replace=False)
        X[i] = -y[i] * ((rng.choice([1.0, 1.0, 2.0, 0.1], len(others)) * y[others]) @ X[others])
    return X, y


def _nearly_conflicting(rng: Any, n: int, d: int) -> Samples:
    X, y = _conflicting(rng, n, d)
    if rng.random() < 0.3:
        return np.where(X == 0, X, np.nextafter(X, X + rng.integers(-1, 2, X.shape))), y
    return X + tiny(rng, 17) * rng.normal(size=X.shape), y


def _any(rng: Any, n: int, d: int) -> Samples:
    return (_normal, _conflicting, _nearly_conflicting)[rng.integers(3)](rng, n, d)


def _scaled_columns(rng: Any, n: int, d: int) -> Samples:
    X, y = _any(rng, n, d)
    return X * 10.0 ** rng.choice([-5, 0, 5] if rng.random() < 0.8 else [-8, 0, 8], d), y


def _scaled_rows(rng: Any, n: int, d: int) -> Samples:
    if rng.random() < 0.5:
        a = float(10.0 ** rng.integers(1, 9))
        return np.array([[a, a / 2], [1 / a, -1 / a]]), rng.choice([-1.0, 1.0], 2)
    X, y = _any(rng, n, d)
    return X * 10.0 ** rng.choice([-5, -2, 0, 5], (n, 1)), y


def _duplicates(rng: Any, n: int, d: int) -> Samples:
    """Samples of rank three at most, the same again and again, a constant last."""
    X = rng.integers(-2, 3, (n, 2)).astype(float) @ rng.integers(-2, 3, (2, d)).astype(float)
    X[:, -1] = 1.0
    return X, _labels(rng, X)


KINDS: dict[str, Callable[[Any, int, int], Samples]] = {
    "normal": _normal,
    "integers": _integers,
    "large integers": _large_integers,
    "nearly parallel": _nearly_parallel,
    "nearly separable": _nearly_separable,
    "close to a plane": _close_to_a_plane,
    "conflicting": _conflicting,
    "nearly conflicting": _nearly_conflicting,
    "scaled columns": _scaled_columns,
    "scaled rows": _scaled_rows,
    "duplicates": _duplicates,
}


def _collinear(rng: Any, n: int, d: int) -> Samples:
    t = rng.normal(size=(n, 1))
    return t * rng.normal(size=d), np.where(t[:, 0] > rng.choice([0.0, 0.3]), 1.0, -1.0)


def _zeros(rng: Any, n: int, d: int) -> Samples:
    X, y = _normal(rng, n, d)
    return np.where(rng.random((n, d)) < rng.choice([0.5, 1.0]), rng.choice([0.0, -0.0], (n, d)), X), y


def _one_class(rng: Any, n: int, d: int) -> Samples:
    return rng.normal(size=(n, d)), np.full(n, rng.choice([1.0, -1.0]))


def _separated(rng: Any, n: int, d: int) -> Samples:
    X = rng.normal(size=(n, d))
    y = np.where(X @ rng.normal(size=d) > 0, 1.0, -1.0)
    X[:, 0] += y
    return X, y


def _all_scales(rng: Any, n: int, d: int) -> Samples:
    X, y = _separated(rng, n, d)
    return X * 10.0 ** rng.integers(-12, 13, d), y


#: The audit's kinds of samples, and others.
ALL_KINDS = KINDS | {"collinear": _collinear, "zeros": _zeros, "one class": _one_class}
ALL_KINDS |= {"separated": _separated, "inputs of all scales": _all_scales}


def samples(draw: Draw, scaled: bool = True) -> Samples:
    """Clean inputs (n, d) and labels (n,), of every kind and scale: few, ordinary ones, more inputs than samples."""
    n, d = (max(1, size + draw.whole(-1, 1)) for size in draw.pick(SIZES))
    scale = draw.pick(SCALES) if scaled else 1.0
    X, y = draw.among(f"samples, n = {n}, d = {d}, times {scale:g}", ALL_KINDS)(draw.rng, n, d)
    with np.errstate(over="ignore", under="ignore"):
        scaled_X = X * scale
    return (scaled_X if np.isfinite(scaled_X).all() else X), y


def clean_task(draw: Draw) -> Samples:
    X, y = _separated(draw.rng, draw.whole(4, 30), draw.whole(2, 6))
    y[:2] = -1.0, 1.0
    X[:, 0] = np.where(y > 0, abs(X[:, 0]), -abs(X[:, 0])) + y
    return X, y


def points(draw: Draw, most: float = 0.0, scales: tuple[float, ...] = (1.0,)) -> Given:
    """Points (n, d) of lengths 1, or up to 10^most: repeated, nearly parallel, opposite, zero."""
    n, d = draw.whole(1, 4), draw.sizes.setdefault("d", draw.whole(1, 4))
    X = draw.normal(n, d)
    X *= 10.0 ** draw.rng.uniform(-2 * most, most, (n, 1)) / np.linalg.norm(X, axis=1, keepdims=True)
    near = X[-1] + np.linalg.norm(X[-1]) * 10.0 ** -draw.whole(2, 9) * np.eye(d)[0]
    more = {"repeated": X[-1], "opposite": -X[-1], "nearly parallel": near / np.linalg.norm(near)}
    kinds: dict[str, Any] = {"random": (X, "good"), "zero": (np.vstack([X, 0 * X[-1]]), "bad")}
    kinds |= {name: (np.vstack([X, row]), "doubtful") for name, row in more.items()}
    # No two points of one number have angles between them.
    draw.extreme = draw.extreme or d == 1
    scale = draw.scale(*scales)
    given = draw.variant("points", {name: (scale * rows, verdict) for name, (rows, verdict) in kinds.items()})
    draw.sizes["m"] = len(given.plain) if given.verdict != "bad" else 1
    return given


def gate_values(draw: Draw, n: int) -> Array:
    """Gate values (n, k): hard, one-hot, soft, closed for a sample, or of any size."""
    k = draw.whole(1, 6)
    hard = (draw.rng.random((n, k)) < 0.6) * 1.0
    kinds = {"open": np.ones((n, k)), "one-hot": np.eye(k)[draw.rng.integers(0, k, n)], "hard": hard}
    kinds |= {"soft": draw.rng.random((n, k)), "negative": draw.normal(n, k), "tiny": 1e-120 * hard}
    return np.asarray(draw.among(f"{k} gates", kinds | {"huge": 1e120 * hard}))


def one_hot(draw: Draw, n: int, units: int, contexts: int) -> Array:
    return np.hstack([np.eye(contexts)[draw.rng.integers(0, contexts, n)] for _ in range(units)])


def fitted_gates(draw: Draw, X: Array) -> ib.HyperplaneGates:
    return ib.HyperplaneGates(draw.whole(1, 3), draw.pick([1, 2, 4]), draw.whole(0, 99), "random").fit(X)


def _in_range(c: Any) -> bool:
    """True if inputs, gates and their products have sizes that the package accepts."""
    if len(c.X) != len(c.gate_values):
        return False
    x, g = (np.abs(part).max(axis=1).astype(np.longdouble) for part in (c.X, c.gate_values))
    return in_range(x.max(), g.max(), x * g)


def gated_features(draw: Draw, X: Array, G: Array | None) -> tuple[Any, Any]:
    """Features of disguised or damaged inputs and gate values, and their blocks (n, k, d) in longdouble."""
    given = draw.array(X)
    gates = Given(None, np.ones((len(X), 1)), "no gates") if G is None else draw.array(G, but=["None"])
    features = draw.call(GatedFeatures, X=given, gate_values=gates, may=lambda c: not _in_range(c))
    return features, Raw.gated(given.plain, gates.plain, np.ones(len(X)), "frobenius")


def kernel_features(draw: Draw, X: Array, size: float = 1.0) -> tuple[Any, Any]:
    factors = draw.array(np.stack([X, draw.normal(*X.shape) * size], axis=1))
    may = lambda c: not in_range(np.abs(c.factors).max(axis=(1, 2)))  # noqa: E731
    features = draw.call(ib.KernelFeatures, factors=factors, may=may)
    return features, Raw(np.asarray(factors.plain), np.ones(len(X)), "frobenius")


def features(draw: Draw) -> tuple[Any, Array]:
    """Features of either kind, and their dense matrix (n, k·d) in longdouble."""
    X, _ = samples(draw)
    if draw.chance(0.15):
        found, raw = kernel_features(draw, X, np.abs(X).max())
    else:
        found, raw = gated_features(draw, X, None if draw.chance(0.05) else gate_values(draw, len(X)))
    dense = raw.blocks.astype(np.longdouble).reshape(len(X), -1)
    # What is made of squares and quotients may be refused long before the features themselves are.
    draw.extreme = draw.extreme or not in_range(1e200 * dense, 1e-200 * dense)
    return found, dense


def prices_in_range(raw: Raw) -> bool:
    """True if the bounds C c_i are in range, both as they are and in units of the features."""
    if np.isinf(raw.C):
        return True
    size = np.sqrt(np.sum(raw.blocks.astype(np.longdouble) ** 2, axis=(1, 2))).max() or np.longdouble(1)
    prices = np.longdouble(raw.C) * raw.sample_weight * np.ones(len(raw.y))
    # A sum of squares is not computed alike everywhere: near the ends of the range both is right.
    return in_range(prices, prices * raw.required * size * 10, prices * raw.required * size / 10)


def group_norm(draw: Draw, k: int) -> tuple[Norm, dict[str, Any]]:
    """The Frobenius norm, or a group lasso over groups of any kind, and its description for the judge."""
    if draw.chance(0.3):
        return Frobenius(), {"norm": "frobenius"}
    groups = draw.rng.choice(draw.pick([[0], [0, 1], [-7, 3, 2**40], list(range(k))]), k)
    labels = len(set(groups.tolist()))
    weights = draw.pick([1.0, np.exp(draw.normal(labels)), 10.0 ** draw.rng.integers(-5, 6, labels)])
    return GroupLasso(groups, weights), {"norm": "groups", "groups": groups, "weights": weights}


def problem(draw: Draw, scaled: bool = True) -> tuple[MarginProblem, Raw]:
    """A margin problem of disguised or damaged inputs, and what it means in raw numbers."""
    X, y = samples(draw, scaled)
    kind = draw.pick(["gates", "gates", "gates", "plain", "one-hot", "kernels"])
    shape = draw.whole(1, 3), draw.pick([1, 2, 4])
    if kind == "kernels":
        features, raw = kernel_features(draw, X)
    else:
        values = {"gates": lambda: gate_values(draw, len(X)), "one-hot": lambda: one_hot(draw, len(X), *shape)}
        features, raw = gated_features(draw, X, values.get(kind, lambda: None)())
    norm, about = group_norm(draw, raw.blocks.shape[1])
    if kind == "one-hot":
        norm, about = ib.PredictorL2(*shape), {"norm": "predictor", "shape": shape}
    given: dict[str, Any] = {"y": draw.array(y), "C": draw.pick(PRICES), "intercept": draw.chance(0.2)}
    if draw.chance(0.2):
        given |= {"features": draw.either(features, [X]), "norm": draw.either(norm, [Norm, "frobenius"])}
    for name in ("required_margin", "sample_weight"):
        # One number for all samples is fine.
        if draw.chance(0.2):
            given[name] = draw.array(np.exp(draw.normal(len(y))), rounded=False, but=[*DIMENSIONS, "a number"])

    def stated(c: Any) -> Raw:
        more = {"required": getattr(c, "required_margin", 1.0), "sample_weight": getattr(c, "sample_weight", 1.0)}
        about_all = about | more | {"y": c.y, "C": c.C, "intercept": c.intercept}
        return Raw(raw.blocks, factors=raw.factors, **about_all)

    def refused(c: Any) -> bool:
        labels = set(c.y.tolist())
        return not labels <= {-1.0, 1.0} or (c.intercept and len(labels) < 2)

    may = lambda c: len(c.y) != len(X) or not prices_in_range(stated(c))  # noqa: E731
    built = draw.call(MarginProblem, must=refused, may=may, **({"features": features, "norm": norm} | given))
    return built, stated(meanings(given))


def as_built(problem: MarginProblem, norm: str = "frobenius") -> Raw:
    """Return a problem of gated features in raw numbers, as its attributes state it; `norm` names another norm."""
    features: Any = problem.features
    own, about = problem.norm, dict[str, Any]()
    if isinstance(own, GroupLasso):
        norm, about = "groups", {"groups": own.groups, "weights": own.weights}
    elif isinstance(own, ib.PredictorL2):
        norm, about = "predictor", {"shape": (own.units, own.contexts)}
    return Raw.gated(features.X, features.gate_values, problem.y, norm, C=problem.C, **about)


def judged(problem: MarginProblem, norm: str = "frobenius", *solver: str, tol: float = 1e-6, **options: Any) -> str:
    return judge(as_built(problem, norm), ib.solve(problem, *solver, tol=tol, **options), tol, limited=bool(options))
