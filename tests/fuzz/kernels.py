"""Cases about kernels, judged with 60 digits: what predicts has at most the certified objective.

The kernels are computed from the float64 inputs, and f from `dual_coef_`, `support_vectors_` and `intercept_`. The dual
proves the lower bound. A hard margin that no quadratic or cubic polynomial separates is among the draws.
"""

import warnings
from types import SimpleNamespace
from typing import Any

import mpmath as mp
import numpy as np

import implicit_bias as ib
from implicit_bias.estimators.base import _merged
from tests.fuzz.draw import Draw, expect
from tests.fuzz.problems import KINDS
from tests.fuzz.table import entry
from tests.fuzz.values import Array

#: Relative room for the rounding of scales, and of roots in the judge.
ROOM = mp.mpf(10) ** -13


def exact_kernel(kernel: Any, x: Array, z: Array) -> Any:
    (name, given), p = kernel, len(x)
    a, b = ([mp.mpf(float(v)) for v in row] for row in (x, z))
    gamma, c = (mp.mpf(float(v)) for v in (given.get("gamma", 1 / p), given.get("coef0", 1.0)))
    product, pairs = mp.fdot(a, b), list(zip(a, b, strict=True))
    if name == "linear":
        return product
    if name == "cosine":
        return product / (mp.norm(a) * mp.norm(b) or 1)
    if name == "poly":
        return (gamma * product + c) ** given.get("degree", 3)
    if name == "sigmoid":
        return mp.tanh(gamma * product + c)
    if name == "rbf":
        return mp.exp(-gamma * sum((u - v) ** 2 for u, v in pairs))
    if name == "laplacian":
        return mp.exp(-gamma * sum(abs(u - v) for u, v in pairs))
    if name == "chi2":
        return mp.exp(-given.get("gamma", 1) * sum((u - v) ** 2 / (u + v) for u, v in pairs if u + v))
    count, linear, total = given.get("hyperplanes", 1), given.get("linear", 1.0), mp.mpf(0)
    for part in given.get("sets", [range(p)]):
        u, v = mp.matrix([a[i] for i in part]), mp.matrix([b[i] for i in part])
        if mp.norm(u) and mp.norm(v):
            u, v, sizes = u / mp.norm(u), v / mp.norm(v), mp.norm(u) * mp.norm(v)
            share = 1 - 2 * mp.atan2(mp.norm(u - v), mp.norm(u + v)) / mp.pi
            total += (share**count - (1 - mp.mpf(linear)) / 2**count) * mp.fdot(u, v) * sizes
    return total


def faults(given: Any, kernels: Any, X: Array, y: Array, weight: Array, model: Any) -> list[str]:
    """Return the false claims of a certificate for two classes; X and `y` (n,) are its samples, with c_i = `weight`.

    `model` predicts, or is None if no weights separate.
    """
    b = mp.mpf(0) if model is None else mp.mpf(float(model.intercept_[0]))
    f, sizes, dual, n, wrong = mp.matrix([b] * len(X)), list[Any](), mp.mpf(0), len(X), []
    C, normalise, found = given.C, given.normalise, given.certificate
    lam = [mp.mpf(float(v)) for v in found.dual]
    signed = mp.matrix([s * v for s, v in zip(y.tolist(), lam, strict=True)])
    costs = [mp.mpf(float(C)) * mp.mpf(float(c)) for c in weight]
    for m, kernel in enumerate(kernels):
        K = mp.matrix(n, n)
        for i in range(n):
            for j in range(i + 1):
                K[i, j] = K[j, i] = exact_kernel(kernel, X[i], X[j])
        scale = mp.fsum(c * K[i, i] for i, c in enumerate(weight.tolist())) / mp.fsum(weight.tolist())
        scale = scale if normalise and scale > 0 else mp.mpf(1)
        dual = max(dual, mp.sqrt(max((signed.T * K * signed)[0] / scale, 0)))
        if model is not None:
            own = mp.matrix(n, 1)
            for row, v in zip(model.support_vectors_, model.dual_coef_[m].tolist(), strict=True):
                own[int(np.flatnonzero((row == X).all(axis=1))[0])] += mp.mpf(v)
            f, sizes = f + K * own, [*sizes, mp.sqrt(max(scale * (own.T * K * own)[0], 0))]
    if found.objective < np.inf:
        margins, norm = [s * one for s, one in zip(y.tolist(), f, strict=True)], mp.fsum(sizes)
        if np.isinf(C):
            true = norm / min(margins) if min(margins) > 0 else mp.inf
        else:
            true = norm + mp.fsum(c * max(1 - one, 0) for c, one in zip(costs, margins, strict=True))
        if true > found.objective * (1 + ROOM):
            wrong.append(f"upper bound, by {mp.nstr(true / found.objective - 1, 3)}")
        if found.status is ib.Status.OPTIMAL and norm > found.objective / 1000:
            shares = [float(size / norm) for size in sizes]
            near = np.allclose(found.margins, [*map(float, margins)], rtol=1e-6, atol=1e-3)
            if not near or not np.allclose(model.kernel_weights_, shares, rtol=0, atol=1e-3):
                wrong.append("other margins or weights of kernels")
    size = max([dual, *(v / c for v, c in zip(lam, costs, strict=True))])
    if found.lower_bound * size > mp.fsum(lam) * (1 + ROOM):
        wrong.append(f"lower bound, by {mp.nstr(found.lower_bound * size / mp.fsum(lam) - 1, 3)}")
    if given.free_intercept and mp.fsum(signed):
        wrong.append("unbalanced dual")
    if found.status is ib.Status.OPTIMAL and found.gap > found.tol:
        wrong.append("OPTIMAL above tol")
    if found.status is ib.Status.NOT_SEPARABLE:
        wrong.append("a proof in rational arithmetic of a kernel that is rounded")
    return wrong


def drawn(rng: Any) -> tuple[Any, Array, Array, Array | None, dict[str, Any]]:
    """Return kernels, inputs, labels of which no two are copies, weights, and the other parameters of a fit."""
    kind, (n, d) = str(rng.choice([*KINDS, "line", "line", "far"])), (int(rng.integers(2, 10)), int(rng.integers(1, 5)))
    if kind in KINDS:
        X, y = KINDS[kind](rng, n, d)
    else:
        X, y = np.sort(rng.normal(size=(n, 1)), axis=0) + 1e6 * (kind == "far"), np.resize([1.0, -1.0], n)
    p, kernels = X.shape[1], list[Any]()
    for _ in range(int(rng.choice([1, 1, 1, 2, 3]))):
        gamma = float(10.0 ** rng.uniform(-2, 1))
        b = int(rng.choice([1, 2, 3, 10, 30]))
        kernels += [
            [
                ("linear", {}),
                ("cosine", {}),
                ("poly", {"degree": int(rng.integers(1, 7)), "gamma": gamma, "coef0": float(rng.integers(0, 3))}),
                ("rbf", {"gamma": gamma}),
                ("laplacian", {"gamma": gamma}),
                ("half-spaces", {"hyperplanes": b, "linear": float(rng.choice([0.0, 0.5, 1.0]))}),
                ("half-spaces", {"hyperplanes": b, "sets": [[0], list(range(p))]}),
            ][rng.choice(7, p=[0.1, 0.05, 0.3, 0.15, 0.05, 0.2, 0.15])]
        ]
    table = np.unique(np.column_stack([X, y]), axis=0)
    table = table[rng.permutation(len(table))]
    options: dict[str, Any] = {"C": np.inf if rng.random() < 0.5 else float(10.0 ** rng.uniform(-3, 4))}
    options |= {name: bool(rng.random() < 0.5) for name in ("free_intercept", "normalise")}
    options |= {"tol": float(rng.choice([1e-3, 1e-6, 1e-8])), "solver": "CLARABEL" if rng.random() < 0.1 else None}
    weight = 10.0 ** rng.uniform(-4, 4, len(table)) if rng.random() < 0.3 else None
    return kernels, table[:, :-1], table[:, -1], weight, options


def judged(rng: Any) -> tuple[str, list[str]]:
    """Fit a draw; return its status and its false claims."""
    kernels, X, y, weight, options = drawn(rng)
    model = ib.MultipleKernelClassifier(kernels, **options)
    c = np.ones(len(y)) if weight is None else weight
    rows = _merged(X, (y > 0).astype(int), c)[0]
    try:
        with mp.workdps(60), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = model.fit(X, y, sample_weight=weight).certificate_
            given = SimpleNamespace(**options, certificate=found)
            return found.status.name, faults(given, kernels, X[rows], y[rows], c[rows], model)
    except ib.NotSeparableError as error:
        with mp.workdps(60):
            given = SimpleNamespace(**options, certificate=error.certificate)
            return error.certificate.status.name, faults(given, kernels, X[rows], y[rows], c[rows], None)
    except ib.InputError as error:
        return "refused", [] if "y has only one class" in str(error) or "semidefinite" in str(error) else [str(error)]


@entry("MultipleKernelClassifier, with 60 digits", share=12)
def _kernels(draw: Draw) -> str:
    """Certificates of one kernel and of several hold for the kernels themselves."""
    status, wrong = judged(draw.rng)
    expect(not wrong, "; ".join(wrong))
    return status
