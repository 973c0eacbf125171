"""Rounding to doubles so that sums which nearly cancel come out right: a closest vector of a lattice.

Doubles near x are a grid, and the sums that matter a lattice over it, for nearly parallel samples one with far shorter
vectors than single roundings make. It is reduced (Lenstra, Lenstra & Lovász 1982), and the nearest plane of each of its
vectors in turn leads close to the sums that are wanted (Babai 1986).
"""

from typing import Any

import gmpy2
import numpy as np

from implicit_bias._utils.checks import Array

#: Numbers that are chosen together, those of the largest terms; the others are rounded by themselves.
TOGETHER = 12
#: A vector may be this much shorter than the one before it, less its part along it (Lovász).
LOVASZ = 0.75
#: Steps of the reduction, of about a millisecond; a basis that needs more is used as far as it got.
STEPS = 1000


def rounded(exact: Any, forms: Any, room: Any, stay: Any, push: Any = 0.0) -> Array:
    """Doubles x (k,) near `exact` with forms @ x near forms @ exact + push ∘ room, and x_j within about stay_j.

    All have many digits: `exact` (k,), `forms` (s, k), and what errors of the sums and of the numbers are measured by,
    `room` (s,) and `stay` (k,).

    Examples
    --------
    A sum of 0 up to a millionth of what rounding its terms leaves:

    >>> many = np.vectorize(gmpy2.mpfr, otypes=[object])
    >>> forms, exact = many(np.array([[1e8 + 1, -1e8]])), many(np.array([1e8, 1e8 + 1])) / 3
    >>> x = rounded(exact, forms, many(np.array([1e-6])), many(np.ones(2)))
    >>> float(abs(forms @ exact.astype(float))[0]) > 1e-2, float(abs(forms @ many(x))[0]) < 1e-6
    (True, True)
    """
    x = exact.astype(np.float64)
    reach = (abs(forms * exact) / room[:, None]).max(axis=0).astype(np.float64)
    chosen = np.argsort(-reach, kind="stable")[:TOGETHER]
    chosen = chosen[x[chosen] != 0]
    if not len(chosen):
        return x
    # One bit less than doubles have, for those that grow beyond a power of two.
    unit = np.ldexp(1.0, np.frexp(x[chosen])[1] - 52)
    x[chosen] = np.round(x[chosen] / unit) * unit
    stay = stay[chosen]
    basis = np.hstack([(forms[:, chosen] * unit / room[:, None]).T, np.diag(unit / stay)])
    missing = np.concatenate([(forms @ (exact - x)) / room + push, (exact - x)[chosen] / stay])
    basis, planes = _reduced(basis)
    moved = 0 * missing
    for b, plane in zip(basis[::-1], planes[::-1], strict=True):
        times = gmpy2.rint((missing - moved) @ plane / (plane @ plane))
        moved = moved + times * b
    x[chosen] += (moved[-len(chosen) :] * stay).astype(np.float64)
    return x


def _reduced(basis: Any) -> tuple[Any, list[Any]]:
    """A basis of the same lattice with short vectors, nearly orthogonal, and these made orthogonal."""
    basis, planes, k = basis.copy(), [basis[0]], 1
    for _ in range(STEPS):
        if k == len(basis):
            break
        for j in range(k - 1, -1, -1):
            times = gmpy2.rint(basis[k] @ planes[j] / (planes[j] @ planes[j]))
            if times:
                basis[k] = basis[k] - times * basis[j]
        found, last = _orthogonal(basis[k], planes[:k]), planes[k - 1]
        part = basis[k] @ last / (last @ last)
        if found @ found >= (LOVASZ - part * part) * (last @ last):
            planes, k = [*planes[:k], found], k + 1
        else:
            basis[[k - 1, k]] = basis[[k, k - 1]]
            planes = [*planes[: k - 1], _orthogonal(basis[k - 1], planes[: k - 1])]
            k = max(k - 1, 1)
    while len(planes) < len(basis):
        planes.append(_orthogonal(basis[len(planes)], planes))
    return basis, planes


def _orthogonal(vector: Any, planes: list[Any]) -> Any:
    """A vector without its parts along others, orthogonal themselves."""
    for plane in planes:
        vector = vector - (vector @ plane / (plane @ plane)) * plane
    return vector
