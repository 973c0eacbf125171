"""What the classifiers share: everything but which margin problem is solved."""

import warnings
from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.multiclass import check_classification_targets

from implicit_bias.datasets.task import with_constant
from implicit_bias.estimators.samples import merged
from implicit_bias.gates import Gates
from implicit_bias.ground.checks import Array, InputError
from implicit_bias.ground.validation import UnfittedError, as_weights, refusals, seed_of, validated, with_class_weights
from implicit_bias.margin.display import summary
from implicit_bias.margin.problem import MarginProblem
from implicit_bias.margin.solvers import Solution, Status, solve

#: Weights that move no decision by more than this, of the margin 1 that they are to give, are as good as none.
NOTHING = 1e-4


class NotSeparableError(InputError):
    """A hard margin was asked for, and no weights separate the samples; `certificate` holds the proof.

    Attributes
    ----------
    certificate : Solution
        Its `dual` λ (n,) ≥ 0 has Φᵀ(λ∘y) = 0 (a Farkas certificate).

    Examples
    --------
    >>> from implicit_bias import GLNClassifier, NotSeparableError
    >>> try:
    ...     GLNClassifier(units=1, contexts=1, C=float("inf")).fit([[0.0], [1.0], [2.0]], [0, 1, 0])
    ... except NotSeparableError as error:
    ...     print(error.certificate.status.name, error.certificate.farkas_residual < 1e-12)
    NOT_SEPARABLE True
    """

    def __init__(self, message: str, certificate: Solution) -> None:
        super().__init__(message, certificate)
        self.certificate = certificate

    def __str__(self) -> str:
        return str(self.args[0])


@dataclass(kw_only=True, eq=False, repr=False)
class MarginClassifier(ClassifierMixin, BaseEstimator):
    """Base of the classifiers: everything but which margin problem is solved.

    A subclass says with `_problem` which margin problem belongs to inputs and signs.

    >>> from implicit_bias import GatedReLUClassifier, GLNClassifier, HiddenLayerClassifier
    >>> from implicit_bias.estimators import MarginClassifier
    >>> all(issubclass(kind, MarginClassifier) for kind in (GatedReLUClassifier, GLNClassifier, HiddenLayerClassifier))
    True
    """

    fit_intercept: bool = True
    free_intercept: bool = True
    solver: str | None = None
    tol: float = 1e-6
    max_seconds: float | None = None
    class_weight: Any = None
    random_state: Any = None

    @abstractmethod
    def _problem(self, X: Array, y: Array, gates: Gates | None, seed: int) -> MarginProblem:
        """The margin problem of inputs X (n, d) and signs y (n,), over the gates that `_shared` gave."""

    def _shared(self, X: Array, seed: int, weight: Array | None) -> Gates | None:
        """Fitted gates that the problems of all classes share; None if each has its own."""
        return None

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Solve the margin problem of X (n, p) and labels y (n,), one per class if there are more than two.

        Parameters
        ----------
        X : array, data frame or sparse matrix, shape (n, p)
            A sparse one is made dense.
        y : array, shape (n,), of at least two classes
        sample_weight : array, shape (n,), optional
            Prices of the samples' slack, ≥ 0, in units of C; zero leaves a sample out, two counts as two copies.

        Raises
        ------
        NotSeparableError
            If a hard margin (C = inf) does not exist.
        InputError
            For anything that scikit-learn or the margin problem refuses.

        Warns
        -----
        ConvergenceWarning
            If a certificate is worse than `tol` asks; `status_` says why and what to do.
        UserWarning
            If slack is so cheap at this C that the weights are nothing, or all samples are put into one of two classes.
        """
        for name in ("fit_intercept", "free_intercept"):
            if not isinstance(getattr(self, name), bool | np.bool_):
                raise InputError(f"{name} must be True or False, not {getattr(self, name)!r:.60}")
        X, y = validated(self, X, y, reset=True, sparse=True)
        rows, weight, price = self._weights(X, y, sample_weight)
        inputs, seed = self._inputs(X[rows]), self._seed()
        classes, codes = np.unique(y[rows], return_inverse=True)
        if len(classes) < 2:
            raise InputError(f"y holds one class only ({classes[0]}); a margin needs samples of two")
        shared = self._shared(inputs, seed, weight)
        problems, solutions = [], []
        for code in range(len(classes)) if len(classes) > 2 else [1]:
            problem = self._problem(inputs, np.where(codes == code, 1.0, -1.0), shared, seed)
            problem = replace(problem, sample_weight=price, intercept=self.free_intercept)
            solution = solve(problem, self.solver, tol=self.tol, max_seconds=self.max_seconds)
            self._judge(solution, classes[code], problem, alone=len(classes) == 2)
            problems.append(problem)
            solutions.append(solution)
        self.classes_ = classes
        self._keep(problems, solutions)
        support = np.unique(np.concatenate([solution.support for solution in solutions]))
        self.samples_, self.support_ = rows, rows[support]
        self.n_support_ = np.bincount(codes[support], minlength=len(classes))
        return self

    def _weights(self, X: Array, y: Any, sample_weight: Any) -> tuple[np.ndarray, Array | None, Array]:
        """The samples that count, their weights (None: all alike), and the prices of their slack."""
        given = as_weights(sample_weight, X)
        with refusals():
            check_classification_targets(y)
        rows, given = merged(X, np.unique(y, return_inverse=True)[1], given)
        y = y[rows]
        price = with_class_weights(given, self.class_weight, y)
        return rows, None if np.ptp(given) == 0 else given, price

    def _seed(self) -> int:
        """The seed of gates and networks."""
        return seed_of(self.random_state)

    def _inputs(self, X: Array) -> Array:
        return with_constant(X) if self.fit_intercept else X

    def _judge(self, solution: Solution, label: Any, problem: MarginProblem, alone: bool) -> None:
        if solution.status is Status.INTERRUPTED:
            raise KeyboardInterrupt  # A search over many fits must end, too.
        if solution.status.inseparable:
            raise NotSeparableError(
                f"class {label}: {solution.status.value} (lower bound {solution.lower_bound:.3g})", solution
            )
        if solution.status is not Status.OPTIMAL:
            warnings.warn(
                f"class {label}: {solution.status.value} (gap {solution.gap:.1e}; {solution.reason})",
                ConvergenceWarning,
                stacklevel=3,
            )
            return
        scores = problem.y * solution.margins
        found = ""
        if np.abs(scores - solution.intercept).max() <= max(NOTHING, self.tol):
            found = f"class {label}: all weights are zero, or next to it, since slack at C={problem.C:g} is cheaper"
        elif alone and len(set(scores > 0)) == 1:
            found = f"all samples are put into one class, since slack at C={problem.C:g} is cheaper than to part them"
        if found:
            warnings.warn(f"{found}; increase C, or scale the inputs up", UserWarning, stacklevel=3)

    def _keep(self, problems: list[MarginProblem], solutions: list[Solution]) -> None:
        several = len(solutions) > 1
        unfinished = [solution.status for solution in solutions if solution.status is not Status.OPTIMAL]
        self.status_ = unfinished[0] if unfinished else Status.OPTIMAL
        self.certificate_ = solutions if several else solutions[0]
        self.gates_: Any = [problem.gates for problem in problems] if several else problems[0].gates
        self.weights_ = np.stack([solution.weights for solution in solutions]) if several else solutions[0].weights
        self.intercept_ = np.array([solution.intercept for solution in solutions])

    def _scores(self, X: Array) -> list[Array]:
        """The scores (n,) of inputs X (n, d) in the problem of each class."""
        gates, weights = self.gates_, self.weights_
        gates, weights = (gates, weights) if isinstance(gates, list) else ([gates], weights[None])
        features = {key: found(X) for key, found in {id(each): each for each in gates}.items()}
        return [features[id(g)] @ W + b for g, W, b in zip(gates, weights, self.intercept_, strict=True)]

    def decision_function(self, X: Any) -> Array:
        """Scores of X (n, p): (n,) for two classes, positive for `classes_[1]`; else (n, classes), the largest wins.

        Raises
        ------
        UnfittedError
            Before `fit`.
        InputError
            For inputs that do not fit those of `fit`.
        """
        if not self.__sklearn_is_fitted__():
            raise UnfittedError(f"this {type(self).__name__} is not fitted; call fit(X, y) first")
        scores = self._scores(self._inputs(validated(self, X, reset=False, sparse=True)))
        return np.column_stack(scores) if len(scores) > 1 else scores[0]

    def predict(self, X: Any) -> np.ndarray:
        """The class of each row of X (n, p); errors as `decision_function`."""
        scores = self.decision_function(X)
        index = scores.argmax(axis=1) if scores.ndim > 1 else (scores > 0).astype(int)
        return np.asarray(self.classes_[index])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "weights_")

    def _html_repr(self) -> str:
        """What a notebook shows: scikit-learn's diagram, and below it what was proved."""
        diagram: str = super()._html_repr()
        if not self.__sklearn_is_fitted__():
            return diagram
        several = isinstance(self.certificate_, list)
        found: Any = self.certificate_ if several else [self.certificate_]
        gates = self.gates_[0] if isinstance(self.gates_, list) else self.gates_
        positives = (self.classes_ if several else self.classes_[1:]).tolist()
        return diagram + summary(dict(zip(positives, found, strict=True)), getattr(gates, "groups", None))
