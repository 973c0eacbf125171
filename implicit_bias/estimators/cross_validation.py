"""Choice of C by cross-validation, for any of the classifiers."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from joblib import effective_n_jobs
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import check_scoring
from sklearn.model_selection import check_cv
from sklearn.utils.parallel import Parallel, delayed

from implicit_bias._utils.checks import CONVERSION_ERRORS, Array, InputError, as_count, as_reals, dimensions, shown
from implicit_bias._utils.limits import Deadline
from implicit_bias._utils.validation import as_weights, refusals, seed_of, validated
from implicit_bias.estimators.base import MarginClassifier, ModelMixin, NotSeparableError, check_processes
from implicit_bias.estimators.networks import GLNClassifier
from implicit_bias.margin.solution import Status
from implicit_bias.solvers.path import path_values

#: Ratio of the largest default C to the C₀ up to which all weights are zero.
RATIO = 1e4
#: Relative difference up to which mean scores count as equal.
SCORE_TOL = 1e-12
#: Seconds before a progress bar appears.
BAR_DELAY = 2.0


@dataclass(eq=False, repr=False)
class MarginClassifierCV(ModelMixin, ClassifierMixin, MetaEstimatorMixin, BaseEstimator):
    """Classifier whose C is chosen by cross-validation.

    Each fold computes gates, kernels and networks once for all values of C. The fold solves for the values in
    descending order, each solve warm-started from the previous solution (`margin_path`).

    Parameters
    ----------
    estimator : MarginClassifier, optional
        The classifier whose C is chosen, by default GLNClassifier(random_state=1). All folds use the same seed.
    Cs : int or array
        Values of C; `inf` is the hard margin. An integer is the number of values in geometric progression up to 10⁴ C₀,
        rounded to two digits; up to C₀ all weights are zero.
    cv : int, splitter or iterable of splits, optional
        Splits as in scikit-learn; 5 stratified folds by default.
    scoring : str or function, optional
        Score as in scikit-learn; accuracy by default. The score uses sample weights if there are any.
    n_jobs : int, optional
        Number of processes for the folds; −1 for one per core. The number does not change the result.
    max_seconds : float, optional
        Time limit of the whole search and the last fit, which share the time left. The limit of the classifier, if it
        has one, is that of each fold, for all values of C together, and of the last fit.

    Attributes
    ----------
    C_ : float
        The C with the best mean score; the smallest of equally good values. If `max_seconds` ends the search before all
        folds have compared two values, it is the C of the classifier.
    Cs_ : array, shape (m,)
        The values of C in ascending order.
    scores_ : array, shape (folds, m)
        Scores on the held-out samples; NaN for fits that `max_seconds` ended, or left out.
    gaps_ : array, shape (folds, m)
        Largest certified gap over the solutions of all classes, for each fold and C; NaN as for the scores.
    estimator_ : MarginClassifier
        The classifier fitted to all samples at `C_`, with its certificates.
    classes_, n_features_in_, feature_names_in_
        As for `GLNClassifier`.

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
    max_seconds: float | None = field(default=None, kw_only=True)

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Self:
        """Choose C by cross-validation, then fit the classifier to all samples at this C.

        C is the smallest value whose mean score is the best up to rounding. Sample weights take part in the fits and
        the scores, not in the splits; `groups` (n,) are those of splitters such as GroupKFold. Other parameters, errors
        and warnings are those of the classifier's `fit`, and the following.

        Raises
        ------
        NotSeparableError
            If Cs contains a hard margin and a fold is not separable.
        InputError
            If Cs, the splits or the scoring are invalid.

        Warns
        -----
        ConvergenceWarning
            If a certified gap in a fold exceeds the classifier's `tol`, or `max_seconds` ended the search.
        """
        check_processes(self.n_jobs)
        deadline = Deadline(self.max_seconds)
        samples, labels = validated(self, X, y, reset=True, sparse=True)
        weight = None if sample_weight is None else as_weights(sample_weight, samples)
        estimator = self._seeded()
        with refusals():
            scorer = check_scoring(estimator, self.scoring)
            folds = list(check_cv(self.cv, labels, classifier=True).split(samples, labels, groups))
        costs = self._costs(clone(estimator), samples, labels, weight)
        workers = effective_n_jobs(self.n_jobs)

        def limited(parts: float) -> MarginClassifier:
            """Return the classifier with its limit, or with its part of the time left if this is shorter."""
            limits = Deadline(estimator.max_seconds).left(), deadline.left(min(workers / parts, 1.0))
            shortest = min((limit for limit in limits if limit is not None), default=None)
            return clone(estimator).set_params(max_seconds=shortest)

        results, common = list[Array](), (scorer, samples, labels, weight)
        tasks = (
            delayed(_scores_and_gaps)(f"fold {i} of {len(folds)}", limited(len(folds) + 2 - i), left, *common, *fold)
            for i, fold in enumerate(folds, 1)
            # The largest values, which all folds so far have finished.
            for left in [costs[::-1][: _finished(results, len(costs))]]
        )
        # Imported here because only cross-validation needs it.
        from tqdm import tqdm

        bar = tqdm(tasks, "folds", len(folds), unit="fold", delay=BAR_DELAY, leave=False, disable=None)
        for one in Parallel(self.n_jobs, return_as="list" if workers > 1 else "generator")(bar):
            results.append(one)
        self.Cs_, (self.scores_, self.gaps_) = costs, np.full((2, len(folds), len(costs)), np.nan)
        for scores, gaps, one in zip(self.scores_[:, ::-1], self.gaps_[:, ::-1], results, strict=True):
            scores[: one.shape[1]], gaps[: one.shape[1]] = one
        count, last = _finished(results, len(costs)), limited(workers)
        _warn(self.gaps_, estimator.tol, count)
        if count:
            means = self.scores_[:, -count:].mean(axis=0)
            best = costs[-count:][means >= means.max() - SCORE_TOL * np.abs(means).max()][0]
            last.set_params(C=float(best))
        self.estimator_ = last.fit(X, y, sample_weight)
        self.estimator_.set_params(max_seconds=estimator.max_seconds)
        self.C_ = self.estimator_.C_
        self.classes_, self._model = self.estimator_.classes_, self.estimator_.as_model()
        return self

    def _seeded(self) -> MarginClassifier:
        """Return a copy of the classifier with a seed that all folds share."""
        given = GLNClassifier(random_state=1) if self.estimator is None else self.estimator
        if not isinstance(given, MarginClassifier):
            raise InputError(f"estimator must be a max-margin classifier such as GLNClassifier(), not {shown(given)}")
        seed = {"random_state": seed_of(given.random_state)} if hasattr(given, "random_state") else {}
        return clone(given).set_params(**seed)

    def _costs(self, estimator: MarginClassifier, X: Array, y: np.ndarray, weight: Array | None) -> Array:
        if dimensions(self.Cs) == 0:
            return path_values(estimator._fit_data(X, y, weight).problems, as_count(self.Cs, "Cs"), RATIO)
        try:
            costs = np.unique(as_reals(self.Cs))
        except CONVERSION_ERRORS:
            costs = np.empty(0)
        if dimensions(self.Cs) != 1 or not len(costs) or not (costs > 0).all():
            raise InputError("Cs must be the number of values of C, or a list of positive values such as [0.01, 0.1]")
        return costs

    def decision_function(self, X: Any) -> Array:
        """Return the scores of `estimator_`, shape (n,) or (n, classes); errors as for its `decision_function`."""
        self.as_model()
        return self.estimator_.decision_function(X)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the `scoring` of `estimator_` on X (n, p) and labels y (n,), accuracy by default."""
        weights = {} if sample_weight is None else {"sample_weight": sample_weight}
        with refusals():
            scorer = check_scoring(self, self.scoring)
            self.as_model()
            return float(scorer(self.estimator_, X, y, **weights))


def _warn(gaps: Array, tol: float, count: int) -> None:
    """Warn of `gaps` (folds, values of C) above `tol`, and if all folds finished only `count` values."""
    inaccurate = int((gaps > tol).sum())
    if inaccurate:
        text = f"{inaccurate} of {gaps.size} fits in the folds have a gap above tol={tol:g}"
        remedy = "scale the inputs, or remove such values from Cs"
        warnings.warn(f"{text}, up to {np.nanmax(gaps):.1e}; {remedy}", ConvergenceWarning, stacklevel=3)
    if count < gaps.shape[1]:
        text = f"max_seconds ended the search: all folds finished {count} of {gaps.shape[1]} values of C"
        chosen = "the best of these" if count else "that of the classifier"
        remedy = "allow more time, or give fewer values"
        warnings.warn(f"{text}, and C is {chosen}; {remedy}", ConvergenceWarning, stacklevel=3)


def _finished(results: Sequence[Array], values: int) -> int:
    """Return how many of the `values` of C all folds so far have finished, or 0 if that is only one of several."""
    fewest = min((scores.shape[1] for scores in results), default=values)
    return fewest if fewest > 1 or fewest == values else 0


def _scores_and_gaps(
    fold: str,
    estimator: MarginClassifier,
    costs: Sequence[float],
    scorer: Any,
    X: Array,
    y: np.ndarray,
    weight: Array | None,
    train: np.ndarray,
    test: np.ndarray,
) -> Array:
    """Fit the samples `train` at each C of `costs` in the time limit; return the scores on the samples `test` and the
    largest gaps, shape (2, finished)."""
    scores, gaps, deadline = [], [], Deadline(estimator.max_seconds)
    if not len(costs):
        return np.empty((2, 0))
    weights = {} if weight is None else {"sample_weight": weight[test]}
    classes = np.unique(y[train] if weight is None else y[train][weight[train] > 0])
    if len(classes) == 1:
        raise InputError(f"{fold} is trained on one class only ({classes[0]}); shuffle or stratify the folds")
    try:
        data = estimator._fit_data(X[train], y[train], None if weight is None else weight[train])
        for _, solutions in estimator._path(costs, data, deadline):
            if any(solution.status is Status.TIME_LIMIT for solution in solutions):
                break
            try:
                with refusals():
                    scores.append(float(scorer(estimator, X[test], y[test], **weights)))
            except AttributeError as error:
                raise InputError(f"these classifiers do not support this scoring: {error}; choose another") from None
            if not np.isfinite(scores[-1]):
                text = "scoring returned NaN or infinity"
                raise InputError(f"{text}; choose a score that is defined on all folds, or shuffle or stratify them")
            gaps.append(max(solution.gap for solution in solutions))
    except NotSeparableError as error:
        raise NotSeparableError(f"{fold}: {error}", error.certificate) from None
    except InputError as error:
        raise InputError(f"{fold}: {error}") from None
    return np.array([scores, gaps])
