"""Gates defined by a function, a network, weights, or products of other gates."""

from collections.abc import Callable
from typing import Any, Self

import numpy as np
from scipy.special import expit

from implicit_bias._utils.checks import Array, InputError, as_count, as_floats, as_positive, check_size, shown
from implicit_bias.features import GatedFeatures
from implicit_bias.gates.base import ConstantGate, ContextGates, Gates


def _evaluated(function: Any, X: Array, what: str, columns: int | None = None) -> Array:
    if not callable(function):
        raise InputError(f"function must be callable, not {type(function).__name__}")
    values = as_floats(function(X), f"the values of the {what}' function", 2)
    if len(values) != len(X):
        raise InputError(f"the {what}' function gave {len(values)} rows for {len(X)} inputs; give one per sample")
    if values.shape[1] != (columns or values.shape[1]):
        text = f"the {what}' function returned {columns} columns in fit, but now returns {values.shape[1]}"
        raise InputError(f"{text}; return as many for all X")
    return values


class FunctionGates(Gates):
    """User-defined gates: g(X) = function(X), any real numbers.

    Parameters
    ----------
    function : callable
        Maps inputs X (n, d) to gate values (n, k). The gates of a sample must not depend on the other samples.
    grouping : array of int, shape (k,), optional
        The unit of each gate, which `fit` copies to `groups`; by default each gate has its own unit.

    Raises
    ------
    InputError
        If `function` is not callable, or its values are not numbers of shape (n, k) with k as in `fit` and `grouping`.

    Examples
    --------
    >>> from implicit_bias import FunctionGates, solve, svm_gln
    >>> gates = FunctionGates(lambda X: np.hstack([X[:, :1] > 0, X[:, :1] <= 0]), grouping=[0, 0])
    >>> X = [[-2.0, 1.0], [-1.0, 1.0], [1.0, 1.0], [2.0, 1.0]]
    >>> round(solve(svm_gln(X, [1, -1, -1, 1], gates)).objective, 6)
    5.09902
    """

    learned = ("n_features_in_", "k_")

    def __init__(self, function: Callable[[Array], Any], grouping: Any = None) -> None:
        self.function, self.grouping = function, grouping

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        X, _ = self._first_inputs(X, sample_weight)
        k = _evaluated(self.function, X, "gates").shape[1]
        groups = np.arange(k) if self.grouping is None else as_floats(self.grouping, "grouping", 1)
        if len(groups) != k or (groups % 1).any():
            raise InputError(f"grouping must contain {k} integers, one per gate, not {shown(self.grouping)}")
        self.k_, self.groups = k, groups.astype(np.int64)
        return self

    def transform(self, X: Any) -> Array:
        return _evaluated(self.function, self._fitted_inputs(X), "gates", self.k_)


class FunctionContexts(ContextGates):
    """User-defined contexts: c(X) = function(X).

    Parameters
    ----------
    function : callable
        Maps inputs X (n, d) to contexts (n, H), integers from 0 to K − 1. The contexts of a sample must not depend on
        the other samples.
    contexts : int
        K ≥ 1. SVM-L2 and networks use all K contexts, even if some contain no samples.

    Attributes
    ----------
    units : int
        H, the number of columns that `function` returns.

    Raises
    ------
    InputError
        If the values are not such contexts, or their number of columns differs from that in `fit`.

    Examples
    --------
    >>> from implicit_bias.gates import FunctionContexts
    >>> from implicit_bias import load_binary, svm_l2
    >>> task = load_binary("digits", train_size=60)
    >>> thirds = FunctionContexts(lambda X: np.digitize(X[:, 20:25], [-0.5, 0.5]), contexts=3)
    >>> svm_l2(task.X_train, task.y_train, thirds).norm
    PredictorL2(units=5, contexts=3)
    """

    learned = ("n_features_in_", "units")

    def __init__(self, function: Callable[[Array], Any], contexts: int) -> None:
        self.function, self.contexts = function, contexts

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        as_count(self.contexts, "contexts")
        X, _ = self._first_inputs(X, sample_weight)
        self.units = self._values(X).shape[1]
        return self

    def contexts_of(self, X: Any) -> np.ndarray:
        return self._values(self._fitted_inputs(X), self.units)

    def _values(self, X: Array, units: int | None = None) -> np.ndarray:
        values = _evaluated(self.function, X, "contexts", units)
        wrong = values[(values % 1 != 0) | (values < 0) | (values >= self.contexts)]
        if wrong.size:
            raise InputError(f"contexts must be integers from 0 to {self.contexts - 1}, not {shown(float(wrong[0]))}")
        return values.astype(np.int64)


class HiddenActivations(ConstantGate):
    """Hidden activations of a trained network as the features of SVM-HL: Φ(x) = h(x).

    Parameters
    ----------
    network : object
        Has a method `hidden` from X (n, d) to activations (n, H).

    Examples
    --------
    >>> from implicit_bias.gates import HiddenActivations
    >>> from implicit_bias import ReLUNetwork
    >>> HiddenActivations(ReLUNetwork(inputs=3, units=5)).fit([[1.0, 2.0, 1.0]])([[0.0, 1.0, 1.0]]).d
    5
    """

    made_of = ("network",)

    def __init__(self, network: Any) -> None:
        self.network = network

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        if not callable(getattr(self.network, "hidden", None)):
            raise InputError(f"SVM-HL needs a network with hidden(X), not {type(self.network).__name__}")
        return super().fit(X, y, sample_weight)

    def __call__(self, X: Any) -> Any:
        """Return the activations of inputs X as features, with d = H and k = 1."""
        return GatedFeatures(self.network.hidden(self._fitted_inputs(X)))


class SoftGates(Gates):
    """Logistic gates of a soft GaLU layer: g_j(x) = σ(s⟨u_j, x⟩), σ(z) = 1/(1 + e^{−z}).

    Parameters
    ----------
    weights : array, shape (k, d)
        The filters u_j as rows. No `fit` is needed.
    sharpness : float
        s > 0. For s → 0 all gates tend to ½ and the layer is linear; for s → ∞ they tend to hard gates.

    Examples
    --------
    >>> from implicit_bias import SoftGates
    >>> SoftGates([[1.0, 0.0], [0.0, 1.0]], sharpness=2.0).transform([[0.0, 1.0]]).round(4).tolist()
    [[0.5, 0.8808]]
    """

    made_of = ("directions_", "sharpness")
    learned = ("directions_", "n_features_in_")

    def __init__(self, weights: Any, sharpness: float = 1.0) -> None:
        self.weights, self.sharpness = weights, sharpness
        self.fit()

    def fit(self, X: Any = None, y: Any = None, sample_weight: Any = None) -> Self:
        as_positive(self.sharpness, "sharpness")
        return self._set_directions(self.weights)

    def transform(self, X: Any) -> Array:
        projections = self._fitted_inputs(X) @ self.directions_.T
        with np.errstate(over="ignore"):
            return np.asarray(expit(float(self.sharpness) * projections))


class LeakyReLUGates(Gates):
    """Gates of the units of a leaky ReLU layer: g_h(x) = 1 if ⟨w_h, x⟩ ≥ 0, else the slope s.

    Parameters
    ----------
    weights : array, shape (H, d)
        The layer's weights w_h as rows. No `fit` is needed.
    slope : float
        s, at least 0; `ReLUGates` have s = 0.

    Examples
    --------
    >>> from implicit_bias.gates import LeakyReLUGates
    >>> LeakyReLUGates([[1.0, -1.0], [0.0, 1.0]], slope=0.1).transform([[0.5, 1.0]]).tolist()
    [[0.1, 1.0]]
    """

    made_of = ("directions_", "slope")
    learned = ("directions_", "n_features_in_")

    def __init__(self, weights: Any, slope: float = 0.01) -> None:
        self.weights, self.slope = weights, slope
        self.fit()

    def fit(self, X: Any = None, y: Any = None, sample_weight: Any = None) -> Self:
        as_positive(self.slope, "slope", zero=True)
        return self._set_directions(self.weights)

    def transform(self, X: Any) -> Array:
        return np.where(self._fitted_inputs(X) @ self.directions_.T >= 0, 1.0, float(self.slope))


class ProductGates(Gates):
    """Products of the gates of several layers of the same input, with one gate per path through the units.

        g_{(j_1, …, j_L)}(x) = Π_ℓ g^{(ℓ)}_{j_ℓ}(x),   k = k_1 · … · k_L

    The index of the last layer varies fastest.

    Parameters
    ----------
    layers : list of Gates
        Fitted gates of each layer.

    Raises
    ------
    InputError
        If an entry of `layers` is not fitted gates, or their numbers of inputs differ.

    Examples
    --------
    >>> from implicit_bias.gates import ProductGates
    >>> from implicit_bias import ReLUGates
    >>> gates = ProductGates([ReLUGates([[1.0, 0.0]]), ReLUGates([[0.0, 1.0], [0.0, -1.0]])])
    >>> gates.transform([[1.0, 2.0], [-1.0, 2.0]]).tolist()
    [[1.0, 0.0], [0.0, 0.0]]
    """

    learned = ("k_", "n_features_in_")

    def __init__(self, layers: Any) -> None:
        self.layers = layers
        self.fit()

    @property
    def groups(self) -> np.ndarray:  # type: ignore[override]
        """One group per path, shape (k,)."""
        return np.arange(self.k_)

    def fit(self, X: Any = None, y: Any = None, sample_weight: Any = None) -> Self:
        layers = list(self.layers) if isinstance(self.layers, list | tuple) else []
        if not layers or not all(isinstance(gates, Gates) and gates.is_fitted for gates in layers):
            raise InputError(f"layers must be a list of fitted gates, not {shown(self.layers)}")
        inputs = {gates.n_features_in_ for gates in layers}
        if len(inputs) > 1:
            raise InputError(f"all layers must have the same number of inputs, not {sorted(inputs)}")
        self.k_ = int(np.prod([len(gates.groups) for gates in layers], dtype=object))
        (self.n_features_in_,) = inputs
        return self

    def __sklearn_clone__(self) -> Self:
        """Return a copy with the same fitted layers; scikit-learn would clone them unfitted."""
        return type(self)(self.layers)

    def transform(self, X: Any) -> Array:
        X = self._fitted_inputs(X)
        check_size(len(X) * self.k_, "the gates of all paths")
        values = np.ones((len(X), 1))
        for gates in self.layers:
            values = (values[:, :, None] * gates.transform(X)[:, None, :]).reshape(len(X), -1)
        return values
