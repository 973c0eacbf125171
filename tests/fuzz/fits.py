"""Cases about fits without margins: least squares, gates that are searched for, and the flow of gradient descent."""

from typing import Any

import numpy as np
from torch import Tensor

from implicit_bias import GatedFeatures
from implicit_bias.extensions import gated_flow
from implicit_bias.extensions.galu import alternate_convex_search, improve_filters, least_squares, search_gates
from implicit_bias.extensions.gated_flow import RingProcess, nonlinear_gaussian_process
from tests.fuzz import problems
from tests.fuzz.draw import DIMENSIONS, Draw, Given
from tests.fuzz.strategies import count, is_number, never, number
from tests.fuzz.table import row
from tests.fuzz.values import close


def _targets(draw: Draw) -> dict[str, Any]:
    """Features of either kind, and targets (n,) or (n, q) of every size."""
    features, _ = problems.features(draw)
    Y = draw.normal(features.n, draw.whole(1, 3)) if draw.chance(0.4) else draw.normal(features.n)
    targets = draw.array(Y * draw.scale(1.0, 1.0, 1.0, 0.0, 1e-8, 1e90, 1e-90, 1e200, 1e-200), but=DIMENSIONS)
    return {"features": draw.scalar([features], never), "y": targets}


def _no_features(c: Any) -> bool:
    return not c.features.dense().any()


def _is_solution(c: Any, found: Any) -> bool:
    """True if rank, condition and gap are possible, and the loss is at most that of zero weights."""
    ranked = 1 <= found.rank <= min(c.features.dense().shape) and found.condition >= 1 and found.gap >= 0
    return bool(ranked and 0 <= found.loss <= np.sum(c.y.astype(np.longdouble) ** 2) / len(c.y) * (1 + 1e-9))


def _is_alternation(c: Any, found: Any) -> bool:
    last, first = found.history[-1], found.history[0]
    return bool(np.all(np.diff(found.history) <= 0) and abs(last - found.loss) <= 1e-13 * first)


TOL = number(1e-9, 1e-9, 1e-10, 1e-6, 0.1, low=1e-10, high=0.1, ends=True)
SOLVED: dict[str, Any] = {"must": _no_features, "may": lambda c: float(getattr(c, "ridge", 0)) > 1e20}
row(least_squares, _targets, share=6, tol=TOL, fine=_is_solution, same=1e-6, **SOLVED)
row(
    lambda features, y, **more: alternate_convex_search(features, y, **more),
    _targets,
    like=alternate_convex_search,
    share=4,
    tol=number(1e-4, 0, 0.0, 1, 1e-12, high=1.0, ends=True),
    must=lambda c: c.features.gate_values is None or _no_features(c),
    may=True,
    fine=_is_alternation,
    same=None,
)


def _samples(draw: Draw) -> dict[str, Any]:
    """Inputs (n, d) and targets (n,), with which no filter is open or closed for all, or few, or of one sign."""
    n, d = draw.whole(14, 60), draw.whole(1, 3)
    X = draw.normal(n, d) * draw.scale(1.0, 1.0, 1e-8, 1e30, 1e60, 1e-60)
    kinds: dict[str, Any] = {"ordinary": (X, "good"), "positive": (np.abs(X), "doubtful"), "zero": (0 * X, "bad")}
    draw.sizes |= {"n": n, "d": d}
    y = draw.array(draw.normal(n) * draw.scale(1.0, 1.0, 1e40, 1e-70), but=["one dimension more"])
    return {"X": draw.variant("inputs", kinds | {"constant": (np.ones((n, d)), "doubtful")}), "y": y}


def _start(draw: Draw) -> dict[str, Any]:
    directions = draw.array(draw.normal(draw.whole(1, 4), draw.sizes["d"]), but=["None"])
    units = count(1, 2, 4, 9, most=2**10)(draw)
    return {"units": units} if draw.chance(0.6) else {"units": 0, "directions": directions}


def _is_search(c: Any, found: Any) -> bool:
    history = found.history
    return bool(len(history) == c.steps + 1 and np.all(np.diff(history) <= 1e-7 * abs(history[0])))


def _few(c: Any) -> bool:
    """True if n < 9d, so that some filters may be closed for all samples, or if the ridge exceeds 1e20."""
    return len(c.X) < 9 * c.X.shape[1] or float(getattr(c, "ridge", 0)) > 1e20


STEPS = count(0, 1, 20, 90, least=0, cap=100, vast=10**600)
SEARCH: dict[str, Any] = {"restarts": count(1, 2, 3, cap=40), "units": count(1, 2, 3, 3), "steps": STEPS}
row(improve_filters, _samples, _start, share=4, steps=STEPS, may=_few, fine=_is_search, same=None)
row(
    search_gates,
    _samples,
    share=3,
    **SEARCH,
    must=lambda c: c.units * c.X.shape[1] >= len(c.X),
    may=_few,
    fine=lambda c, found: found.losses.shape == (c.restarts,) and 0 <= found.losses.min() <= found.best.solution.loss,
)

# ---------------------------------------------------------------------------------------------------------------- flow


def _data(draw: Draw) -> dict[str, Any]:
    """Features whose inputs may be dependent, and whose gates may overlap, exclude each other, be copies or closed."""
    n, d, k = draw.whole(1, 14), draw.whole(1, 3), draw.whole(1, 4)
    X, G = draw.normal(n, d), (draw.rng.random((n, k)) < 0.6).astype(float)
    nearly = X[:, :1] + 10.0 ** -draw.whole(2, 9) * draw.normal(n, 1)
    inputs = {"ordinary": X, "dependent": np.hstack([X, X[:, :1]]), "nearly dependent": np.hstack([X, nearly])}
    inputs |= {"of all scales": X * 10.0 ** draw.rng.integers(-4, 5, d), "half zero": X * (X[:, :1] > 0)}
    gates = {"hard": G, "exclusive": np.eye(k)[draw.rng.integers(0, k, n)], "real": draw.normal(n, k)}
    gates |= {"copies": np.hstack([G, G[:, draw.rng.integers(0, k, 2)]]), "closed": G * (np.arange(k) > 0)}
    X, G = draw.among("inputs", inputs), draw.among("gates", gates)
    given = draw.array(X * draw.scale(*[1.0] * 10, 1e-20, 1e-9, 1e40, 1e-90, 1e100), rounded=False)
    features = draw.call(GatedFeatures, X=given, gate_values=draw.array(G, but=["None"]))
    y = draw.array(draw.normal(n) * draw.scale(*[1.0] * 8, 0.0, 1e30, 1e-40, 1e70), but=["one dimension more"])
    return {"data": features, "y": y} | _start_of_flow(draw, features.k, features.d)


def _known(draw: Draw) -> dict[str, Any]:
    """Moments of a distribution, or of none, which may be regular, singular or apart."""
    k, d = draw.whole(1, 3), draw.whole(2, 3)
    root, last = draw.normal(k * d + 2, k * d), np.eye(k * d)[-1]
    A, thin = root.T @ root, np.outer(1 - last, 1 - last)
    A = draw.among(f"moments, k = {k}, d = {d}", {"regular": A, "singular": A * thin, "apart": np.diag(np.diag(A))})
    w, size = draw.normal(k * d), draw.pick([*[1.0] * 6, 1e-50, 1e40])
    power = draw.either(draw.pick([1.5, 10.0]) * float(w @ A @ w), [np.nan, None, "x", 1j, [1.0], -1.0])
    seconds: dict[str, Any] = {"right": (size * A, "good"), "asymmetric": (A + np.eye(k * d, k=1), "bad")}
    seconds |= {"negative": (A - 2 * A.trace() * np.outer(last, last), "bad"), "wide": (np.eye(k * d + 1), "bad")}
    first = draw.array((A @ w * np.sqrt(size)).reshape(k, d), rounded=False, but=DIMENSIONS)
    return {"b": first, "A": draw.variant("A", seconds, but=DIMENSIONS), "power": power}


def _start_of_flow(draw: Draw, k: int, d: int) -> dict[str, Any]:
    W = draw.normal(k, d) * draw.pick([0.0, 1.0, 1.0, 100.0])
    at = np.sort(np.exp(draw.normal(draw.whole(2, 4)) * 6)) * draw.pick([1.0, 1.0, 1e-30, 1e30])
    times: dict[str, Any] = {"sorted": (at, "good"), "from 0": (np.append(0.0, at), "good"), "negative": (-at, "bad")}
    times |= {"unsorted": (at[::-1].copy(), "bad"), "late": (np.append(at, 1e250), "bad")}
    return {"w0": draw.array(W, rounded=False, but=DIMENSIONS), "times": draw.variant("times", times)}


def _goes_downhill(c: Any, flow: Any) -> bool:
    same = close(flow.weights(0.0), c.w0, 1e-12) and np.isfinite(flow.weights()).all()
    return bool(same and np.all(np.diff(flow.losses) <= 1e-13 * flow.losses[:-1]))


def _has_best(c: Any, found: Any) -> bool:
    """True if the best loss lies between 0 and ⟨y²⟩, up to rounding."""
    power = c.power if hasattr(c, "power") else np.mean(c.y.astype(np.longdouble) ** 2)
    return bool(-1e-12 * power <= found.best_loss <= power * (1 + 1e-12))


def _samples_of_flow(draw: Draw) -> dict[str, Any]:
    given = _data(draw)
    return {"data": given["data"], "y": given["y"]}


TAU: dict[str, Any] = {"tau": number(1.0, 0.5, 3, 1e-3), "may": lambda c: not 1e-20 <= float(c.tau) <= 1e20}
row(gated_flow.gradient_flow, _data, share=6, finite=False, fine=_goes_downhill, **TAU)
MOMENTS: dict[str, Any] = {"share": 3, "finite": False, "fine": _has_best}
row(lambda data, y: gated_flow.Moments.from_samples(data, y), _samples_of_flow, name="Moments.from_samples", **MOMENTS)
row(gated_flow.Moments.from_arrays, _known, name="Moments.from_arrays", **MOMENTS)


def _changing(draw: Draw) -> dict[str, Any]:
    """Return moments of two pieces, one after the other, or an invalid list of them."""
    k, d = draw.whole(1, 3), draw.whole(1, 3)
    made = []
    for _ in range(2):
        root, w = draw.normal(k * d + 1, k * d), draw.normal(k * d)
        A = root.T @ root
        made.append(gated_flow.Moments.from_arrays((A @ w).reshape(k, d), A, 2 * float(w @ A @ w)))
    one, two = made
    bad = [[], [(0.5, one)], [(0.0, 3)], [(1.0, one), (0.0, two)], [(0.0, one), (np.nan, two)], [one], None, "x"]
    start = _start_of_flow(draw, k, d)
    return {"gates": draw.either([(0.0, one), (1.0, two)], bad)} | start


row(
    gated_flow.changing_flow,
    _changing,
    share=3,
    fine=lambda c, f: f.weights.shape == (len(c.times), *c.w0.shape),
    **TAU,
)

# ---------------------------------------------------------------------------------------------------- receptive fields


def _fields(draw: Draw) -> Given:
    shape = draw.pick([(1,), (7,), (8,), (3, 8), (2, 2, 5), (4, 1)])
    w, pixel = draw.normal(*shape), np.arange(shape[-1])
    good = {"ordinary": w, "one pixel": w * (pixel == 0), "wave": np.cos(0.7 * pixel) + 0 * w, "flat": 0 * w + 1}
    size = draw.pick([1.0, 1.0, 1e-300, 1e300])
    fields: dict[str, Any] = {name: (size * values, "good") for name, values in good.items()}
    return draw.variant("fields", fields | {"zero": (0 * w, "bad")}, but=DIMENSIONS)


row(gated_flow.ipr, w=_fields, fine=lambda c, found: ((found > 0) & (found <= 1 + 1e-12)).all())
row(gated_flow.peak_frequency, w=_fields, fine=lambda c, found: 0 <= found.min() <= found.max() <= c.w.shape[-1] // 2)


def _pixels(draw: Draw) -> dict[str, Any]:
    """A process, its clone, or a Gaussian one of any size, and a pixel of it."""
    n, labels = draw.whole(3, 12), draw.pick([(1.0, -1.0), (1.0, 0.0), (0.5, 3.0)])
    ring = draw.pick([1.0, 1e-40, 1e50]) * np.array([np.ones(n), np.full(n, 2.0)])
    gain = draw.pick([1e-6, 0.1, 1.0, 30.0, 1e6])
    nonlinear = nonlinear_gaussian_process(n, length_scales=(0.1 * n, 0.3), gain=gain, labels=labels)
    process = draw.pick([RingProcess(ring, labels=labels), nonlinear, nonlinear.clone()])
    return {"process": draw.scalar([process], never), "pixel": count(0, n - 1, np.int8(1), least=0, most=n - 1)(draw)}


row(gated_flow.pixel_moments, _pixels, share=3, finite=False, fine=lambda c, r: r.k == 1 + getattr(c, "both", True))


def _time(draw: Draw) -> Given:
    fine = lambda v: is_number(0, 1e100, ends=True)(v) or isinstance(v, bool | np.bool_) or v is None  # noqa: E731
    at = draw.scalar([0, 1.5, 1e9, np.float32(3)], fine)
    several = isinstance(at.value, Tensor) or (isinstance(at.value, list | tuple) and at.value)
    at.verdict = "doubtful" if several else at.verdict
    return at


def _weights(t: Any) -> Any:
    features, y = GatedFeatures(np.array([[1.0, 2.0], [0.5, -3.0]])), [1.0, -2.0]
    return gated_flow.gradient_flow(features, [[0.1, 0.2]], [0.0, 1.0], y=y).weights(t)


row(_weights, name="GradientFlow.weights", t=_time, same=None)
