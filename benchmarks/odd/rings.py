"""Cases about patterns on a ring: covariances by quadrature, moments by enumeration, samples within sampling error."""

from __future__ import annotations

from itertools import islice
from typing import Any

import numpy as np
from scipy import special

from implicit_bias.datasets import RingProcess, SinglePulse, nonlinear_gaussian_process
from odd.draw import Array, Draw, Given, close, expect, is_count, is_number
from odd.surface import entry

#: Samples that means are taken over, and the standard errors that they may be off by.
SAMPLES, ERRORS = 2000, 7.0
IS_GAIN = is_number(1e-6, 1e6, ends=True)


def labels_of(draw: Draw) -> tuple[dict[str, Any], bool]:
    """Labels of the classes, if any, and whether they must be refused."""
    if draw.chance(0.6):
        return {}, False
    good = [[1.0, 0.0], [-1.0, 1.0], [2.0, 3.5], [0.0, -1e-60]]
    given = draw.array(draw.pick([*good, *good, [1.0, 1.0], [0.0, 0.0], [1e90, 0.0]]))
    if given.plain is None:
        return {"labels": given}, True
    size = np.abs(given.plain[given.plain != 0])
    return {"labels": given}, bool(len(set(given.plain.tolist())) < 2 or (size > 1.0000001e60).any())


def by_quadrature(gain: float, rho: Array) -> tuple[Array, Array]:
    """E[erf(gz)erf(gz')] and E[1(z ≥ 0)erf(gz')] of Gaussian pairs of variance 1 and correlations (…).

    Given z, z' is N(ρz, 1 − ρ²), and of erf(gz') for such z' the mean is erf(gρz/√(1 + 2g²(1 − ρ²))).
    """
    x, w = np.polynomial.legendre.leggauss(32)
    edges = np.concatenate([[0.0], np.geomspace(1e-9, 1.0, 19), np.arange(2.0, 12.0)])
    half = np.diff(edges)[:, None] / 2
    z, step = ((edges[1:] + edges[:-1])[:, None] / 2 + half * x).ravel(), (half * w).ravel()
    density = step * np.exp(-z * z / 2) / np.sqrt(2 * np.pi)
    rho = np.asarray(rho)[..., None]
    given = special.erf(gain * rho * z / np.sqrt(1 + 2 * gain**2 * np.maximum(0.0, (1 - rho) * (1 + rho))))
    return 2 * (given * special.erf(gain * z)) @ density, given @ density


def check_samples(draw: Draw, process: Any, n: int, second: list[Array], mean: list[float]) -> None:
    """Shapes, balance, repetition, and means within their sampling error."""
    m = draw.scalar([1, 2, 7, np.int8(127)], is_count(most=2**31 // n))
    m = Given(5, 5, "5") if is_count(1001)(m.value) else m
    seed = draw.scalar([0, 1, 2**40], is_count(0, 2**63 - 1))
    X, y = draw.call(process.sample, m, seed=seed)
    again = process.sample(int(m.value), seed=int(seed.value))
    expect(X.shape == (int(m.value), n) and y.shape == (int(m.value),), "another shape")
    expect(np.array_equal(X, again[0]) and np.array_equal(y, again[1]), "draws do not repeat")
    expect(np.isfinite(X).all() and set(y.tolist()) <= set(process.labels), "other labels, or no numbers")
    expect(abs(int(np.sum(y == process.labels[0])) - len(y) / 2) <= 0.5, "out of balance")
    many = draw.scalar([2], is_count(most=10**500))
    chunks = list(islice(draw.call(process.stream, many, SAMPLES // 2, seed=3), 3))
    X, y = np.concatenate([X for X, _ in chunks]), np.concatenate([y for _, y in chunks])
    for which, label in enumerate(process.labels):
        part = X[y == label] / np.sqrt(second[which][0, 0])
        squares, root = second[which] / second[which][0, 0], np.sqrt(len(part))
        level = mean[which] / np.sqrt(second[which][0, 0])
        spread = np.sqrt(np.maximum(1 - level**2, 0)) + 1e-9
        expect(np.abs(part.mean(axis=0) - level).max() <= ERRORS * spread / root, "another mean")
        if len(chunks) > 1:
            fourth = np.sqrt(np.maximum((part**2).T @ part**2 / len(part) - (part.T @ part / len(part)) ** 2, 0.0))
            off = np.abs(part.T @ part / len(part) - squares)
            # Of rare events few samples may hold none; xx' is at most the largest square.
            fourth = np.maximum(fourth, np.sqrt(np.abs(squares) * np.max(part**2)))
            expect((off <= ERRORS * (fourth + 0.05) / root).all(), f"second moments off by {off.max():.2g}")


def check_process(draw: Draw, process: RingProcess, C: list[Array], room: float) -> None:
    """Covariances of a process whose latent covariances (n, n) should be these, its clone and its samples."""
    n, gain = len(C[0]), process.gain
    which = draw.scalar([0, 1], is_count(0, 1))
    latent = draw.call(process.latent, which)
    size = C[int(which.value)][0, 0]
    expect(np.abs(latent - C[int(which.value)]).max() <= room * size, "another latent covariance")
    found = [process.covariance(c) for c in (0, 1)]
    for c in (0, 1):
        if gain is None:
            expect(np.array_equal(found[c], process.latent(c)), "another covariance")
        else:
            rho = np.minimum(process.latent(c)[0], 1.0)
            products = by_quadrature(gain, rho)[0]
            expect(close(found[c][0], products / products[0], 1e-9), "another covariance")
            variance = by_quadrature(gain, np.ones(1))[0][0]
            expect(abs(process.normaliser**2 - variance) <= 1e-10 * variance, "another normaliser")
    clone = draw.call(process.clone)
    expect(clone.gain is None and all(close(clone.covariance(c), found[c], 1e-9) for c in (0, 1)), "no clone")
    chosen = draw.pick([process, clone])
    check_samples(draw, chosen, n, found, [0.0, 0.0])
    if gain is not None and chosen is process:
        expect(np.abs(process.sample(20)[0]).max() <= (1 + 1e-12) / process.normaliser, "beyond erf")


@entry("nonlinear_gaussian_process", share=3)
def _nonlinear(draw: Draw) -> str:
    """C = exp(−d²/ξ²) through erf, for length-scales that are, and that are not, those of a covariance."""
    n = draw.scalar([2, 3, 8, 11, 12, 40], is_count(2, 40_000))
    count = int(n.value) if is_count(2, 40)(n.value) else 8
    good = [[0.12 * count, 0.05 * count], [1e-200, 1e-3], [0.5, 0.1 * count], [1e-3, 0.3]]
    scales = draw.array(draw.pick([*good, *good, [0.3 * count, 1.0], [1.0, 0.0], [2.0, -1.0]]), draw.chance(0.3))
    gain = draw.scalar([1.0, 0.01, 3, 100.0, 1e-6, 1e6], IS_GAIN)
    labels, must = labels_of(draw)
    may = is_count(41, 40_000)(n.value)
    C: list[Array] = []
    if scales.plain is not None:
        must = must or not (scales.plain > 0).all()
        i = np.arange(count)
        apart = np.abs(i[:, None] - i)
        distance = np.minimum(apart, count - apart)
        with np.errstate(all="ignore"):
            C = [np.exp(-((distance / (scale or 1.0)) ** 2)) for scale in scales.plain]
        lows = [float(np.min(v) / v[-1]) for v in map(np.linalg.eigvalsh, C)]
        must, may = must or min(lows) < -1.1e-6, may or min(lows) < -0.9e-6
    arguments = {"length_scales": scales, "gain": gain} | labels
    process = draw.call(nonlinear_gaussian_process, n, must_refuse=must, may_refuse=may, **arguments)
    if int(n.value) == count:
        expect(process.n == count, "another number of pixels")
        check_process(draw, process, C, 1e-5)
    return "correct"


SPECTRA = [*["random"] * 5, "flat", "flat", "rounded", "negative", "asymmetric", "zeros", "tiny", "huge", "beyond"]


@entry("RingProcess", share=3)
def _process(draw: Draw) -> str:
    """Processes of any spectrum: Gaussian, and through erf where the variance is 1."""
    n, kind = draw.whole(1, 9), draw.pick(SPECTRA)
    s = draw.rng.random((2, n)) ** 2 + 0.01
    s = (s + np.roll(s[:, ::-1], 1, axis=1)) / 2
    draw.story.append(f"spectra: {kind}, n = {n}")
    must = kind == "beyond"
    if kind == "flat":
        s[:] = 1.0
    elif kind == "rounded" and n > 2:
        s[0, 1] = s[0, -1] = -1e-7 * s[0].max()
    elif kind == "negative":
        s[0, 0] = -s[0].max()
    elif kind == "asymmetric" and n > 2:
        s[1, 1] += s[1].max()
    elif kind in ("zeros", "tiny", "huge", "beyond"):
        s *= {"zeros": 0.0, "tiny": 1e-90, "huge": 1e90, "beyond": draw.pick([1e307, 1e-300])}[kind]
    gain = draw.scalar([None, None, 1.0, 30.0], lambda v: v is None or IS_GAIN(v))
    if kind not in ("tiny", "huge", "zeros", "beyond") and draw.chance(0.8):
        s /= s.mean(axis=1, keepdims=True)
    given = draw.array(s, rounded=kind == "random" and gain.value is None)
    labels, wrong = labels_of(draw)
    C: list[Array] = []
    if given.plain is not None and given.plain.shape == (2, n):
        s = given.plain
        top = s.max(axis=1, keepdims=True)
        mirror = np.abs(s - np.roll(s[:, ::-1], 1, axis=1)).max(axis=1, keepdims=True)
        # A rounded spectrum may no longer be one.
        must = must or not bool((top > 0).all() and (s >= -1e-6 * top).all() and (mirror <= 1e-6 * top).all())
        off = np.abs(np.maximum(s, 0.0).mean(axis=1) - 1).max()
        must = must or (gain.value is not None and bool(off > 1.1e-6))
        i = np.arange(n)
        waves = np.cos(2 * np.pi * np.outer(i, i) / n)
        s = np.maximum(s, 0.0)
        rows = [v @ waves / n / (1 if gain.value is None else v.mean()) for v in s] if not must else []
        C = [row[(i[:, None] - i) % n] for row in rows]
    elif given.plain is not None:
        must = True
    may = gain.value is not None and not must
    process = draw.call(RingProcess, given, gain, must_refuse=must or wrong, may_refuse=may, **labels)
    check_process(draw, process, C, 1e-6 if kind == "rounded" else 1e-6 * (given.note != "float64") + 1e-12)
    return "correct"


def enumerated(n: int, low: int, high: int, signs: bool, flip: bool) -> tuple[float, Array]:
    """E[x_1] and E[xxᵀ] over all pulses."""
    pulses = [
        turn * (np.roll(np.arange(n) < length, start) * (2.0 if signs else 1.0) - (1.0 if signs else 0.0))
        for length in range(low, high + 1)
        for start in range(n)
        for turn in ((1.0, -1.0) if flip else (1.0,))
    ]
    X = np.array(pulses)
    return float(X.mean(axis=0)[0]), X.T @ X / len(X)


@entry("SinglePulse", share=3)
def _pulse(draw: Draw) -> str:
    """Means and second moments by enumeration; samples hold pulses of these lengths alone."""
    n = draw.scalar([1, 2, 7, 12, np.int8(100)], is_count(1, 2**31))
    count = min(int(n.value), 120) if is_count(1, 2**31)(n.value) else 7
    ranges = []
    for _ in range(2):
        low = draw.whole(1, count)
        high = min(count, low + draw.whole(0, 3))
        ranges.append(draw.pick([low, (low, high), [low, high], (np.int8(low), np.uint8(high))]))
    lengths = Given(tuple(ranges), None, repr(ranges))
    if draw.chance(draw.badness):
        bad = [(0, 1), (count + 1, 1), ((2, 1), 1), (1,), (1, 1, 1), 3, None, "ab", ((1, 2, 3), 1), (1.0, 1), (True, 1)]
        wrong: Any = draw.pick([*bad, (10**30, 1), {1: 2}, [[], 1]])
        lengths = Given(wrong, None, repr(wrong), "bad")
    signs, flip = draw.chance(0.5), draw.chance(0.5)
    labels, must = labels_of(draw)
    data = draw.call(SinglePulse, n, lengths, signs, flip, must_refuse=must, **labels)
    if int(n.value) != count:
        return "correct"
    which = draw.scalar([0, 1], is_count(0, 1))
    second, mean = draw.call(data.second_moment, which), draw.call(data.mean, which)
    exact = [enumerated(count, low, high, signs, flip) for low, high in data.lengths]
    expect(abs(mean - exact[int(which.value)][0]) <= 1e-14, "another mean")
    expect(np.abs(second - exact[int(which.value)][1]).max() <= 1e-14, "another second moment")
    check_samples(draw, data, count, [part[1] for part in exact], [part[0] for part in exact])
    X, y = data.sample(40, seed=1)
    # With signs and a flip, which part is the pulse is not to be seen.
    lengths_seen = np.sum(X > 0, axis=1) if signs else np.abs(X).sum(axis=1)
    for label, (low, high) in zip(data.labels, data.lengths, strict=True):
        seen = lengths_seen[y == label]
        expect((signs and flip) or ((seen >= low) & (seen <= high)).all(), "a pulse of another length")
    return "correct"
