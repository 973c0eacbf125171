"""Base class of gates, which map inputs X (n, d) to gate values (n, k).

All gates are scikit-learn transformers: `fit(X)`, `transform(X)`, `get_params`, `clone`. Calling fitted gates on inputs
returns the gated linear features: `gates(X) @ W`.
"""

from typing import Any, Self, overload

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.utils.validation import has_fit_parameter

from implicit_bias._utils.checks import Array, InputError, as_floats
from implicit_bias._utils.files import finite_numbers
from implicit_bias._utils.validation import UnfittedError, as_weights, validated
from implicit_bias.features.chunked import ChunkedFeatures, ChunkedInputs, gate_values_of
from implicit_bias.features.gated import GatedFeatures

#: Largest mean number of copies per sample that replace integer weights.
MAX_MEAN_COPIES = 100


class Gates(TransformerMixin, BaseEstimator):
    """Base class of all gates; a subclass defines `fit`, `transform` and `groups`.

    `groups` (k,) is the hidden unit of each gate. Gates count as fitted once the last attribute in `learned` is set,
    by default `n_features_in_`.

    Examples
    --------
    >>> from implicit_bias.gates import Gates
    >>> from implicit_bias import HyperplaneGates
    >>> issubclass(HyperplaneGates, Gates)
    True
    """

    groups: np.ndarray
    directions_: Array
    #: Attributes that are the parameters of saved gates, in order; None if the class cannot be saved.
    made_of: tuple[str, ...] | None = None
    #: Attributes that `fit` sets; the last one marks gates as fitted.
    learned: tuple[str, ...] = ("n_features_in_",)

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit the gates to inputs X (n, d); a sample of weight 2 counts as two samples."""
        raise InputError(f"{type(self).__name__} has no method fit(X), which gates need; see HyperplaneGates")

    def transform(self, X: Any) -> Array:
        """Gate values (n, k) of inputs X (n, d)."""
        raise InputError(f"{type(self).__name__} has no method transform(X), which gates need; see HyperplaneGates")

    @property
    def is_fitted(self) -> bool:
        """True after `fit`."""
        return hasattr(self, self.learned[-1])

    def set_params(self, **params: Any) -> Self:
        """Set parameters, as in scikit-learn; gates are then no longer fitted."""
        super().set_params(**params)
        if params:
            self.__dict__.pop(self.learned[-1], None)
        return self

    def fitted(self, X: Any, sample_weight: Any = None) -> Self:
        """Return these gates if they are fitted, else a copy fitted on X.

        If `fit` does not support weights, integer weights are replaced by copies of the samples. InputError is raised
        for others, and for more than MAX_MEAN_COPIES copies of a sample on average.
        """
        if self.is_fitted:
            return self
        if sample_weight is None:
            return clone(self).fit(X)
        if not has_fit_parameter(self, "sample_weight"):
            copies = np.asarray(sample_weight)
            if (copies == np.floor(copies)).all() and copies.sum() <= MAX_MEAN_COPIES * len(copies):
                return clone(self).fit(np.repeat(X, copies.astype(np.int64), axis=0))
            raise InputError(f"{type(self).__name__}.fit takes no sample_weight; fit the gates before, without weights")
        return clone(self).fit(X, sample_weight=sample_weight)

    def restore(self, **learned: Any) -> Self:
        """Set the attributes in `learned` to saved values, which must be finite, and return the gates."""
        for name in self.learned:
            values = finite_numbers(learned[name], f"{name} of the gates")
            setattr(self, name, values if values.ndim else values.item())
        return self

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Names of the gates, shape (k,), for data frames: the class name in lower case and a number."""
        self._require_fitted()
        return np.array([f"{type(self).__name__.lower()}{j}" for j in range(len(self.groups))], dtype=object)

    def __sklearn_is_fitted__(self) -> bool:
        return self.is_fitted

    @overload
    def __call__(self, X: ChunkedInputs) -> ChunkedFeatures: ...
    @overload
    def __call__(self, X: Any) -> GatedFeatures: ...
    def __call__(self, X: Any) -> GatedFeatures | ChunkedFeatures:
        """Return the gated linear features of inputs X (n, d); `ChunkedInputs` are processed chunk by chunk."""
        if isinstance(X, ChunkedInputs):
            return ChunkedFeatures(X, gate_values_of(X, self.transform))
        return GatedFeatures(X, self.transform(X))

    def _first_inputs(self, X: Any, sample_weight: Any) -> tuple[Array, Array | None]:
        """Return inputs of `fit` with nonzero weight, and their weights or None; set `n_features_in_`."""
        self.__dict__.pop(self.learned[-1], None)
        inputs: Array = validated(self, X, reset=True)
        if sample_weight is None:
            return inputs, None
        weight = as_weights(sample_weight, inputs)
        return inputs[weight > 0], weight[weight > 0]

    def _set_directions(self, weights: Any) -> Self:
        self.directions_ = as_floats(weights, "weights", 2)
        self.groups = np.arange(len(self.directions_))
        self.n_features_in_ = self.directions_.shape[1]
        return self

    def _require_fitted(self) -> None:
        if not self.is_fitted:
            raise UnfittedError(f"these {type(self).__name__} are not fitted; call fit(X) first")

    def _fitted_inputs(self, X: Any) -> Array:
        self._require_fitted()
        return np.asarray(validated(self, X, reset=False))


class ConstantGate(Gates):
    """One gate that is always 1: Φ(x) = x, the linear model.

    Examples
    --------
    >>> from implicit_bias import ConstantGate
    >>> ConstantGate().fit_transform([[0.5, 1.0], [2.0, 1.0]]).tolist()
    [[1.0], [1.0]]
    """

    groups = np.zeros(1, dtype=np.int64)
    made_of: tuple[str, ...] | None = ()

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        self._first_inputs(X, sample_weight)
        return self

    def transform(self, X: Any) -> Array:
        return np.ones((len(self._fitted_inputs(X)), 1))
