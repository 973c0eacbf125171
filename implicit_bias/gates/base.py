"""Base classes of gates, which map inputs X (n, d) to gate values (n, k), and gates of one constant or one unit.

All gates are scikit-learn transformers: `fit(X)`, `transform(X)`, `get_params`, `clone`. Calling fitted gates on inputs
returns the gated linear features: `gates(X) @ W`.
"""

from typing import Any, Self, overload

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.utils.validation import has_fit_parameter

from implicit_bias._utils.checks import Array, InputError, as_floats, check_size
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


class ContextGates(Gates):
    """Base class of one-hot GLN gates: each unit h is in one of K contexts, c_h(x).

        g_{hK+c}(x) = 1(c_h(x) = c),   h = 0 … H − 1,   c = 0 … K − 1

    A subclass defines `fit`, `units` (H), `contexts` (K ≥ 1) and `contexts_of`. Lippl, Abbott & Chung, section 4.

    Examples
    --------
    >>> from implicit_bias.gates import ContextGates
    >>> from implicit_bias import HyperplaneGates
    >>> issubclass(HyperplaneGates, ContextGates)
    True
    """

    units: int
    contexts: int

    def contexts_of(self, X: Any) -> np.ndarray:
        """Context c_h(x) of each unit: integers of shape (n, H)."""
        raise InputError(f"{type(self).__name__} has no contexts_of(X), which contexts need; see HyperplaneGates")

    @property
    def groups(self) -> np.ndarray:  # type: ignore[override]
        """Unit of each gate, shape (H·K,)."""
        return np.repeat(np.arange(self.units), self.contexts)

    def transform(self, X: Any) -> Array:
        """One-hot gate values, shape (n, H·K): column h·K + c is 1(c_h(x) = c)."""
        context = self.contexts_of(X)
        check_size(context.size * int(self.contexts), "the one-hot gates")
        values = np.zeros((len(context), self.units, self.contexts))
        np.put_along_axis(values, context[:, :, None], 1.0, axis=2)
        return values.reshape(len(context), -1)


class OccupiedRegions(Gates):
    """One-hot gates of the regions of one unit that contain training samples.

        g_j(x) = 1(c(x) = c_j),   c_1 < … < c_k the contexts of the samples

    Weights of empty regions occur in no margin constraint, so that they are zero in the solution, and leaving them out
    changes nothing. The score of a new input in an empty region is 0. This makes 2¹⁵ regions feasible.

    Parameters
    ----------
    regions : ContextGates
        Fitted contexts of one unit, such as `HyperplaneGates(1, 16)`.

    Attributes
    ----------
    occupied_ : array of int, shape (k,)
        The contexts c_j.
    groups : array of int, shape (k,)
        Zeros: all regions are one group.

    Raises
    ------
    InputError
        If the gates are not fitted or have several units.

    Examples
    --------
    >>> from implicit_bias import HyperplaneGates, OccupiedRegions, load_binary
    >>> task = load_binary("digits", train_size=100)
    >>> regions = HyperplaneGates(1, 1024, seed=1).fit(task.X_pool)
    >>> OccupiedRegions(regions).fit(task.X_train).transform(task.X_train).shape
    (100, 81)
    """

    learned = ("n_features_in_", "occupied_")

    def __init__(self, regions: ContextGates) -> None:
        self.regions = regions

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        if not isinstance(self.regions, ContextGates) or self.regions.units != 1:
            raise InputError("OccupiedRegions needs the fitted contexts of one unit, such as HyperplaneGates(1, 16)")
        self.occupied_ = np.unique(self.regions.contexts_of(self._first_inputs(X, sample_weight)[0]))
        self.groups = np.zeros(len(self.occupied_), dtype=np.int64)
        return self

    def __sklearn_clone__(self) -> Self:
        """Return a copy with the same fitted regions; scikit-learn would clone them unfitted."""
        return type(self)(self.regions)

    def transform(self, X: Any) -> Array:
        X = self._fitted_inputs(X)
        return (self.regions.contexts_of(X) == self.occupied_).astype(np.float64)
