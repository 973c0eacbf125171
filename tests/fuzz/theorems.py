"""Cases about what the theorems say of samples."""

from typing import Any

import numpy as np

from implicit_bias import theory
from tests.fuzz import problems
from tests.fuzz.draw import DIMENSIONS, Draw, Given
from tests.fuzz.strategies import choice, count, never, number, numbers
from tests.fuzz.table import drawn, records, row

ALL_SCALES = (1.0, 1.0, 1e-200, 1e200, 1e-300, 1e300)
#: A probability, which may be no less than 1e-100.
DELTA = number(0.05, 0.5, 1e-9, np.float32(0.25), low=9.9e-101, high=1.0)
BOUND = number(300, 300.0, 1e3)


def units(draw: Draw, name: str = "X", normalise: bool | None = None) -> dict[str, Any]:
    """Samples (m, d) of length 1, or of any to be divided by: repeated, nearly parallel, opposite, zero."""
    m, d = draw.whole(1, 6), draw.sizes.setdefault("d", draw.whole(1, 4))
    rows = draw.normal(m, d)
    kinds = ["random", "random", "repeated", "antipodal", "nearly repeated", "a zero row", "of other lengths"]
    kind = draw.kind("samples", kinds)
    if kind in ("repeated", "antipodal", "nearly repeated"):
        rows[-1] = rows[0] * (-1.0 if kind == "antipodal" else 1.0)
        rows[-1, 0] += draw.pick([1e-6, 1e-12]) if kind == "nearly repeated" else 0.0
    rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    rows[0] *= {"a zero row": 0.0, "of other lengths": 1.1}.get(kind, 1.0)
    normalise = draw.chance(0.5) if normalise is None else normalise
    given = draw.array(rows * (draw.scale(*ALL_SCALES) if normalise else 1.0), rounded=False)
    if kind == "a zero row" or (kind == "of other lengths" and not normalise):
        given.verdict = "bad"
    # Of more samples than half spaces can tell apart nothing is promised.
    draw.sizes["m"], draw.extreme = m, draw.extreme or (m > 1 and (d == 1 or kind != "random"))
    return {name: given, "normalise": normalise}


def centres(draw: Draw) -> dict[str, Any]:
    """Centres, which may have any length."""
    return {"centres": units(draw, normalise=True)["X"]}


def _other(draw: Draw) -> dict[str, Any]:
    """Samples, and perhaps others of as many inputs."""
    first = units(draw)
    return units(draw, "Z", first["normalise"]) | first if draw.chance(0.5) else first


def _targets(draw: Draw) -> Given:
    return draw.array(draw.normal(draw.sizes["m"]) * draw.pick([1.0, 0.0, 1e-20]), but=DIMENSIONS)


row(theory.gate_kernel, _other, share=3, fine=lambda c, found: np.abs(found).max() <= 0.5 + 1e-9)
row(theory.memorisation_width, units, delta=DELTA, fine=lambda c, r: r.failure(r.width) <= c.delta * (1 + 1e-9))
# So few gates may have a singular Gram matrix, and so may samples on a line.
row(theory.a_priori_rate, units, k=count(10**4, 10**5, 7), may=True, fine=lambda c, found: 0 <= found.rate <= 1)
BOUNDS: dict[str, Any] = {"label_bound": BOUND, "delta": DELTA, "may": True}
row(theory.generalisation_bound_a_priori, units, y=_targets, fine=lambda c, r: r.bound >= r.complexity, **BOUNDS)
row(theory.cluster_bounds, centres, fine=lambda c, found: 0 <= found.coherence <= 1)
row(theory.gate_correlations, centres, fine=lambda c, found: 0 <= found.min() <= found.max() <= 0.5)


def features(draw: Draw) -> dict[str, Any]:
    """Features of either kind, or what is none."""
    features, _ = problems.features(draw)
    return {"features": draw.scalar([features], never)}


def fit(draw: Draw, weights: str = "weights") -> dict[str, Any]:
    """Features with targets and weights."""
    features, dense = problems.features(draw)
    longest = np.sqrt(np.sum(features.X**2, axis=1)).max() if features.gate_values is not None else 0.0
    # Samples are to be no longer than 1 for a bound.
    features = features.scaled(0.5 / longest) if 1e-100 < longest < 1e100 and weights == "weights" else features
    size = float(draw.pick([0.0, 1.0, 1 / max(np.max(np.abs(dense)), 1e-100)]))
    W = draw.array(draw.normal(features.k, features.d) * size, but=DIMENSIONS)
    return {"features": features, "y": draw.array(draw.normal(features.n), but=DIMENSIONS), weights: W}


def _nothing(c: Any) -> bool:
    """Features that are not gated, or all zero."""
    return c.features.gate_values is None or not c.features.dense().any()


def _is_fitted(c: Any, found: Any) -> bool:
    """Weights that are no worse on the samples than the start."""
    before, after = (np.linalg.norm(c.features @ w - c.y) for w in (c.w0, found))
    return bool(after <= before * (1 + 1e-6) + 1e-9 * np.abs(c.y).max())


row(theory.expected_loss, features, must=_nothing, fine=lambda c, found: 0 <= found.generic <= found.value < 1)
row(theory.descent_rate, features, must=_nothing, fine=lambda c, found: 0 <= found.rate <= 1 and found.steps(0.5) >= 1)
row(theory.descent_target, lambda draw: fit(draw, "w0"), share=3, same=1e-6, must=_nothing, fine=_is_fitted)
row(
    theory.generalisation_bound,
    fit,
    share=3,
    must=lambda c: c.features.gate_values is None or np.abs(c.features.gate_values).max() > 1,
    fine=lambda c, found: found.bound >= found.training_loss and found.loss_range >= found.radius**2,
    **BOUNDS,
)

VAST = count(12, 3, 10**6, vast=10**15)
MANY, FEW = count(2, 10, 10**4, least=2), count(1, 2, 3, vast=10**600)
SIGMA, EPSILON = number(1.0, 0.1, 1e30, low=1e-99, high=1e99), number(0.01, 0.5, 1e-5, low=1e-90, high=1.0)
row(theory.expected_test_loss, m=VAST, d=VAST, sigma=SIGMA, must=lambda c: c.m < c.d + 2)
row(theory.incoherent_dimension, n=MANY, delta=DELTA, fine=lambda c, found: found >= c.n)
row(theory.orthogonal_inverse, n=count(1, 2, 7, cap=1000, vast=10**5), fine=lambda c, found: found.shape == (c.n, c.n))
row(theory.gate_stability, d=MANY, epsilon=EPSILON, delta=DELTA, fine=lambda c, found: found.share >= 0)


def _matrices(draw: Draw) -> dict[str, Any]:
    """Two matrices near each other or not."""
    n, scale = draw.whole(2, 4), draw.scale(1.0, 1.0, 1e-90, 1e90, 1e300, 1e-300)
    A, change = np.eye(n) + 0.05 * draw.normal(n, n), draw.normal(n, n)
    near: dict[str, tuple[Any, Any]] = {"near": (scale * (A + 0.02 * change), "good")}
    near |= {"apart": (scale * (A + change), "doubtful"), "far": (scale * (A - 9 * np.eye(n)), "bad")}
    return {"A": draw.array(scale * A, rounded=False), "B": draw.variant("B", near)}


SIGNS = numbers("m", signs=True, but=DIMENSIONS)
GRADIENT: dict[str, Any] = {"directions": numbers("k d~"), "readout": numbers("k~", but=[*DIMENSIONS, "None"])}
row(
    theory.neumann_inverse,
    _matrices,
    terms=count(1, 3, 40, cap=10**4, vast=10**600),
    fine=lambda c, r: 0 <= r.ratio < 1,
)
row(
    theory.initial_gradients,
    X=numbers("m d"),
    y=SIGNS,
    loss=choice("hinge", "logistic"),
    may=lambda c: not c.X.any(),
    **GRADIENT,
)
TARGET = numbers("d", ALL_SCALES, rounded=False)
row(
    theory.gaussian_gradient, target=TARGET, fine=lambda c, r: abs(np.linalg.norm(r.mean) - (2 * np.pi) ** -0.5) < 1e-13
)


def _direction(draw: Draw) -> dict[str, Any]:
    d = draw.pick([1, 2, 3, 5, 8, 21])
    values = draw.pick([draw.normal(d), draw.rng.integers(-2, 3, d).astype(float), np.zeros(d)])
    bits = FEW(draw)
    return {"direction": draw.array(values * draw.scale(*ALL_SCALES)), "bits": bits}


def _many_bits(c: Any) -> bool:
    return len(c.direction) > 20 or c.bits > len(c.direction)


row(theory.parity_gradient, _direction, finite=False, must=_many_bits, fine=lambda c, r: np.abs(r.mean).max() <= 0.5)
ONE = count(1, 60)
MEMORISED: dict[str, Any] = {"width": 60, "delta": 0.1, "samples": 4, "eigenvalue": 0.5, "squared_norm": 1.0}
RATES = [0.0, 0.5, 1 - 1e-16, 5e-324]
STABLE: dict[str, Any] = {"d": 3, "width": 10, "share": 0.25, "sphere_share": 0.1, "epsilon": 0.1, "delta": 0.1}


def _asked(name: str, strategy: Any) -> Any:
    """Whether the method of a record gives a number that is not negative."""
    return lambda c, found: c.draw.call(getattr(found, name), drawn(strategy, c.draw)) >= 0


row(theory.MemorisationWidth, share=1, fine=_asked("failure", ONE), **MEMORISED)
row(theory.GateStability, lambda draw: STABLE, share=1, fine=_asked("norm_failure", ONE))
RATE: dict[str, Any] = {"step": 0.1, "rate": lambda draw: draw.pick(RATES), "largest": 1.0, "smallest": 1.0}
row(theory.DescentRate, share=1, fine=_asked("steps", DELTA), **RATE)
records(
    {
        theory.ClusterBounds: (0.1, 0.2, 0.3),
        theory.ExpectedLoss: (0.5, 2, 4, 0.5),
        theory.GeneralisationBound: (1.0, 0.0, 0.5, 0.5, 1.0, 1.0, 1.0, 3, 0.1),
        theory.InitialGradient: (np.ones(2), 1.0),
        theory.NeumannInverse: (np.eye(2), 0.5, 0.1),
    }
)
