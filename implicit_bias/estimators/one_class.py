"""Outlier detection: samples of one class are separated from the origin of the features."""

import warnings
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, MetaEstimatorMixin, OutlierMixin, clone
from sklearn.exceptions import ConvergenceWarning

from implicit_bias._utils.checks import Array, InputError, as_probability, shown
from implicit_bias._utils.limits import Deadline
from implicit_bias._utils.validation import seed_of, unequal, validated
from implicit_bias.datasets.labels import ranges_of
from implicit_bias.estimators.base import NEGLIGIBLE_SCORE, FitData, MarginClassifier, ModelMixin
from implicit_bias.estimators.kernels import MultipleKernelClassifier
from implicit_bias.margin.problem import MarginProblem
from implicit_bias.margin.solution import Status
from implicit_bias.solvers.path import zero_weights_up_to

#: Relative rounding error of a score, which depends on how samples are batched.
ROUNDING = 1e-9
#: Number of inputs off the training set on which the score must be the same before it is called constant.
PROBES = 20
#: Maximum number of values of C.
MAX_ATTEMPTS = 60
#: Factor between successive values of C if the mean slack is not below ν.
STEP = 4.0
#: Largest ratio of C to its first value.
MAX_RATIO = 1e8
#: The search ends after an INACCURATE solution if weights of mean slack below ν need a norm larger than this multiple
#: of ν C₁ Σ c_i, where C₁ is the first value of C.
MAX_NORM = 1e3


@dataclass(eq=False, repr=False)
class OneClassMargin(ModelMixin, OutlierMixin, MetaEstimatorMixin, BaseEstimator):
    """Outlier detector: separates samples of one class from the origin, except for a share ν of them.

        minimise ‖W‖ + C Σ_i c_i ξ_i   subject to   f(x_i) = ⟨W, Φ(x_i)⟩ ≥ 1 − ξ_i,   ξ ≥ 0

    The dual variables are 0 ≤ λ_i ≤ C c_i, and C is chosen so that ν = Σ λ_i / (C Σ c_i). Samples with slack have
    λ_i = C c_i, and support vectors have λ_i > 0. So at most a share ν of the samples has slack, and at least a share
    ν are support vectors.

    This extends the problem of scikit-learn's `OneClassSVM` to any norm. That problem is to minimise
    ½‖W‖² − ρ + Σ c_i ξ_i / (ν Σ c_i) subject to ⟨W, Φ(x_i)⟩ ≥ ρ − ξ_i. Its solutions, divided by ρ, are those above:
    both problems minimise ‖W‖ / (1 − S) with S = Σ c_i ξ_i / (ν Σ c_i), whose minimum is C ν Σ c_i. Newton's method
    finds C.

    Parameters
    ----------
    estimator : MarginClassifier, optional
        Classifier that defines Φ, by its gates or kernels, and the norm. Its C, class weights and free intercept are
        ignored. Gates learned from labels are not supported. The default is MultipleKernelClassifier(["rbf"]), a
        Gaussian kernel with γ = 1/p, for standardised inputs.
    nu : float
        ν, strictly between 0 and 1.

    Attributes
    ----------
    estimator_ : MarginClassifier
        Fitted classifier: its `decision_function` is f, and its `gates_` or `kernels_` define Φ.
    certificate_ : Solution
        Certificate of the problem above at `C_`; its `support` are the samples with λ_i > 0.
    status_ : Status
    C_ : float
    nu_ : array, shape (2,)
        Certified bounds of the ν that belongs to `C_`: the certificate's bounds divided by C Σ c_i.
    offset_ : float
        Threshold of the scores: 1, reduced so that at most a share ν of the training samples is below it, despite
        rounding and the gap.
    n_features_in_, feature_names_in_
        As for `GLNClassifier`.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from implicit_bias import GLNClassifier, OneClassMargin
    >>> X, y = load_digits(return_X_y=True)
    >>> X /= (X**2).sum(axis=1, keepdims=True) ** 0.5
    >>> model = OneClassMargin(GLNClassifier(units=10, random_state=1), nu=0.1).fit(X[y == 0][:100])
    >>> model.status_.name, [round(float((model.predict(X[y == digit]) == 1).mean()), 1) for digit in (0, 1)]
    ('OPTIMAL', [0.9, 0.0])
    """

    estimator: MarginClassifier | None = None
    nu: float = field(default=0.1, kw_only=True)

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Solve the one-class problem of the samples X (n, p).

        Parameters
        ----------
        X, sample_weight
            As for `GLNClassifier.fit`.
        y : ignored

        Raises
        ------
        InputError
            If all samples are equal, a parameter is invalid, or no weights with mean slack Σ c_i ξ_i / Σ c_i < ν are
            found. The message then states the norm up to which the absence of such weights is proved.

        Warns
        -----
        ConvergenceWarning
            If the certified gap, or the relative distance of the bounds `nu_` from ν, exceeds the classifier's `tol`.
        UserWarning
            If all inputs have the same score, or a kernel is nearly zero between different samples.
        """
        nu = as_probability(self.nu, "nu")
        given = MultipleKernelClassifier(["rbf"]) if self.estimator is None else self.estimator
        if not isinstance(given, MarginClassifier):
            raise InputError(f"estimator must be a max-margin classifier such as GLNClassifier(), not {shown(given)}")
        samples = validated(self, X, reset=True, sparse=True)
        # The solve at each C starts from the solution at the previous C.
        estimator = clone(given).set_params(warm_start=True, free_intercept=False, class_weight=None)
        validated(estimator, X, reset=True, sparse=True)
        deadline = Deadline(estimator.max_seconds)
        data, problem = _fit_data(estimator, samples, sample_weight)
        self.C_, self.nu_ = _fit_to_nu(estimator, data, problem, nu, deadline)
        self.estimator_, self.certificate_, self.status_ = estimator, estimator.certificate_, estimator.status_
        scores = estimator.as_model().decision_function(samples[data.rows])
        if _constant(estimator, samples, scores):
            text = "all inputs have the same score, because a constant alone attains the margin"
            remedy = "use a Gaussian kernel (the default) on standardised inputs, or fit_intercept=False"
            warnings.warn(f"{text}; {remedy}", UserWarning, stacklevel=2)
        self.offset_ = min(1.0, _quantile(scores, problem.sample_weight, nu)) - ROUNDING
        self._model = replace(estimator.as_model(), offset=self.offset_)
        if not _reached(self.nu_, nu, estimator.tol):
            text = f"the nu of this solution is only known to be between {self.nu_[0]:.7g} and {self.nu_[1]:.7g}"
            reason = f"not proved to be {nu:g}: {self.status_.value}"
            warnings.warn(f"{text}, and {reason}", ConvergenceWarning, stacklevel=2)
        return self

    def score_samples(self, X: Any) -> Array:
        """Return the scores f(x) of the rows of X (n, p), shape (n,): 1 on the margin, smaller for outliers.

        Raises
        ------
        UnfittedError
            Before `fit`.
        InputError
            If the inputs do not match those of `fit`.
        """
        return replace(self.as_model(), offset=0.0).decision_function(validated(self, X, reset=False, sparse=True))

    def decision_function(self, X: Any) -> Array:
        """Return f(x) − `offset_` for the rows of X (n, p), at most 0 for outliers; errors as in `score_samples`."""
        return super().decision_function(X)

    def predict(self, X: Any) -> np.ndarray:
        """Return −1 for each row of X (n, p) that is an outlier, else +1; errors as in `score_samples`."""
        return super().predict(X)


def _fit_data(estimator: MarginClassifier, X: Array, sample_weight: Any) -> tuple[FitData, MarginProblem]:
    """Return FitData without problems, and the one-class problem of X (n, p) with the features of a classifier."""
    rows, weight = estimator._sample_weights(X, np.ones(len(X), dtype=int), sample_weight)
    if len(rows) < 2:
        raise InputError("one class needs two different samples with weight; these are all equal, or only one has any")
    inputs, seed = estimator._inputs(X[rows]), seed_of(estimator.random_state)
    gates = estimator._shared_gates(inputs, seed, unequal(weight))
    if gates is None:
        raise InputError("one class has no labels for a network to learn gates from; use random or given gates")
    # `_problem` requires two classes, so that it gets signs which are then replaced.
    signs = np.where(np.arange(len(rows)) > 0, 1.0, -1.0)
    problem = replace(estimator._problem(inputs, signs, gates, seed), y=signs**2, sample_weight=weight)
    return FitData(rows, ranges_of(X[rows]), np.array([-1, 1]), np.ones(len(rows), dtype=int), iter(())), problem


def _fit_to_nu(
    estimator: MarginClassifier, data: FitData, problem: MarginProblem, nu: float, deadline: Deadline
) -> tuple[float, Array]:
    """Fit at the C that belongs to ν: the root of v(C) − CνΣc, where v(C) is the optimum, a concave function.

    Return C and certified bounds of its ν, shape (2,). Newton's method starts below the root, because
    v(C) ≥ v(C₀) = C₀Σc for C ≥ C₀. InputError is raised if there is no root up to a large norm or C.
    """
    total = float(problem.sample_weight.sum())
    first = zero_weights_up_to(problem) / nu
    C = first
    for _ in range(MAX_ATTEMPTS):
        ((_, (solution,)),) = estimator._path([C], replace(data, problems=iter([problem])), deadline)
        bounds = np.array([solution.lower_bound, solution.objective]) / (C * total)
        slack = float(problem.sample_weight @ np.maximum(1 - solution.margins, 0))
        allowance = nu * total - slack
        following = (solution.objective - C * slack) / allowance if allowance > 0 else STEP * C
        # ‖W‖ + C Σ c_i ξ_i is at least the lower bound for all weights.
        proved = solution.lower_bound - C * nu * total
        hopeless = solution.status is Status.INACCURATE and proved > MAX_NORM * nu * first * total
        if hopeless or following > MAX_RATIO * first:
            text = f"no weights of a norm up to {proved:.2g} have a mean slack below nu={nu:g}, which is proved"
            cause = "the samples surround the origin, and no linear function of their features separates them from it"
            raise InputError(f"{text}: {cause}; use a Gaussian kernel (the default), gates that close, or a larger nu")
        if _reached(bounds, nu, estimator.tol) or solution.status is not Status.OPTIMAL or following == C:
            break
        C = following
    return C, bounds


def _reached(bounds: Array, nu: float, tol: float) -> bool:
    """True if both bounds (2,) are within 2 `tol` of ν and contain ν up to `tol`, all relative to ν.

    >>> _reached(np.array([0.1, 0.10000005]), 0.1, 1e-6), _reached(np.array([0.1, 0.2]), 0.15, 1e-6)
    (True, False)
    """
    contained = bounds[0] <= nu * (1 + tol) and nu * (1 - tol) <= bounds[1]
    return bool(contained and np.allclose(bounds, nu, rtol=2 * tol, atol=0))


def _constant(estimator: MarginClassifier, X: Array, scores: Array) -> bool:
    tolerance = max(NEGLIGIBLE_SCORE, estimator.tol)
    if np.ptp(scores) > tolerance:
        return False
    directions = np.random.default_rng(0).normal(size=(PROBES, X.shape[1]))
    try:
        around = estimator.decision_function(X.mean(axis=0) + np.sqrt((X**2).mean()) * directions)
    except InputError:
        # Kernels or gates may be defined on the samples only.
        return False
    return bool(np.ptp(np.append(scores, around)) <= tolerance)


def _quantile(scores: Array, weights: Array, share: float) -> float:
    """Return the largest score such that at most a given share of the weights belongs to smaller scores.

    >>> _quantile(np.array([3.0, 1.0, 2.0]), np.ones(3), 1 / 3)
    2.0
    """
    order = np.argsort(scores)
    below = np.cumsum(weights[order])
    first = np.searchsorted(below, share * below[-1] * (1 + ROUNDING), "right")
    return float(scores[order][min(first, len(order) - 1)])
