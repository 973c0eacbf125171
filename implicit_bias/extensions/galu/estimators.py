"""scikit-learn estimators of a GaLU layer with fixed gates, solved in closed form by least squares."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, MultiOutputMixin, RegressorMixin
from sklearn.utils.multiclass import check_classification_targets

from implicit_bias._utils.checks import (
    Array,
    InputError,
    as_count,
    as_positive,
    check_range,
    check_size,
    one_of,
    shown,
)
from implicit_bias._utils.missing import torch_is_needed
from implicit_bias._utils.validation import (
    UnfittedError,
    as_weights,
    refusals,
    seed_of,
    unequal,
    validated,
    with_class_weights,
)
from implicit_bias.datasets.labels import columns_of, ranges_of
from implicit_bias.datasets.task import with_constant
from implicit_bias.extensions.galu.closed_form import least_squares
from implicit_bias.extensions.galu.filters import (
    FilterSearch,
    filter_gates,
    improve_filters,
    root_weights,
    sharpness_of,
)
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


@dataclass(eq=False, repr=False)
class _GatedLeastSquares(BaseEstimator):
    """Shared base: gates, closed form and scores."""

    units: int = 100
    ridge: float = 1.0
    gates: str | Gates = field(default="random", kw_only=True)
    sharpness: float | None = field(default=None, kw_only=True)
    steps: int = field(default=0, kw_only=True)
    fit_intercept: bool = field(default=True, kw_only=True)
    random_state: Any = field(default=None, kw_only=True)

    def _fit(self, X: Array, Y: Array, weight: Array, classes: np.ndarray | None = None) -> Self:
        """Fit targets Y (n,) or (n, q) of inputs X (n, p) with sample weights c (n,), some of which may be 0."""
        if not isinstance(self.fit_intercept, bool | np.bool_):
            raise InputError(f"fit_intercept must be True or False, not {shown(self.fit_intercept)}")
        # The sum of larger targets could overflow.
        check_range(np.abs(Y).max(keepdims=True).ravel(), "the targets y", 0.0, 1e100)
        used = weight > 0
        X, Y, shares = X[used], Y[used], unequal(weight[used])
        constant = bool(self.fit_intercept)
        # Differences are formed first, because the mean of inputs far from 0 would have their rounding error.
        origin = X[0] if constant else np.zeros(X.shape[1])
        offset = np.average(X - origin, axis=0, weights=shares) if constant else origin
        centre = origin + offset
        mean = np.average(Y, axis=0, weights=shares) if constant else np.zeros(Y.shape[1:])
        given = with_constant(X) if constant else X
        inputs = with_constant(X - origin - offset) if constant else X
        gates, values, search = self._layer(given, inputs, Y - mean, shares, centre)
        if search is None:
            root = root_weights(shares, len(inputs))
            targets = (Y - mean) * (root if Y.ndim == 2 else root[:, 0])
            solution = least_squares(GatedFeatures(root * inputs, values), targets, ridge=self.ridge)
        else:
            solution = search.solution
        solution = replace(solution, weights=_moved(solution.weights, -centre))
        about: dict[str, Any] = {"constant": constant, "columns": columns_of(self), "ranges": ranges_of(X)}
        self._model = LeastSquaresModel(gates, solution, mean, classes=classes, **about)
        self.gates_, self.search_, self.solution_ = gates, search, solution
        self.weights_, self.intercept_ = solution.weights, mean
        return self

    def _layer(
        self, given: Array, inputs: Array, Y: Array, weight: Array | None, centre: Array
    ) -> tuple[Gates, Array, FilterSearch | None]:
        """Return fitted gates, the values (n, k) of the gates before the search, and the search; None if `steps` = 0.

        The gates are those of `given` (n, d). Random filters and the search use `inputs` (n, d), from which `centre` is
        subtracted. With `fit_intercept`, both include the constant input, and `centre` and the mean subtracted from Y
        are weighted means; otherwise they are 0. `weight` (n,) is None if all weights are equal.
        """
        units, steps = as_count(self.units, "units"), as_count(self.steps, "steps", least=0)
        sharpness = None if self.sharpness is None else as_positive(self.sharpness, "sharpness")
        seed = seed_of(self.random_state)
        if isinstance(self.gates, Gates):
            gates = self.gates.fitted(given, weight)
            values = gates.transform(given)
        else:
            one_of(self.gates, ("random",), "gates")
            check_size(units * max(inputs.shape), "the filters and their gates")
            filters = np.random.default_rng(seed).normal(size=(units, inputs.shape[1]))
            # Values of the centred inputs, because those of the given ones have a larger rounding error.
            values = filter_gates(filters, sharpness).transform(inputs)
            gates = filter_gates(_moved(filters, -centre), sharpness)
        if not steps:
            return gates, values, None
        if not isinstance(gates, ReLUGates | SoftGates):
            raise InputError(f"Algorithm 1 replaces filters, but {type(gates).__name__} have none; use steps=0")
        search = improve_filters(
            inputs,
            Y,
            directions=_moved(gates.directions_, centre),
            sharpness=sharpness_of(gates),
            steps=steps,
            ridge=self.ridge,
            sample_weight=weight,
            seed=seed,
        )
        if search.interrupted:
            raise KeyboardInterrupt
        return filter_gates(_moved(search.directions, -centre), search.sharpness), values, search

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

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_model")


@dataclass(eq=False, repr=False)
class GaLURegressor(MultiOutputMixin, RegressorMixin, _GatedLeastSquares):
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
        p.
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
        """
        X, y = validated(self, X, y, reset=True, sparse=True, multi_output=True, y_numeric=True)
        with refusals():
            targets = y.astype(np.float64)
        return self._fit(X, targets, as_weights(sample_weight, X))


@dataclass(eq=False, repr=False)
class GaLUClassifier(ClassifierMixin, _GatedLeastSquares):
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

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit labels y (n,) of at least two classes; parameters and errors as for `GaLURegressor.fit`."""
        X, y = validated(self, X, y, reset=True, sparse=True)
        weight = as_weights(sample_weight, X)
        X, y, weight = X[weight > 0], y[weight > 0], weight[weight > 0]
        with refusals():
            check_classification_targets(y)
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
