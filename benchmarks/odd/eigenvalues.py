"""Cases about smallest eigenvalues of Gram matrices, on the circle and through depth: against many digits."""

from __future__ import annotations

from typing import Any

import mpmath
import numpy as np

from implicit_bias.kernels import (
    Gram,
    SmallestEigenvalue,
    circle_eigenvalue,
    deep_gram,
    gram_matrix,
    smallest_eigenvalue,
)
from odd.draw import Draw, expect, is_count
from odd.kernels import by_quadrature, geometry, one_of, points_of
from odd.surface import entry

MP = mpmath.mp.clone()
MP.dps = 60


def least_of(values: Any) -> Any:
    """The smallest eigenvalue in sixty digits."""
    rows = [[MP.mpf(v) for v in row] for row in np.asarray(values).tolist()]
    return min(MP.eigsy(MP.matrix(rows), eigvals_only=True))


def check_least(found: SmallestEigenvalue, values: Any, digits: Any, room: Any = 0) -> None:
    """A value and a bound that hold the eigenvalue, and as many digits as were asked for."""
    own = least_of(values)
    expect(abs(MP.mpf(found.value) - own) <= MP.mpf(found.error) + room, f"{found.value}, not {MP.nstr(own, 9)}")
    expect(not found.is_positive or own > 0, "positive")
    expect(digits is None or found.error * 2 * 10 ** int(digits) <= abs(found.value), "fewer digits")
    expect(str(found).startswith("λ_min"), "no text")


MATRICES = ["positive", "positive", "singular", "indefinite", "zero", "diagonal", "no trace", "asymmetric", "ill"]


@entry("smallest_eigenvalue", share=4)
def _least(draw: Draw) -> str:
    """Of matrices of every kind and size, and of Gram matrices in doubles and in many digits."""
    digits = draw.scalar([None, None, None, 1, 3, 30], lambda v: v is None or is_count(1, 10**500)(v))
    asked = None if digits.value is None else digits.value
    if draw.chance(0.3):
        name = draw.pick(["relu", "erf", "selu", "square"])
        X = draw.normal(draw.whole(1, 4), 2)
        gram = gram_matrix(X, name, digits=draw.pick([None, 25]))
        found = draw.call(smallest_eigenvalue, gram, digits, may_refuse=asked is not None)
        check_least(found, gram.values, asked)
        expect(found.error >= gram.error, "less of an error than the matrix has")
        return "correct"
    n, kind = draw.whole(1, 6), draw.pick(MATRICES)
    draw.story.append(f"matrix: {kind}, n = {n}")
    root = draw.normal(n, n + 2)
    if kind == "singular":
        root = root[:, : max(1, n - 1)]
    A = root @ root.T
    if kind == "ill":
        A = A + 1e12 * np.ones((n, n))
    elif kind == "indefinite":
        A = A - np.eye(n) * A.trace() / n
    elif kind in ("zero", "diagonal", "no trace"):
        A = np.diag(draw.rng.choice([0.0, 1.0, 1e-9, 5.0], n)) * (kind == "diagonal")
        A = A + (1 - np.eye(n)) * (kind == "no trace")
    scale = draw.pick([*[1.0] * 5, 1e-200, 1e200, 1e-278, 1e276, 1e300])
    A = (A + A.T) / 2 * scale
    if kind == "asymmetric":
        A[0, -1] += scale * (n > 1)
    given = draw.array(A)
    plain = given.plain
    must = plain is not None and (plain.shape[0] != plain.shape[-1] or not np.array_equal(plain, plain.T))
    size = 0.0 if plain is None else float(np.abs(plain).max())
    must = must or (size > 0 and not 1e-280 <= size <= 1e280)
    found = draw.call(smallest_eigenvalue, given, digits, must_refuse=must, may_refuse=asked is not None)
    check_least(found, plain, asked)
    expect(found.error <= 1e-12 * n * n * size + 1e-290, f"an error of {found.error}")
    return "correct"


@entry("circle_eigenvalue")
def _circle(draw: Draw) -> str:
    """Against the dense matrix, its entries by quadrature; with all the digits that were asked for."""
    n = draw.scalar([1, 2, 3, 4, 5, 8], is_count(1, 2000))
    chosen, known, _ = one_of(draw, 0.0)
    digits = draw.scalar([10, 1, 40], is_count(1, 1000))
    found = draw.call(circle_eigenvalue, n, chosen, digits, may_refuse=known is None)
    turns = 2 * np.pi * np.arange(int(n.value)) / int(n.value)
    angles = np.minimum(turns, 2 * np.pi - turns)
    means = [by_quadrature(known.derivative, 1.0, 1.0, float(t)) * np.cos(t) for t in angles]
    place = np.arange(len(turns))
    dense = np.array(means)[(place[:, None] - place) % len(turns)]
    own, size = np.linalg.eigvalsh(dense)[0], abs(means[0])
    expect(abs(float(found.value) - own) <= 1e-10 * len(turns) * size, f"{float(found.value)}, not {own}")
    exact = found.error * 2 * 10 ** int(digits.value) <= abs(found.value)
    expect(exact or (found.value == 0 and found.error < 1e-290 * size), "fewer digits")
    return "correct"


@entry("deep_gram")
def _deep(draw: Draw) -> str:
    """The composition, layer by layer, of maps by quadrature."""
    chosen, known, series = one_of(draw)
    X, must, _ = points_of(draw, long=not series, most=2)
    layers = draw.scalar([1, 2, 4], is_count(1, 10_000))
    steep = known is not None and known.name.startswith(("poly", "leaky ReLU of slope 1e"))
    near = X.plain is not None and not must and len(X.plain) > 1
    angle = float(geometry(X.plain)[1][0, 1]) if near else 0.0
    # What a series leaves out of a layer's map may be refused.
    may = series or steep or (known is not None and known.name == "cube")
    found = draw.call(deep_gram, X, chosen, layers, must_refuse=must, may_refuse=may)
    variance = by_quadrature(known.function, 1.0, 1.0, 0.0)
    flat = by_quadrature(known.derivative, 1.0, 1.0, 0.0)
    for _ in range(min(int(layers.value), 4) - 1):
        rho = by_quadrature(known.function, 1.0, 1.0, angle) / variance
        angle = float(np.arccos(np.clip(rho, -1.0, 1.0)))
    values = np.asarray(found.values)
    expect(np.abs(np.diag(values) - flat).max() <= 1e-10 * flat, "another diagonal")
    if near and int(layers.value) <= 4:
        own = by_quadrature(known.derivative, 1.0, 1.0, angle) * np.cos(angle)
        # Angles of nearly equal points are the roots of what the quadrature loses.
        room = 1e-9 if abs(np.cos(angle)) < 0.99 else 1e-5
        expect(abs(values[0, 1] - own) <= found.error + room * flat, f"{values[0, 1]}, not {own}")
    return "correct"


@entry("Gram", share=1)
def _gram_record(draw: Draw) -> str:
    record = draw.call(Gram, draw.normal(2, 2), 0.0)
    expect("array" not in repr(record), "it prints its arrays")
    return "correct"


@entry("SmallestEigenvalue", share=1)
def _least_record(draw: Draw) -> str:
    """Positive where it is certain."""
    value, error = draw.pick([(1.0, 0.5), (1.0, 1.0), (-1.0, 0.1), (0.0, 0.0), (MP.mpf(2), MP.mpf("1e-999"))])
    record = draw.call(SmallestEigenvalue, value, error)
    expect(record.is_positive == (value > error) and str(record).startswith("λ_min"), "another sign")
    return "correct"
