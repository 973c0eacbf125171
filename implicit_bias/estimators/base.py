"""Base class of the classifiers, which implements everything except the margin problem."""

import warnings
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from joblib import effective_n_jobs
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.parallel import Parallel, delayed

from implicit_bias._utils.checks import Array, InputError, as_flag, as_positive, one_of, shown
from implicit_bias._utils.limits import Deadline
from implicit_bias._utils.validation import UnfittedError, as_weights, seed_of, unequal, validated, with_class_weights
from implicit_bias.datasets.labels import columns_of, ranges_of
from implicit_bias.datasets.task import with_constant
from implicit_bias.features.base import UnkeptFeatures
from implicit_bias.gates import Gates
from implicit_bias.margin.model import MarginModel
from implicit_bias.margin.problem import MarginProblem
from implicit_bias.margin.solution import Solution, Status, summary
from implicit_bias.solvers import margin_path
from implicit_bias.solvers.path import random_dual_norm

#: Weights count as zero if they change no score by more than this; the required margin is 1.
NEGLIGIBLE_SCORE = 1e-4
#: Factor of C="scale", chosen by a study of twelve tables (`benchmarks/study_cost.py`).
COST_SCALE = 4.6
#: Difference of the classes' shares above which a warning names `class_weight`.
UNEVEN = 0.5
#: Seed of the direction onto which rows are projected to find candidates of equal rows.
_SEED = 1


class NotSeparableError(InputError):
    """Error of a hard-margin fit to samples that no weights separate.

    Attributes
    ----------
    certificate : Solution
        With the status NOT_SEPARABLE the proof: `dual` is λ ≥ 0 (n,), up to rounding, with Φᵀ(λ∘y) = 0 (a Farkas
        certificate). With NOT_SEPARABLE_BELOW a lower bound: no weights of a smaller norm separate. With INFEASIBLE
        `multipliers` prove that constraints contradict each other.

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


class ModelMixin:
    """Methods of an estimator that keeps its fitted model in `_model`."""

    _model: MarginModel

    def decision_function(self, X: Any) -> Array:
        """Return scores of X (n, p): shape (n,) for two classes, positive for `classes_[1]`, else (n, classes).

        Raises
        ------
        UnfittedError
            Before `fit`.
        InputError
            If the inputs do not match those of `fit`.
        """
        return self.as_model().decision_function(validated(self, X, reset=False, sparse=True))

    def predict(self, X: Any) -> np.ndarray:
        """Return the class of each row of X (n, p), shape (n,); errors are those of `decision_function`."""
        return self.as_model().chosen(self.decision_function(X))

    def as_model(self) -> MarginModel:
        """Return the fitted estimator as a model without samples, which `save_model` writes.

        Raises
        ------
        UnfittedError
            Before `fit`.
        """
        if not self.__sklearn_is_fitted__():
            raise UnfittedError(f"this {type(self).__name__} is not fitted; call fit first")
        return self._model

    def __getstate__(self) -> Any:
        """Return the state without the times of the solves, so that equal fits have equal hashes and pickles."""
        state: Any = super().__getstate__()
        for name, value in state.items():
            if name == "certificate_":
                several = isinstance(value, list)
                state[name] = [replace(one, seconds=0.0) for one in value] if several else replace(value, seconds=0.0)
            elif name == "_model":
                state[name] = replace(value, solutions=[replace(one, seconds=0.0) for one in value.solutions])
        return state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.input_tags.sparse = True
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_model")


@dataclass(frozen=True, eq=False)
class FitData:
    """Samples, classes and margin problems of a fit.

    `rows` (m,) are the indices of the distinct samples with weight, `ranges` (2, p) are those of their inputs, and
    `codes` (m,) are indices into `classes`. There is one problem for two classes. For more there is one problem per
    class, or one for all (`svm_classes`) if `joint`.
    """

    rows: np.ndarray
    ranges: Array
    classes: np.ndarray
    codes: np.ndarray
    problems: Iterator[MarginProblem]
    joint: bool = False

    @property
    def names(self) -> list[str]:
        """Name of each problem in messages, such as 'class 3'."""
        if self.joint:
            return ["all classes"]
        return [f"class {label}" for label in (self.classes if len(self.classes) > 2 else self.classes[1:])]

    def support(self, solutions: Sequence[Solution]) -> np.ndarray:
        """Return the indices into `rows` of the support vectors of all solutions."""
        each = np.concatenate([solution.support for solution in solutions])
        return np.unique(each // (len(self.classes) - 1) if self.joint else each)


@dataclass(kw_only=True, eq=False, repr=False)
class MarginClassifier(ModelMixin, ClassifierMixin, BaseEstimator):
    """Base class of the classifiers; a subclass defines its margin problem in `_problem`.

    Examples
    --------
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
    device: str = "cpu"
    verbose: bool = False
    n_jobs: int | None = None
    warm_start: bool = False
    class_weight: Any = None
    random_state: Any = None
    multi_class: str = "ovr"

    def _default_cost(self, problem: MarginProblem) -> float:
        """Return the C of C="scale"."""
        return COST_SCALE / random_dual_norm(problem)

    @abstractmethod
    def _problem(self, X: Array, y: Array, gates: Gates | None, seed: int) -> MarginProblem:
        """Return the margin problem of X (n, d), signs y (n,) and the `_shared_gates`; its C has no effect."""

    def _joint_problem(self, X: Array, codes: np.ndarray, gates: Gates | None, seed: int) -> MarginProblem:
        raise InputError(f"{type(self).__name__} has no joint problem of several classes; use multi_class='ovr'")

    def _constrained(self, problem: MarginProblem) -> MarginProblem:
        return problem

    def _shared_gates(self, X: Array, seed: int, weight: Array | None) -> Gates | None:
        return None

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Solve the margin problem of X (n, p) and labels y (n,); for more than two classes see `multi_class`.

        Parameters
        ----------
        X : array, data frame or sparse matrix, shape (n, p)
            Inputs. Sparse matrices are converted to dense arrays.
        y : array, shape (n,)
            Labels of at least two classes.
        sample_weight : array, shape (n,), optional
            c_i ≥ 0, the factors of C. A weight of 0 removes a sample, and a weight of 2 counts as two copies, also for
            the medians of gates and the scales of kernels. Class weights multiply c_i, with the same effects.

        Raises
        ------
        NotSeparableError
            If C = inf and the samples are not separable, or constraints contradict each other.
        InputError
            If the samples or a parameter are invalid.

        Warns
        -----
        ConvergenceWarning
            If a certified gap exceeds `tol`; `status_` gives the reason and a remedy.
        UserWarning
            If all weights are zero, or all samples are assigned to one of two classes, mostly because C is too small;
            or if kernels are nearly zero between most samples, mostly because the inputs are not standardised.
        """
        deadline = Deadline(self.max_seconds)
        data = self._fit_data(X, y, sample_weight)
        for problems, solutions in self._path([self.C], data, deadline):
            self._warn(data.names, problems, solutions, binary=len(data.classes) == 2)
        return self

    def _fit_data(self, X: Any, y: Any, sample_weight: Any) -> FitData:
        """Check samples and parameters; return the distinct samples, the classes, and the problems, not yet solved."""
        for name in ("fit_intercept", "free_intercept", "warm_start"):
            as_flag(getattr(self, name), name)
        check_processes(self.n_jobs)
        if not isinstance(self.C, str):
            as_positive(self.C, "C", infinite=True)
        elif self.C != "scale":
            raise InputError(f"C must be 'scale' or a positive number, not {shown(self.C)}")
        kind = one_of(self.multi_class, ("ovr", "joint", "shared"), "multi_class")
        X, y = validated(self, X, y, reset=True, sparse=True)
        rows, weight = self._sample_weights(X, y, sample_weight)
        inputs, seed = self._inputs(X[rows]), seed_of(self.random_state)
        classes, codes = np.unique(y[rows], return_inverse=True)
        if len(classes) < 2:
            raise InputError(f"y has only one class ({classes[0]}); give samples of at least two")
        problems = self._problems(inputs, codes, self._shared_gates(inputs, seed, unequal(weight)), seed, weight)
        return FitData(rows, ranges_of(X[rows]), classes, codes, problems, joint=kind != "ovr" and len(classes) > 2)

    def _path(
        self, costs: Sequence[Any], data: FitData, deadline: Deadline
    ) -> Iterator[tuple[list[MarginProblem], list[Solution]]]:
        """Solve at each C of `costs`, warm-started; set the fitted attributes, then yield problems and solutions."""
        for problems, solutions in self._solve(data, costs, self._warm_start(data), deadline):
            self.classes_, self.samples_, self._codes, self._joint = data.classes, data.rows, data.codes, data.joint
            self._set_results(problems, solutions)
            self._model = replace(self._model, ranges=data.ranges)
            support = data.support(solutions)
            self.support_ = data.rows[support]
            self.n_support_ = np.bincount(data.codes[support], minlength=len(data.classes))
            yield problems, solutions

    def _problems(
        self, X: Array, codes: np.ndarray, gates: Gates | None, seed: int, weight: Array
    ) -> Iterator[MarginProblem]:
        if self.multi_class != "ovr" and codes.max() > 1:
            # Every pair of a sample and another class has the sample's weight.
            joint = self._joint_problem(X, codes, gates, seed).replace(sample_weight=np.repeat(weight, codes.max()))
            yield self._constrained(joint)
            return
        problem: MarginProblem | None = None
        for code in range(codes.max() + 1) if codes.max() > 1 else [1]:
            y = np.where(codes == code, 1.0, -1.0)
            if problem is None or gates is None:
                built = self._problem(X, y, gates, seed)
                problem = built.replace(sample_weight=weight, intercept=bool(self.free_intercept))
                problem = self._constrained(problem)
            yield problem.replace(y=y)

    def _solve(
        self, data: FitData, costs: Sequence[Any], earlier: list[Solution | None], deadline: Deadline
    ) -> Iterator[tuple[list[MarginProblem], list[Solution]]]:
        """Yield, for each C of `costs`, the problems and their solutions, which start from those in `earlier`."""
        problems: list[MarginProblem] = []
        values: list[list[Any]] = []
        workers = effective_n_jobs(self.n_jobs)

        def tasks() -> Iterator[Any]:
            options = {key: getattr(self, key) for key in ("tol", "device", "verbose")}
            for name, problem, start in zip(data.names, data.problems, earlier, strict=True):
                left = len(data.names) - len(problems)
                options["max_seconds"] = deadline.left(min(workers / left, 1.0))
                # To save memory, the yielded problems have no samples.
                features = UnkeptFeatures(problem.features.shape, problem.features.gated)
                problems.append(problem.replace(features=features))
                values.append([self._default_cost(problem) if C == "scale" else C for C in costs])
                yield delayed(_checked_path)(problem, values[-1], name, solver=self.solver, start=start, **options)

        paths = Parallel(self.n_jobs)(tasks())
        # Paths that a time limit ends are shorter.
        for each, *solutions in zip(zip(*values, strict=True), *paths, strict=False):
            yield [problem.replace(C=C) for problem, C in zip(problems, each, strict=True)], solutions

    def _warm_start(self, data: FitData) -> list[Solution | None]:
        """Return the last solutions if NATIVE may start from them, on the same labels; else None for each problem."""
        none: list[Solution | None] = [None] * len(data.names)
        if not (self.warm_start and self.__sklearn_is_fitted__() and np.array_equal(self.classes_, data.classes)):
            return none
        earlier = list(self.certificate_) if isinstance(self.certificate_, list) else [self.certificate_]
        native = self.solver in (None, "NATIVE") and all(solution.solver == "NATIVE" for solution in earlier)
        return earlier if native and len(earlier) == len(none) and np.array_equal(self._codes, data.codes) else none

    def _sample_weights(self, X: Array, y: Any, sample_weight: Any) -> tuple[np.ndarray, Array]:
        """Return the indices (m,) of the distinct samples with weight, and their c_i (m,), with class weights."""
        given = as_weights(sample_weight, X)
        rows, given = _merged(X, np.unique(y, return_inverse=True)[1], given)
        return rows, with_class_weights(given, self.class_weight, y[rows])

    def _inputs(self, X: Array) -> Array:
        return with_constant(X) if self.fit_intercept else X

    def _warn(self, names: list[str], problems: list[MarginProblem], solutions: list[Solution], binary: bool) -> None:
        """Warn once of each kind: of the class with the largest gap, or the first, with the number of the others."""
        texts: dict[str, list[tuple[float, str, float, str]]] = {}
        for name, problem, solution in zip(names, problems, solutions, strict=True):
            scores, kind, text = problem.y * solution.margins, solution.status.value, ""
            if solution.status is not Status.OPTIMAL:
                text = "; ".join(filter(None, [f"gap {solution.gap:.1e}", solution.reason]))
            elif np.abs(scores - solution.intercept).max() <= max(NEGLIGIBLE_SCORE, self.tol):
                kind = "all weights are (nearly) zero"
            elif binary and len(set(scores > 0)) == 1:
                kind = "all samples are assigned to one class"
            else:
                continue
            texts.setdefault(kind, []).append((solution.gap if text else 0.0, name, problem.C, text))
        uneven = binary and self.class_weight is None and abs(problems[0].y.mean()) > UNEVEN
        remedy = "set class_weight='balanced', or increase C" if uneven else "increase C or scale the inputs up"
        inseparable = "if that changes nothing, these features do not tell the classes apart"
        for kind, each in texts.items():
            _, name, C, text = max(each, key=lambda one: one[0])
            others = f" and {len(each) - 1} others" if len(each) > 1 else ""
            message = f"{name}{others}: {kind}" + (f" ({text})" if text else f" at C={C:g}; {remedy}; {inseparable}")
            warnings.warn(message, ConvergenceWarning if text else UserWarning, stacklevel=3)

    def _set_results(self, problems: list[MarginProblem], solutions: list[Solution]) -> None:
        several, gates = len(solutions) > 1, [problem.gates for problem in problems]
        first, constant, columns = problems[0], bool(self.fit_intercept), columns_of(self)
        # Problems with the gates of the first share its features, as files need.
        shared = [one.replace(features=first.features) if one.gates is first.gates else one for one in problems]
        self._model = MarginModel(shared, solutions, classes=self.classes_, constant=constant, columns=columns)
        self.status_ = self._model.status
        self.certificate_: Any = solutions if several else solutions[0]
        self.gates_: Any = gates if several else gates[0]
        intercepts = [solution.intercept for solution in solutions]
        self.intercept_ = np.zeros(len(self.classes_)) if self._joint else np.array(intercepts)
        costs = {problem.C for problem in problems}
        self.C_: Any = costs.pop() if len(costs) == 1 else np.array([problem.C for problem in problems])

    @property
    def weights_(self) -> Array:
        """Weights W of the certificates, shape (k, d) or (classes, k, d)."""
        solutions = self.certificate_
        if self._joint:
            return solutions.weights.reshape(len(self.classes_), -1, solutions.weights.shape[1])
        if not isinstance(solutions, list):
            return solutions.weights
        each: Any = [solution.weights for solution in solutions]
        return np.stack(each) if len({weights.shape for weights in each}) == 1 else each

    def _html_repr(self) -> str:
        diagram: str = super()._html_repr()
        if not self.__sklearn_is_fitted__():
            return diagram
        groups: Any = getattr(self.gates_[0] if isinstance(self.gates_, list) else self.gates_, "groups", None)
        if self._joint:
            return diagram + summary({"": self.certificate_}, np.tile(groups, len(self.classes_)))
        solutions = self.certificate_ if isinstance(self.certificate_, list) else [self.certificate_]
        return diagram + summary(dict(zip(self._model.positives, solutions, strict=True)), groups)


def check_processes(n_jobs: Any) -> None:
    """Raise InputError unless `n_jobs` is a number of processes, −1 or None."""
    if n_jobs is not None and (not isinstance(n_jobs, int | np.integer) or n_jobs == 0):
        raise InputError(f"n_jobs must be a number of processes, -1 for all cores, or None; not {shown(n_jobs)}")


def _merged(X: Array, codes: np.ndarray, given: Array) -> tuple[np.ndarray, Array]:
    """Return the indices (m,) of the distinct samples with weight, and their weights (m,).

    Equal samples of one class `codes` (n,) become one sample with the sum of their weights. If some are equal, or
    weights are not 1, samples are sorted by their bytes, so that the result does not depend on their order.

    >>> rows, weights = _merged(np.array([[2.0], [1.0], [2.0]]), np.array([0, 1, 0]), np.ones(3))
    >>> rows.tolist(), weights.tolist()
    ([0, 1], [2.0, 1.0])
    """
    rows = np.flatnonzero(given > 0)
    weights = given[rows]
    direction = np.random.default_rng(_SEED).uniform(1, 2, X.shape[1])
    # BLAS is avoided because it may sum equal rows in different orders.
    keys = np.einsum("ij,j->i", X[rows], direction)
    alike = bool((weights == 1).all())
    if alike and len(rows) == len(np.unique(keys)):
        return rows, weights
    # Adding 0 replaces −0 by 0, which is equal but has other bytes.
    table = np.column_stack([X[rows], codes[rows]]) + 0.0
    row_bytes = np.ascontiguousarray(table).view(np.dtype((np.void, table.itemsize * table.shape[1]))).ravel()
    _, first, place = np.unique(row_bytes, return_index=True, return_inverse=True)
    if alike and len(first) == len(rows):
        return rows, weights
    return rows[first], np.bincount(place, weights, len(first)).astype(np.float64)


def _checked_path(problem: MarginProblem, costs: Sequence[Any], name: str, **options: Any) -> list[Solution]:
    path = margin_path(problem, costs, **options)
    if path[-1].status is Status.INTERRUPTED:
        raise KeyboardInterrupt  # A search over many fits must end, too.
    for solution in path:
        if solution.status.inseparable:
            message = f"{name}: {solution.status.value} (lower bound {solution.lower_bound:.3g})"
            raise NotSeparableError(message, solution)
    return path
