"""Cases about the theory of GaLU: every formula once more, bounds in order, refusals where assumptions fail."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from implicit_bias import theory
from odd.draw import Draw, Given, expect, in_range, is_count, is_number
from odd.regression import EPS, features_of, ranks, sizes_in_range, spectrum
from odd.surface import entry

DELTAS = [0.05, 0.5, 1e-9, np.float32(0.25)]
#: Whole numbers of any size.
ANY_COUNT = is_count(most=10**500)


def delta_of(draw: Draw, good: list[Any] = DELTAS) -> Given:
    """A probability, which may be no less than 1e-100."""
    return draw.scalar(good, lambda v: is_number(0, 1)(v) and float(v) >= 1e-100)


def beyond(*givens: Given, most: int = 10**4) -> bool:
    """Whether a count is so large that it may be refused."""
    return any(ANY_COUNT(given.value) and given.value > most for given in givens)


class Units:
    """Samples of length 1, or any that are to be divided by their lengths; `broken` if they may not."""

    def __init__(self, draw: Draw, d: int | None = None, most: int = 6) -> None:
        m, d = draw.whole(1, most), d or draw.whole(1, 4)
        rows = draw.normal(m, d)
        kind = draw.pick(["random", "random", "orthogonal", "repeated", "antipodal", "nearly repeated", "a zero row"])
        if kind == "orthogonal":
            rows = np.eye(max(m, d))[:m, :d] + np.eye(m, d)[::-1] * 0.0
        elif kind == "a zero row":
            rows[0] = 0.0
        elif kind != "random":
            rows[-1] = rows[0] * (-1.0 if kind == "antipodal" else 1.0)
            rows[-1, 0] += draw.pick([1e-6, 1e-12]) if kind == "nearly repeated" else 0.0
        self.normalise = draw.chance(0.5)
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        if self.normalise:
            rows = rows * draw.pick([1.0, 1.0, 1e-150, 1e150, 1e-300, 1e300])
        else:
            rows = rows / np.where(lengths > 0, lengths, 1.0)
        draw.story.append(f"samples: {kind}, m = {m}, d = {d}, normalise = {self.normalise}")
        self.given = draw.array(rows)
        self.broken = False
        self.rows: Any = np.zeros((m, d), np.longdouble)
        if self.given.plain is not None:
            # What half precision makes infinite is refused; zeros stand for it here.
            finite = np.isfinite(self.given.plain).all()
            plain = self.given.plain.astype(np.longdouble) if finite else np.zeros((m, d), np.longdouble)
            # Lengths beyond floats in two steps.
            largest = np.max(np.abs(plain), axis=1, keepdims=True)
            scaled = plain / np.where(largest > 0, largest, 1.0)
            sizes = np.sqrt(np.sum(scaled**2, axis=1, keepdims=True))
            off = np.abs(sizes * largest - 1) > 1e-8
            self.broken = not largest.all() or (not self.normalise and bool(off.any()))
            self.rows = scaled / np.where(sizes > 0, sizes, 1.0)
        #: Rows that are not quite of length 1 pass as they are.
        self.room = 1e-14 * d if self.normalise else 1e-7

    @property
    def options(self) -> dict[str, Any]:
        """How they are handed over."""
        return {"normalise": self.normalise} if self.normalise else {}

    def kernel(self, Z: Any = None) -> tuple[Any, Any]:
        """P(⟨u, x⟩ > 0, ⟨u, z⟩ > 0), and κ, in longdouble."""
        X, Z = self.rows, self.rows if Z is None else Z
        apart = np.sqrt(np.sum((X[:, None] - Z) ** 2, axis=2)), np.sqrt(np.sum((X[:, None] + Z) ** 2, axis=2))
        opened = 0.5 - np.arctan2(*apart) / np.longdouble(np.pi)
        return opened, opened * (X @ Z.T)

    def eigenvalue(self) -> float:
        """λ(X)."""
        return float(np.linalg.eigvalsh(self.kernel()[1].astype(float))[0])

    @property
    def uncertain(self) -> bool:
        """Whether λ(X) may be 0 up to rounding."""
        return self.eigenvalue() < 1e-9

    @property
    def singular(self) -> bool:
        """Whether it is so for sure."""
        return self.eigenvalue() < 1e-17


def near(found: float, expected: Any, rel: float, what: str) -> None:
    """Complain of a number that is off by more than a share of what is expected."""
    fine = abs(np.longdouble(found) - expected) <= rel * abs(expected) + 1e-300
    expect(fine, f"{what} is {found!r}, not {float(expected)!r}")


# -------------------------------------------------------------------------------------------------------------- kernel


@entry("gate_kernel", share=3)
def _gate_kernel(draw: Draw) -> str:
    """κ(x, z), for pairs nearly parallel and samples of any length."""
    X = Units(draw)
    Z = (
        Units(draw, draw.pick([X.given.plain.shape[1] if X.given.plain is not None else 2, 3]))
        if draw.chance(0.5)
        else X
    )
    if Z is not X and Z.normalise != X.normalise:
        Z = X
    other = Z.rows.shape[1] != X.rows.shape[1]
    arguments = [X.given] if Z is X else [X.given, Z.given]
    found = draw.call(theory.gate_kernel, *arguments, must_refuse=X.broken or Z.broken or other, **X.options)
    expected = X.kernel(Z.rows)[1]
    expect(found.shape == expected.shape and np.all(np.abs(found - expected) <= X.room + 2e-15), "another kernel")
    return "correct"


@entry("memorisation_width")
def _width(draw: Draw) -> str:
    """k = 8‖X‖² log(m/δ)/λ, and a failure of at most δ at it."""
    X, delta = Units(draw), delta_of(draw)
    must = X.broken or (X.normalise and X.singular)
    found = draw.call(theory.memorisation_width, X.given, delta, may_refuse=X.uncertain, must_refuse=must, **X.options)
    m, own = len(X.rows), X.eigenvalue()
    square = float(np.linalg.norm(X.rows.astype(float), 2)) ** 2
    slack = 1e-6 + 1e-12 / own + 10 * X.room / own
    near(found.eigenvalue, own, slack, "λ")
    near(found.width, 8 * square / own * math.log(m / float(delta.value)) + 0.5, slack + 0.6 / found.width, "the width")
    k = draw.scalar([1, found.width, 10**9], ANY_COUNT)
    failure = draw.call(found.failure, k, may_refuse=beyond(k, most=10**15))
    bound = m * math.exp(-float(k.value) * found.eigenvalue / (8 * found.squared_norm))
    expect(abs(failure - min(1.0, bound)) <= 1e-12, "another failure")
    expect(found.failure(found.width) <= float(delta.value) * (1 + 1e-9), "more failure than δ at the width")
    return "correct"


# ------------------------------------------------------------------------------------------------------------- descent


@entry("expected_loss")
def _expected_loss(draw: Draw) -> str:
    """1 − rank(Φ)/m."""
    features, dense = features_of(draw)
    wrapped = draw.scalar([features], lambda v: False)
    kernels = features.gate_values is None
    found = draw.call(theory.expected_loss, wrapped, must_refuse=not dense.any() or kernels)
    _, s, _, _ = spectrum(dense)
    low, high = ranks(s, 1e-9)
    expect(low <= found.rank <= high, f"rank {found.rank}, not {low} to {high}")
    near(found.value, 1 - found.rank / len(dense), 1e-15, "the loss")
    near(found.generic, 1 - min(dense.shape) / len(dense), 1e-15, "the generic loss")
    expect(found.is_deficient == (found.rank < min(dense.shape)), "deficient")
    return "correct"


@entry("expected_test_loss")
def _expected_test_loss(draw: Draw) -> str:
    """σ²(m − 1)/(m − d − 1)."""
    m, d = draw.scalar([12, 3, 10**6], ANY_COUNT), draw.scalar([1, 5, 10], ANY_COUNT)
    sigma = draw.scalar([1.0, 0.1, 1e30], is_number(0))
    few = ANY_COUNT(m.value) and ANY_COUNT(d.value) and int(m.value) < int(d.value) + 2
    may = beyond(m, d, most=10**15) or (is_number(0)(sigma.value) and not 1e-99 <= float(sigma.value) <= 1e99)
    found = draw.call(theory.expected_test_loss, m, d, sigma, must_refuse=few, may_refuse=may)
    ratio = np.longdouble(int(m.value) - 1) / (int(m.value) - int(d.value) - 1) if not may else 1
    expect(math.isfinite(found), "no number")
    if not may:
        near(found, np.longdouble(sigma.value) ** 2 * ratio, 1e-12, "the loss")
    return "correct"


@entry("descent_rate")
def _descent_rate(draw: Draw) -> str:
    """The step and the rate that the singular values of Φ give."""
    features, dense = features_of(draw)
    kernels = features.gate_values is None
    size = np.max(np.abs(dense), initial=0)
    wrapped = draw.scalar([features], lambda v: False)
    # The step is m/σ².
    may = not in_range(1e140 * size, 1e-140 * size)
    found = draw.call(theory.descent_rate, wrapped, must_refuse=not dense.any() or kernels, may_refuse=may)
    _, s, _, size = spectrum(dense)
    low, high = ranks(s, 1e-9)
    low = min(range(low, high + 1), key=lambda r: abs(float(found.smallest / size) - s[r - 1]))
    largest, smallest = np.longdouble(s[0]), np.longdouble(s[low - 1])
    near(found.largest, largest * size, 1e-9, "the largest singular value")
    near(found.smallest, smallest * size, 1e-2, "the smallest one")
    square = largest**2 + smallest**2
    near(found.step, len(dense) / square / size**2, 1e-6, "the step")
    expect(abs(found.rate - (largest**2 - smallest**2) / square) <= 1e-2 * smallest / largest + 1e-12, "another rate")
    share = draw.scalar([0.1, 0.5, 1e-9], lambda v: is_number(0, 1)(v) and float(v) >= 1e-100)
    steps = draw.call(found.steps, share)
    # −log ρ, which next to 1 the rate itself no longer tells.
    decay = 2 * np.arctanh(min((found.smallest / found.largest) ** 2, 1 - 1e-16))
    expect(steps >= 1 and steps * decay >= -math.log(share.value) * (1 - 1e-6), "too few steps")
    return "correct"


@entry("a_priori_rate")
def _a_priori_rate(draw: Draw) -> str:
    """m/(2k‖X‖²) and 1 − λ/(2‖X‖²)."""
    X, k = Units(draw), draw.scalar([1, 300, 10**5], ANY_COUNT)
    m, own = len(X.rows), X.eigenvalue()
    square = float(np.linalg.norm(X.rows.astype(float), 2)) ** 2
    gates = 1 if not ANY_COUNT(k.value) else min(int(k.value), 10**18)
    few = m * math.exp(-min(700.0, gates * max(own, 0) / (8 * square))) >= 1 - 1e-9 if square else True
    must = X.broken or (X.normalise and X.singular)
    may = X.uncertain or few or beyond(k, most=10**15)
    found = draw.call(theory.a_priori_rate, X.given, k, may_refuse=may, must_refuse=must, **X.options)
    slack = 1e-6 + 1e-12 / own + 10 * X.room / own
    if gates < 10**18:
        near(found.step, m / (2 * gates * square), slack, "the step")
    expect(abs(1 - found.rate - own / (2 * square)) <= slack and 0 <= found.failure < 1, "another rate")
    return "correct"


@entry("descent_target", share=3)
def _descent_target(draw: Draw) -> str:
    """w* + (I − P)w₀, against the singular value decomposition."""
    features, dense = features_of(draw)
    if features.gate_values is None:
        draw.call(theory.descent_target, features, np.ones(len(dense)), np.ones((2, 2)), must_refuse=True)
    size = np.max(np.abs(dense), initial=0) or np.longdouble(1)
    y = draw.array(draw.normal(len(dense)) * draw.pick([1.0, 1.0, 1e50, 0.0]))
    start = draw.array(draw.normal(features.k, features.d) * float(draw.pick([0.0, 1.0, 1 / max(size, 1e-100)])))
    for given, shape in ((y, (len(dense),)), (start, (features.k, features.d))):
        if given.note in ("one dimension more", "one dimension less") and np.shape(given.value) == shape:
            given.value = None
    wild = not sizes_in_range(dense, y.plain, 0.0) or not 1e-100 < size < 1e100
    found = draw.call(theory.descent_target, features, y, start, must_refuse=not dense.any(), may_refuse=wild)
    U, s, V, size = spectrum(dense)
    if len(set(ranks(s, 1e-9))) > 1 or wild:
        return "correct"
    rank = ranks(s, 1e-9)[0]
    w0 = start.plain.astype(np.longdouble).ravel() * size
    missing = (y.plain - dense @ (w0 / size)).astype(float)
    expected = w0 + V[:, :rank] @ ((U[:, :rank].T @ missing) / s[:rank])
    kappa = s[0] / s[rank - 1]
    room = (
        1e4
        * EPS
        * max(dense.shape)
        * kappa
        * (np.linalg.norm(expected.astype(float)) + np.linalg.norm(w0.astype(float)))
    )
    room += 1e4 * EPS * max(dense.shape) * kappa**2 * (np.linalg.norm(missing) + np.abs(y.plain).max()) / s[0]
    apart = np.linalg.norm((found.ravel() * size - expected).astype(float))
    expect(apart <= room + 1e-300, f"off by {apart:.1e}, more than {room:.1e}")
    return "correct"


# ------------------------------------------------------------------------------------------------------ generalisation


def _check_bound(found: Any, loss: Any, output: Any, B: float, m: int, sampling: float, rel: float) -> None:
    """The sum of a training loss, a complexity and a confidence."""
    i = 0
    while B * 2.0**i < found.output:
        i += 1
    near(found.output, output, rel, "the output")
    near(found.radius, np.longdouble(B) * 2.0**i, 1e-12, "the radius")
    R = np.longdouble(found.radius)
    tail = math.log((i + 1) * (i + 2) / sampling)
    near(found.complexity, 4 * (R + B) * R / math.sqrt(m), 1e-12, "the complexity")
    near(found.confidence, (R + B) ** 2 * math.sqrt(tail / (2 * m)), 1e-12, "the confidence")
    near(found.bound, loss + np.longdouble(found.complexity) + found.confidence, 1e-9, "the bound")
    expect(found.loss_range >= found.radius**2 and found.is_vacuous == (found.bound >= B**2), "vacuous or not")


@entry("generalisation_bound", share=3)
def _bound(draw: Draw) -> str:
    """Training loss, complexity and confidence; samples, gates and labels within what the theorem asks."""
    features, _ = features_of(draw)
    if features.gate_values is None:
        draw.call(theory.generalisation_bound, features, np.ones(features.n), np.ones((2, 2)), 1.0, must_refuse=True)
    X, G = features.X.astype(np.longdouble), features.gate_values
    longest = np.sqrt(np.sum(X**2, axis=1)).max()
    if draw.chance(0.7) and longest:
        features = features.scaled(float(0.5 / longest)) if longest > 1 else features
        X = features.X.astype(np.longdouble)
        longest = np.sqrt(np.sum(X**2, axis=1)).max()
    m = len(X)
    y, W = (
        draw.array(draw.normal(m)),
        draw.array(draw.normal(features.k, features.d) * draw.pick([1.0, 0.0, 1e-50, 1e50])),
    )
    for given, shape in ((y, (m,)), (W, (features.k, features.d))):
        if given.note in ("one dimension more", "one dimension less") and np.shape(given.value) == shape:
            given.value = None
    B, delta = draw.scalar([300, 300.0, 1e3, 0.01], is_number(0)), delta_of(draw)
    too_long = longest > 1 + 1e-8 or np.abs(G).max() > 1
    if y.plain is not None and is_number(0)(B.value):
        too_long = bool(too_long or np.abs(y.plain).max() > float(B.value))
    may = is_number(0)(B.value) and not 1e-99 < float(B.value) < 1e99
    found = draw.call(theory.generalisation_bound, features, y, W, B, delta, must_refuse=too_long, may_refuse=may)
    w = W.plain.astype(np.longdouble)
    loss = np.mean((np.sum((X @ w.T) * G, axis=1) - y.plain) ** 2)
    output = np.sqrt(features.k * np.sum(w**2))
    _check_bound(found, loss, output, float(B.value), m, float(delta.value), 1e-12)
    return "correct"


@entry("generalisation_bound_a_priori")
def _bound_a_priori(draw: Draw) -> str:
    """M = √(2yᵀκ⁻¹y), and the width of the lemma at δ/2."""
    X, delta = Units(draw), delta_of(draw)
    y = draw.array(draw.normal(len(X.rows)) * draw.pick([1.0, 0.0, 1e-20]))
    if y.note in ("one dimension more", "one dimension less"):
        y.value = None
    B = draw.scalar([300, 300.0, 1e3, 0.01], is_number(0))
    large = y.plain is not None and is_number(0)(B.value) and np.abs(y.plain).max() > float(B.value)
    may = X.uncertain or (is_number(0)(B.value) and not 1e-99 < float(B.value) < 1e99)
    may = may or (is_number(0, 1)(delta.value) and float(delta.value) < 3e-100)
    must = X.broken or large or (X.normalise and X.singular)
    call: Callable[..., Any] = theory.generalisation_bound_a_priori
    found = draw.call(call, X.given, y, B, delta, must_refuse=must, may_refuse=may, **X.options)
    own = X.eigenvalue()
    energy = y.plain @ np.linalg.solve(X.kernel()[1].astype(float), y.plain)
    slack = 1e-6 + 1e-11 / own + 10 * X.room / own
    half = float(delta.value) / 2
    if slack < 0.1:
        _check_bound(found, 0.0, math.sqrt(2 * energy), float(B.value), len(X.rows), half, slack)
    expect(found.output >= math.sqrt(2 * energy) * (1 - slack) and found.training_loss == 0, "too small an output")
    return "correct"
