"""Cases about fits without margins: least squares, gates that are searched for, and the flow of gradient descent."""

from typing import Any

import numpy as np

import implicit_bias as ib
from implicit_bias import GatedFeatures, dynamics
from implicit_bias.datasets import RingProcess, nonlinear_gaussian_process
from tests.cases import OwnFeatures
from tests.fuzz import problems
from tests.fuzz.draw import DIMENSIONS, Draw, Given, expect
from tests.fuzz.strategies import SEED, count, is_number, is_zero, never, number
from tests.fuzz.table import entry, row
from tests.fuzz.values import NOT_FINITE, Array, close

RIDGE = number(0, 0.0, 0.0, 1e-3, 1.0, 1e10, 1e-200, 1e200, also=is_zero)
STEPS = count(1, 3, 30, 90, cap=100, vast=10**600)


def targets(draw: Draw, n: int, several: bool = True) -> Given:
    """Targets (n,) or (n, q) of every size, in disguise or damaged."""
    Y = draw.normal(n, draw.whole(1, 3)) if several and draw.chance(0.4) else draw.normal(n)
    return draw.array(Y * draw.scale(1.0, 1.0, 1.0, 0.0, 1e-8, 1e90, 1e-90, 1e200, 1e-200), but=DIMENSIONS)


def _has_loss(found: Any, dense: Array, W: Array, Y: Array) -> None:
    """Finite weights (q, k·d), whose mean squared error is the loss that is stated."""
    expect(np.isfinite(W).all(), "weights that are not finite")
    Y, W = Y.reshape(len(dense), -1).astype(np.longdouble), W.reshape(-1, dense.shape[1]).astype(np.longdouble)
    loss = np.sum((Y - dense @ W.T) ** 2) / len(dense)
    noise = 3e-14 * (np.sqrt(np.sum((np.abs(dense) @ np.abs(W.T)) ** 2) / len(dense)) + np.max(np.abs(Y)))
    room = noise * (noise + 2 * np.sqrt(loss)) + 1e-9 * loss + 1e-300
    expect(abs(found.loss - loss) <= room, f"loss {found.loss:g}, not {loss:g}")


@entry(ib.Features)
def _own_features(draw: Draw) -> None:
    """A kind of features that gives a matrix only has every operation, the same for whatever the weights came as."""
    features, _ = problems.features(draw)
    own = OwnFeatures(features.dense().reshape(features.shape))
    W, a = draw.array(draw.normal(features.k, features.d), but=NOT_FINITE), draw.normal(features.n)
    with np.errstate(over="ignore", invalid="ignore"):
        scores, gradient = draw.call(own.apply, W, same=0.0), draw.call(own.adjoint, a)
    expect(scores.shape == a.shape and gradient.shape == (features.k, features.d), "another operator")


@entry(ib.least_squares, share=6)
def _least_squares(draw: Draw) -> None:
    """Ridges and tolerances of every kind and targets of every size."""
    features, dense = problems.features(draw)
    options = {"ridge": RIDGE(draw), "tol": number(1e-9, 1e-9, 1e-10, 1e-6, 0.1, low=1e-10, high=0.1, ends=True)(draw)}
    options |= {"y": targets(draw, len(dense)), "features": draw.scalar([features], never)}
    may = lambda c: float(c.ridge) > 1e20  # noqa: E731
    found = draw.call(ib.least_squares, may=may, must=not dense.any(), **options)
    expect(found.weights.shape[:-2] == options["y"].plain.shape[1:], f"weights of shape {found.weights.shape}")
    _has_loss(found, dense, found.weights, options["y"].plain)
    expect(1 <= found.rank <= min(dense.shape) and found.condition >= 1 and found.gap >= 0, "no rank, or no condition")


def _samples(draw: Draw) -> Given:
    """Inputs (n, d) with which no filter is open or closed for all, or few, or of one sign."""
    n, d = draw.whole(14, 60), draw.whole(1, 3)
    X = draw.normal(n, d) * draw.scale(1.0, 1.0, 1e-8, 1e30, 1e60, 1e-60)
    draw.sizes |= {"n": n, "d": d}
    kinds: dict[str, Any] = {"ordinary": (X, "good"), "positive": (np.abs(X), "doubtful"), "zero": (0 * X, "bad")}
    return draw.variant("inputs", kinds | {"constant": (np.ones((n, d)), "doubtful")})


@entry(ib.improve_filters, share=4)
def _improve_filters(draw: Draw) -> None:
    """What is lowered never rises, and the solution is that of the filters that come out."""
    X = _samples(draw)
    n, d, several = draw.sizes["n"], draw.sizes["d"], draw.chance(draw.badness)
    y = draw.array(draw.normal(n, 2) if several else draw.normal(n), but=DIMENSIONS)
    begin: dict[str, Any] = {"directions": draw.array(draw.normal(draw.whole(1, 4), d), but=["None"])}
    begin = {"units": count(1, 2, 4, 9, most=2**10)(draw)} if draw.chance(0.6) else begin
    begin = draw.pick([{}, begin | {"units": 2, "directions": np.ones((2, d))}]) if draw.chance(0.05) else begin
    options = {"ridge": RIDGE(draw), "steps": count(0, 1, 20, 90, least=0, cap=100, vast=10**600)(draw)}
    must, may = several or len(begin) != 1, lambda c: float(c.ridge) > 1e20 or n < 9 * d
    found = draw.call(ib.improve_filters, X=X, y=y, seed=SEED(draw), may=may, must=must, **begin, **options)
    history = found.history
    expect(len(history) == options["steps"].plain + 1 and np.isfinite(history).all(), "another history")
    expect(np.all(np.diff(history) <= 1e-7 * abs(history[0])), "uphill")
    G = (X.plain @ found.directions.T >= 0).astype(np.longdouble)
    _has_loss(found.solution, (G[:, :, None] * X.plain[:, None, :]).reshape(n, -1), found.solution.weights, y.plain)


@entry(ib.alternate_convex_search, share=4)
def _alternate(draw: Draw) -> None:
    """The history never rises and ends at the loss of the layer and the readout."""
    features, dense = problems.features(draw)
    options = {"Y": targets(draw, len(dense)), "features": draw.scalar([features], never), "seed": SEED(draw)}
    options |= {"tol": number(1e-4, 0, 0.0, 1, 1e-12, high=1.0, ends=True)(draw), "steps": STEPS(draw)}
    must = not isinstance(features, GatedFeatures) or not dense.any()
    may = not must and not all(1e-60 < np.abs(part).max() < 1e60 for part in (features.X, features.gate_values))
    found = draw.call(ib.alternate_convex_search, may=may, must=must, **options)
    history, W = found.history, found.effective_weights()
    expect(np.isfinite(history).all() and np.all(np.diff(history) <= 0), "uphill")
    expect(abs(history[-1] - found.loss) <= 1e-13 * history[0], f"the history ends at {history[-1]}, not {found.loss}")
    expect(close(W, found.readout[:, :, None].astype(np.longdouble) * found.hidden, 1e-12), "other weights")
    _has_loss(found, dense, W, options["Y"].plain)


def _searched(draw: Draw) -> dict[str, Any]:
    X = _samples(draw)
    y = draw.array(draw.normal(draw.sizes["n"]) * draw.scale(1.0, 1.0, 1e40, 1e-70), but=["one dimension more"])
    return {"X": X, "y": y, "units": count(1, 2, 3, 3, draw.sizes["n"] // draw.sizes["d"] + 1)(draw)}


def _is_search(c: Any, found: Any) -> bool:
    """No start goes uphill, nor above the loss of zero weights; the best is the least."""
    # Of filters that open for the same samples the search knows its losses to a few digits less.
    zero = np.mean(c.y.astype(np.longdouble) ** 2) * (1 + 1e-4)
    downhill = np.all(found.losses <= found.first + 1e-4 * zero) and np.all(found.first <= zero)
    return bool(
        downhill and found.losses.shape == (c.restarts,) and 0 <= found.losses.min() <= found.best.solution.loss
    )


SEARCH: dict[str, Any] = {"restarts": count(1, 2, 3, cap=40), "steps": STEPS, "seed": SEED, "fine": _is_search}
SEARCH["must"] = lambda c: c.units * c.X.shape[1] >= len(c.X)
row(ib.search_gates, _searched, share=3, may=lambda c: len(c.X) < 9 * c.X.shape[1], **SEARCH)

# ---------------------------------------------------------------------------------------------------------------- flow


def _data(draw: Draw) -> tuple[Any, Given]:
    """Features whose inputs may be dependent, and whose gates may overlap, exclude each other, be copies or closed."""
    n, d, k = draw.whole(1, 14), draw.whole(1, 3), draw.whole(1, 4)
    X, G = draw.normal(n, d), (draw.rng.random((n, k)) < 0.6).astype(float)
    nearly = X[:, :1] + 10.0 ** -draw.whole(2, 9) * draw.normal(n, 1)
    inputs = {"dependent": np.hstack([X, X[:, :1]]), "nearly dependent": np.hstack([X, nearly]), "integers": np.rint(X)}
    inputs |= {
        "of all scales": X * 10.0 ** draw.rng.integers(-4, 5, d),
        "half zero": X * (draw.rng.random((n, 1)) < 0.5),
    }
    gates = {"exclusive": np.eye(k)[draw.rng.integers(0, k, n)], "real": draw.normal(n, k), "open": np.ones((n, k))}
    gates |= {"copies": np.hstack([G, G[:, draw.rng.integers(0, k, 2)]]), "closed": G * (np.arange(k) > 0)}
    X = ({"ordinary": X} | inputs)[draw.kind("inputs", ["ordinary", *inputs])]
    G = ({"hard": G} | gates)[draw.kind("gates", ["hard", *gates])]
    given = draw.array(X * draw.scale(*[1.0] * 10, 1e-20, 1e-9, 1e40, 1e-90, 1e100), rounded=False)
    features = draw.call(GatedFeatures, X=given, gate_values=draw.array(G, but=["None"]))
    y = draw.normal(n) * draw.scale(*[1.0] * 8, 0.0, 1e30, 1e-40, 1e70)
    return features, draw.array(y, but=["one dimension more"])


def _times(draw: Draw, scale: float) -> Given:
    """Times (T,) around those in which the weights move."""
    at = np.sort(np.exp(draw.normal(draw.whole(2, 4)) * 6)) * scale
    variants: dict[str, Any] = {"sorted": (at, "good"), "from 0": (np.append(0.0, at), "good")}
    variants |= {"repeated": (np.repeat(at, 2), "good"), "unsorted": (at[::-1].copy(), "bad")}
    return draw.variant("times", variants | {"negative": (-at, "bad"), "late": (np.append(at, 1e250), "bad")})


def _flow(draw: Draw, data: Any, k: int, d: int, unit: float, scale: float, **options: Any) -> None:
    """A flow from a start: finite, from where it was told, never uphill, the losses those of its weights."""
    W = draw.normal(k, d) * draw.pick([0.0, 1.0, 1.0, 100.0]) * unit
    options |= {"w0": draw.array(W, rounded=False, but=DIMENSIONS), "times": _times(draw, scale)}
    tau = number(1.0, 0.5, 3, 1e-3)(draw)
    may = lambda c: not 1e-20 <= float(c.tau) <= 1e20  # noqa: E731
    flow = draw.call(dynamics.gradient_flow, data=data, tau=tau, may=may, same=1e-9, **options)
    weights, losses, moments = flow.weights(), flow.losses, flow.moments
    expect(np.isfinite(weights).all() and np.isfinite(losses).all(), "no numbers")
    expect(np.all(np.diff(losses) <= 1e-15 * losses[:-1]), "the loss rises")
    expect(close(flow.weights(0.0), W, 1e-12), "another start")
    off = max(abs(moments.loss(w) - loss) for w, loss in zip(weights, losses, strict=True))
    expect(off <= 1e-6 * (moments.loss(W) + moments.power), "not the losses of its weights")


@entry(dynamics.gradient_flow, share=6)
def _gradient_flow(draw: Draw) -> None:
    """The flow on samples: overlapping, exclusive and repeated gates alike."""
    features, y = _data(draw)
    size = float(np.abs(features.X).max() * np.abs(features.gate_values).max()) or 1.0
    unit = 1.0 if y.plain is None else (float(np.abs(y.plain).max()) or 1.0)
    _flow(draw, features, features.k, features.d, unit / size, 1 / size**2 if 1e-60 < size < 1e60 else 1.0, y=y)


@entry("Moments.from_samples", share=4)
def _from_samples(draw: Draw) -> None:
    """Moments of samples have the same structure whole and in chunks; nothing predicts better than their best loss."""
    features, y = _data(draw)
    found = draw.call(dynamics.Moments.from_samples, draw.scalar([features], never), y)
    parts = np.array_split(draw.rng.permutation(features.n), draw.whole(1, features.n))
    streamed = draw.call(dynamics.Moments.accumulate, [(features.select(part), y.plain[part]) for part in parts])
    power = np.mean(y.plain.astype(np.longdouble) ** 2)
    for moments in (found, streamed):
        expect(np.isfinite(moments.b).all() and moments.samples == features.n, "others")
        expect(-1e-12 * power <= moments.best_loss <= power * (1 + 1e-12), "another best loss")
    expect(len(streamed.blocks) == len(found.blocks) and streamed.redundant == found.redundant, "another structure")


@entry("Moments.from_arrays", share=5)
def _from_arrays(draw: Draw) -> None:
    """Moments that are known; those of no distribution are refused."""
    k, d = draw.whole(1, 3), draw.whole(2, 3)
    p, size = k * d, draw.pick([*[1.0] * 6, 1e-50, 1e40])
    root, thin, blocks = draw.normal(p + 2, p), np.arange(p) < p - 1, np.kron(np.eye(k), np.ones((d, d)))
    A, w = root.T @ root, draw.normal(p)
    last = np.eye(p)[-1]
    seconds: dict[str, tuple[Array, Any]] = {
        "regular": (A, "good"),
        "singular": (A * np.outer(thin, thin), "good"),
        "apart": (A * blocks, "good"),
        "asymmetric": (A + np.eye(p, k=1), "bad"),
        "negative": (A - 2 * A.trace() * np.outer(last, last), "bad"),
        "of another shape": (np.eye(p + 1), "bad"),
        "beyond": (A * 1e300, "bad"),
    }
    kind = draw.kind(f"moments, k = {k}, d = {d}", ["regular"] * 5 + list(seconds))
    chosen, verdict = seconds[kind]
    b = (chosen if verdict == "good" else A) @ w
    fault = draw.kind("their fault", [*["none"] * 9, "outside", "too little", "no power"])
    b, power = b + (kind == "singular" and fault == "outside") * last, draw.pick([1.5, 10.0]) * float(w @ b)
    ends = {"too little": 0.5 * float(w @ b), "no power": draw.pick([np.nan, None, "x", 1j, [1.0]])}.get(fault, power)
    must = verdict == "bad" or fault in ("too little", "no power") or (kind == "singular" and fault == "outside")
    shaped = chosen.reshape(k, d, k, d) if verdict == "good" and draw.chance(0.3) else chosen
    second = draw.array(shaped * (size if verdict == "good" else 1.0), rounded=False, but=DIMENSIONS)
    first = draw.array((b * np.sqrt(size)).reshape(k, d), rounded=False, but=DIMENSIONS)
    found = draw.call(dynamics.Moments.from_arrays, first, second, ends, must=must)
    expect(found.k == k and 0 <= found.best_loss <= power and close(found.loss(np.zeros((k, d))), power), "others")
    _flow(draw, found, k, d, 1 / np.sqrt(size), 1 / size)


@entry("GradientFlow.weights")
def _weights(draw: Draw) -> None:
    """One time or several, anything else."""
    flow = dynamics.gradient_flow(GatedFeatures(draw.normal(9, 2)), draw.normal(1, 2), [0.0, 1.0], y=draw.normal(9))
    time = lambda v: is_number(0, 1e100, ends=True)(v) or isinstance(v, bool | np.bool_) or v is None  # noqa: E731
    at = draw.scalar([0, 1.5, 1e9, np.float32(3)], time)
    at.verdict = "doubtful" if isinstance(at.value, list | tuple) and at.value else at.verdict
    found = draw.call(flow.weights, at)
    expect(np.isfinite(found).all() and found.shape[-2:] == (1, 2) and "array" not in repr(flow), "another shape")


# ---------------------------------------------------------------------------------------------------- receptive fields


def _fields(draw: Draw) -> Given:
    """Fields (…, n) of every size, some of one pixel or zero."""
    shape = draw.pick([(1,), (7,), (8,), (3, 8), (2, 2, 5), (4, 1)])
    w, pixel = draw.normal(*shape), np.arange(shape[-1])
    wave = np.cos(2 * np.pi * draw.whole(0, 4) * pixel / shape[-1]) + 0 * w
    variants: dict[str, Any] = {"ordinary": w, "one pixel": w * (pixel == 0), "wave": wave, "flat": 0 * w + 1}
    size = draw.pick([1.0, 1.0, 1e-300, 1e300])
    found = {name: (size * values, "good") for name, values in variants.items()} | {"zero": (0 * w, "bad")}
    return draw.variant("fields", found, but=DIMENSIONS)  # type: ignore[arg-type]


row(dynamics.ipr, w=_fields, fine=lambda c, found: ((found > 0) & (found <= 1 + 1e-12)).all())
row(dynamics.peak_frequency, w=_fields, fine=lambda c, found: 0 <= found.min() <= found.max() <= c.w.shape[-1] // 2)


def _pixels(draw: Draw) -> dict[str, Any]:
    """A process, its clone, or a Gaussian one of any size, and a pixel of it."""
    n, labels = draw.whole(3, 12), draw.pick([(1.0, -1.0), (1.0, 0.0), (0.5, 3.0)])
    ring = draw.pick([1.0, 1e-40, 1e50]) * np.array([np.ones(n), np.full(n, 2.0)])
    process: Any = RingProcess(ring, labels=labels)
    if draw.chance(0.7):
        gain = draw.pick([1e-6, 0.1, 1.0, 30.0, 1e6])
        process = nonlinear_gaussian_process(n, length_scales=(0.1 * n, 0.3), gain=gain, labels=labels)
    process = draw.pick([process, process.clone()])
    return {"process": draw.scalar([process], never), "pixel": count(0, n - 1, np.int8(1), least=0, most=n - 1)(draw)}


BOTH: dict[str, Any] = {"both": lambda draw: draw.chance(0.5)}
row(dynamics.pixel_moments, _pixels, share=3, **BOTH, finite=False, fine=lambda c, found: found.k == 1 + c.both)
