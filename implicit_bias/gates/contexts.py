"""One-hot gates: contexts of hidden units, and the occupied regions of one unit."""

from typing import Any, Self

import numpy as np

from implicit_bias._utils.checks import Array, InputError, check_size
from implicit_bias.gates.base import Gates


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
