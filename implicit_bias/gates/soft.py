"""Gates that open by degrees, and gates of several layers taken together."""

from typing import Any, Self

import numpy as np
from scipy.special import expit

from implicit_bias._utils.checks import Array, InputError, as_floats, as_positive, check_size, shown
from implicit_bias.gates.base import Gates


class SoftGates(Gates):
    """Logistic gates of a soft GaLU layer: g_j(x) = σ(s⟨u_j, x⟩), σ(z) = 1/(1 + e^{−z}).

    Parameters
    ----------
    weights : array, shape (k, d)
        The filters u_j as rows; the gates are fitted from the start.
    sharpness : float
        s > 0: near 0 every gate is about ½, so that the layer is linear; for large s the gates are hard.

    Examples
    --------
    >>> from implicit_bias import SoftGates
    >>> SoftGates([[1.0, 0.0], [0.0, 1.0]], sharpness=2.0).transform([[0.0, 1.0]]).round(4).tolist()
    [[0.5, 0.8808]]
    """

    made_of = ("directions_", "sharpness")
    learned = ("directions_", "n_features_in_")

    def __init__(self, weights: Any, sharpness: float = 1.0) -> None:
        self.weights = weights
        self.sharpness = sharpness
        self.fit()

    def fit(self, X: Any = None, y: Any = None, sample_weight: Any = None) -> Self:
        """Read the weights; the inputs play no part."""
        as_positive(self.sharpness, "sharpness")
        self.directions_ = as_floats(self.weights, "weights", 2)
        self.groups = np.arange(len(self.directions_))
        self.n_features_in_ = self.directions_.shape[1]
        return self

    def transform(self, X: Any) -> Array:
        """Gate values between 0 and 1, shape (n, k)."""
        projections = self._fitted_inputs(X) @ self.directions_.T
        with np.errstate(over="ignore"):
            return np.asarray(expit(float(self.sharpness) * projections))


class ProductGates(Gates):
    """The gates of several layers that all read the input, taken together: one gate per path through the units.

        g_{(j_1, …, j_L)}(x) = Π_ℓ g^{(ℓ)}_{j_ℓ}(x),   k = k_1 · … · k_L, the last layer's unit running fastest

    Parameters
    ----------
    layers : sequence of fitted gates

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
        """Read the layers; the inputs play no part."""
        layers = list(self.layers) if isinstance(self.layers, list | tuple) else []
        if not layers or not all(isinstance(gates, Gates) and gates.is_fitted for gates in layers):
            raise InputError(f"layers must be a list of fitted gates, not {shown(self.layers)}")
        inputs = {gates.n_features_in_ for gates in layers}
        if len(inputs) > 1:
            raise InputError(f"the layers' gates must read the same input, but take {sorted(inputs)} columns")
        self.k_ = int(np.prod([len(gates.groups) for gates in layers], dtype=object))
        (self.n_features_in_,) = inputs
        return self

    def __sklearn_clone__(self) -> Self:
        """A copy over the same fitted layers, which scikit-learn would unfit."""
        return type(self)(self.layers)

    def transform(self, X: Any) -> Array:
        """Products of gate values, shape (n, k)."""
        X = self._fitted_inputs(X)
        check_size(len(X) * self.k_, "the gates of all paths")
        values = np.ones((len(X), 1))
        for gates in self.layers:
            values = (values[:, :, None] * gates.transform(X)[:, None, :]).reshape(len(X), -1)
        return values
