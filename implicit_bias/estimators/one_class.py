"""One class: what is unlike the samples lies on the side of the origin."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, MetaEstimatorMixin, OutlierMixin, clone
from sklearn.exceptions import ConvergenceWarning

from implicit_bias._utils.checks import Array, InputError, as_positive, shown
from implicit_bias._utils.validation import seed_of, validated
from implicit_bias.estimators.base import NOTHING, FitData, MarginClassifier, ModelMixin
from implicit_bias.estimators.kernels import MultipleKernelClassifier
from implicit_bias.margin.problem import MarginProblem
from implicit_bias.margin.solution import Status
from implicit_bias.solvers.path import zero_weights_up_to

#: Relative change of a score with the batches of the samples.
ROUNDING = 1e-9
#: Largest number of values of C that are tried.
ATTEMPTS = 60
#: Factor between two values of C while too many samples have slack.
STEP = 4.0
#: Largest C that is tried, relative to the first.
FURTHEST = 1e8
#: Norm up to which no weights may exist before the search ends with an inaccurate solver, relative to that of weights
#: that reach the margin in the mean.
FAR = 1e3


@dataclass(eq=False, repr=False)
class OneClassMargin(ModelMixin, OutlierMixin, MetaEstimatorMixin, BaseEstimator):
    """Outliers: the samples of one class, separated from the origin by the largest margin that a share ν may miss.

        minimise ‖W‖ + C Σ_i c_i ξ_i   subject to   f(x_i) = ⟨W, Φ(x_i)⟩ ≥ 1 − ξ_i,   ξ ≥ 0

    at the price C for which ν = Σ λ_i / (C Σ c_i), with the dual 0 ≤ λ_i ≤ C c_i. Samples with slack have λ_i = C c_i,
    and those that support the margin λ_i > 0, so that at most a share ν of the samples has slack, and at least a share
    ν supports it. This is the problem of scikit-learn's `OneClassSVM`, minimise ½‖W‖² − ρ + Σ c_i ξ_i / (ν Σ c_i)
    subject to ⟨W, Φ(x_i)⟩ ≥ ρ − ξ_i, with any norm, in units of ρ: divided by ρ, its solutions are those above. For
    it is to minimise ‖W‖ / (1 − S), S = Σ c_i ξ_i / (ν Σ c_i), whose least value t is the root C ν Σ c_i of the
    problem above, for which C is found by Newton's method.

    Parameters
    ----------
    estimator : MarginClassifier, optional
        Whose gates or kernels Φ are, and whose norm; MultipleKernelClassifier(["rbf"]) if not given: a Gaussian kernel
        of γ = 1/p, for standardised inputs. Its C, class weights and free intercept are not used. Gates that a network
        learns from labels are refused.
    nu : float
        ν, between 0 and 1.

    Attributes
    ----------
    estimator_ : MarginClassifier
        Fitted: its `decision_function` is f, its `gates_` or `kernels_` are Φ.
    certificate_ : Solution
        Certificate of the problem above at `C_`; `support_` are the samples with λ_i > 0.
    status_ : Status
    C_ : float
    nu_ : array, shape (2,)
        The ν of which this is the solution is proved to lie between these: the certificate's bounds over C Σ c_i.
    offset_ : float
        1, less what rounding and the gap make of it, so that at most a share ν of the training samples is below.
    n_features_in_ : int
        p.
    feature_names_in_ : array
        As in scikit-learn.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from implicit_bias import GLNClassifier, OneClassMargin
    >>> X, y = load_digits(return_X_y=True)
    >>> X /= (X**2).sum(axis=1, keepdims=True) ** 0.5
    >>> model = OneClassMargin(GLNClassifier(units=10, random_state=1), nu=0.1).fit(X[y == 0][:100])
    >>> model.status_.name, [round(float((model.predict(X[y == digit]) == 1).mean()), 1) for digit in (0, 1)]
    ('OPTIMAL', [0.8, 0.0])
    """

    estimator: MarginClassifier | None = None
    nu: float = field(default=0.1, kw_only=True)

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Find the margin of the samples X (n, p).

        Parameters
        ----------
        X : array, data frame or sparse matrix, shape (n, p)
        y : ignored
        sample_weight : array, shape (n,), optional
            c_i ≥ 0; zero leaves a sample out, two counts as two copies.

        Raises
        ------
        InputError
            If all samples are equal, if no weights are found whose mean slack Σ c_i ξ_i / Σ c_i is below ν (which is
            proved for all weights up to a norm that the text names), and for anything that the classifier refuses.

        Warns
        -----
        ConvergenceWarning
            If the certificate is worse than the classifier's `tol` asks, or ν is not met to it.
        UserWarning
            If all samples have the same score.
        """
        nu = as_positive(self.nu, "nu")
        if nu >= 1:
            raise InputError(f"nu must be a share between 0 and 1, not {nu:g}")
        given = MultipleKernelClassifier(["rbf"]) if self.estimator is None else self.estimator
        if not isinstance(given, MarginClassifier):
            raise InputError(f"estimator must be a classifier of margins such as GLNClassifier(), not {shown(given)}")
        samples = validated(self, X, reset=True, sparse=True)
        # Each price starts from the solution at the one before it.
        estimator = clone(given).set_params(warm_start=True, free_intercept=False, class_weight=None)
        validated(estimator, X, reset=True, sparse=True)
        data, problem = _fit_data(estimator, samples, sample_weight)
        self.C_, self.nu_ = _solved(estimator, data, problem, nu)
        self.estimator_, self.certificate_, self.status_ = estimator, estimator.certificate_, estimator.status_
        scores = estimator.as_model().decision_function(samples[data.rows])
        if np.ptp(scores) <= max(NOTHING, estimator.tol):
            warnings.warn(
                "all samples have the same score, which tells nothing: a constant alone keeps the margin; take a "
                "Gaussian kernel (the default) on standardised inputs, or fit_intercept=False",
                UserWarning,
                stacklevel=2,
            )
        self.offset_ = min(1.0, _quantile(scores, problem.sample_weight, nu)) - ROUNDING
        self._model = replace(estimator.as_model(), offset=self.offset_)
        if not np.allclose(self.nu_, nu, rtol=2 * estimator.tol, atol=0):
            warnings.warn(
                f"this is the solution of a nu between {self.nu_[0]:.7g} and {self.nu_[1]:.7g}, not proved to be that "
                f"of {nu:g}: {self.status_.value}",
                ConvergenceWarning,
                stacklevel=2,
            )
        return self

    def score_samples(self, X: Any) -> Array:
        """f(x) of each row of X (n, p): 1 on the margin, less for what is unlike the samples.

        Raises
        ------
        UnfittedError
            Before `fit`.
        InputError
            For inputs that do not fit those of `fit`.
        """
        return replace(self.as_model(), offset=0.0).decision_function(validated(self, X, reset=False, sparse=True))

    def decision_function(self, X: Any) -> Array:
        """f(x) − `offset_` of each row of X (n, p), not positive for outliers; errors as `score_samples`."""
        return super().decision_function(X)

    def predict(self, X: Any) -> np.ndarray:
        """−1 for each row of X (n, p) that is an outlier, else +1; errors as `score_samples`."""
        return super().predict(X)


def _fit_data(estimator: MarginClassifier, X: Array, sample_weight: Any) -> tuple[FitData, MarginProblem]:
    """The one-class problem of the samples X (n, p) on the features of a classifier."""
    rows, weight, price = estimator._weights(X, np.ones(len(X), dtype=int), sample_weight)
    if len(rows) < 2:
        raise InputError("the samples are all equal, or one with weight; a margin of one class needs two that differ")
    inputs, seed = estimator._inputs(X[rows]), seed_of(estimator.random_state)
    gates = estimator._shared(inputs, seed, weight)
    if gates is None:
        raise InputError("one class has no labels for a network to learn gates from; use random or given gates")
    # The formulations ask for two classes.
    signs = np.where(np.arange(len(rows)) > 0, 1.0, -1.0)
    problem = replace(estimator._problem(inputs, signs, gates, seed), y=signs**2, sample_weight=price)
    return FitData(rows, np.array([-1, 1]), np.ones(len(rows), dtype=int), iter(())), problem


def _solved(estimator: MarginClassifier, data: FitData, problem: MarginProblem, nu: float) -> tuple[float, Array]:
    """Fit at the price C of the share ν, the root of v(C) − CνΣc for the optimum v(C), which is concave.

    Newton's steps come from above after the first, which starts below: v(C) ≥ v(C₀) = C₀Σc for C ≥ C₀.
    """
    total = float(problem.sample_weight.sum())
    least = zero_weights_up_to(problem) / nu
    price = least
    for _ in range(ATTEMPTS):
        ((_, (solution,)),) = estimator._path([price], replace(data, problems=iter([problem])))
        shares = np.array([solution.lower_bound, solution.objective]) / (price * total)
        slack = float(problem.sample_weight @ np.maximum(1 - solution.margins, 0))
        room = nu * total - slack
        following = (solution.objective - price * slack) / room if room > 0 else STEP * price
        done = np.allclose(shares, nu, rtol=2 * estimator.tol, atol=0)
        # ‖W‖ + C Σ c_i ξ_i is at least the lower bound, for any weights.
        proved = solution.lower_bound - price * nu * total
        lost = solution.status is Status.INACCURATE and proved > FAR * nu * least * total
        if lost or following > FURTHEST * least:
            raise InputError(
                f"no weights of a norm up to {proved:.2g} have a mean slack below nu={nu:g}, which is proved: the "
                "samples lie around the origin, and nothing that is linear in their features parts them from it; take "
                "a Gaussian kernel (the default), gates that close, or a larger nu"
            )
        if done or solution.status is not Status.OPTIMAL or following == price:
            break
        price = following
    return price, shares


def _quantile(scores: Array, weights: Array, share: float) -> float:
    """The largest score below which there is no more than a share of the weights.

    >>> _quantile(np.array([3.0, 1.0, 2.0]), np.ones(3), 1 / 3)
    2.0
    """
    order = np.argsort(scores)
    below = np.cumsum(weights[order])
    first = np.searchsorted(below, share * below[-1] * (1 + ROUNDING), "right")
    return float(scores[order][min(first, len(order) - 1)])
