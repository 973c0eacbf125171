"""Cases about Gram matrices: entries by quadrature over the plane of two points, eigenvalues in many digits."""

from __future__ import annotations

from typing import Any

import mpmath
import numpy as np
import torch

from implicit_bias.kernels import (
    Activation,
    Gram,
    activation,
    custom_activation,
    elu,
    empirical_gram,
    gram_matrix,
    leaky_relu,
    mean_square,
    polynomial,
)
from odd.draw import Array, Draw, Given, expect, is_count, is_number
from odd.surface import entry

MP = mpmath.mp.clone()
MP.dps = 60
SERIES = ["tanh", "sigmoid", "softplus", "swish"]
CLOSED = ["relu", "leaky relu", "square", "cube", "elu", "selu", "erf", "gelu"]
#: Relative error of the quadrature here.
QUADRATURE = 3e-12
NODES, WEIGHTS = np.polynomial.legendre.leggauss(16)


def panels(edges: Array) -> tuple[Array, Array]:
    """Nodes and weights on panels between edges."""
    half = np.diff(edges)[:, None] / 2
    return ((edges[1:] + edges[:-1])[:, None] / 2 + half * NODES).ravel(), (half * WEIGHTS).ravel()


def ladder(least: float) -> Array:
    """Edges from 0 to 1, crowded at 0 as far as `least`."""
    return np.concatenate([[0.0], np.geomspace(least, 1.0, 2 + int(np.log(1 / least)))])


def by_quadrature(f: Any, r: float, s: float, angle: float) -> float:
    """E[f(z)f(z')] in polar coordinates of the plane of two points of lengths r and s, cut where z or z' is 0."""
    fine = 0.02 / max(r, s, 1.0)
    cuts = np.sort(np.mod([np.pi / 2, -np.pi / 2, angle + np.pi / 2, angle - np.pi / 2], 2 * np.pi))
    t, step = panels(np.concatenate([ladder(fine), np.arange(2.0, 13.0)]))
    step = step * t * np.exp(-t * t / 2) / (2 * np.pi)
    rise, total = ladder(fine) / 2, 0.0
    for first, last in zip(cuts, np.append(cuts[1:], cuts[0] + 2 * np.pi), strict=True):
        if last - first > 1e-15:
            edges = first + (last - first) * np.concatenate([rise, 1 - rise[-2::-1]])
            phi, turn = panels(edges)
            total += float(step @ (f(r * np.outer(t, np.cos(phi))) * f(s * np.outer(t, np.cos(phi - angle)))) @ turn)
    return total


def geometry(X: Array) -> tuple[Array, Array, Array]:
    """Lengths (n,), angles (n, n) and products (n, n) of points in longdouble."""
    X = np.asarray(X, dtype=np.longdouble)
    lengths = np.sqrt(np.sum(X**2, axis=1))
    unit = X / lengths[:, None]
    apart, along = (np.sqrt(np.sum((unit[:, None] + sign * unit) ** 2, axis=2)) for sign in (-1, 1))
    return lengths, 2 * np.arctan2(apart, along), X @ X.T


def expected_gram(f: Any, X: Array) -> Array:
    """E[f(z_i)f(z_j)]⟨x_i, x_j⟩ by quadrature."""
    lengths, angles, products = geometry(X)
    G = np.empty(products.shape)
    for i in range(len(X)):
        for j in range(i + 1):
            theta = float(angles[i, j]) if i != j else 0.0
            G[i, j] = G[j, i] = by_quadrature(f, float(lengths[i]), float(lengths[j]), theta) * products[i, j]
    return G


def points_of(draw: Draw, long: bool, most: int = 3) -> tuple[Given, bool, bool]:
    """Points (n, d) with lengths from 1e-6 to 1e3 (if `long`), whether they must be refused, and may be in a series."""
    n, d = draw.whole(1, most), draw.whole(1, 3)
    X = draw.normal(n, d)
    kind = draw.pick(["random", "random", "orthogonal", "nearly parallel", "antipodal", "repeated", "zero", "beyond"])
    if kind == "orthogonal":
        X = np.eye(max(n, d))[:n, :d] + (draw.normal(n, d) if n > d else 0.0)
    elif kind in ("nearly parallel", "antipodal", "repeated"):
        X[-1] = X[0] * (-1.0 if kind == "antipodal" else 1.0)
        X[-1, 0] += 10.0 ** -draw.whole(2, 9) if kind == "nearly parallel" else 0.0
    X = X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-30)
    if draw.chance(0.5):
        X = X * 10.0 ** draw.rng.uniform(*((-6, 3) if long else (-3, 1)), (n, 1))
    if kind == "zero":
        X[0] = 0.0
    elif kind == "beyond":
        X = X * draw.pick([1e-70, 1e70, 1e-300, 1e300])
    draw.story.append(f"points: {kind}, n = {n}, d = {d}")
    given = draw.array(X, rounded=kind == "random")
    must = may = False
    if given.plain is not None:
        plain = given.plain.astype(np.longdouble)
        lengths = np.sqrt(np.sum(plain**2, axis=1))
        must = bool(((lengths < 1e-60) | (lengths > 1e60)).any())
        if not must and n > 1:
            cosines = np.cos(geometry(plain)[1].astype(float))[~np.eye(n, dtype=bool)]
            may = bool(np.abs(cosines).max() > 0.9 or lengths.max() > 9)
    return given, must, may


def one_of(draw: Draw, series: float = 0.3) -> tuple[Given, Any, bool]:
    """An activation as it is given, itself, and whether it is a series."""
    if draw.chance(draw.badness / 2):
        value: Any = draw.pick(["sine", "", None, 3, b"relu", ["relu"], object(), np.tanh, "RELU"])
        return Given(value, None, repr(value), "bad"), None, False
    if draw.chance(series):
        name = draw.pick(SERIES)
        return Given(name, name, name), activation(name), True
    made = [leaky_relu(-1.0), leaky_relu(1e6), elu(1e-6), elu(3.0, 1e20), polynomial([1, -2, 0.5, 0, 1e-3])]
    chosen: Any = draw.pick([*CLOSED, *CLOSED, *made])
    known = activation(chosen)
    return Given(chosen, chosen, known.name), known, False


def check_gram(found: Gram, G: Array, room: float) -> None:
    """A Gram matrix within its error of what it should be."""
    values = np.asarray(found.values, dtype=np.float64)
    expect(np.array_equal(values, values.T) and np.isfinite(values).all(), "not symmetric, or no numbers")
    expect(found.error >= 0 and found.error <= 1e-3 * np.trace(values), f"an error of {float(found.error):g}")
    off = np.linalg.norm(values - G, 2)
    expect(off <= found.error + room * np.trace(G), f"off by {off:.2g}, more than {float(found.error):.2g}")


@entry("gram_matrix", share=6)
def _gram(draw: Draw) -> str:
    """Every entry within the error, for points of any length and angle."""
    chosen, known, series = one_of(draw)
    X, must, may = points_of(draw, long=not series)
    options: dict[str, Any] = {}
    if draw.chance(0.3):
        options["normalise"] = True
    if series and draw.chance(0.3):
        options["tolerance"] = draw.scalar([1e-11, 1e-6, 1e-3], is_number(0, 1, ends=True))
        tolerance = options["tolerance"].value
        may = may or (is_number(0, 1, ends=True)(tolerance) and not 1e-11 <= float(tolerance) <= 1e-3)
    elif not series and draw.chance(0.15):
        options["digits"] = draw.scalar([8, 20, 40], is_count(1, 1000))
        may = known is not None and "elu" in known.name.lower()
    # Squares of squares of sizes that are far from 1.
    steep = known is not None and known.name.startswith(("poly", "leaky ReLU of slope 1e"))
    found = draw.call(
        gram_matrix,
        X,
        chosen,
        must_refuse=must,
        may_refuse=(may and (series or "digits" in options)) or steep,
        **options,
    )
    points = X.plain.astype(np.longdouble)
    if options.get("normalise"):
        points = points / np.sqrt(np.sum(points**2, axis=1, keepdims=True))
    check_gram(found, expected_gram(known.derivative, points), QUADRATURE)
    expect(found.is_certified and (found.terms > 0) == series and "array" not in repr(found), "another record")
    return "correct"


def slope_of(draw: Draw, found: Activation) -> None:
    """σ' as the difference quotient of σ, at a number and in an array."""
    z = np.array([-7.0, -0.4, 0.3, 2.0, 6.0]) + 0.01 * draw.normal(5)
    quotient = (np.asarray(found.function(z + 1e-6)) - found.function(z - 1e-6)) / 2e-6
    size = np.abs(found.derivative(z)).max() + np.abs(found.function(z)).max()
    expect(np.abs(found.derivative(z) - quotient).max() <= 1e-7 * size, "another derivative")
    expect(float(found.derivative(z[0])) == float(found.derivative(z)[0]), "another derivative of a number")
    far = np.array([-1000.0, 1000.0])
    if found.name not in ("square", "cube") and not found.name.startswith("poly"):
        expect(np.isfinite([found.function(far), found.derivative(far)]).all(), "no numbers far out")


@entry("activation")
def _named(draw: Draw) -> str:
    """Names, unknown ones, and activations themselves."""
    chosen, known, _ = one_of(draw, 0.5)
    found = draw.call(activation, chosen)
    expect(found is known and found.is_certified, "another one")
    slope_of(draw, found)
    return "correct"


@entry("Activation", share=1)
def _record(draw: Draw) -> str:
    """One with nothing but its functions: a series with estimated errors."""
    made = draw.call(Activation, "sine", np.sin, np.cos)
    expect(not made.is_exact and not made.is_certified, "exact, or certified")
    X = np.array([[1.0, 0.0], [np.cos(1.0), np.sin(1.0)]])
    found = draw.call(gram_matrix, X, made)
    expect(not found.is_certified, "certified")
    check_gram(found, expected_gram(np.cos, X), QUADRATURE)
    return "correct"


@entry("leaky_relu")
def _leaky(draw: Draw) -> str:
    """Any slope but 1."""
    slope = draw.scalar([0.0, 0.5, -3, 1e6, 1], lambda v: is_number(-1e6, 1e6, ends=True)(v))
    found = draw.call(leaky_relu, slope, must_refuse=is_number()(slope.value) and slope.value == 1)
    slope_of(draw, found)
    X = draw.normal(2, 2)
    check_gram(gram_matrix(X, found), expected_gram(found.derivative, X), QUADRATURE)
    return "correct"


@entry("elu")
def _elu(draw: Draw) -> str:
    """Any α and scale within range."""
    within = is_number(1e-60, 1e60, ends=True)
    options: dict[str, Any] = {name: draw.scalar([1.0, 1.67, 3, 1e-9, 1e9], within) for name in ("alpha", "scale")}
    found = draw.call(elu, **options)
    slope_of(draw, found)
    X = draw.normal(2, 2)
    check_gram(gram_matrix(X, found), expected_gram(found.derivative, X), QUADRATURE)
    return "correct"


@entry("polynomial")
def _polynomial(draw: Draw) -> str:
    """Degrees 1 to 20, zeros above; no constants."""
    degree = draw.whole(0, draw.pick([3, 22]))
    c = np.append(draw.normal(degree + 1) * draw.pick([1.0, 1.0, 1e-99, 1e90, 1e-200]), np.zeros(draw.whole(0, 2)))
    given = draw.array(c)
    if given.note == "one dimension more":
        given = Given(c, c, "coefficients")
    degree = int(np.append([0], np.flatnonzero(given.plain))[-1]) if given.plain is not None else 1
    size = np.abs(given.plain).max() if given.plain is not None else 1.0
    must = not 1 <= degree <= 20 or not 1e-100 <= size <= 1e100
    found = draw.call(polynomial, given, must_refuse=must)
    X = draw.normal(2, 2)
    # Squares of the smallest coefficients leave floating point, and long sums lose digits.
    if 1e-50 < size < 1e50:
        check_gram(gram_matrix(X, found), expected_gram(found.derivative, X), 1e-9 if degree > 9 else QUADRATURE)
    return "correct"


FUNCTIONS: list[tuple[Any, str]] = [
    (torch.tanh, "tanh"),
    (torch.nn.functional.silu, "swish"),
    (lambda z: z**2, "square"),
    (lambda z: torch.special.erf(z / 2**0.5), "erf"),
    (torch.nn.functional.gelu, "gelu"),
]
NO_FUNCTIONS: list[Any] = [
    *(None, "tanh", 3, lambda z: z.sum(), lambda z: z.detach(), lambda z: 1.0, lambda z: z > 0, lambda z: z[:1]),
    lambda z: z.detach().numpy(),
]
NO_GRAMS: list[Any] = [torch.sqrt, torch.log, lambda z: 0 * z, lambda z: torch.exp(z**2), lambda z: torch.exp(z**2 / 4)]


@entry("custom_activation")
def _custom(draw: Draw) -> str:
    """Functions of torch are their namesakes; what is none, or has no mean square, is refused."""
    X = draw.normal(2, 3)
    if draw.chance(draw.badness):
        if draw.chance(0.5):
            draw.call(custom_activation, draw.pick(NO_FUNCTIONS), must_refuse=True)
        draw.call(gram_matrix, X, custom_activation(draw.pick(NO_GRAMS)), must_refuse=True)
    function, name = draw.pick(FUNCTIONS)
    found = draw.call(custom_activation, function, draw.scalar(["mine"], lambda v: isinstance(v, str)))
    gram, known = draw.call(gram_matrix, X, found), gram_matrix(X, name)
    expect(np.linalg.norm(gram.values - known.values, 2) <= gram.error + known.error, f"not as {name}")
    expect(not gram.is_certified, "certified")
    return "correct"


@entry("mean_square")
def _mean_square(draw: Draw) -> str:
    """E[σ'(rz)²] by quadrature."""
    chosen, known, _ = one_of(draw)
    norm = draw.scalar([1.0, 0.25, 3, 7.5], lambda v: is_number(0)(v) and 1e-60 <= float(v) <= 1e60)
    odd = is_number(0)(norm.value) and not 1e-3 <= float(norm.value) <= 10
    found = draw.call(mean_square, chosen, norm, may_refuse=odd)
    r = float(norm.value)
    expect(abs(found - by_quadrature(known.derivative, r, r, 0.0)) <= 1e-11 * found, "another mean")
    return "correct"


@entry("empirical_gram")
def _empirical(draw: Draw) -> str:
    """The means over the units of the seed, once more."""
    chosen, known, _ = one_of(draw)
    X, must, _ = points_of(draw, long=False)
    width = draw.scalar([1, 7, 300], is_count(most=10**6))
    seed = draw.scalar([0, 1, 2**40], is_count(0, 2**63 - 1))
    may = (X.plain is not None and X.plain.size < 2) or (known is not None and known.name.startswith("leaky ReLU of"))
    may = may or is_count(10**6)(width.value)
    found = draw.call(empirical_gram, X, chosen, width, seed, must_refuse=must, may_refuse=may)
    W = np.random.default_rng(int(seed.value)).standard_normal((int(width.value), X.plain.shape[1]))
    values = np.asarray(known.derivative(X.plain @ W.T), dtype=np.longdouble)
    inner = X.plain.astype(np.longdouble) @ X.plain.T
    own = values @ values.T / len(W) * inner
    top = np.sqrt(np.diag(own))
    expect((np.abs(found - own) <= 1e-12 * np.outer(top, top)).all(), "another matrix")
    return "correct"
