"""Classifier of units that see few columns of a table, found by column generation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from implicit_bias._utils.checks import Array, InputError, as_count
from implicit_bias._utils.floats import length
from implicit_bias._utils.limits import Deadline
from implicit_bias._utils.validation import unequal
from implicit_bias.estimators.base import MarginClassifier
from implicit_bias.gates import Gates, SubsetGates
from implicit_bias.margin.formulations import svm_gln
from implicit_bias.margin.problem import MarginProblem
from implicit_bias.margin.solution import Solution, Status
from implicit_bias.norms import GroupLasso
from implicit_bias.solvers import solve
from implicit_bias.solvers.base import as_tolerance
from implicit_bias.solvers.path import random_dual_norm

#: Largest and least number of units of the first set: all columns, and pairs of columns.
FIRST, FIRST_AT_LEAST = 1500, 200
#: Largest number of candidates that enter in a round.
ENTERING = 150
#: Gap of a round's solve.
ROUGH = 3e-2
#: Samples of the rounds, and those on which the cutoffs of units are quantiles.
SEARCHED, FITTED = 10_000, 1000
#: Weights of a unit that count, as a share of the largest, and subsets from which others are formed.
KEPT, PARENTS = 1e-4, 40
#: Shares of candidates that are new hyperplanes of a subset with weights, and unions; the others are random.
RENEWED, JOINED = 0.3, 0.4


@dataclass(eq=False, repr=False)
class InteractionClassifier(MarginClassifier):
    """Max-margin classifier that finds which few columns of a table interact: for tables, next to boosted trees.

        minimise Σ_h ‖ζ_h‖₂ + C Σ_i c_i ξ_i   subject to   y_i ((Φζ)_i + b) ≥ 1 − ξ_i,   ξ ≥ 0

    Each unit h sees one to `columns` columns: its gates are contexts of random hyperplanes of these, and its inputs are
    these and the constant 1 (`SubsetGates`). The group lasso selects units. They are found by column generation, which
    is boosting with all weights fitted again: the first units are all columns and pairs; after each solve, candidates
    are drawn, among them new hyperplanes of the subsets with weights and unions of these, and those with the largest
    dual norm ‖Φ_hᵀ(λ∘y)‖₂ > 1 enter. The last problem is solved to `tol`, and its certificate is that of all its units.
    Cutoffs are quantiles of 1000 samples, and columns that are constant in these are left out. Scale the columns, for
    example by `StandardScaler`, or by `QuantileTransformer` if they have heavy tails. This model is ours.

    Parameters
    ----------
    columns : int
        Largest number of columns of a unit.
    contexts : int
        Number 2^b of contexts of a unit.
    rounds : int
        Number of rounds in which units enter; 0 solves for all columns and pairs.
    candidates : int
        Number of units drawn in a round, of which at most 150 enter.
    C : float or 'scale'
        As for `GLNClassifier`, but 'scale' has the factor 3.2, and all c_i count fully. Rounds have a C of their own
        scale, or C √(n/m) for m of n samples.
    free_intercept, solver, tol, max_seconds, verbose, n_jobs, warm_start, class_weight, random_state
        As for `GLNClassifier`. Half the time is for the rounds. Several classes are one problem per class, each with
        its own units.

    Attributes
    ----------
    interactions_ : list of (tuple, float)
        Subsets of columns, their names if the inputs had names, and their shares of Σ_h ‖ζ_h‖₂ over all classes, the
        largest first.
    classes_, C_, certificate_, status_, weights_, intercept_, gates_, samples_, support_, n_support_
        As for `GLNClassifier`, but `weights_` of several classes is a list.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Examples
    --------
    >>> import numpy as np
    >>> from implicit_bias import InteractionClassifier
    >>> X = np.random.default_rng(0).normal(size=(600, 6))
    >>> y = X[:, 1] * X[:, 4] > 0
    >>> model = InteractionClassifier(random_state=0, tol=1e-4).fit(X[:400], y[:400])
    >>> model.interactions_[0][0], model.score(X[400:], y[400:]) > 0.9, model.certificate_.gap < 1e-4
    ((1, 4), True, True)
    """

    columns: int = 3
    contexts: int = 4
    rounds: int = 3
    candidates: int = 1000
    C: float | str = "scale"

    def _default_cost(self, problem: MarginProblem) -> float:
        # A larger C for rare classes is no better on held-out samples, and takes up to six times as long.
        return 3.2 / random_dual_norm(problem.replace(intercept=False))

    def _shared_gates(self, X: Array, seed: int, weight: Array | None) -> Gates:
        as_count(self.columns, "columns")
        as_count(self.candidates, "candidates")
        as_count(self.rounds, "rounds", least=0)
        if not self.fit_intercept or self.multi_class != "ovr":
            raise InputError("InteractionClassifier takes fit_intercept=True and multi_class='ovr' only")
        rows = _some(X, FITTED)
        varied = np.flatnonzero(np.ptp(X[rows], axis=0) > 0).tolist() or [0]
        pairs = list(combinations(varied, 2)) if self.columns > 1 else []
        random, max_pairs = np.random.default_rng(seed), max(FIRST - len(varied), 0)
        drawn = random.permutation(len(pairs))[:max_pairs].tolist()
        subsets = [[column] for column in varied] + [list(pairs[j]) for j in sorted(drawn)]
        copies = -(-min(FIRST_AT_LEAST, self.candidates) // len(subsets))
        gates = SubsetGates(copies * len(subsets), self.contexts, subsets, seed)
        return gates.fit(X[rows], sample_weight=None if weight is None else weight[rows])

    def _problem(self, X: Array, y: Array, gates: Gates | None, seed: int) -> MarginProblem:
        assert gates is not None
        return svm_gln(X, y, gates)

    def _problems(
        self, X: Array, codes: np.ndarray, gates: Gates | None, seed: int, weight: Array
    ) -> Iterator[MarginProblem]:
        for problem in super()._problems(X, codes, gates, seed, weight):
            rows, random = _some(X, SEARCHED), np.random.default_rng(seed)
            parts = {"y": problem.y[rows], "sample_weight": np.broadcast_to(problem.sample_weight, len(X))[rows]}
            part = problem.replace(features=problem.features.select(rows), **parts)
            # C falls as 1/√n.
            C = self._default_cost(part) if self.C == "scale" else self.C * (len(X) / len(rows)) ** 0.5
            count = codes.max() + 1 if codes.max() > 1 else 1
            deadline = Deadline(None if self.max_seconds is None else self.max_seconds / (2 * count))
            for _ in range(self.rounds):
                options: Any = {"tol": max(ROUGH, as_tolerance(self.tol)), "max_seconds": deadline.left()}
                rough = solve(part.replace(C=C), self.solver, **options)
                if rough.status is Status.INTERRUPTED:
                    raise KeyboardInterrupt
                if deadline.passed():
                    break
                part = _grown(part, X[rows], rough, self.columns, self.candidates, random)
            assert part.gates is not None
            yield problem.replace(features=part.gates(X), gates=part.gates, norm=part.norm)

    @property
    def interactions_(self) -> list[tuple[tuple[Any, ...], float]]:
        names = getattr(self, "feature_names_in_", None)
        several = isinstance(self.certificate_, list)
        shares: dict[tuple[Any, ...], float] = {}
        for solution, gates in zip(
            *(each if several else [each] for each in (self.certificate_, self.gates_)), strict=True
        ):
            for columns, size in zip(_subsets(gates), _sizes(solution, gates), strict=True):
                key = columns if names is None else tuple(names[list(columns)])
                shares[key] = shares.get(key, 0.0) + float(size)
        total = sum(shares.values()) or 1.0
        return sorted(((key, size / total) for key, size in shares.items()), key=lambda pair: -pair[1])


def _sizes(solution: Solution, gates: SubsetGates) -> Array:
    """Return ‖ζ_h‖₂ of each unit, shape (H,)."""
    return np.asarray(length(solution.weights.reshape(gates.units, -1), axis=1))


def _subsets(gates: SubsetGates) -> list[tuple[int, ...]]:
    """Return the columns of each unit, without the constant."""
    last = gates.n_features_in_ - 1
    return [tuple(sorted(column for column in columns if column < last)) for columns in gates.subsets_.tolist()]


def _grown(
    problem: MarginProblem, X: Array, rough: Solution, limit: int, candidates: int, random: np.random.Generator
) -> MarginProblem:
    """Return the problem of the units with weights and of candidates with dual norms above 1, the largest first."""
    gates = problem.gates
    assert isinstance(gates, SubsetGates)
    sizes, subsets = np.nan_to_num(_sizes(rough, gates), nan=1.0), _subsets(gates)
    if not sizes.any():  # The dual norms say which units would enter next.
        sizes = length(problem.adjoint(rough.dual).reshape(gates.units, -1), axis=1)
    if not sizes.any():
        return problem
    active: np.ndarray = sizes > KEPT * sizes.max()
    strength: dict[tuple[int, ...], float] = {}
    for h in np.flatnonzero(active):
        strength[subsets[h]] = strength.get(subsets[h], 0.0) + float(sizes[h])
    varied = sorted({column for columns in subsets for column in columns})
    parents = sorted(strength, key=lambda columns: -strength[columns])[:PARENTS]
    shares = np.array([strength[columns] for columns in parents])
    drawn = [_drawn(parents, shares / shares.sum(), varied, limit, random) for _ in range(candidates)]
    rows, weight = _some(X, FITTED), np.broadcast_to(problem.sample_weight, len(X))
    new = SubsetGates(len(drawn), gates.contexts, drawn, int(random.integers(2**31)))
    new.fit(X[rows], sample_weight=unequal(weight[rows]))
    # Only support vectors count.
    support = np.flatnonzero(rough.dual)
    V = new(X[support]).adjoint((rough.dual * problem.y)[support])
    norms = length(V.reshape(new.units, -1), axis=1)
    entering = np.argsort(-norms, kind="stable")[:ENTERING]
    # If no weights separate the samples, units with other features than 0 may help.
    joined = _joined(gates, active, new, entering[norms[entering] > (0 if rough.status.inseparable else 1)])
    return problem.replace(features=joined(X), gates=joined, norm=GroupLasso(joined.groups))


def _drawn(
    parents: list[tuple[int, ...]], shares: Array, varied: list[int], limit: int, random: np.random.Generator
) -> list[int]:
    """Return a candidate: at most `limit` of the `varied` columns, often from `parents`, drawn by their `shares`."""
    kind = random.random()
    if kind > RENEWED + JOINED:
        return sorted(random.choice(varied, random.integers(1, min(limit, len(varied)) + 1), replace=False).tolist())
    one, other = (parents[j] for j in random.choice(len(parents), 2, p=shares))
    if kind <= RENEWED:
        return list(one)
    rest = other if random.random() < 0.5 else (int(random.choice(varied)),)
    return sorted(random.permutation(sorted({*one, *rest}))[:limit].tolist())


def _some(X: Array, limit: int) -> np.ndarray:
    """Return indices of at most `limit` rows, which depend on the values of the rows, not on their order."""
    keys = np.einsum("ij,j->i", X, np.random.default_rng(0).uniform(1e5, 1e6, X.shape[1])) % 1.0
    return np.argsort(keys, kind="stable")[:limit]


def _joined(gates: SubsetGates, active: np.ndarray, new: SubsetGates, entering: np.ndarray) -> SubsetGates:
    d = gates.directions_.shape[1]
    width = max(gates.subsets_.shape[1], new.subsets_.shape[1])
    parts = []
    for one, units in ((gates, np.flatnonzero(active)), (new, entering)):
        bits = len(one.cutoffs_) // one.units
        planes = (units[:, None] * bits + np.arange(bits)).ravel()
        subsets = np.full((len(units), width), d)
        subsets[:, : one.subsets_.shape[1]] = one.subsets_[units]
        parts.append((one.directions_[planes], subsets, one.cutoffs_[planes]))
    directions, subsets, cutoffs = (np.concatenate(part) for part in zip(*parts, strict=True))
    joined = SubsetGates(len(subsets), gates.contexts, gates.columns, gates.seed)
    return joined.restore(n_features_in_=d, directions_=directions, subsets_=subsets, cutoffs_=cutoffs)
