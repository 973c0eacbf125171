"""The price of slack by cross-validation, for any of the classifiers."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import check_scoring
from sklearn.model_selection import check_cv
from sklearn.utils.parallel import Parallel, delayed

from implicit_bias._utils.checks import CONVERSION_ERRORS, Array, InputError, as_count, as_reals, shown
from implicit_bias._utils.validation import as_weights, refusals, seed_of, validated
from implicit_bias.estimators.base import MarginClassifier, ModelMixin, check_processes
from implicit_bias.estimators.networks import GLNClassifier
from implicit_bias.solvers.path import zero_weights_up_to

#: The largest default price over the smallest at which there are weights.
RANGE = 1e4
#: Mean scores that differ by less than this share differ by rounding.
TIE = 1e-12
#: Seconds after which a terminal shows how far it is.
PATIENCE = 2.0


@dataclass(eq=False, repr=False)
class MarginClassifierCV(ModelMixin, ClassifierMixin, MetaEstimatorMixin, BaseEstimator):
    """One of the classifiers at the price of slack C that does best in cross-validation.

    Each fold makes gates, kernels and networks once for all prices, and follows the prices from the highest down, each
    solution from the one before it. A solution that is also certified at the next price is taken there as well.

    Parameters
    ----------
    estimator : MarginClassifier, optional
        Whose C is chosen: GLNClassifier(random_state=1) if not given. All folds take one seed.
    Cs : int or array of prices
        So many, in equal ratios up to 10⁴ C₀, with all weights zero below C₀ (to two digits); or these. `inf` is the
        hard margin.
    cv : int, splitter or iterable of splits, optional
        As in scikit-learn: the number of stratified folds, 5 if not given.
    scoring : str or function, optional
        As in scikit-learn; accuracy if not given. Scores are weighted if samples are.
    n_jobs : int, optional
        Processes that share the folds between them; −1 for one per core. The answer is the same.

    Attributes
    ----------
    C_ : float
        The price of best mean score; of equal ones the lowest.
    Cs_ : array, shape (prices,)
        In ascending order.
    scores_ : array, shape (folds, prices)
    gaps_ : array, shape (folds, prices)
        The largest certified gap of the classes' solutions.
    estimator_ : MarginClassifier
        Fitted to all samples at C_, with the certificates.
    classes_ : array
    n_features_in_ : int
        p.
    feature_names_in_ : array
        As in scikit-learn.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.preprocessing import StandardScaler
    >>> from implicit_bias import GLNClassifier, MarginClassifierCV
    >>> X, y = load_wine(return_X_y=True)
    >>> model = MarginClassifierCV(GLNClassifier(units=5, random_state=1), Cs=[0.001, 0.01, 0.1], cv=3)
    >>> model = model.fit(StandardScaler().fit_transform(X), y)
    >>> model.C_, model.scores_.shape, bool(model.gaps_.max() < 1e-6)
    (0.1, (3, 3), True)
    """

    estimator: MarginClassifier | None = None
    Cs: Any = 10
    cv: Any = field(default=None, kw_only=True)
    scoring: Any = field(default=None, kw_only=True)
    n_jobs: int | None = field(default=None, kw_only=True)

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Choose C by cross-validation, and fit all samples at it.

        Parameters, errors and warnings are those of the classifier's `fit`.

        Raises
        ------
        NotSeparableError
            If a hard margin is among the prices, and does not exist in a fold.
        InputError
            For prices, splits or a scoring that cannot be used, too.

        Warns
        -----
        ConvergenceWarning
            If certificates of folds are worse than the classifier's `tol` asks, too.
        """
        check_processes(self.n_jobs)
        given = GLNClassifier(random_state=1) if self.estimator is None else self.estimator
        if not isinstance(given, MarginClassifier):
            raise InputError(f"estimator must be a classifier of margins such as GLNClassifier(), not {shown(given)}")
        samples, labels = validated(self, X, y, reset=True, sparse=True)
        weight = None if sample_weight is None else as_weights(sample_weight, samples)
        estimator = clone(given)
        if hasattr(estimator, "random_state"):
            estimator.set_params(random_state=seed_of(given.random_state))
        with refusals():
            scorer = check_scoring(estimator, self.scoring)
            folds = list(check_cv(self.cv, labels, classifier=True).split(samples, labels))
        prices = self._prices(clone(estimator), samples, labels, weight)
        tasks = (
            delayed(_fold)(clone(estimator), prices[::-1], scorer, samples, labels, weight, *fold) for fold in folds
        )
        # Loaded here because only cross-validation needs it.
        from tqdm import tqdm

        bar = tqdm(tasks, "folds", len(folds), unit="fold", delay=PATIENCE, leave=False, disable=None)
        scores, gaps = np.array(Parallel(self.n_jobs)(bar)).transpose(1, 0, 2)[..., ::-1]
        if not np.isfinite(scores).all():
            raise InputError("scoring gave scores that are NaN or infinite; choose one that these folds allow")
        inaccurate = int((gaps > estimator.tol).sum())
        if inaccurate:
            warnings.warn(
                f"{inaccurate} of {gaps.size} fits in the folds have a gap above tol={estimator.tol:g}, up to "
                f"{gaps.max():.1e}; scale the inputs, or leave such prices out of Cs",
                ConvergenceWarning,
                stacklevel=2,
            )
        self.Cs_, self.scores_, self.gaps_ = prices, scores, gaps
        means = scores.mean(axis=0)
        self.C_ = float(prices[means >= means.max() - TIE * np.abs(means).max()][0])
        self.estimator_ = estimator.set_params(C=self.C_).fit(X, y, sample_weight)
        self.classes_, self._model = self.estimator_.classes_, self.estimator_.as_model()
        return self

    def _prices(self, estimator: MarginClassifier, X: Array, y: np.ndarray, weight: Array | None) -> Array:
        """The prices, ascending."""
        if np.ndim(self.Cs) == 0:
            count = as_count(self.Cs, "Cs")
            least = min(map(zero_weights_up_to, estimator._fit_data(X, y, weight).problems))
            return np.array([float(f"{price:.2g}") for price in least * np.geomspace(1, RANGE, count + 1)[1:]])
        try:
            prices = np.unique(as_reals(self.Cs))
        except CONVERSION_ERRORS:
            prices = np.empty(0)
        if np.ndim(self.Cs) != 1 or not len(prices) or not (prices > 0).all():
            raise InputError("Cs must be a number of prices of slack, or a list of positive ones, such as [0.01, 0.1]")
        return prices

    def decision_function(self, X: Any) -> Array:
        """The scores of `estimator_`: (n,) for two classes, else (n, classes); errors as there."""
        self.as_model()
        return self.estimator_.decision_function(X)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The score of `scoring` on X (n, p) and labels y (n,)."""
        weights = {} if sample_weight is None else {"sample_weight": sample_weight}
        with refusals():
            scorer = check_scoring(self, self.scoring)
            self.as_model()
            return float(scorer(self.estimator_, X, y, **weights))


def _fold(
    estimator: MarginClassifier,
    prices: Sequence[float],
    scorer: Any,
    X: Array,
    y: np.ndarray,
    weight: Array | None,
    train: np.ndarray,
    test: np.ndarray,
) -> tuple[list[float], list[float]]:
    """The scores on the samples `test` of fits to `train` at each price, and their largest gaps."""
    scores, gaps = [], []
    weights = {} if weight is None else {"sample_weight": weight[test]}
    data = estimator._fit_data(X[train], y[train], None if weight is None else weight[train])
    for _, solutions in estimator._path(prices, data):
        try:
            with refusals():
                scores.append(float(scorer(estimator, X[test], y[test], **weights)))
        except AttributeError as error:
            raise InputError(f"scoring needs what these classifiers do not have: {error}") from None
        gaps.append(max(solution.gap for solution in solutions))
    return scores, gaps
