"""Certified max-margin classifiers with scikit-learn's contract; the mathematics is that of the formulations.

Several classes are one problem a class, this class against the rest, over the same gates.
"""

from __future__ import annotations

import warnings
from abc import abstractmethod
from dataclasses import replace
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state, compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets

from implicit_bias.checks import Array, InputError, as_count, as_seed, one_of
from implicit_bias.datasets import with_constant
from implicit_bias.formulations import svm_gln, svm_hl, svm_l2, svm_lc, svm_rc
from implicit_bias.gates import Cutoff, Gates, HyperplaneGates, RandomHalfSpaces
from implicit_bias.networks import ReLUNetwork
from implicit_bias.norms import Frobenius, Norm
from implicit_bias.problems import MarginProblem
from implicit_bias.solvers import Solution, Status, solve
from implicit_bias.training import SGD, train
from implicit_bias.validation import UnfittedError, as_weights, refusals, validated


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


class MarginClassifier(ClassifierMixin, BaseEstimator):
    """Base of the classifiers: everything but which margin problem is solved.

    A subclass says with `_problem` which margin problem belongs to inputs and signs.

    >>> from implicit_bias import GatedReLUClassifier, GLNClassifier, HiddenLayerClassifier
    >>> from implicit_bias.estimators import MarginClassifier
    >>> all(issubclass(kind, MarginClassifier) for kind in (GatedReLUClassifier, GLNClassifier, HiddenLayerClassifier))
    True
    """

    C: float
    fit_intercept: bool
    free_intercept: bool
    solver: str | None
    tol: float
    max_seconds: float | None
    class_weight: Any
    random_state: Any

    @abstractmethod
    def _problem(self, X: Array, y: Array, gates: Gates | None, seed: int) -> MarginProblem:
        """The margin problem of inputs X (n, d) and signs y (n,), over the gates that `_shared` gave."""

    def _shared(self, X: Array, seed: int, weight: Array | None) -> Gates | None:
        """Fitted gates that the problems of all classes share; None if each has its own."""
        return None

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Solve the margin problem of X (n, p) and labels y (n,), one a class if there are more than two.

        Parameters
        ----------
        X : array or data frame, shape (n, p)
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
        """
        X, y = validated(self, X, y, reset=True)
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
            self._judge(solution, classes[code])
            problems.append(problem)
            solutions.append(solution)
        self.classes_ = classes
        self._keep(problems, solutions)
        support = np.unique(np.concatenate([solution.support for solution in solutions]))
        self.support_ = rows[support]
        self.n_support_ = np.bincount(codes[support], minlength=len(classes))
        return self

    def _weights(self, X: Array, y: Any, sample_weight: Any) -> tuple[np.ndarray, Array | None, Array]:
        """The samples that count, their weights (None: all alike), and the prices of their slack."""
        given = as_weights(sample_weight, X)
        with refusals():
            check_classification_targets(y)
            price = given * compute_sample_weight(self.class_weight, y) if self.class_weight is not None else given
        rows = np.flatnonzero(price > 0)
        if len(rows) == 0:
            raise InputError("all samples have weight zero; give at least one sample of each class a positive weight")
        weight = None if np.ptp(given[rows]) == 0 else given[rows]
        return rows, weight, price[rows]

    def _seed(self) -> int:
        """A whole random state is itself the seed of gates and networks; any other one draws it."""
        if self.random_state is None or not np.issubdtype(type(self.random_state), np.integer):
            with refusals():
                return int(check_random_state(self.random_state).randint(2**31 - 1))
        return as_seed(self.random_state)

    def _inputs(self, X: Array) -> Array:
        return with_constant(X) if self.fit_intercept else X

    def _judge(self, solution: Solution, label: Any) -> None:
        if solution.status is Status.NOT_SEPARABLE:
            raise NotSeparableError(
                f"class {label}: {solution.status.value} (Farkas residual {solution.farkas_residual:.1e})", solution
            )
        if solution.status is not Status.OPTIMAL:
            warnings.warn(
                f"class {label}: {solution.status.value} (gap {solution.gap:.1e})", ConvergenceWarning, stacklevel=3
            )
        elif not solution.weights.any():
            warnings.warn(
                f"class {label}: all weights are zero, since slack at C={self.C:g} is cheaper than any weights; "
                "increase C, or scale the inputs up",
                UserWarning,
                stacklevel=3,
            )

    def _keep(self, problems: list[MarginProblem], solutions: list[Solution]) -> None:
        several = len(solutions) > 1
        unfinished = [solution.status for solution in solutions if solution.status is not Status.OPTIMAL]
        self.status_ = unfinished[0] if unfinished else Status.OPTIMAL
        self.certificate_ = solutions if several else solutions[0]
        gates: list[Any] = [problem.gates for problem in problems]
        self.gates_ = gates if several else gates[0]
        weights = [solution.weights for solution in solutions]
        self.coef_ = np.stack(weights) if several else weights[0]
        self.intercept_ = np.array([solution.intercept for solution in solutions])

    def _scores(self, X: Array) -> list[Array]:
        """The scores (n,) of inputs X (n, d) in the problem of each class."""
        if isinstance(self.gates_, list):
            models = zip(self.gates_, self.coef_, self.intercept_, strict=True)
            return [gates(X) @ W + b for gates, W, b in models]
        return [self.gates_(X) @ self.coef_ + self.intercept_[0]]

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
        scores = self._scores(self._inputs(validated(self, X, reset=False)))
        return np.column_stack(scores) if len(scores) > 1 else scores[0]

    def predict(self, X: Any) -> np.ndarray:
        """The class of each row of X (n, p); errors as `decision_function`."""
        scores = self.decision_function(X)
        index = scores.argmax(axis=1) if scores.ndim > 1 else (scores > 0).astype(int)
        labels: np.ndarray = self.classes_[index]
        return labels

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "coef_")


class GLNClassifier(MarginClassifier):
    """The limit of a trained gated linear network: SVM-GLN, or SVM-L2, over random hyperplane contexts.

        minimise ‖ζ‖ + C Σ_i c_i ξ_i   subject to   y_i ((Φζ)_i + b) ≥ 1 − ξ_i,   ξ ≥ 0

    Parameters
    ----------
    units, contexts : int
        H units with C = 2^b contexts each (`HyperplaneGates`).
    C : float
        The price of slack; `inf` for the hard margin. The norm is not squared: below some C all weights are zero.
    norm : 'group-lasso', 'predictor-l2', 'frobenius' or a Norm
        Σ_h ‖ζ_h‖₂ (SVM-GLN), ‖β‖₂ of the predictors (SVM-L2), ‖ζ‖_F, or one for these H·C gates.
    cutoff : 'median', 'random', number or (low, high)
        As for `HyperplaneGates`.
    fit_intercept : bool
        Append the constant input 1, so that every context has a bias of its own (penalised like any weight).
    free_intercept : bool
        Add one bias b that costs nothing, as SVC does; the limit of gradient descent has none.
    solver, tol, max_seconds
        As for `solve`.
    class_weight : dict, 'balanced' or None
        Multiplies the prices of the classes' samples, as in scikit-learn.
    random_state : int, RandomState or None
        An int is the seed of the gates, as in `HyperplaneGates(seed=…)`.

    Attributes
    ----------
    classes_ : array
    certificate_ : Solution, or a list of one a class if there are more than two
    status_ : Status
        OPTIMAL, or the first that is not.
    coef_ : array, shape (k, d), or (classes, k, d)
        W.
    intercept_ : array, shape (1,), or (classes,)
        The free intercepts b; 0 without.
    gates_ : Gates, fitted, or a list of one a class
    support_ : array of int
        The samples that carry the solutions (λ_i > 0).
    n_support_ : array of int, shape (classes,)
        How many there are of each class.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from implicit_bias import GLNClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = make_pipeline(StandardScaler(), GLNClassifier(units=5, C=0.1, random_state=1)).fit(X[:400], y[:400])
    >>> model[-1].status_.name, model.score(X[400:], y[400:]) > 0.95
    ('OPTIMAL', True)
    """

    def __init__(
        self,
        units: int = 10,
        contexts: int = 2,
        C: float = 1.0,
        *,
        norm: str | Norm = "group-lasso",
        cutoff: Cutoff = "median",
        fit_intercept: bool = True,
        free_intercept: bool = False,
        solver: str | None = None,
        tol: float = 1e-6,
        max_seconds: float | None = None,
        class_weight: Any = None,
        random_state: Any = None,
    ) -> None:
        self.units = units
        self.contexts = contexts
        self.C = C
        self.norm = norm
        self.cutoff = cutoff
        self.fit_intercept = fit_intercept
        self.free_intercept = free_intercept
        self.solver = solver
        self.tol = tol
        self.max_seconds = max_seconds
        self.class_weight = class_weight
        self.random_state = random_state

    def _shared(self, X: Array, seed: int, weight: Array | None) -> Gates:
        return HyperplaneGates(self.units, self.contexts, seed, self.cutoff).fit(X, sample_weight=weight)

    def _problem(self, X: Array, y: Array, gates: Gates | None, seed: int) -> MarginProblem:
        assert isinstance(gates, HyperplaneGates)
        if isinstance(self.norm, Norm):
            return replace(svm_gln(X, y, gates, self.C), norm=self.norm)
        kind = one_of(self.norm, ("group-lasso", "predictor-l2", "frobenius"), "norm")
        if kind == "frobenius":
            return replace(svm_gln(X, y, gates, self.C), norm=Frobenius(), name="SVM-Fro")
        return (svm_gln if kind == "group-lasso" else svm_l2)(X, y, gates, self.C)


class GatedReLUClassifier(MarginClassifier):
    """The limit of a ReLU network whose gates stay: SVM-RC with random, SVM-LC with learned, or given gates.

        minimise Σ_h ‖ζ_h‖₂ + C Σ_i c_i ξ_i   subject to   y_i ((Φζ)_i + b) ≥ 1 − ξ_i,   ξ ≥ 0

    Parameters
    ----------
    units : int
        H half-spaces, or hidden units of the network; without effect for given gates.
    C, fit_intercept, free_intercept, solver, tol, max_seconds, class_weight, random_state
        As for `GLNClassifier`; a whole `random_state` is the seed of half-spaces, network and training.
    gates : 'random', 'learned' or Gates
        'random': `RandomHalfSpaces`. 'learned': those of a `ReLUNetwork` trained on the samples, a network a class;
        sample weights play no part in its training. Gates of your own see the constant input too (`fit_intercept`);
        unfitted ones are fitted on a copy.
    cutoff : 'median', 'random', number or (low, high)
        Of random half-spaces.
    training : SGD, optional
        How the network of learned gates is trained.

    Attributes
    ----------
    As for `GLNClassifier`. A sample in no half-space scores 0, and no weights give it a margin: with a hard margin it
    is a proof that nothing separates; use `RandomHalfSpaces(…, always_on=True)` as gates.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from implicit_bias import GatedReLUClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = GatedReLUClassifier(units=20, random_state=0).fit(X, y)
    >>> model.decision_function(X).shape, model.score(X, y) > 0.95, [c.gap < 1e-6 for c in model.certificate_]
    ((150, 3), True, [True, True, True])
    """

    def __init__(
        self,
        units: int = 20,
        C: float = 1.0,
        *,
        gates: str | Gates = "random",
        cutoff: Cutoff = "median",
        training: SGD | None = None,
        fit_intercept: bool = True,
        free_intercept: bool = False,
        solver: str | None = None,
        tol: float = 1e-6,
        max_seconds: float | None = None,
        class_weight: Any = None,
        random_state: Any = None,
    ) -> None:
        self.units = units
        self.C = C
        self.gates = gates
        self.cutoff = cutoff
        self.training = training
        self.fit_intercept = fit_intercept
        self.free_intercept = free_intercept
        self.solver = solver
        self.tol = tol
        self.max_seconds = max_seconds
        self.class_weight = class_weight
        self.random_state = random_state

    def _shared(self, X: Array, seed: int, weight: Array | None) -> Gates | None:
        if isinstance(self.gates, Gates):
            return self.gates.fitted(X)
        if one_of(self.gates, ("random", "learned"), "gates") == "learned":
            return None
        return RandomHalfSpaces(self.units, seed, self.cutoff).fit(X, sample_weight=weight)

    def _problem(self, X: Array, y: Array, gates: Gates | None, seed: int) -> MarginProblem:
        if gates is not None:
            return svm_rc(X, y, gates, self.C)
        return svm_lc(X, y, _trained(X, y, self.units, seed, self.training), self.C)


class HiddenLayerClassifier(MarginClassifier):
    """The maximum margin on a trained ReLU network's hidden activations: SVM-HL.

        minimise ‖a‖₂ + C Σ_i c_i ξ_i   subject to   y_i ⟨a, h(x_i)⟩ ≥ 1 − ξ_i,   ξ ≥ 0

    Parameters
    ----------
    units : int
        Hidden units H.
    training : SGD, optional
        How the network is trained; sample weights play no part in it.
    C, fit_intercept, free_intercept, solver, tol, max_seconds, class_weight, random_state
        As for `GatedReLUClassifier`; the constant input goes into the network.

    Attributes
    ----------
    As for `GLNClassifier`, with `coef_` of shape (1, H), or (classes, 1, H); `gates_` are `HiddenActivations`, whose
    `network` is the trained one.

    Examples
    --------
    >>> from implicit_bias import SGD, HiddenLayerClassifier, load_binary
    >>> task = load_binary("digits", train_size=100)
    >>> model = HiddenLayerClassifier(units=10, training=SGD(steps=200), random_state=1)
    >>> model.fit(task.X_train, task.y_train).certificate_.gap < 1e-6
    True
    """

    def __init__(
        self,
        units: int = 20,
        C: float = 1.0,
        *,
        training: SGD | None = None,
        fit_intercept: bool = True,
        free_intercept: bool = False,
        solver: str | None = None,
        tol: float = 1e-6,
        max_seconds: float | None = None,
        class_weight: Any = None,
        random_state: Any = None,
    ) -> None:
        self.units = units
        self.C = C
        self.training = training
        self.fit_intercept = fit_intercept
        self.free_intercept = free_intercept
        self.solver = solver
        self.tol = tol
        self.max_seconds = max_seconds
        self.class_weight = class_weight
        self.random_state = random_state

    def _problem(self, X: Array, y: Array, gates: Gates | None, seed: int) -> MarginProblem:
        return svm_hl(X, y, _trained(X, y, self.units, seed, self.training), self.C)


def _trained(X: Array, y: Array, units: int, seed: int, config: SGD | None) -> ReLUNetwork:
    """A ReLU network trained on X and signs y, then in float64: scores must not depend on how samples are batched."""
    if not isinstance(config, SGD | None):
        raise InputError(f"training must be an SGD(…) or None, not {type(config).__name__}")
    network = ReLUNetwork(X.shape[1], as_count(units, "units"), seed)
    train(network, X, y, config, seed=seed, every=10**9)
    return network.double()
