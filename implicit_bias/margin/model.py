"""A model: solved margin problems as one classifier, with the classes and columns that it was made from."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from implicit_bias._utils.blocks import row_blocks
from implicit_bias._utils.checks import Array, InputError, as_real, shown
from implicit_bias.datasets.labels import Labelled
from implicit_bias.features import Features, GatedFeatures
from implicit_bias.margin.classes import ClassMarginProblem
from implicit_bias.margin.display import summary
from implicit_bias.margin.problem import MarginProblem
from implicit_bias.margin.solution import Solution, Status


@dataclass(frozen=True, eq=False)
class MarginModel(Labelled):
    """Margin problems and their answers as a classifier: of two classes, each against the rest, or all at once.

        f_c(x) = ⟨W_c, Φ(x)⟩ + b_c − r      two classes: the second where f(x) > 0; else that of the largest f_c(x)

    Parameters
    ----------
    problems : sequence of MarginProblem
        One for two classes, in which +1 is the second; else one per class, in which +1 is this class, or one of all
        (`svm_classes`).
    solutions : sequence of Solution
        Their answers, in the same order; fewer where a solve was interrupted.
    offset : float, by keyword
        r: that of `OneClassMargin`, whose classes are −1, outliers, and +1.
    classes : sequence of texts or numbers, by keyword
        Different ones; −1 and +1 if not given. Those of an array keep its type in what is predicted.
    constant : bool, by keyword
        Whether the problems' inputs are those of the model with the constant 1 appended.
    columns : Columns, optional, by keyword
        The columns of the CSV file that the samples come from, by which new samples are read.
    dtype : NumPy type, optional, by keyword
        Of what is predicted; by default that of the classes.

    Raises
    ------
    InputError
        If these do not belong together.

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
            raise InputError(f"a problem of {joint[0]} classes at once stands alone, and for as many classes")
        if len(self.problems) != (1 if joint or len(self.classes) == 2 else len(self.classes)):
            raise InputError("give one problem for two classes, and for more one per class")
        if len(self.solutions) > len(self.problems):
            raise InputError("give at most one solution per problem")
        if not np.isfinite(as_real(self.offset)):
            raise InputError(f"offset must be a finite number, not {shown(self.offset)}")
        object.__setattr__(self, "offset", as_real(self.offset))
        for problem, solution in zip(self.problems, self.solutions, strict=False):
            n, k, d = problem.features.shape
            if solution.weights.shape != (k, d) or solution.dual.shape != (n,):
                raise InputError(f"a solution does not belong to {problem!r}; give the problem that it solves")
        if len({_inputs(problem) for problem in self.problems}) > 1:
            raise InputError("the problems differ in their inputs; give problems of the same samples")

    @property
    def status(self) -> Status:
        """OPTIMAL, or the first that is not; INTERRUPTED where an answer is missing."""
        others = [solution.status for solution in self.solutions if solution.status is not Status.OPTIMAL]
        missing = [Status.INTERRUPTED] if len(self.solutions) < len(self.problems) else []
        return [*others, *missing, Status.OPTIMAL][0]

    @property
    def positives(self) -> tuple[Any, ...]:
        """The class that is +1 in each problem; all of them in one of several at once."""
        if isinstance(self.problems[0], ClassMarginProblem):
            return (tuple(self.classes),)
        return tuple(self.classes[1:] if len(self.problems) == 1 else self.classes)

    @property
    def width(self) -> int:
        """How many inputs the problems have."""
        return _inputs(self.problems[0])

    def decision_function(self, X: Any, gate_values: Any = None) -> Array:
        """Scores of inputs X (n, p): (n,) for two classes, positive for the second; else (n, classes).

        Gate values (n, k) are needed where the problems were made from gate values, without gates.

        Raises InputError for inputs that do not fit, and where an answer has no weights.
        """
        inputs = self.inputs(X)
        self._require_weights()
        # Features of a few thousand rows at a time.
        blocks = [slice(None)] if gate_values is not None else row_blocks(len(inputs))
        return np.concatenate([self._scores(inputs[rows], gate_values) for rows in blocks])

    def _scores(self, inputs: Array, gate_values: Any) -> Array:
        first = self.problems[0]
        if isinstance(first, ClassMarginProblem):
            found = first.decision_function(self.solutions[0].weights, inputs)
            return found if found.shape[1] > 2 else found[:, 1] - found[:, 0]
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
            raise InputError(f"{problem.name} was built from kernels, and cannot score new inputs")
        if gate_values is None:
            raise InputError(f"{problem.name} was built from gate values; give those of the new inputs too")
        return GatedFeatures(X, gate_values)

    def _require_weights(self) -> None:
        for positive, solution in zip(self.positives, self.solutions, strict=False):
            if solution.status.inseparable:
                raise InputError(f"class {positive!r} has no weights: {solution.status.value}")
        if len(self.solutions) < len(self.problems):
            missing = self.positives[len(self.solutions)]
            raise InputError(f"class {missing!r} has no answer: the solve was interrupted; solve again from this model")

    def predict(self, X: Any, gate_values: Any = None) -> np.ndarray:
        """The class of each row of X (n, p); errors as `decision_function`."""
        return self.chosen(self.decision_function(X, gate_values))

    def _repr_html_(self) -> str:
        table = summary(
            dict(zip(self.positives, self.solutions, strict=False)), getattr(self.problems[0].norm, "groups", None)
        )
        return f"<div><code>{html.escape(repr(self))}</code></div>{table}"

    def __repr__(self) -> str:
        told = f"{len(self.classes)} classes, {self.n_features_in} inputs, {self.status.name}"
        return f"MarginModel({self.problems[0].name!r}, {told})"


def _inputs(problem: MarginProblem) -> int:
    """How many inputs gates take, or features have."""
    return problem.features.d if problem.gates is None else int(problem.gates.n_features_in_)
