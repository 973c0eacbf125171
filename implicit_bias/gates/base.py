"""Base of the gates: contexts and half-spaces that turn inputs X (n, d) into gate values (n, k).

Every class follows scikit-learn's transformers: `fit(X)`, `transform(X)`, `get_params`, `clone`. A fitted gate object
called on inputs gives their features: `gates(X) @ W`.
"""

from typing import Any, Self, overload

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.utils.validation import has_fit_parameter

from implicit_bias._utils.checks import Array, InputError
from implicit_bias._utils.files import finite_numbers
from implicit_bias._utils.validation import UnfittedError, as_weights, validated
from implicit_bias.features.chunked import ChunkedFeatures, ChunkedInputs, gate_values_of
from implicit_bias.features.gated import GatedFeatures

#: Largest average number of copies of a sample that replace weights.
MOST_COPIES = 100


class Gates(TransformerMixin, BaseEstimator):
    """Base of all gates. A subclass has `fit`, `transform` and, once fitted, `groups` (k,): each gate's hidden unit.

    Setting `n_features_in_` in `fit`, or what `learned` names last, is what marks gates as fitted.

    >>> from implicit_bias.gates import Gates
    >>> from implicit_bias import HyperplaneGates
    >>> issubclass(HyperplaneGates, Gates)
    True
    """

    groups: np.ndarray
    #: The attributes that the class is made from again, in the order that it takes them; None if it is not saved.
    made_of: tuple[str, ...] | None = None
    #: The attributes that `fit` sets; the last marks gates as fitted.
    learned: tuple[str, ...] = ("n_features_in_",)

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fix everything that depends on the inputs X (n, d); a sample of weight 2 counts as two."""
        raise InputError(f"{type(self).__name__} has no method fit(X), which gates need; use HyperplaneGates(…), say")

    def transform(self, X: Any) -> Array:
        """Gate values (n, k) of inputs X (n, d)."""
        raise InputError(f"{type(self).__name__} has no method transform(X), which gates need")

    @property
    def is_fitted(self) -> bool:
        """True after `fit`."""
        return hasattr(self, self.learned[-1])

    def set_params(self, **params: Any) -> Self:
        """Set parameters, as scikit-learn does; fitted gates are unfitted by it, for they no longer describe them."""
        super().set_params(**params)
        if params:
            self.__dict__.pop(self.learned[-1], None)
        return self

    def fitted(self, X: Any, sample_weight: Any = None) -> Self:
        """These gates if they are fitted, else a copy of them fitted on X, with weights where there are any.

        If `fit` takes no weights, whole ones are replaced by copies of the samples.
        """
        if self.is_fitted:
            return self
        if sample_weight is None:
            return clone(self).fit(X)
        if not has_fit_parameter(self, "sample_weight"):
            copies = np.asarray(sample_weight)
            if (copies == np.floor(copies)).all() and copies.sum() <= MOST_COPIES * len(copies):
                return clone(self).fit(np.repeat(X, copies.astype(np.int64), axis=0))
            raise InputError(f"{type(self).__name__}.fit takes no sample_weight; fit the gates before, without weights")
        return clone(self).fit(X, sample_weight=sample_weight)

    def restore(self, **learned: Any) -> Self:
        """Set again what `fit` once gave, by the names in `learned`; InputError unless all is finite."""
        for name in self.learned:
            values = finite_numbers(learned[name], f"{name} of the gates")
            setattr(self, name, values if values.ndim else values.item())
        return self

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Names of the gates, shape (k,), for data frames: the class in lower case and a number."""
        self._require_fitted()
        name = type(self).__name__.lower()
        return np.array([f"{name}{j}" for j in range(len(self.groups))], dtype=object)

    def __sklearn_is_fitted__(self) -> bool:
        return self.is_fitted

    @overload
    def __call__(self, X: ChunkedInputs) -> ChunkedFeatures: ...
    @overload
    def __call__(self, X: Any) -> GatedFeatures: ...
    def __call__(self, X: Any) -> GatedFeatures | ChunkedFeatures:
        """The gated linear features of inputs X (n, d); of `ChunkedInputs`, gate values are computed chunk by chunk."""
        if isinstance(X, ChunkedInputs):
            return ChunkedFeatures(X, gate_values_of(X, self.transform))
        return GatedFeatures(X, self.transform(X))

    def _first_inputs(self, X: Any, sample_weight: Any) -> tuple[Array, Array | None]:
        """The inputs of `fit` that have weight, and their weights; the number and names of features are kept.

        Whatever was fitted before no longer counts, so that a fit that fails leaves nothing half fitted.
        """
        self.__dict__.pop(self.learned[-1], None)
        inputs: Array = validated(self, X, reset=True)
        if sample_weight is None:
            return inputs, None
        weight = as_weights(sample_weight, inputs)
        return inputs[weight > 0], weight[weight > 0]

    def _require_fitted(self) -> None:
        if not self.is_fitted:
            raise UnfittedError(f"these {type(self).__name__} are not fitted; call fit(X) first")

    def _fitted_inputs(self, X: Any) -> Array:
        self._require_fitted()
        return np.asarray(validated(self, X, reset=False))


class ConstantGate(Gates):
    """One gate that is always 1: Φ(x) = x, the linear model.

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
