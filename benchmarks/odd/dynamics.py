"""Cases about gated deep linear networks: moments, flows and limits against eigenvectors in fifty digits."""

from __future__ import annotations

from typing import Any

import mpmath
import numpy as np
from scipy.sparse.csgraph import connected_components

from implicit_bias import GatedFeatures
from implicit_bias.dynamics import GradientFlow, Moments, gradient_flow
from odd.draw import Array, Draw, Given, close, expect, is_number
from odd.surface import entry

MP = mpmath.mp.clone()
MP.dps = 50
EPS = float(np.finfo(float).eps)
#: Eigenvalues around the share of the largest, 1e-12, below which they count as 0.
UNSURE = (2e-13, 5e-12)
#: What is exactly 0, in fifty digits.
ZERO = 1e-35
many = np.frompyfunc(MP.mpf, 1, 1)


class Part:
    """The flow of gates that are open together, in an eigenbasis: A (p, p) and b (p,) of mpmath's numbers."""

    def __init__(self, A: Any, b: Any, w0: Any) -> None:
        values, vectors = MP.eigsy(MP.matrix(A.tolist()))
        self.values, self.basis = np.array(list(values), dtype=object), np.array(vectors.tolist(), dtype=object)
        self.top = max(self.values)
        self.start, self.pull = self.basis.T @ w0, self.basis.T @ b
        shares = [float(v / self.top) if self.top > 0 else 0.0 for v in self.values]
        self.still = np.array([share < ZERO for share in shares])
        self.unsure = np.array([ZERO <= share < UNSURE[1] for share in shares])
        kept = [v for v, share in zip(self.values, shares, strict=True) if share >= UNSURE[0]]
        self.least = float(min(kept)) if kept else 1.0
        self.size = float(MP.sqrt(b @ b)), float(self.top), float(MP.sqrt(w0 @ w0))

    def moved(self, share: Any) -> Any:
        """Coordinates at t/Kτ, infinity included, less those at the start."""
        steps = []
        for value, start, pull, still in zip(self.values, self.start, self.pull, self.still, strict=True):
            way = MP.mpf(0) if still else (pull / value - start) * (1 if share is None else -MP.expm1(-value * share))
            steps.append(way)
        return np.array(steps, dtype=object)

    def at(self, share: Any) -> tuple[Array, float]:
        """The weights (p,) at t/Kτ (None: at the limit), and how far off they may be."""
        steps = self.moved(share)
        w = self.basis @ (self.start + steps)
        long = max(float(MP.sqrt(w @ w)), self.size[2])
        reach = 1 / self.least if share is None else min(float(share), 1 / self.least)
        room = 300 * EPS * len(w) * (reach * (self.size[1] * long + self.size[0]) + long)
        return w.astype(np.longdouble), room + float(sum(abs(steps[self.unsure]), MP.mpf(0)))

    def loss(self, w: Any) -> Any:
        """wᵀAw − 2bᵀw of coordinates."""
        return (self.values * w * w - 2 * self.pull * w).sum()

    def slack(self, power: float) -> float:
        """How far off a loss may be, of targets of this mean square."""
        bound = power + 2 * abs(float(self.loss(self.start)))
        off = 300 * EPS * len(self.values) * (self.size[0] + self.size[1] * self.size[2])
        left = self.pull - self.values * self.start
        unsure = sum((left**2 + self.pull**2)[self.unsure] / self.values[self.unsure], MP.mpf(0))
        rounding = 300 * EPS * len(self.values) * bound * (1 + self.size[1] / self.least)
        return rounding + 2 * off * np.sqrt(bound / self.least) + off**2 / self.least + float(unsure)


class Exact:
    """A (kd, kd), b (kd,) and ⟨y²⟩ of mpmath's numbers, in parts that A does not couple."""

    def __init__(self, A: Any, b: Any, power: Any, w0: Array) -> None:
        self.power, self.shape, self.A, self.b = power, w0.shape, A, b
        k, d = w0.shape
        coupled = (A != 0).reshape(k, d, k, d).any(axis=(1, 3))
        labels = connected_components(coupled, directed=False)[1]
        self.rows = [np.flatnonzero(np.repeat(labels == label, d)) for label in range(labels.max() + 1)]
        flat = many(w0.ravel())
        self.parts = [Part(A[np.ix_(rows, rows)], b[rows], flat[rows]) for rows in self.rows]

    @classmethod
    def of_samples(cls, X: Array, G: Array, y: Array, w0: Array) -> Exact:
        """Of the means over samples."""
        dense = (many(G)[:, :, None] * many(X)[:, None, :]).reshape(len(X), -1)
        target = many(y)
        return cls(dense.T @ dense / len(X), dense.T @ target / len(X), target @ target / len(X), w0)

    def check_moments(self, found: Moments) -> None:
        """A, b, ⟨y²⟩, the best readout, and the structure."""
        size = np.sqrt(np.maximum(np.diag(self.A).astype(float), 0.0))
        off = np.abs(found.dense() - self.A.astype(np.longdouble))
        expect((off <= 1e-13 * np.outer(size, size)).all(), "another A")
        room = 1e-13 * size * float(MP.sqrt(self.power))
        expect((np.abs(found.b.ravel() - self.b.astype(np.longdouble)) <= room).all(), "another b")
        expect(abs(found.power - self.power) <= 1e-14 * self.power, "another ⟨y²⟩")
        best = self.power + sum((p.loss(p.start + p.moved(None)) for p in self.parts), MP.mpf(0))
        still = sum((abs(p.loss(np.where(p.still, p.start, MP.mpf(0)))) for p in self.parts), MP.mpf(0))
        room = sum(p.slack(float(self.power)) for p in self.parts) + float(still)
        expect(abs(found.best_loss - best) <= room, f"best loss {found.best_loss}, not {float(best)}")
        expect(found.exclusive == (len(found.blocks) == len(found.copies)), "exclusive or not")
        expect(found.k == found.redundant + len(found.copies), "another number of copies")

    def check_flow(self, flow: GradientFlow) -> None:
        """Weights at all times and in the limit, and the losses, which never rise."""
        scale = self.shape[0] * MP.mpf(flow.tau)
        weights = flow.weights().reshape(len(flow.times), -1)
        expect(np.isfinite(weights).all() and np.isfinite(flow.losses).all(), "no numbers")
        ways = [(MP.mpf(t) / scale, w) for t, w in zip(flow.times, weights, strict=True)]
        for share, found in [*ways, (None, flow.limit.ravel())]:
            for rows, part in zip(self.rows, self.parts, strict=True):
                w, room = part.at(share)
                off = np.linalg.norm((found[rows] - w).astype(float))
                expect(off <= room + 1e-290, f"weights off by {off:.1e}, more than {room:.1e}, at {share}")
        room = sum(part.slack(float(self.power)) for part in self.parts)
        for (share, w), loss in zip(ways, flow.losses, strict=True):
            own = self.power + sum((p.loss(p.start + p.moved(share)) for p in self.parts), MP.mpf(0))
            expect(abs(loss - own) <= room + 1e-290, f"loss {loss}, not {float(own)}")
            stated = flow.moments.loss(w.reshape(self.shape))
            expect(abs(stated - own) <= room + 1e-290, f"the loss of the weights is {stated}, not {float(own)}")
        falls = np.diff(flow.losses)
        expect((falls <= 4 * EPS * flow.losses[:-1]).all(), "the loss rises")


def gates_of(draw: Draw, n: int) -> Array:
    """Gate values (n, k): overlapping, exclusive, copies, never open, of any sign."""
    k = draw.whole(1, 4)
    kind = draw.pick(["hard", "hard", "exclusive", "copies", "closed", "real", "open"])
    draw.story.append(f"gates: {kind}, k = {k}")
    G = (draw.rng.random((n, k)) < 0.6).astype(float)
    if kind == "exclusive":
        return np.eye(k)[draw.rng.integers(0, k, n)]
    if kind == "copies":
        return np.hstack([G, G[:, draw.rng.integers(0, k, draw.whole(1, 2))]])
    if kind == "closed":
        G[:, 0] = draw.pick([0.0, -0.0])
    return draw.normal(n, k) if kind == "real" else np.ones((n, k)) if kind == "open" else G


def inputs_of(draw: Draw) -> Array:
    """Inputs (n, d): ordinary, dependent, repeated, of several scales."""
    n, d = draw.whole(1, 14), draw.whole(1, 3)
    X = draw.normal(n, d)
    kind = draw.pick(["ordinary", "ordinary", "dependent", "nearly dependent", "integers", "columns", "zero"])
    draw.story.append(f"inputs: {kind}, n = {n}, d = {d}")
    if kind.endswith("dependent"):
        X[:, -1] = X[:, 0] + (10.0 ** -draw.whole(2, 9) * draw.normal(n) if kind.startswith("nearly") else 0.0)
    elif kind == "columns":
        X = X * 10.0 ** draw.rng.integers(-4, 5, d)
    elif kind == "integers":
        X = np.rint(X)
    elif kind == "zero":
        X[draw.rng.random(n) < 0.5] = 0.0
    return X * draw.pick([*[1.0] * 10, 1e-20, 1e-9, 1e40, 1e-90, 1e100])


def shaped(draw: Draw, given: Given, plain: Array) -> Given:
    """The given array, but as it is where damage to its dimensions may leave another that is fine."""
    return Given(plain, plain, "float64") if given.note in ("one dimension more", "one dimension less") else given


def data_of(draw: Draw) -> tuple[Any, Given, Given, Given, bool]:
    """Features, their inputs and gate values, targets, and whether their sizes are beyond what moments take."""
    X = inputs_of(draw)
    G = gates_of(draw, len(X) + (1 if draw.chance(0.05) else 0))
    given, gates = draw.array(X), draw.array(G)
    gates = Given(G, G, "float64") if gates.value is None else gates
    known = given.plain is not None and gates.plain is not None
    features = draw.call(GatedFeatures, given, gates, must_refuse=len(G) != len(X))
    y = draw.normal(len(X)) * draw.pick([*[1.0] * 8, 0.0, 1e30, 1e-40, 1e70])
    targets = draw.array(y)
    if targets.note == "one dimension more":
        targets = Given(y, y, "targets")
    wild = False
    if known and targets.plain is not None:
        sizes = np.abs(given.plain).max(axis=1).astype(np.longdouble) * np.abs(gates.plain).max(axis=1)
        used = np.concatenate([sizes, np.abs(targets.plain).ravel()])
        used = used[used != 0]
        wild = bool(used.size and not (used.min() >= 1e-60 and used.max() <= 1e60))
    return features, given, gates, targets, wild


def times_of(draw: Draw, scale: float) -> tuple[Given, bool]:
    """Times (T,) around those in which the weights move, and whether they must be refused."""
    at = np.sort(np.exp(draw.normal(draw.whole(1, 4)) * 6)) * scale
    kind = draw.pick([*["sorted"] * 12, "from 0", "repeated", "unsorted", "negative", "late"])
    if kind == "from 0":
        at[0] = 0.0
    elif kind == "repeated":
        at = np.repeat(at, 2)
    elif kind == "unsorted":
        at = np.append(at, at[-1] / 2)
    elif kind == "negative":
        at[0] = -at[0]
    elif kind == "late":
        at[-1] = 1e250
    draw.story.append(f"times: {kind}")
    given = draw.array(at, rounded=False)
    plain = given.plain
    must = plain is not None and bool(plain[0] < 0 or (np.diff(plain) < 0).any() or plain[-1] > 1e150)
    return given, must


def flow_case(draw: Draw, data: Any, exact: Any, shape: tuple[int, int], options: dict[str, Any], may: bool) -> str:
    """The flow from a start, against `exact(w0)`."""
    unit = float(options.pop("unit"))
    W = draw.normal(*shape) * draw.pick([0.0, 1.0, 1.0, 100.0]) * unit
    w0 = shaped(draw, draw.array(W, rounded=1e-3 < unit < 1e3), W)
    wrong = w0.plain is not None and w0.plain.shape != shape
    times, must = times_of(draw, float(options.pop("scale")))
    tau = draw.scalar([1.0, 0.5, 3, 1e-3], lambda v: is_number(0)(v) and 1e-20 <= float(v) <= 1e20)
    # Far from 1 a time constant may bring times out of range, or not.
    odd = is_number(0)(tau.value) and not 1e-20 <= float(tau.value) <= 1e20
    tau = Given(1.0, 1.0, "1.0") if odd else tau
    flow = draw.call(
        gradient_flow, data, w0, times, tau=tau, must_refuse=must or wrong, may_refuse=may or unit > 1e50, **options
    )
    exact(w0.plain).check_flow(flow)
    return "correct"


def scales_of(X: Array, G: Array, y: Array) -> dict[str, float]:
    """A size of weights and of times in which features and targets move them."""
    size = float(np.max(np.abs(X))) * float(np.max(np.abs(G))) or 1.0
    return {"unit": (float(np.max(np.abs(y))) or 1.0) / size, "scale": 1 / size**2 if 1e-60 < size < 1e60 else 1.0}


@entry("Moments.from_samples", share=4)
def _samples(draw: Draw) -> str:
    """Moments of samples, whole and in chunks, against exact sums."""
    features, X, G, y, wild = data_of(draw)
    wrong = np.ndim(y.plain) == 1 and len(y.plain) != len(X.plain)
    found = draw.call(Moments.from_samples, draw.scalar([features], lambda v: False), y, must_refuse=wild or wrong)
    exact = Exact.of_samples(X.plain, G.plain, y.plain, np.zeros((features.k, features.d)))
    exact.check_moments(found)
    rows = draw.rng.permutation(features.n)
    parts = [rows[part] for part in np.array_split(np.arange(features.n), draw.whole(1, features.n))]
    streamed = draw.call(Moments.accumulate, [(features.select(part), y.plain[part]) for part in parts])
    exact.check_moments(streamed)
    expect(streamed.samples == found.samples == features.n, "another number of samples")
    expect(len(streamed.blocks) == len(found.blocks) and streamed.redundant == found.redundant, "another structure")
    return "correct"


@entry("gradient_flow", share=6)
def _flow(draw: Draw) -> str:
    """The flow on samples: overlapping, exclusive and repeated gates alike."""
    features, X, G, y, wild = data_of(draw)
    about = scales_of(X.plain, G.plain, np.zeros(1) if y.plain is None else y.plain)
    wrong = y.plain is not None and len(y.plain) != features.n

    def exact(w0: Array) -> Exact:
        return Exact.of_samples(X.plain, G.plain, y.plain, w0)

    if draw.chance(0.03):
        draw.call(gradient_flow, features, np.zeros((features.k, features.d)), [1.0], must_refuse=True)
    return flow_case(draw, features, exact, (features.k, features.d), about | {"y": y}, wild or wrong)


ARRAYS = [*["regular"] * 4, "singular", "copies", "apart", "asymmetric", "negative", "outside", "too little", "shape"]


@entry("Moments.from_arrays", share=5)
def _arrays(draw: Draw) -> str:
    """Moments that are known; those of no distribution are refused."""
    k, d, kind = draw.whole(1, 3), draw.whole(1, 3), draw.pick(ARRAYS)
    draw.story.append(f"moments: {kind}, k = {k}, d = {d}")
    p, must = k * d, kind in ("asymmetric", "negative", "outside", "too little", "shape")
    root = draw.normal(p + 2, p)
    if kind in ("singular", "outside"):
        root[:, -1] = 0.0
    if kind == "copies" and k > 1:
        root[:, d : 2 * d] = root[:, :d]
    A = root.T @ root
    if kind == "apart":
        A = A * np.kron(np.eye(k), np.ones((d, d)))
    w = draw.normal(p)
    b = A @ w
    size = draw.pick([*[1.0] * 6, 1e-50, 1e40, 1e130])
    power = draw.pick([1.5, 10.0]) * float(w @ b)
    if kind == "asymmetric":
        A[0, -1] += 1.0 if p > 1 else 0.0
        must = p > 1
    elif kind == "negative":
        A[-1, -1] -= 2 * A.trace()
    elif kind == "outside":
        b[-1] = 1.0 + abs(b).max()
    elif kind == "too little":
        power = draw.pick([0.5 * float(w @ b), -1.0])
    elif kind == "shape":
        A = np.eye(p + 1)
    A, b, power = A * size, b * np.sqrt(size), float(power)
    given = draw.array(A.reshape(k, d, k, d) if kind != "shape" and draw.chance(0.3) else A, rounded=False)
    if given.note in ("one dimension more", "one dimension less"):
        given = Given(A, A, "float64")
    first = shaped(draw, draw.array(b.reshape(k, d), rounded=False), b.reshape(k, d))
    wrong = draw.chance(draw.badness / 2)
    ends: Any = draw.pick([np.nan, None, "x", 1j, [1.0]]) if wrong else power
    beyond = size > 1e100
    found = draw.call(Moments.from_arrays, first, given, ends, must_refuse=must or wrong or beyond)
    exact = replaced(A, b, power)
    exact(np.zeros((k, d))).check_moments(found)
    W = draw.normal(k, d)
    own = power - 2 * b @ W.ravel() + W.ravel() @ A @ W.ravel()
    expect(abs(found.loss(W) - own) <= 1e-12 * (power + abs(b) @ abs(W.ravel()) + np.abs(A).sum() * 9), "another loss")
    about = {"unit": 1 / np.sqrt(size), "scale": 1 / size}
    return flow_case(draw, found, exact, (k, d), about, False)


def replaced(A: Array, b: Array, power: float) -> Any:
    """Exact moments from a start."""
    symmetric = many((A + A.T) / 2)
    return lambda w0: Exact(symmetric, many(b), MP.mpf(power), w0)


@entry("GradientFlow.weights")
def _weights(draw: Draw) -> str:
    """One time or several, anything else."""
    X, y = draw.normal(9, 2), draw.normal(9)
    flow = gradient_flow(GatedFeatures(X), draw.normal(1, 2), [0.0, 1.0], y=y)

    def accepts(value: Any) -> bool:
        return (is_number(0, 1e100, ends=True)(value) or isinstance(value, bool | np.bool_)) and float(value) <= 1e100

    at = draw.scalar([0, 1.5, 1e9, np.float32(3)], lambda v: v is None or accepts(v))
    if isinstance(at.value, list | tuple) and at.value:
        at = Given(at.value, at.value, at.note, "doubtful")
    found = draw.call(flow.weights, at)
    expect(np.isfinite(found).all() and found.shape[-2:] == (1, 2), "another shape")
    expect("array" not in repr(flow), "it prints its arrays")
    if found.ndim == 2:
        expect(close(found, flow.weights([float(at.value)])[0]), "other weights")
    return "correct"
