"""Cases about synthetic tasks: clusters, rules, and patterns on a ring."""

from typing import Any

import numpy as np

from implicit_bias.extensions import galu, gated_flow
from tests.fuzz.draw import Draw, expect
from tests.fuzz.strategies import ARGUMENTS, count, equals, number, numbers
from tests.fuzz.table import row

NOISE: dict[str, Any] = {"sigma_x": number(0, 0.1, 1e100, also=equals(0, 0.0, -0.0))}
NOISE["flip"] = number(None, 0, 0.3, 1, high=1.0, ends=True)
MARGIN, BITS = number(0, 0.5, 3, 35.0, high=35.0, ends=True), count(1, 2, 5, vast=10**500)


def _are_samples(c: Any, found: Any) -> bool:
    return found[0].shape == (c.m, c.d)


row(galu.noisy_clusters, n=ARGUMENTS["m"], **NOISE, fine=lambda c, found: found.X.shape == (c.m, c.d))
row(galu.separable, margin=MARGIN, fine=_are_samples)
row(
    galu.linear_clusters,
    centres=numbers("n d"),
    radius=number(0.1, 0, 2.0, high=2.0, ends=True),
    may=True,
    fine=lambda c, found: len(found.y) == c.m,
)
row(galu.parity, bits=BITS, must=lambda c: c.bits > c.d, fine=_are_samples)


def _labels(draw: Draw) -> dict[str, Any]:
    good = {str(pair): (pair, "good") for pair in ([1.0, 0.0], [-1.0, 1.0], [2.0, 3.5], [0.0, -1e-60])}
    bad = {str(pair): (pair, "bad") for pair in ([1.0, 1.0], [0.0, 0.0], [1e90, 0.0])}
    return {} if draw.chance(0.6) else {"labels": draw.variant("labels", good | bad)}  # type: ignore[arg-type]


def _is_stream(c: Any, found: Any) -> bool:
    """True if draws repeat and are balanced, whatever types the counts and the seed have."""
    m, seed = count(1, 2, 7, np.int8(127), cap=1000, vast=10**6)(c.draw), ARGUMENTS["seed"](c.draw)
    X, y = c.draw.call(lambda m, seed: found.sample(m, seed=seed), m=m, seed=seed, same=0.0)
    expect(X.shape == (m.plain, found.n) and np.isfinite(X).all(), "another shape, or no numbers")
    return bool(not found.balanced or abs(int(np.sum(y == found.labels[0])) - len(y) / 2) <= 0.5)


def _scales(draw: Draw) -> dict[str, Any]:
    """A ring's size, and length-scales that are, may be, and are not those of a covariance."""
    n = count(8, 11, 12, 40, least=2, cap=41, vast=40_000)(draw)
    k = n.plain if n.verdict == "good" else 8
    scales: dict[str, Any] = {"short": ([0.12 * k, 0.05 * k], "good" if k >= 8 else "doubtful")}
    scales |= {"tiny": ([1e-200, 1e-3], "good"), "long": ([0.3 * k, 1.0], "doubtful"), "zero": ([1.0, 0.0], "bad")}
    return {"n": n, "length_scales": draw.variant("scales", scales)} | _labels(draw)


def _spectra(draw: Draw) -> dict[str, Any]:
    """Spectra (2, n) of any size, some of them of no process."""
    n = draw.whole(3, 9)
    s = draw.rng.random((2, n)) ** 2 + 0.01
    s = s + np.roll(s[:, ::-1], 1, axis=1)
    s = s / s.mean(axis=1, keepdims=True)
    spectra: dict[str, Any] = {"random": (s, "good"), "flat": (0 * s + 1, "good"), "zero": (0 * s, "bad")}
    spectra |= {"negative": (s - 2 * s[:, :1] * np.eye(n)[0], "bad"), "asymmetric": (s + np.eye(n)[1], "bad")}
    spectra |= {f"times {size:g}": (s * size, "doubtful") for size in (3, 1e-90, 1e90)}
    gain = number(None, None, 1.0, 30.0, low=1e-6, high=1e6, ends=True)(draw)
    return {"spectra": draw.variant("spectra", spectra), "gain": gain} | _labels(draw)


def _lengths(draw: Draw) -> dict[str, Any]:
    """A ring's size, and lengths of pulses, or what are none."""
    n = count(1, 2, 7, 12, np.int8(100), cap=120, vast=2**31)(draw)
    most = n.plain if n.verdict == "good" else 7
    a, b = sorted((draw.whole(1, most), draw.whole(1, most)))
    good: list[Any] = [(a, b), ((a, b), b), ([a, b], [a, a]), ((np.int8(a), np.uint8(b)), np.int8(b))]
    bad: list[Any] = [(0, 1), (most + 1, 1), ((2, 1), 1), (1,), 3, None, "ab", ((1, 2, 3), 1), (1.0, 1), (True, 1)]
    return {"n": n, "lengths": draw.either(draw.pick(good), [*bad, (10**30, 1), {1: 2}, [[], 1]])} | _labels(draw)


GAIN = number(1.0, 0.01, 3, 100.0, 1e-6, 1e6, low=1e-6, high=1e6, ends=True)
STREAM: dict[str, Any] = {"share": 3, "same": None, "finite": False, "fine": _is_stream}
row(gated_flow.nonlinear_gaussian_process, _scales, gain=GAIN, **STREAM)
row(gated_flow.RingProcess, _spectra, **STREAM)
row(gated_flow.SinglePulse, _lengths, **STREAM)
