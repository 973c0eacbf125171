"""Classifier made of solved margin problems."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import cycle
from typing import Any

import numpy as np

from implicit_bias._utils.blocks import row_blocks
from implicit_bias._utils.checks import Array, InputError, as_real, shown
from implicit_bias.datasets.labels import Labelled
from implicit_bias.features import Features, GatedFeatures
from implicit_bias.features.gated import as_gated
from implicit_bias.margin.classes import ClassMarginProblem
from implicit_bias.margin.problem import MarginProblem
from implicit_bias.margin.solution import Solution, Status, summary


@dataclass(frozen=True, eq=False)
class MarginModel(Labelled):
    """Classifier made of solved margin problems: of two classes, one class against the rest, or all classes jointly.

    The scores are f_c(x) = ⟨W_c, Φ(x)⟩ + b_c − r. For two classes there is one score, and the prediction is the second
    class if it is positive. For more classes the prediction is the class with the largest score.

    Parameters
    ----------
    problems : sequence of MarginProblem
        One problem for two classes, with +1 for the second. For more classes, one problem per class, with +1 for this
        class, or one joint problem (`svm_classes`).
    solutions : sequence of Solution
        Solutions of the problems, in the same order; fewer if a solve was interrupted.
    offset : float, keyword-only
        r, which `OneClassMargin` sets.
    classes : sequence of strings or numbers, keyword-only
        Distinct labels; −1 and +1 by default. If this is an array, predictions have its dtype.
    constant : bool, keyword-only
        True if the problems' inputs are those of the model with a constant 1 appended.
    columns : Columns, optional, keyword-only
        Columns of the CSV file of the samples, used to read new samples.
    dtype : NumPy type, optional, keyword-only
        dtype of predictions; by default that of the classes.
    scaling : Scaling, optional, keyword-only
        Scaling of the inputs, applied before the constant is appended. The problems' inputs are the scaled ones.
    ranges : array, shape (2, p), optional, keyword-only
        Smallest and largest value of each unscaled input in the fit.

    Raises
    ------
    InputError
        If problems, solutions and classes do not match, or scaling or ranges do not match the inputs.

    Examples
    --------
    >>> from implicit_bias import ConstantGate, MarginModel, solve, svm_shallow
    >>> problem = svm_shallow([[2.0, 1.0], [-1.0, 1.0]], [1, -1], ConstantGate())
    >>> model = MarginModel([problem], [solve(problem)], classes=["cat", "dog"])
    >>> model.predict([[3.0, 1.0], [-3.0, 1.0]]).tolist(), model.status.name
    (['dog', 'cat'], 'OPTIMAL')
    """

    problems: Sequence[MarginProblem]
    solutions: Sequence[Solution]
    offset: float = field(default=0.0, kw_only=True)
    classes: Any = field(default=(-1, 1), kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, kind in (("problems", MarginProblem), ("solutions", Solution)):
            given = getattr(self, name)
            if not isinstance(given, list | tuple) or not all(isinstance(one, kind) for one in given):
                raise InputError(f"{name} must be a list of {kind.__name__}, not {shown(given)}")
            object.__setattr__(self, name, tuple(given))
        if self.classes is None:
            raise InputError("classes must be a list of two or more; the default is (-1, 1)")
        joint = [len(one.classes) for one in self.problems if isinstance(one, ClassMarginProblem)]
        if joint and (len(self.problems) > 1 or joint != [len(self.classes)]):
            raise InputError(
                f"a joint problem of {joint[0]} classes must be the only problem and come with {joint[0]} classes, "
                f"not {len(self.problems)} problems and {len(self.classes)} classes"
            )
        if len(self.problems) != (1 if joint or len(self.classes) == 2 else len(self.classes)):
            raise InputError(
                f"{len(self.problems)} problems do not match {len(self.classes)} classes; "
                "give one problem for two classes, and one per class for more"
            )
        if len(self.solutions) > len(self.problems):
            raise InputError(
                f"{len(self.solutions)} solutions for {len(self.problems)} problems; give at most one per problem"
            )
        if not np.isfinite(as_real(self.offset)):
            raise InputError(f"offset must be a finite number, not {shown(self.offset)}")
        object.__setattr__(self, "offset", as_real(self.offset))
        for problem, solution in zip(self.problems, self.solutions, strict=False):
            n, k, d = problem.features.shape
            if solution.weights.shape != (k, d) or solution.dual.shape != (n,):
                raise InputError(f"a solution does not belong to {problem!r}; list solutions in the problems' order")
        if len({_width(problem) for problem in self.problems}) > 1:
            raise InputError("the problems differ in their inputs; give problems of the same samples")
        self._check_inputs()

    @property
    def status(self) -> Status:
        """Status of the first solution that is not OPTIMAL, else OPTIMAL; INTERRUPTED if solutions are missing."""
        others = [solution.status for solution in self.solutions if solution.status is not Status.OPTIMAL]
        missing = [Status.INTERRUPTED] if len(self.solutions) < len(self.problems) else []
        return [*others, *missing, Status.OPTIMAL][0]

    @property
    def positives(self) -> tuple[Any, ...]:
        """Class that is +1 in each problem; for a joint problem, a tuple of all classes."""
        if isinstance(self.problems[0], ClassMarginProblem):
            return (tuple(self.classes),)
        return tuple(self.classes[1:] if len(self.problems) == 1 else self.classes)

    @property
    def width(self) -> int:
        """Number of inputs of the problems, a constant included."""
        return _width(self.problems[0])

    def decision_function(self, X: Any, gate_values: Any = None) -> Array:
        """Scores of inputs X (n, p).

        Parameters
        ----------
        X : array, shape (n, p)
        gate_values : array, shape (n, k), optional
            Required if the problems were built from gate values, without gates.

        Returns
        -------
        array, shape (n,) or (n, classes)
            For two classes one score, positive for the second class; else one score per class.

        Raises
        ------
        InputError
            If inputs do not fit the model, or a solution is missing or has no weights.
        """
        inputs = self.inputs(X)
        self._require_weights()
        # The features of a few thousand rows at a time are formed, because they may need much memory.
        blocks = [slice(None)] if gate_values is not None else row_blocks(len(inputs))
        return np.concatenate([self._scores(inputs[rows], gate_values) for rows in blocks])

    def _scores(self, inputs: Array, gate_values: Any) -> Array:
        first = self.problems[0]
        if isinstance(first, ClassMarginProblem):
            by_class = first.decision_function(self.solutions[0].weights, inputs)
            return by_class if by_class.shape[1] > 2 else by_class[:, 1] - by_class[:, 0]
        each = {id(problem.gates): problem for problem in self.problems}
        features = {gates: self._features(problem, inputs, gate_values) for gates, problem in each.items()}
        scores = [
            features[id(problem.gates)] @ solution.weights + (solution.intercept - self.offset)
            for problem, solution in zip(self.problems, self.solutions, strict=True)
        ]
        return scores[0] if len(scores) == 1 else np.column_stack(scores)

    def _features(self, problem: MarginProblem, X: Array, gate_values: Any) -> Features:
        if problem.gates is not None:
            return problem.gates(X)
        if not problem.features.gated:
            raise InputError(
                f"{problem.name} was built from kernels and cannot score new inputs; build it from gates for that"
            )
        if gate_values is None:
            raise InputError(f"{problem.name} was built from gate values; give those of the new inputs, too")
        return GatedFeatures(X, gate_values)

    def _require_weights(self) -> None:
        for positive, solution in zip(self.positives, self.solutions, strict=False):
            if solution.status.inseparable:
                raise InputError(f"class {positive!r} has no weights: {solution.status.value}")
        if len(self.solutions) < len(self.problems):
            missing = self.positives[len(self.solutions)]
            raise InputError(f"class {missing!r} has no solution, because the solve was interrupted; solve it again")

    def predict(self, X: Any, gate_values: Any = None) -> np.ndarray:
        """Class of each row of X (n, p); parameters and errors are those of `decision_function`."""
        return self.chosen(self.decision_function(X, gate_values))

    def distances(self, X: Any, gate_values: Any = None, *, order: float = 2.0) -> Array:
        """Distances of inputs X (n, p) from the decision boundary in ‖·‖_order, with the gates of each; shape (n,).

        With the gates of x held, scores are affine, and two of them, f and g, become equal at the distance
        ``|f(x) − g(x)|`` / ‖∇(f − g)‖_q from x, 1/order + 1/q = 1. This is the least over all g, for the prediction f,
        in the units of X; infinity if all of these gradients are zero. It is local: nearer points with the gates of x
        have its prediction, and nearer points with other gates may not. `order` is from 1 to infinity. Limits of a
        `scaling` are ignored. Errors are those of `decision_function`, and InputError is raised for features that are
        not `GatedFeatures`.

        >>> from implicit_bias import ConstantGate, MarginModel, solve, svm_shallow
        >>> problem = svm_shallow([[3.0, 4.0], [-3.0, -4.0]], [1, -1], ConstantGate())
        >>> model = MarginModel([problem], [solve(problem)])
        >>> [model.distances([[3.0, 4.0]], order=order).round(4).tolist() for order in (1, 2, float("inf"))]
        [[6.25], [5.0], [3.5714]]
        """
        if not as_real(order) >= 1:
            raise InputError(f"order must be a number from 1 to infinity, not {shown(order)}")
        dual, first = np.inf if order == 1 else 1 / (1 - 1 / order), self.problems[0]
        scores, inputs, p = self.decision_function(X, gate_values), self.inputs(X), self.n_features_in
        scores = np.column_stack([0 * scores, scores]) if scores.ndim == 1 else scores
        weights = [solution.weights for solution in self.solutions]
        weights = list(first.outputs(weights[0])) if isinstance(first, ClassMarginProblem) else weights
        units = np.ones(p) if self.scaling is None else self.scaling.units
        distances = []
        for rows in [slice(None)] if gate_values is not None else row_blocks(len(inputs), 1000):
            features = [as_gated(self._features(one, inputs[rows], gate_values)) for one in self.problems]
            if not all(np.array_equal(one.X, inputs[rows]) for one in features):
                raise InputError("distances need features that are gates of the inputs, not kernels or hidden units")
            each = [(one.gate_values @ W)[:, :p] / units for one, W in zip(cycle(features), weights, strict=False)]
            slopes = np.stack([0 * each[0], *each] if len(each) == 1 else each, axis=1)
            best = scores[rows].argmax(axis=1)[:, None]
            gaps = np.take_along_axis(scores[rows], best, axis=1) - scores[rows]
            slopes = np.take_along_axis(slopes, best[..., None], axis=1) - slopes
            largest = np.abs(slopes).max(axis=2, keepdims=True)
            sizes = largest[..., 0] * np.linalg.norm(slopes / np.where(largest > 0, largest, 1.0), dual, axis=2)
            distances.append(np.divide(gaps, sizes, out=np.full_like(gaps, np.inf), where=sizes > 0).min(axis=1))
        return np.concatenate(distances)

    def _repr_html_(self) -> str:
        groups = getattr(self.problems[0].norm, "groups", None)
        table = summary(dict(zip(self.positives, self.solutions, strict=False)), groups)
        return f"<div><code>{html.escape(repr(self))}</code></div>{table}"

    def __repr__(self) -> str:
        size = f"{len(self.classes)} classes, {self.n_features_in} inputs"
        return f"MarginModel({self.problems[0].name!r}, {size}, {self.status.name})"


def _width(problem: MarginProblem) -> int:
    return problem.features.d if problem.gates is None else int(problem.gates.n_features_in_)
