"""Cases about the theory of clusters, stable gates and first gradients, and about the records of all theorems."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy import special

from implicit_bias import theory
from odd.draw import Array, Draw, Given, close, expect, is_count, is_number
from odd.surface import entry
from odd.theory import ANY_COUNT, Units, beyond, delta_of, near


def _centres(draw: Draw) -> Units:
    units = Units(draw)
    # Centres may have any length.
    if units.given.plain is not None:
        units.broken = not units.given.plain.any(axis=1).all()
        units.room = 1e-14 * units.rows.shape[1]
    return units


@entry("cluster_bounds")
def _cluster_bounds(draw: Draw) -> str:
    """The coherence, and bounds that are below the eigenvalues."""
    C = _centres(draw)
    found = draw.call(theory.cluster_bounds, C.given, must_refuse=C.broken)
    n = len(C.rows)
    cosines = np.abs(C.rows @ C.rows.T)[~np.eye(n, dtype=bool)]
    mu = min(1.0, float(cosines.max(initial=0)))
    turn = np.arcsin(np.longdouble(found.coherence)) / (2 * np.longdouble(np.pi))
    expect(abs(found.coherence - mu) <= 1e-14, "another coherence")
    expect(abs(found.gates - (0.25 - (n - 1) * turn)) <= 1e-13 * n, "another bound of gates")
    expect(abs(found.kernel - (0.5 - (n - 1) * found.coherence * (0.25 + turn))) <= 1e-13 * n, "another bound")
    opened, kernel = C.kernel()
    for bound, matrix in ((found.gates, opened), (found.kernel, kernel)):
        expect(bound <= np.linalg.eigvalsh(matrix.astype(float))[0] + 1e-6 * n, "a bound above the eigenvalue")
    expect(found.say_something == (found.gates > 0 and found.kernel > 0), "says something")
    return "correct"


@entry("gate_correlations")
def _correlations(draw: Draw) -> str:
    """½ − θ/2π."""
    C = _centres(draw)
    found = draw.call(theory.gate_correlations, C.given, must_refuse=C.broken)
    expect(found.shape == (len(C.rows),) * 2 and np.abs(found - C.kernel()[0]).max() <= 1e-14 * 4, "others")
    return "correct"


@entry("incoherent_dimension")
def _dimension(draw: Draw) -> str:
    """8n² log(n(n − 1)/δ)."""
    n, delta = draw.scalar([2, 5, 10**4], is_count(2, 10**500)), delta_of(draw)
    found = draw.call(theory.incoherent_dimension, n, delta, may_refuse=beyond(n, most=10**7))
    count = int(n.value)
    if count <= 10**7:
        own = 8 * count**2 * math.log(count * (count - 1) / float(delta.value))
        expect(0 <= found - own <= 1 + 1e-12 * own, f"d = {found}, not {own}")
    return "correct"


@entry("orthogonal_inverse")
def _orthogonal(draw: Draw) -> str:
    """4I − 4/(n + 1)."""
    n = draw.scalar([1, 2, 7], is_count(most=10**500))
    if ANY_COUNT(n.value) and 10**3 < n.value < 10**5:
        n = Given(3, 3, "3")
    found = draw.call(theory.orthogonal_inverse, n, may_refuse=beyond(n))
    T = 0.25 * (np.eye(int(n.value)) + 1)
    expect(close(found @ T, np.eye(int(n.value)), 1e-12), "no inverse")
    return "correct"


@entry("neumann_inverse")
def _neumann(draw: Draw) -> str:
    """The truncated series is within its error of the inverse; far matrices are refused."""
    n = draw.whole(1, 4)
    A = np.eye(n) + 0.1 * draw.normal(n, n)
    B = A + draw.pick([0.0, 0.1, 0.3, 5.0]) * draw.normal(n, n)
    if draw.chance(0.1):
        A[0] = 0.0
    scale = draw.pick([1.0, 1.0, 1e-90, 1e90, 1e300, 1e-300])
    A_given, B_given = draw.array(A * scale), draw.array(B * scale)
    terms = draw.scalar([1, 3, 40], ANY_COUNT)
    if ANY_COUNT(terms.value) and terms.value > 10**4:
        terms = Given(10**4, 10**4, "10 000")
    if n == 1:
        for given in (A_given, B_given):
            if given.note == "nothing in it":
                given.value = None
    ratio, singular = 0.0, False
    if all(given.plain is not None and np.isfinite(given.plain).all() for given in (A_given, B_given)):
        size = np.abs(A_given.plain).max() or 1.0
        a, b = A_given.plain / size, B_given.plain / size
        singular = bool(np.linalg.matrix_rank(a) < n)
        with np.errstate(all="ignore"):
            change = (a - b) @ (np.eye(n) if singular else np.linalg.inv(a))
        ratio = float(np.linalg.norm(change, 2)) if np.isfinite(change).all() else math.inf
    end = scale in (1e300, 1e-300) or abs(ratio - 1) < 1e-6
    options: dict[str, Any] = {"may_refuse": end, "must_refuse": singular or ratio > 1 + 1e-6}
    found = draw.call(theory.neumann_inverse, A_given, B_given, terms, **options)
    if not end:
        inverse = np.linalg.inv(b)
        error = np.linalg.norm(found.inverse * size - inverse, 2)
        rounding = 1e-11 * np.linalg.norm(inverse, 2) / (1 - found.ratio)
        expect(error <= found.error * size * (1 + 1e-6) + rounding, f"off by {error:.1e}, more than its error")
    expect(0 <= found.ratio < 1 and "array" not in repr(found), "no ratio")
    return "correct"


@entry("gate_stability")
def _stability(draw: Draw) -> str:
    """The width and the shares."""
    d, epsilon = draw.scalar([2, 10, 10**5], is_count(2, 10**500)), delta_of(draw, [0.01, 0.5, 1e-5])
    delta = delta_of(draw)
    small = is_number(0, 1)(epsilon.value) and float(epsilon.value) < 1e-90
    may = beyond(d, most=10**7) or small
    found = draw.call(theory.gate_stability, d, epsilon, delta, may_refuse=may)
    if not may:
        n, e = int(d.value), float(epsilon.value)
        tail = math.log(2 / float(delta.value)) + n * math.log(3 / e)
        near(found.width, math.ceil(math.pi / (6 * n * e**2) * tail), 1e-12 + 1.01 / found.width, "the width")
        near(found.share, 5 * math.sqrt(6 * n) * e / math.sqrt(2 * math.pi), 1e-12, "the share")
        slab = special.betainc(0.5, (n - 1) / 2, min(1, 2 * e) ** 2)
        near(found.sphere_share, slab + math.sqrt(tail / (2 * found.width)), 1e-9, "the share on the sphere")
    expect(found.sphere_share <= found.share * (1 + 1e-9) or found.is_vacuous or may, "shares out of order")
    k, norm = draw.scalar([1, 10**6], ANY_COUNT), draw.scalar([1.0, 1e-3], is_number(0))
    expect(0 <= draw.call(found.norm_failure, k) <= 1, "no probability")
    vast = beyond(k, most=10**15) or (is_number(0)(norm.value) and float(norm.value) > 1e99)
    expect(math.isfinite(draw.call(found.output_change, norm, k, may_refuse=vast)), "no number")
    return "correct"


# ----------------------------------------------------------------------------------------------------------- gradients


@entry("initial_gradients")
def _initial(draw: Draw) -> str:
    """−cα(1/m)Σ y 1(⟨u, x⟩ > 0)x."""
    m, d, k = draw.whole(1, 6), draw.whole(1, 4), draw.whole(1, 3)
    X, y = draw.array(draw.normal(m, d)), draw.array(draw.rng.choice([-1.0, 1.0], m))
    U = draw.array(draw.normal(k, draw.pick([d, d, d, d + 1])))
    options: dict[str, Any] = {}
    if draw.chance(0.5):
        options["readout"] = draw.array(draw.normal(draw.pick([k, k, k, k + 1])))
    for given in (y, *options.values()):
        if given.note in ("one dimension more", "one dimension less", "None"):
            given.value = "bad"
    options["loss"] = draw.scalar(["hinge", "logistic"], lambda v: False)
    odd = y.plain is not None and not set(y.plain.tolist()) <= {-1.0, 1.0}
    odd = odd or (U.plain is not None and U.plain.shape[1] != d)
    alpha = np.ones(k)
    if "readout" in options:
        alpha = options["readout"].plain
        odd = odd or (alpha is not None and len(alpha) != k)
    found = draw.call(theory.initial_gradients, X, y, U, must_refuse=odd, may_refuse=not _any(X.plain), **options)
    x = X.plain.astype(np.longdouble)
    opened = X.plain @ U.plain.T > 0
    slope = 1.0 if options["loss"].value == "hinge" else 0.5
    own = -slope * alpha[:, None] * ((opened * y.plain[:, None]).T @ x) / m
    size = slope * np.abs(alpha[:, None]) * (opened.T @ np.abs(x)) / m
    expect(found.shape == own.shape and np.all(np.abs(found - own) <= 1e-14 * size), "another gradient")
    return "correct"


def _any(values: Array | None) -> bool:
    return values is None or bool(np.any(values))


@entry("gaussian_gradient")
def _gaussian(draw: Draw) -> str:
    """w/√(2π), for targets of any length."""
    d = draw.whole(1, 5)
    w = draw.array(draw.normal(d) * draw.pick([1.0, 1e-200, 1e200, 0.0, 1e-300, 1e300]))
    found = draw.call(theory.gaussian_gradient, w, must_refuse=w.plain is not None and not w.plain.any())
    unit = w.plain.astype(np.longdouble) / np.abs(w.plain).max()
    own = unit / np.sqrt(np.sum(unit**2)) / np.sqrt(2 * np.longdouble(np.pi))
    expect(close(found.mean, own, 1e-14), "another mean")
    near(found.noise, np.longdouble(len(w.plain)) / 2 - 1 / (2 * np.longdouble(np.pi)), 1e-13, "the noise")
    near(found.samples, found.noise * 2 * np.pi, 1e-12, "samples")
    return "correct"


@entry("parity_gradient")
def _parity_gradient(draw: Draw) -> str:
    """Means over all sign patterns, one by one."""
    d = draw.pick([1, 2, 3, 5, 8, 21])
    kind = draw.pick(["normal", "integers", "zeros"])
    u = {"normal": draw.normal(d), "integers": draw.rng.integers(-2, 3, d).astype(float), "zeros": np.zeros(d)}[kind]
    given, bits = draw.array(u * draw.pick([1.0, 1e-200, 1e200])), draw.scalar([1, 2, 3], ANY_COUNT)
    many = d > 20 or (ANY_COUNT(bits.value) and bits.value > d)
    found = draw.call(theory.parity_gradient, given, bits, must_refuse=many)
    u = given.plain.astype(np.longdouble) / (np.abs(given.plain).max() or 1.0)
    signs = np.array([[1 - 2 * (i >> j & 1) for j in range(len(u))] for i in range(2 ** len(u))])
    opened = signs @ u > 1e-14 * len(u)
    y = np.prod(signs[:, : int(bits.value)], axis=1)
    own = np.mean((y * opened)[:, None] * signs, axis=0)
    expect(close(found.mean, own, 1e-14), "another mean")
    near(found.noise, len(u) * np.mean(opened) - np.sum(own**2), 1e-12, "the noise")
    size = np.sum(own**2)
    expect(
        found.samples == math.inf if size == 0 else abs(found.samples * size - found.noise) <= 1e-12 * len(u), "samples"
    )
    return "correct"


# ------------------------------------------------------------------------------------------------------------- records


@entry("MemorisationWidth", share=1)
def _memorisation_record(draw: Draw) -> str:
    record = draw.call(theory.MemorisationWidth, 60, 0.1, 4, 0.5, 1.0)
    k = draw.scalar([1, 60], ANY_COUNT)
    expect(0 <= draw.call(record.failure, k, may_refuse=beyond(k, most=10**15)) <= 1, "no probability")
    return "correct"


@entry("DescentRate", share=1)
def _rate_record(draw: Draw) -> str:
    rate = draw.pick([0.0, 0.5, 1 - 1e-16, 5e-324])
    record = draw.call(theory.DescentRate, 0.1, rate, 1.0, 1.0)
    share = delta_of(draw)
    expect(draw.call(record.steps, share) >= 1, "no steps")
    return "correct"


@entry("GateStability", share=1)
def _stability_record(draw: Draw) -> str:
    record = draw.call(theory.GateStability, 10, 0.25, 0.1, 3, 0.1, 0.1)
    norm, k = draw.scalar([1.0, 0.1], is_number(0)), draw.scalar([1, 10], ANY_COUNT)
    vast = beyond(k) or (is_number(0)(norm.value) and float(norm.value) > 1e99)
    expect(record.distance == 0.5 and not record.is_vacuous, "another distance")
    expect(draw.call(record.output_change, norm, k, may_refuse=vast) > 0, "no change")
    return "correct"


#: Records of numbers that have no methods, with what makes them.
PLAIN: dict[str, tuple[Any, ...]] = {
    "ClusterBounds": (0.1, 0.2, 0.3),
    "ExpectedLoss": (0.5, 2, 4, 0.5),
    "GeneralisationBound": (1.0, 0.0, 0.5, 0.5, 1.0, 1.0, 1.0, 3, 0.1),
    "InitialGradient": (np.ones(2), 1.0),
    "NeumannInverse": (np.eye(2), 0.5, 0.1),
}


def _record(name: str) -> None:
    @entry(name, share=1)
    def _plain(draw: Draw) -> str:
        expect("array" not in repr(draw.call(getattr(theory, name), *PLAIN[name])), "it prints its arrays")
        return "correct"


for _name in PLAIN:
    _record(_name)
