"""An independent judge of what `solve` answers: dense Φ from the raw inputs, in longdouble, and Fractions when small.

It shares no code with the package: it knows only the problem as it is written down,

    minimise ‖W‖ + C Σ c_i ξ_i   subject to   y_i ((ΦW)_i + b) ≥ m_i − ξ_i,  ξ ≥ 0,   Φ(x) = g(x) ⊗ x,

b = 0 unless the intercept is free.

Longdoubles of x86 hold numbers from 1e-4932 to 1e4932 with 19 digits, so nothing here overflows, and rounding is a
thousand times finer than that of the answers.
"""

import operator
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Any, Self

import numpy as np

from implicit_bias import Solution, Status
from tests.fuzz import exact
from tests.fuzz.draw import Wrong, expect
from tests.fuzz.values import Array

#: Relative room for the float64 rounding of an answer's own numbers.
ROUNDING = 1e-9
#: The documented limit of a Farkas proof.
FARKAS = 1e-13
#: Entries of Φ up to which rational arithmetic checks a proof, and up to which it decides for itself.
EXACT_UP_TO, DECIDED_UP_TO = 200, 60


@dataclass
class Raw:
    """A margin problem in raw numbers: blocks φ_j(x_i) (n, k, d), labels, the norm's name and parameters, prices."""

    blocks: Any
    y: Array
    norm: str
    groups: Any = None
    weights: Any = None
    shape: tuple[int, int] = (1, 1)
    C: float = np.inf
    required: Any = 1.0
    sample_weight: Any = 1.0
    factors: tuple[Array, Array] | None = None
    intercept: bool = False

    @classmethod
    def gated(cls, X: Array, G: Array, y: Array, norm: str, **more: Any) -> Self:
        """From inputs (n, d) and gate values (n, k)."""
        wide = np.longdouble
        return cls(G.astype(wide)[:, :, None] * X.astype(wide)[:, None, :], y, norm, factors=(X, G), **more)

    @property
    def phi(self) -> Any:
        """y_i φ(x_i) as rows, (n, k·d), in longdouble."""
        return (self.blocks * np.asarray(self.y)[:, None, None]).reshape(len(self.y), -1).astype(np.longdouble)

    @property
    def m(self) -> Any:
        """The required margins (n,)."""
        return np.full(len(self.y), self.required).astype(np.longdouble)

    @property
    def prices(self) -> Any:
        """C c_i (n,)."""
        return np.longdouble(self.C) * np.full(len(self.y), self.sample_weight).astype(np.longdouble)

    def value(self, W: Any) -> Any:
        """‖W‖ from its formula."""
        W = np.asarray(W, dtype=np.longdouble).reshape(self.blocks.shape[1], -1)
        if self.norm == "frobenius":
            return _length(W)
        if self.norm == "groups":
            return sum((c * _length(W[members]) for c, members in self._parts()), np.longdouble(0))
        if self.norm == "nuclear":
            return np.longdouble(np.linalg.norm(W.astype(float), "nuc"))
        return np.sqrt(np.longdouble(self.shape[1])) ** (2 - self.shape[0]) * _length(self._predictors(W))

    def dual(self, V: Any) -> Any:
        """‖V‖_* from its formula."""
        V = np.asarray(V, dtype=np.longdouble).reshape(self.blocks.shape[1], -1)
        if self.norm == "frobenius":
            return _length(V)
        if self.norm == "groups":
            return max(_length(V[members]) / c for c, members in self._parts())
        if self.norm == "nuclear":
            return np.longdouble(np.linalg.norm(V.astype(float), 2))
        # Of ‖W‖ = ‖BW‖_F: the shortest U with BᵀU = V.
        H, K = self.shape
        B = self._predictors(np.eye(H * K)) * np.sqrt(float(K)) ** (2 - H)
        size = np.max(np.abs(V), initial=0) or np.longdouble(1)
        U = np.linalg.lstsq(B.T.astype(float), (V / size).astype(float), rcond=1e-10)[0]
        return size * np.longdouble(np.linalg.norm(U))

    def _parts(self) -> list[tuple[Any, Any]]:
        labels = sorted(set(np.asarray(self.groups).tolist()))
        weights = np.full(len(labels), 1.0 if self.weights is None else self.weights)
        return [(np.longdouble(c), np.asarray(self.groups) == h) for c, h in zip(weights, labels, strict=True)]

    def _predictors(self, W: Any) -> Any:
        """β_γ = Σ_h W_{h,γ_h} for all K^H global contexts γ."""
        H, K = self.shape
        return np.stack([sum(W[h * K + c] for h, c in enumerate(gamma)) for gamma in product(range(K), repeat=H)])


def _length(values: Any) -> Any:
    return np.sqrt(np.sum(np.asarray(values, dtype=np.longdouble) ** 2))


def judge(raw: Raw, found: Solution, tol: float = 1e-6, limited: bool = False) -> str:
    """Check every claim of a solution of `raw`; its status. `limited`: whether it was allowed to stop early."""
    n, k, d = raw.blocks.shape
    shapes = found.weights.shape, found.dual.shape, found.margins.shape
    expect(shapes == ((k, d), (n,), (n,)), f"shapes {shapes}")
    # A solver's own limit of iterations may be reached unasked.
    stopped = (Status.TIME_LIMIT, Status.INTERRUPTED)
    expect(limited or found.status not in stopped, f"{found.status.name} without a limit")
    expect(np.isfinite(found.dual).all(), "the dual is not finite")
    expect((found.dual >= 0).all(), "the dual is negative")
    if found.status is Status.NOT_SEPARABLE_BELOW:
        expect(np.isinf(raw.C) and np.isinf(found.objective), "weights of a problem without any")
        _judge_lower_bound(raw, found)
    elif found.status is Status.NOT_SEPARABLE:
        _judge_proof(raw, found)
        decided = raw.phi.size <= DECIDED_UP_TO
        expect(not decided or not separable(_rationals(raw)), "NOT_SEPARABLE, but something separates")
    else:
        upper, lower = _judge_bounds(raw, found)
        if found.status is Status.OPTIMAL:
            gap = (upper - lower) / upper
            expect(found.gap <= tol, f"OPTIMAL with a gap of {found.gap:.1e}")
            expect(gap <= tol * (1 + 1e-6) + ROUNDING, f"the true gap is {float(gap):.1e}, tol {tol:g}")
            decided = np.isinf(raw.C) and raw.phi.size <= DECIDED_UP_TO
            expect(not decided or separable(_rationals(raw)), "OPTIMAL, but nothing separates, by rational arithmetic")
    return found.status.name


def _judge_bounds(raw: Raw, found: Solution) -> tuple[Any, Any]:
    """Both bounds, from the weights and the dual alone; what the solution says must be these."""
    W, phi, m = found.weights, raw.phi, raw.m
    expect(np.isfinite(W).all(), "weights are not finite")
    # Sums that cancel are beyond longdoubles.
    weights = [Fraction(v) for v in [*W.ravel(), *([found.intercept] if raw.intercept else [])]]
    margins = np.array([_wide(sum(map(operator.mul, row, weights))) for row in _rationals(raw)])
    expect(raw.intercept or found.intercept == 0, "an intercept that is not free")
    value, slack = raw.value(W), np.maximum(m - margins, 0)
    if np.isinf(raw.C):
        # The objective is that of the best multiple, which differs from the weights where rounding matters.
        expect(np.isinf(found.objective) or (slack <= m / 40).all(), f"a margin misses {float((slack / m).max()):.1e}")
        upper = np.longdouble(np.inf) if np.isinf(found.objective) else value / np.min(margins / m)
    else:
        upper = value + raw.prices @ slack
    # What slack a large price makes of rounding is the objective's own.
    room = ROUNDING * (1 + (raw.prices @ m / upper if np.isfinite(raw.C) and upper > 0 else 0))
    # The objective counts the rounding of margins: as slack, which large prices make much of, or as a larger multiple.
    rounding = (phi.shape[1] + 4) * np.finfo(float).eps * (np.abs(phi) @ np.abs(W.ravel()) + abs(found.intercept))
    counted = 2 * raw.prices @ rounding if np.isfinite(raw.C) else upper * np.max(rounding / np.abs(margins))
    most = upper * (1 + room) + counted
    expect(upper <= found.objective * (1 + 1e-15), f"weights reach {float(upper):.17g}, not {found.objective:.17g}")
    expect(found.objective <= most or np.isinf(upper), f"they reach {float(upper):.12g}, not {found.objective:.12g}")
    lower = _judge_lower_bound(raw, found)
    expect(lower <= upper, f"the bounds are crossed: {float(lower):.9g} > {float(upper):.9g}")
    return upper, lower


def _judge_lower_bound(raw: Raw, found: Solution) -> Any:
    """The lower bound that is stated: the best multiple of the dual must prove no less."""
    lam = found.dual.astype(np.longdouble)
    expect(not raw.intercept or sum(map(Fraction, found.dual * raw.y)) == 0, "the dual is not balanced")
    rows, dual = _rationals(raw), [Fraction(v) for v in found.dual]
    columns = range(raw.phi.shape[1])
    V = np.array([_wide(sum((w * row[j] for w, row in zip(dual, rows, strict=True)), Fraction(0))) for j in columns])
    size = max(raw.dual(V), np.max(lam / raw.prices))
    proved = lam @ raw.m / size if size > 0 else np.longdouble(np.inf)
    expect(found.lower_bound <= proved * (1 + 1e-15), f"the dual proves {float(proved):.12g} only")
    return np.longdouble(found.lower_bound)


def _wide(value: Fraction) -> Any:
    """A fraction of any size as a longdouble."""
    by = value.numerator.bit_length() - value.denominator.bit_length()
    scaled = value / Fraction(2) ** by
    upper = float(scaled)
    return np.ldexp(np.longdouble(upper) + np.longdouble(float(scaled - Fraction(upper))), by)


def _judge_proof(raw: Raw, found: Solution) -> None:
    """λ ≥ 0, 1ᵀλ = 1 and Φᵀ(λ∘y) = 0, relative to Σ λ_i ‖φ(x_i)‖: in rational arithmetic if Φ is small."""
    expect(np.isinf(raw.C), "a soft margin is always feasible")
    expect(np.isnan(found.weights).all() and np.isnan(found.margins).all(), "weights of a problem without any")
    expect(abs(found.dual.sum() - 1) <= ROUNDING, f"the proof's sum is {found.dual.sum()}")
    phi, lam = raw.phi, found.dual
    expect(not raw.intercept or abs(lam @ raw.y) <= ROUNDING * lam.sum(), "the proof is not balanced")
    if phi.size <= EXACT_UP_TO:
        rows = _rationals(raw)
        multipliers = [Fraction(v) for v in lam]
        # A free intercept is judged above: balance is a matter of the λ alone.
        sums = [sum(w * row[j] for w, row in zip(multipliers, rows, strict=True)) for j in range(phi.shape[1])]
        squares = [sum(v * v for v in row) for row in rows]
        reach = [w * w * square for w, square in zip(multipliers, squares, strict=True)]
        # n times the largest term bounds Σ λ_i‖φ_i‖ without a root.
        residual, size = sum((v * v for v in sums), Fraction(0)), len(rows) ** 2 * max(reach)
        expect(residual <= Fraction(FARKAS * (1 + 1e-3)) ** 2 * size, "the proof does not hold in rational arithmetic")
        return
    # As the judge does: every input in units of its own size.
    units = np.ones(raw.blocks.shape[2])
    if raw.factors is not None:
        largest = np.abs(raw.factors[0].astype(np.longdouble)).max(axis=0)
        units = np.exp2(np.round(np.log2(np.where(largest > 0, largest, 1))))
    phi = phi / np.tile(units, raw.blocks.shape[1])
    reach_ = np.sum(lam * np.sqrt(np.sum(phi**2, axis=1)))
    residual_ = _length(lam @ phi)
    expect(residual_ <= FARKAS * (1 + 1e-3) * reach_, f"the proof's residual is {float(residual_ / (reach_ or 1)):.1e}")


def _rationals(raw: Raw) -> list[list[Fraction]]:
    """The rows y_i φ(x_i), exactly as the float64 inputs say: even longdoubles round a product of two of them."""
    signs = [int(sign) for sign in raw.y]
    constant = [Fraction(1)] if raw.intercept else []
    if raw.factors is None:
        rows = [[Fraction(float(v)) for v in row.ravel()] for row in raw.blocks]
    else:
        factors = [[[Fraction(float(v)) for v in row] for row in factor] for factor in raw.factors]
        rows = [[g * x for g in gates for x in inputs] for inputs, gates in zip(*factors, strict=True)]
    return [[sign * value for value in row + constant] for sign, row in zip(signs, rows, strict=True)]


def separable(rows: list[list[Fraction]]) -> bool:
    """Whether some w has ⟨w, row⟩ > 0 for all rows, in rational arithmetic."""
    return exact.separable(rows, np.zeros((0, len(rows[0])), dtype=object), np.zeros(0, dtype=bool))


def agree(a: Solution, b: Solution) -> None:
    """Two certified answers to one problem must not contradict each other."""
    decided = (Status.OPTIMAL, Status.NOT_SEPARABLE)
    if a.status in decided and b.status in decided and a.status is not b.status:
        raise Wrong(f"{a.solver} says {a.status.name}, {b.solver} says {b.status.name}")
    if Status.NOT_SEPARABLE in (a.status, b.status):
        return
    for one, other in ((a, b), (b, a)):
        low, high = one.lower_bound, other.objective
        expect(low <= high * (1 + ROUNDING), f"{one.solver} proves {low:.12g}, {other.solver} reaches {high:.12g}")
