"""Judge what `solve` answers to a problem in raw numbers, by the rational arithmetic of `tests/fuzz/exact.py`.

Beyond what a certificate claims, it holds a solution to its shapes, to its limits, and to an objective that is no more
than its weights and their rounding make it. It shares no code with the package: Φ(x) = g(x) ⊗ x comes from the inputs.
"""

import json
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Self

import numpy as np

from implicit_bias import InputError, Solution, Status
from implicit_bias.saving.solutions import solution_of, solution_parts
from tests.fuzz.draw import Wrong, expect
from tests.fuzz.exact import ROOM, Exact, faults, fractions, lower_faults, positive, root
from tests.fuzz.exact_layers import Layers
from tests.fuzz.values import Array, alike

#: Relative room for the float64 rounding of an answer's own numbers.
ROUNDING = 1e-9
#: The documented limit of a Farkas proof, relative to Σ λ_i ‖φ(x_i)‖.
FARKAS = 1e-13
#: Entries of Φ up to which the simplex method decides whether anything separates.
DECIDED_UP_TO = 60


@dataclass
class Raw:
    """A margin problem in raw numbers: blocks φ_j(x_i) (n, k, d), labels, the norm's name and parameters, C c_i, E.

    `layers` are the names of the layers' norms, and the multiplicities of units, for the norm "layers" and `groups`.
    `factors` are the inputs and gate values of gated features, of which the blocks are rounded products.
    """

    blocks: Any
    y: Array
    norm: str = "frobenius"
    groups: Any = None
    weights: Any = None
    shape: tuple[int, int] = (1, 1)
    layers: Any = None
    C: float = np.inf
    required: Any = 1.0
    sample_weight: Any = 1.0
    factors: tuple[Array, Array] | None = None
    intercept: bool = False
    E: Any = ()
    equal: Any = ()
    h: Any = ()

    @classmethod
    def gated(cls, X: Array, G: Array, y: Array, norm: str = "frobenius", **more: Any) -> Self:
        """Make a problem from inputs (n, d) and gate values (n, k)."""
        wide = np.longdouble
        return cls(G.astype(wide)[:, :, None] * X.astype(wide)[:, None, :], y, norm, factors=(X, G), **more)

    @property
    def exact(self) -> Exact:
        """Return the problem in Fractions, exactly as its float64 inputs state."""
        n, k, d = self.blocks.shape
        X, G = self.factors or (None, None)
        blocks = fractions(self.blocks) if X is None else fractions(G)[:, :, None] * fractions(X)[:, None]
        entries, y = np.arange(k * d).reshape(k, d), fractions(self.y)
        groups = np.asarray(self.groups) if self.norm == "groups" else np.zeros(k)
        labels = np.unique(groups)
        weights = fractions(np.full(len(labels), 1.0 if self.weights is None else self.weights))
        upper_bounds = (
            Fraction(float(self.C)) * fractions(np.full(n, self.sample_weight)) if np.isfinite(self.C) else None
        )
        return Exact(
            rows=blocks.reshape(n, -1) * y[:, None],
            y=y,
            groups=[(c, entries[groups == h].ravel().tolist()) for c, h in zip(weights, labels, strict=True)],
            units=self.shape if self.norm == "predictor" else None,
            required=fractions(np.full(n, self.required)),
            upper_bounds=upper_bounds,
            intercept=self.intercept,
            E=fractions(np.reshape(self.E, (-1, k * d))),
            equal=np.asarray(self.equal, dtype=bool),
            h=fractions(np.broadcast_to(self.h, len(self.equal))),
            nuclear=(k, d) if self.norm == "nuclear" else None,
            layers=None if self.layers is None else self._layers(),
        )

    def _layers(self) -> Layers:
        k, d = self.blocks.shape[1:]
        entries, groups = np.arange(k * d).reshape(k, d), np.asarray(self.groups)
        members = [entries[groups == h].ravel().tolist() for h in np.unique(groups)]
        return Layers(self.layers[0], members, [Fraction(m) for m in self.layers[1]])


def judge(raw: Raw, found: Solution, tol: float = 1e-6, limited: bool = False) -> str:
    """Check every claim of a solution of `raw`; return its status.

    `limited` is true if the solver was allowed to stop early.
    """
    n, k, d = raw.blocks.shape
    shapes = found.weights.shape, found.dual.shape, found.margins.shape
    expect(shapes == ((k, d), (n,), (n,)), f"shapes {shapes}")
    # A solver's own limit of iterations may be reached unasked.
    stopped = found.status in (Status.TIME_LIMIT, Status.INTERRUPTED)
    expect(limited or not stopped, f"{found.status.name} without a limit")
    expect(np.isfinite(found.dual).all() and (found.dual >= 0).all(), "the dual is not finite, or negative")
    otherwise = saved_otherwise(found)
    expect(not otherwise, otherwise)
    problem = raw.exact
    if found.status is Status.NOT_SEPARABLE_BELOW:
        expect(np.isinf(raw.C) and np.isinf(found.objective), "weights of a problem without any")
        _expect_none(lower_faults(problem, found))
    elif found.status is Status.NOT_SEPARABLE:
        _judge_proof(raw, problem, found)
        decided = problem.rows.size <= DECIDED_UP_TO
        expect(not decided or not problem.feasible(), "NOT_SEPARABLE, but something separates")
    else:
        expect(np.isfinite(found.weights).all(), "weights are not finite")
        _expect_none(faults(problem, found, tol))
        _judge_objective(problem, found)
    return found.status.name


def saved_otherwise(found: Solution) -> str:
    """Return how the solution that a file of `found` holds differs from it, or ''."""
    about, arrays = solution_parts(found)
    try:
        again = solution_of(json.loads(json.dumps(about)), arrays)
    except InputError as error:
        return f"a file of {found.status.name} is refused: {error}"
    return "" if alike(again, found, 0.0) else "a file has another solution"


def _expect_none(wrong: dict[str, float]) -> None:
    expect(not wrong, ", ".join(f"{kind}: {size:.2g}" for kind, size in wrong.items()))


def _judge_objective(problem: Exact, found: Solution) -> None:
    """Check that the objective is at least what the weights reach, and larger by rounding only."""
    w, b, m = fractions(found.weights.ravel()), Fraction(found.intercept), problem.required
    margins = problem.rows @ w + problem.y * b
    rounding = (len(w) + 4) * Fraction(np.finfo(float).eps) * (abs(problem.rows) @ abs(w) + abs(b))
    room, slack = Fraction(ROUNDING), positive(m - margins)
    if found.objective == np.inf:
        return
    if problem.upper_bounds is None:
        # The objective is that of the best multiple, which differs from the weights where rounding matters.
        expect(all(slack <= m / 40), f"a margin misses {float(max(slack / m)):.1e}")
        reached = problem.upper(w, b)
        assert reached is not None
        # The certificate counts each rounding of a sum and of its multiple.
        counted = 2 * reached * max(rounding / margins)
    else:
        reached = problem.value(w) + problem.upper_bounds @ slack
        # What a large bound makes of rounding, and of slack that is rounding, is the objective's own.
        room *= 1 + problem.upper_bounds @ m / reached
        counted = 2 * problem.upper_bounds @ rounding
    objective = Fraction(found.objective)
    expect(reached <= objective * (1 + ROOM), f"weights reach {float(reached):.17g}, not {found.objective:.17g}")
    expect(objective <= reached * (1 + room) + counted, f"they reach {float(reached):.12g}, not {found.objective:.12g}")


def _judge_proof(raw: Raw, problem: Exact, found: Solution) -> None:
    """Check λ ≥ 0, 1ᵀλ = 1 and Φᵀ(λ∘y) = 0, relative to Σ λ_i ‖φ(x_i)‖, with each input in units of its size."""
    expect(np.isinf(raw.C), "a soft margin is always feasible")
    expect(np.isnan(found.weights).all() and np.isnan(found.margins).all(), "weights of a problem without any")
    expect(abs(found.dual.sum() - 1) <= ROUNDING, f"the proof's sum is {found.dual.sum()}")
    expect(not raw.intercept or abs(found.dual @ raw.y) <= ROUNDING * found.dual.sum(), "the proof is not balanced")
    units = np.ones(raw.blocks.shape[2])
    if raw.factors is not None:
        largest = np.abs(raw.factors[0]).max(axis=0)
        units = np.exp2(np.round(np.log2(np.where(largest > 0, largest, 1))))
    rows, lam = problem.rows / np.tile(fractions(units), raw.blocks.shape[1]), fractions(found.dual)
    residual = root(sum((lam @ rows) ** 2))
    reach = sum(weight * root(sum(row**2)) for weight, row in zip(lam, rows, strict=True))
    expect(residual <= Fraction(FARKAS * (1 + 1e-3)) * reach, f"the proof's residual is {float(residual):.1e}")


def expect_certified(found: Any, tol: float) -> bool:
    """Raise `Wrong` if an answer that is called optimal has a gap above `tol`."""
    expect(found.gap <= tol or found.status is not Status.OPTIMAL, "OPTIMAL with a gap")
    return True


def agree(a: Solution, b: Solution) -> None:
    """Raise `Wrong` if two certified answers to one problem contradict each other."""
    decided = (Status.OPTIMAL, Status.NOT_SEPARABLE)
    if a.status in decided and b.status in decided and a.status is not b.status:
        raise Wrong(f"{a.solver} says {a.status.name}, {b.solver} says {b.status.name}")
    if Status.NOT_SEPARABLE in (a.status, b.status):
        return
    for one, other in ((a, b), (b, a)):
        low, high = one.lower_bound, other.objective
        expect(low <= high * (1 + ROUNDING), f"{one.solver} proves {low:.12g}, {other.solver} reaches {high:.12g}")
