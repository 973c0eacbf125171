"""Samples, gates and margin problems to draw: ordinary, degenerate, and of every scale."""

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


def _linear(draw: Draw, n: int, d: int) -> Samples:
    X = draw.normal(n, d)
    y = np.where(X @ draw.normal(d) > 0, 1.0, -1.0)
    X[:, 0] += y
    return X, y


def _conflict(X: Array, y: Array, apart: float) -> Samples:
    """The first sample is the last one but for its label, and for what they are apart."""
    X, y = X.copy(), y.copy()
    X[0], y[0] = X[-1], -y[-1]
    X[0, -1] += apart * abs(X[0, -1])
    return X, y


def samples(draw: Draw, scaled: bool = True) -> Samples:
    """Clean inputs (n, d) and labels (n,), of every kind and scale: few, ordinary ones, more inputs than samples."""
    n, d = (max(1, size + draw.whole(-1, 1)) for size in draw.pick(SIZES))
    scale = draw.pick(SCALES) if scaled else 1.0
    X, y = _linear(draw, n, d)
    random, t = draw.rng.choice([-1.0, 1.0], n), draw.normal(n, 1)
    whole = draw.rng.integers(-2, 3, (n, d)).astype(float)
    rows, last = draw.rng.integers(0, n, n), np.arange(d) == d - 1
    kinds = {
        "linear": (X, y),
        "random labels": (X, random),
        "duplicates": (X[rows], y[rows]),
        "a conflict": _conflict(X, y, 0.0),
        "nearly a conflict": _conflict(X, y, 10.0 ** -draw.whole(4, 15)),
        "collinear": (t * draw.normal(1, d), np.where(t[:, 0] > draw.pick([0.0, 0.3]), 1.0, -1.0)),
        "constant": (np.full((n, d), draw.pick([0.0, 1.0, -3.0])), random),
        "integers": (whole, np.where(whole @ draw.rng.integers(-2, 3, d) > 0, 1.0, -1.0)),
        "signed zeros": (np.where(draw.rng.random((n, d)) < 0.5, draw.pick([0.0, -0.0]), X), y),
        "one class": (X, np.full(n, draw.pick([1.0, -1.0]))),
        "constant last": (np.where(last, 1.0, X), y),
        "columns of all scales": (X * 10.0 ** draw.rng.integers(-12, 13, d), y),
        "rows of all scales": (X * 10.0 ** draw.rng.integers(-6, 7, (n, 1)), y),
    }
    X, y = draw.among(f"samples, n = {n}, d = {d}, times {scale:g}", kinds)
    with np.errstate(over="ignore", under="ignore"):
        scaled_X = X * scale
    return (scaled_X if np.isfinite(scaled_X).all() else X), y


def clean_task(draw: Draw) -> Samples:
    """Ordinary samples of both classes."""
    n, d = draw.whole(4, 30), draw.whole(2, 6)
    X, y = _linear(draw, n, d)
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
    """One-hot contexts of several units, (n, units·contexts)."""
    return np.hstack([np.eye(contexts)[draw.rng.integers(0, contexts, n)] for _ in range(units)])


def fitted_gates(draw: Draw, X: Array) -> ib.HyperplaneGates:
    """Hyperplane contexts, fitted on clean inputs of scale 1."""
    return ib.HyperplaneGates(draw.whole(1, 3), draw.pick([1, 2, 4]), draw.whole(0, 99), "random").fit(X)


def _in_range(c: Any) -> bool:
    """True if inputs, gates and their products are of sizes that the toolkit takes."""
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
    """Features of two kernels, given by disguised or damaged factors."""
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
    """True if the bounds C c_i are in range, as they are and in units of the features."""
    if np.isinf(raw.C):
        return True
    size = np.sqrt(np.sum(raw.blocks**2, axis=(1, 2))).max() or np.longdouble(1)
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
    """A problem of gated features as it says that it is; of another norm than the package's, that one."""
    features: Any = problem.features
    own, about = problem.norm, dict[str, Any]()
    if isinstance(own, GroupLasso):
        norm, about = "groups", {"groups": own.groups, "weights": own.weights}
    elif isinstance(own, ib.PredictorL2):
        norm, about = "predictor", {"shape": (own.units, own.contexts)}
    return Raw.gated(features.X, features.gate_values, problem.y, norm, C=problem.C, **about)


def judged(problem: MarginProblem, norm: str = "frobenius", *solver: str, tol: float = 1e-6, **options: Any) -> str:
    """The status of the solution of a problem of gated features."""
    return judge(as_built(problem, norm), ib.solve(problem, *solver, tol=tol, **options), tol, limited=bool(options))
