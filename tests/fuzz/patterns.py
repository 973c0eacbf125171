"""Cases about synthetic tasks: clusters, rules, and patterns on a ring."""

from typing import Any

import numpy as np

from implicit_bias import datasets
from tests.fuzz.draw import Draw, expect
from tests.fuzz.strategies import SEED, count, is_zero, number
from tests.fuzz.table import drawn, row

SIZE = count(1, 2, 5, 30, cap=200, vast=10**11)
SIZES: dict[str, Any] = {"m": SIZE, "d": SIZE, "seed": SEED}
NOISE: dict[str, Any] = {"flip": number(None, 0, 0.3, 1, high=1.0, ends=True)}
NOISE["sigma_x"] = number(0, 0.1, 1e100, also=is_zero)
MARGIN, BITS = number(0, 0.5, 3, 35.0, high=35.0, ends=True), count(1, 2, 5, vast=10**500)


def _are_clusters(c: Any, found: Any) -> bool:
    """Samples around their centres, which are the same for any noise."""
    plain = datasets.noisy_clusters(c.m, c.n, c.d, 0.0, seed=c.seed)
    near = np.abs(found.X - found.centres[found.cluster]).max() <= 10 * float(c.sigma_x)
    return near and found.X.shape == (c.m, c.d) and np.array_equal(plain.centres, found.centres)


row(datasets.noisy_clusters, n=SIZE, **SIZES, **NOISE, fine=_are_clusters)
row(datasets.separable, margin=MARGIN, **SIZES, fine=lambda c, found: found[0].shape == (c.m, c.d))
row(datasets.parity, bits=BITS, **SIZES, must=lambda c: c.bits > c.d, fine=lambda c, found: found[0].size == c.m * c.d)


def _labels(draw: Draw) -> dict[str, Any]:
    """Labels of the classes, if any."""
    good = {str(pair): (pair, "good") for pair in ([1.0, 0.0], [-1.0, 1.0], [2.0, 3.5], [0.0, -1e-60])}
    bad = {str(pair): (pair, "bad") for pair in ([1.0, 1.0], [0.0, 0.0], [1e90, 0.0])}
    return {} if draw.chance(0.6) else {"labels": draw.variant("labels", good | bad)}  # type: ignore[arg-type]


def _is_stream(c: Any, found: Any) -> bool:
    """Draws that repeat and are balanced, for whatever numbers the size and the seed came as."""
    m, seed = drawn(count(1, 2, 7, np.int8(127), cap=1000, vast=10**6), c.draw), drawn(SEED, c.draw)
    X, y = c.draw.call(lambda m, seed: found.sample(m, seed=seed), m=m, seed=seed, same=0.0)
    expect(X.shape == (m.plain, found.n) and np.isfinite(X).all(), "another shape, or no numbers")
    return bool(abs(int(np.sum(y == found.labels[0])) - len(y) / 2) <= 0.5)


def _scales(draw: Draw) -> dict[str, Any]:
    """A ring's size, and length-scales that are, may be, and are not those of a covariance."""
    n = drawn(count(8, 11, 12, 40, least=2, cap=41, vast=40_000), draw)
    k = n.plain if n.verdict == "good" else 8
    scales: dict[str, Any] = {"short": ([0.12 * k, 0.05 * k], "good" if k >= 8 else "doubtful")}
    scales |= {"tiny": ([1e-200, 1e-3], "good"), "long": ([0.3 * k, 1.0], "doubtful"), "zero": ([1.0, 0.0], "bad")}
    return {"n": n, "length_scales": draw.variant("scales", scales | {"negative": ([2.0, -1.0], "bad")})} | _labels(
        draw
    )


def _spectra(draw: Draw) -> dict[str, Any]:
    """Spectra (2, n) of any size, some of them of no process."""
    n = draw.whole(3, 9)
    s = draw.rng.random((2, n)) ** 2 + 0.01
    s = s + np.roll(s[:, ::-1], 1, axis=1)
    s, odd = s / s.mean(axis=1, keepdims=True), np.eye(n)
    spectra: dict[str, Any] = {"random": (s, "good"), "flat": (0 * s + 1, "good"), "zero": (0 * s, "bad")}
    spectra |= {"negative": (s - 2 * s[:, :1] * odd[0], "bad"), "asymmetric": (s + s.max() * odd[1], "bad")}
    sizes = {3: "doubtful", 1e-90: "doubtful", 1e90: "doubtful", 1e307: "bad", 1e-300: "bad"}
    spectra |= {f"times {size:g}": (s * size, verdict) for size, verdict in sizes.items()}
    gain = number(None, None, 1.0, 30.0, low=1e-6, high=1e6, ends=True)(draw)
    return {"spectra": draw.variant("spectra", spectra), "gain": gain} | _labels(draw)


def _lengths(draw: Draw) -> dict[str, Any]:
    """A ring's size, and lengths of pulses, which may be odd."""
    n = drawn(count(1, 2, 7, 12, np.int8(100), cap=120, vast=2**31), draw)
    most = n.plain if n.verdict == "good" else 7
    a, b = sorted((draw.whole(1, most), draw.whole(1, most)))
    good: list[Any] = [(a, b), ((a, b), b), ([a, b], [a, a]), ((np.int8(a), np.uint8(b)), np.int8(b))]
    odd: list[Any] = [(0, 1), (most + 1, 1), ((2, 1), 1), (1,), (1, 1, 1), 3, None, "ab", ((1, 2, 3), 1), (1.0, 1)]
    lengths = draw.either(draw.pick(good), [*odd, (True, 1), (10**30, 1), {1: 2}, [[], 1]])
    return {"n": n, "lengths": lengths, "signs": draw.chance(0.5), "flip": draw.chance(0.5)} | _labels(draw)


GAIN = number(1.0, 0.01, 3, 100.0, 1e-6, 1e6, low=1e-6, high=1e6, ends=True)
STREAM: dict[str, Any] = {"share": 3, "same": None, "finite": False, "fine": _is_stream}
row(datasets.nonlinear_gaussian_process, _scales, gain=GAIN, **STREAM)
row(datasets.RingProcess, _spectra, **STREAM)
row(datasets.SinglePulse, _lengths, **STREAM)
