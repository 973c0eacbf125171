"""scikit-learn estimators of a GaLU layer with fixed gates, solved in closed form by least squares."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn import base

from implicit_bias._utils import checks
from implicit_bias._utils.checks import Array, InputError
from implicit_bias._utils.floats import APART, out_of_scale
from implicit_bias._utils.limits import check_memory
from implicit_bias._utils.missing import torch_is_needed
from implicit_bias._utils.validation import UnfittedError, as_weights, seed_of, unequal, validated, with_class_weights
from implicit_bias.datasets.labels import columns_of, ranges_of
from implicit_bias.datasets.task import with_constant
from implicit_bias.extensions.galu.closed_form import LeastSquares, least_squares
from implicit_bias.extensions.galu.filters import FilterSearch, filter_gates, improve_filters, row_factors, sharpness_of
from implicit_bias.extensions.galu.model import LeastSquaresModel
from implicit_bias.features import GatedFeatures
from implicit_bias.gates import Gates, ReLUGates, SoftGates

if TYPE_CHECKING:
    from implicit_bias.extensions.galu.networks import GaLUNetwork


def _moved(weights: Array, by: Array) -> Array:
    """Return weights (…, d) of inputs (x, 1) as weights of (x − by, 1) with the same products; `by` may be zero."""
    if not by.any():
        return weights
    moved = weights.copy()
    moved[..., -1] += weights[..., :-1] @ by
    return moved


@dataclass(frozen=True, eq=False)
class _FittedLayer:
    """Fitted gates, their values (n, k), and inputs (n, d): X minus `centre`, with a constant; X without intercept."""

    gates: Gates
    values: Array
    inputs: Array
    centre: Array


@dataclass(eq=False, repr=False)
class _GatedInputs(base.BaseEstimator):
    """Shared base: from inputs to gate values and centred inputs."""

    units: int = 100
    gates: str | Gates = field(default="random", kw_only=True)
    sharpness: float | None = field(default=None, kw_only=True)
    fit_intercept: bool = field(default=True, kw_only=True)
    random_state: Any = field(default=None, kw_only=True)

    def _layer(self, X: Array, weight: Array | None) -> _FittedLayer:
        """Return gates fitted to X (n, p), and the inputs: X minus its mean and a constant, or X without intercept."""
        checks.as_flag(self.fit_intercept, "fit_intercept")
        # Differences are formed first, because the mean of inputs far from 0 would have their rounding error.
        origin = X[0] if self.fit_intercept else np.zeros(X.shape[1])
        offset = np.average(X - origin, axis=0, weights=weight) if self.fit_intercept else origin
        centred = X - origin - offset
        if apart := out_of_scale(centred):
            big, small = (getattr(self, "feature_names_in_", range(X.shape[1]))[column] for column in apart)
            warnings.warn(
                f"input {big!r} is at least {APART} times as large as input {small!r}, so that gates and ridge nearly "
                "ignore the smaller one; standardise the inputs (StandardScaler in a pipeline)",
                UserWarning,
                stacklevel=4,
            )
        given, inputs = (with_constant(X), with_constant(centred)) if self.fit_intercept else (X, X)
        centre, seed = origin + offset, seed_of(self.random_state)
        units = checks.as_count(self.units, "units", most=2**31 - 1)
        sharpness = None if self.sharpness is None else checks.as_positive(self.sharpness, "sharpness")
        if isinstance(self.gates, Gates):
            gates = self.gates.fitted(given, weight)
            if gates(given[:1]).d != given.shape[1]:
                raise InputError(f"{type(gates).__name__} multiply some inputs only; use svm_gln or least_squares")
            return _FittedLayer(gates, gates.transform(given), inputs, centre)
        checks.one_of(self.gates, ("random",), "gates")
        checks.check_size(units * max(inputs.shape), "the filters and their gates")
        filters = np.random.default_rng(seed).normal(size=(units, inputs.shape[1]))
        # Values of the centred inputs, because those of the given ones have a larger rounding error.
        values = filter_gates(filters, sharpness).transform(inputs)
        return _FittedLayer(filter_gates(_moved(filters, -centre), sharpness), values, inputs, centre)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


@dataclass(eq=False, repr=False)
class GaLUFeatures(base.ClassNamePrefixFeaturesOutMixin, base.TransformerMixin, _GatedInputs):
    """Transformer from inputs x to gated linear features Φ(x) = g(x) ⊗ x as dense columns, for any linear model.

    The columns are ordered by gate. They are those of a `GaLURegressor` with the same parameters, which solves its
    problem without forming them.

    Parameters
    ----------
    units, gates, sharpness, fit_intercept, random_state
        As for `GaLURegressor`; with `fit_intercept`, x are the inputs minus their mean, with the constant 1 appended.

    Attributes
    ----------
    gates_ : Gates, fitted
    centre_ : array, shape (p,)
        Subtracted from the inputs; zeros without `fit_intercept`.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.linear_model import LassoCV
    >>> from sklearn.pipeline import make_pipeline
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = make_pipeline(GaLUFeatures(units=5, random_state=1), LassoCV(random_state=1)).fit(X, y)
    >>> model[0].transform(X).shape, model.score(X, y) > 0.5
    ((442, 55), True)
    """

    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit gates and centre to X (n, p), dense or sparse; y is ignored. Errors are those of `GaLURegressor.fit`."""
        return self._fit(validated(self, X, reset=True, sparse=True))

    def _fit(self, X: Array) -> Self:
        layer = self._layer(X, None)
        self.gates_, self.centre_ = layer.gates, layer.centre
        self._n_features_out = layer.values.shape[1] * layer.inputs.shape[1]
        return self

    def transform(self, X: Any) -> Array:
        """Return Φ (m, k·d) of X (m, p).

        Raises
        ------
        UnfittedError
            Before `fit`.
        InputError
            If X does not fit the inputs of `fit`, or Φ would not fit in memory.
        """
        if not hasattr(self, "gates_"):
            raise UnfittedError("this GaLUFeatures is not fitted; call fit(X) first")
        X = validated(self, X, reset=False, sparse=True)
        check_memory(8.0 * len(X) * self._n_features_out, "these features", "use fewer units, or GaLURegressor")
        given, inputs = X, X - self.centre_
        if self.fit_intercept:
            given, inputs = with_constant(X), with_constant(inputs)
        return GatedFeatures(inputs, self.gates_.transform(given)).dense()


@dataclass(eq=False, repr=False)
class _GatedLeastSquares(_GatedInputs):
    """Shared base: fit, predict and conversions; subclasses choose the ridge and the gates in `_solved`."""

    def _fit(self, X: Array, Y: Array, weight: Array, classes: np.ndarray | None = None) -> Self:
        # The sum of larger targets could overflow.
        checks.check_range(np.abs(Y).max(keepdims=True).ravel(), "the targets y", 0.0, 1e100)
        used = weight > 0
        X, Y, shares = X[used], Y[used], unequal(weight[used])
        layer = self._layer(X, shares)
        constant = bool(self.fit_intercept)
        mean = np.average(Y, axis=0, weights=shares) if constant else np.zeros(Y.shape[1:])
        gates, solution = self._solved(layer, Y - mean, shares)
        solution = replace(solution, weights=_moved(solution.weights, -layer.centre))
        about: dict[str, Any] = {"constant": constant, "columns": columns_of(self), "ranges": ranges_of(X)}
        self._model = LeastSquaresModel(gates, solution, mean, classes=classes, **about)
        self.gates_, self.solution_ = gates, solution
        self.weights_, self.intercept_ = solution.weights, mean
        return self

    @abstractmethod
    def _solved(self, layer: _FittedLayer, Y: Array, weight: Array | None) -> tuple[Gates, LeastSquares]:
        """Return gates and W for centred inputs and targets (n,) or (n, q); `weight` (n,) is None for equal ones."""

    def predict(self, X: Any) -> np.ndarray:
        """Predict the target or the class of each row of X (n, p).

        Raises
        ------
        UnfittedError
            Before `fit`.
        InputError
            If X does not fit the inputs of `fit`.
        """
        return self.as_model().predict(validated(self, X, reset=False, sparse=True))

    def as_model(self) -> LeastSquaresModel:
        """Return the fitted predictor without samples, which `save_model` writes; raise UnfittedError before `fit`."""
        if not self.__sklearn_is_fitted__():
            raise UnfittedError(f"this {type(self).__name__} is not fitted; call fit(X, y) first")
        return self._model

    def network(self) -> GaLUNetwork:
        """Return the same function as a `GaLUNetwork` in float64, to save, train or extend.

        With `fit_intercept`, the network's last input is the constant 1; its last units are always open and represent
        the intercept.

        Raises
        ------
        UnfittedError
            Before `fit`.
        InputError
            If the gates are neither ReLUGates nor SoftGates.
        """
        with torch_is_needed("network()"):
            from implicit_bias.extensions.galu.networks import GaLUNetwork

        model = self.as_model()
        gates, W = model.gates, model.solution.weights
        if not model.constant or not isinstance(gates, ReLUGates | SoftGates):
            return GaLUNetwork.from_weights(gates, W)
        # A filter that reads only the constant has the same gate value for all samples: 1, or σ(s) if soft.
        constant = np.eye(1, W.shape[-1], W.shape[-1] - 1)
        filters = np.vstack([gates.directions_, constant])
        extended = filter_gates(filters, sharpness_of(gates))
        intercepts = np.multiply.outer(model.intercept / extended.transform(constant)[0, -1], constant)
        return GaLUNetwork.from_weights(extended, np.concatenate([W, intercepts], axis=-2))

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_model")


def _weighted(layer: _FittedLayer, Y: Array, weight: Array | None) -> tuple[GatedFeatures, Array]:
    """Return inputs and targets of sample i times √(n c_i/Σc): least squares on them is the weighted problem."""
    root = row_factors(weight, len(Y))
    return GatedFeatures(root * layer.inputs, layer.values), Y * (root if Y.ndim == 2 else root[:, 0])


@dataclass(eq=False, repr=False)
class _OneRidge(_GatedLeastSquares):
    """Shared base of the estimators with a given ridge and with Algorithm 1, whose result is `search_`."""

    ridge: float = 1.0
    steps: int = field(default=0, kw_only=True)

    def _solved(self, layer: _FittedLayer, Y: Array, weight: Array | None) -> tuple[Gates, LeastSquares]:
        steps, gates = checks.as_count(self.steps, "steps", least=0), layer.gates
        self.search_: FilterSearch | None = None
        if not steps:
            return gates, least_squares(*_weighted(layer, Y, weight), ridge=self.ridge)
        if not isinstance(gates, ReLUGates | SoftGates):
            raise InputError(f"Algorithm 1 replaces filters, but {type(gates).__name__} have none; use steps=0")
        search = improve_filters(
            layer.inputs,
            Y,
            directions=_moved(gates.directions_, layer.centre),
            sharpness=sharpness_of(gates),
            steps=steps,
            ridge=self.ridge,
            sample_weight=weight,
            seed=seed_of(self.random_state),
        )
        if search.interrupted:
            raise KeyboardInterrupt
        self.search_ = search
        return filter_gates(_moved(search.directions, -layer.centre), search.sharpness), search.solution


@dataclass(eq=False, repr=False)
class GaLURegressor(base.MultiOutputMixin, base.RegressorMixin, _OneRidge):
    """Layer of gated linear units with fixed gates, fitted in closed form: least squares on Φ(x) = g(x) ⊗ x.

        minimise (1/Σc) Σ_i c_i ‖(ΦW)_i + b − y_i‖² + ρ‖W‖²,   b the weighted mean of the targets

    With `fit_intercept`, x are the inputs minus their weighted mean x̄, with the constant 1 appended. As in
    scikit-learn's `Ridge`, adding a constant to the inputs changes no prediction; their scale matters.

    Source: Fiat, Malach & Shalev-Shwartz, first version, sections 4 and 4.1 (closed form) and 4.1.1 (Algorithm 1). The
    ridge and the intercept are ours.

    Parameters
    ----------
    units : int
        k; ignored if `gates` are given.
    ridge : float
        ρ ≥ 0. With 0, W has the least norm among all minimisers of the loss.
    gates : 'random' or Gates
        'random' draws filters of x from N(0, I). Custom gates read the inputs as given, not centred, and the constant
        (`fit_intercept`); unfitted gates are fitted on a copy. `ReLUGates(U)` and `SoftGates(U, s)` take filters.
    sharpness : float, optional
        s of random soft gates σ(s⟨u, x⟩); hard gates 1(⟨u, x⟩ ≥ 0) by default.
    steps : int
        Number of steps of Algorithm 1, which replaces filters by better ones (`improve_filters`). The algorithm starts
        from `gates`, which must have filters. Several targets share the filters.
    fit_intercept : bool
        Subtract x̄, append the constant input 1, which gives every unit a penalised bias and every filter a threshold,
        and subtract the targets' mean, which is not penalised. Without it, filters have no threshold.
    random_state : int, RandomState or None
        An int is the seed of the filters and of Algorithm 1.

    Attributes
    ----------
    solution_ : LeastSquares
        Solution for the targets minus b, with rank, condition number, ‖W‖ and a bound on the suboptimality. Its
        `weights` are `weights_`.
    search_ : FilterSearch or None
        Result of Algorithm 1, for the centred inputs, if `steps` > 0.
    weights_ : array, shape (k, d), or (q, k, d) for targets (n, q)
        Weights of the inputs as given; d = p + 1 with `fit_intercept`, the constant input last. They are W with biases
        lower by ⟨w_h, x̄⟩, so that f(x) = Σ_h g_h(x) ⟨weights_h, (x, 1)⟩ + b.
    intercept_ : float, or array, shape (q,)
        b; 0 without `fit_intercept`.
    gates_ : Gates, fitted
        Gates of the inputs as given.
    n_features_in_ : int
        The number p of inputs.
    feature_names_in_ : array
        As in scikit-learn.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.model_selection import cross_val_score
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> model = make_pipeline(StandardScaler(), GaLURegressor(random_state=1))
    >>> bool(cross_val_score(model, *load_diabetes(return_X_y=True)).mean() > 0.45)
    True
    """

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the targets y (n,) or (n, q) of X (n, p).

        Parameters
        ----------
        X : array, data frame or sparse matrix, shape (n, p)
            A sparse matrix is converted to a dense array.
        y : array, shape (n,) or (n, q)
        sample_weight : array, shape (n,), optional
            c ≥ 0. Weight 0 omits a sample; weight 2 equals two copies of it.

        Raises
        ------
        InputError
            If arrays, weights or parameters are invalid, or the gates are closed for every sample.

        Warns
        -----
        UserWarning
            If inputs differ in scale by a factor of 100 or more.
        """
        return self._fit(*_regression(self, X, y, sample_weight))


def _regression(estimator: base.BaseEstimator, X: Any, y: Any, sample_weight: Any) -> tuple[Array, Array, Array]:
    X, y = validated(estimator, X, y, reset=True, sparse=True, multi_output=True, y_numeric=True)
    return X, y, as_weights(sample_weight, X)


@dataclass(eq=False, repr=False)
class GaLURegressorCV(base.MultiOutputMixin, base.RegressorMixin, _GatedLeastSquares):
    """`GaLURegressor` whose ridge is chosen by leave-one-out errors or generalised cross-validation.

    One eigendecomposition serves all ridges and scores (`RidgePath`). The scores take the gates, x̄ and b as given, and
    hold nρ fixed when a sample is left out.

    Parameters
    ----------
    units, gates, sharpness, fit_intercept, random_state
        As for `GaLURegressor`.
    ridges : array
        Values of ρ ≥ 0.
    criterion : 'leave-one-out' or 'gcv'

    Attributes
    ----------
    ridge_ : float
        ρ of the best score; the largest of equally good values.
    scores_ : array, shape (m,)
        −(1/Σc) Σ_i c_i e_i² of the leave-one-out errors e, averaged over targets, or minus the scores of generalised
        cross-validation; higher is better.
    gaps_ : array, shape (m,)
        Certified gap of the solution for each ridge.
    solution_, weights_, intercept_, gates_, n_features_in_, feature_names_in_
        As for `GaLURegressor`, for `ridge_`.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.preprocessing import StandardScaler
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = GaLURegressorCV(ridges=[0.01, 0.1, 1.0, 10.0], random_state=1).fit(StandardScaler().fit_transform(X), y)
    >>> model.ridge_, model.scores_.round().tolist(), bool(model.gaps_.max() < 1e-9)
    (1.0, [-5223.0, -3402.0, -2966.0, -3011.0], True)
    """

    ridges: Any = (0.001, 0.01, 0.1, 1.0, 10.0, 100.0)
    criterion: str = field(default="leave-one-out", kw_only=True)

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Choose the ridge and fit; parameters, errors and warnings as for `GaLURegressor.fit`."""
        return self._fit(*_regression(self, X, y, sample_weight))

    def _solved(self, layer: _FittedLayer, Y: Array, weight: Array | None) -> tuple[Gates, LeastSquares]:
        criterion = checks.one_of(self.criterion, ("leave-one-out", "gcv"), "criterion")
        path = least_squares(*_weighted(layer, Y, weight), ridge=checks.as_floats(self.ridges, "ridges", 1))
        errors = path.leave_one_out.reshape(len(path.ridges), -1)
        scores = np.mean(errors**2, axis=1) if criterion == "leave-one-out" else path.gcv / (Y.size / len(Y))
        best = max(np.flatnonzero(scores == scores.min()), key=path.ridges.__getitem__)
        self.ridge_, self.scores_ = float(path.ridges[best]), -scores
        self.gaps_ = np.array([solution.gap for solution in path.solutions])
        return layer.gates, path.solutions[best]


@dataclass(eq=False, repr=False)
class GaLUClassifier(base.ClassifierMixin, _OneRidge):
    """Layer of gated linear units with fixed gates, fitted in closed form to ±1: least squares on Φ(x) = g(x) ⊗ x.

    Two classes are one target, −1 or +1. More classes are one target each, one against the rest, with shared gates; the
    largest score decides.

    Parameters
    ----------
    units, ridge, gates, sharpness, steps, fit_intercept, random_state
        As for `GaLURegressor`.
    class_weight : dict, 'balanced' or None
        Positive factors of the sample weights, one per class, as in scikit-learn. 'balanced' takes sample weights into
        account.

    Attributes
    ----------
    classes_ : array
    solution_, search_, weights_, intercept_, gates_, n_features_in_, feature_names_in_
        As for `GaLURegressor`, with targets ±1; q is the number of classes if there are more than two.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = GaLUClassifier(units=30, ridge=0.01, random_state=1).fit(X, y)
    >>> model.score(X, y) > 0.95, model.decision_function(X).shape
    (True, (150, 3))
    """

    class_weight: Any = field(default=None, kw_only=True)

    @property
    def predict_proba(self) -> Any:
        """Raise AttributeError, because scores of least squares are not probabilities."""
        raise AttributeError(
            "GaLUClassifier has scores, which are not probabilities; CalibratedClassifierCV(GaLUClassifier(…)) of "
            "sklearn.calibration has predict_proba"
        )

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit labels y (n,) of at least two classes; parameters and errors as for `GaLURegressor.fit`."""
        X, y = validated(self, X, y, reset=True, sparse=True)
        weight = as_weights(sample_weight, X)
        X, y, weight = X[weight > 0], y[weight > 0], weight[weight > 0]
        weight = with_class_weights(weight, self.class_weight, y)
        classes, codes = np.unique(y, return_inverse=True)
        if len(classes) < 2:
            raise InputError(f"y contains only one class ({classes[0]}); give samples of at least two classes")
        signs = 2.0 * (codes[:, None] == np.arange(len(classes))) - 1.0
        self.classes_ = classes
        return self._fit(X, signs if len(classes) > 2 else signs[:, 1], weight, classes)

    def decision_function(self, X: Any) -> Array:
        """Return scores of X (n, p): shape (n,) for two classes, positive for `classes_[1]`, else (n, classes).

        Errors as for `predict`.
        """
        return self.as_model().decision_function(validated(self, X, reset=False, sparse=True))
