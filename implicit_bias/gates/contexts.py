"""Gates that are the contexts of hidden units, and those of the regions of one unit that hold samples."""

from typing import Any, Self

import numpy as np

from implicit_bias._utils.checks import Array, InputError, check_size
from implicit_bias.gates.base import Gates


class ContextGates(Gates):
    """Base of the gates of a GLN: every unit h is in one context c_h(x) of K, and its gates are one-hot.

        g_{hK+c}(x) = 1(c_h(x) = c),   h = 0 … H − 1,   c = 0 … K − 1

    A subclass has `fit`, `units` (H), `contexts` (K, any number) and `contexts_of`. Lippl, Abbott & Chung, section 4.

    >>> from implicit_bias.gates import ContextGates
    >>> from implicit_bias import HyperplaneGates
    >>> issubclass(HyperplaneGates, ContextGates)
    True
    """

    units: int
    contexts: int

    def contexts_of(self, X: Any) -> np.ndarray:
        """The context c_h(x) of every unit, whole numbers of shape (n, H)."""
        raise InputError(f"{type(self).__name__} has no method contexts_of(X), which contexts need")

    @property
    def groups(self) -> np.ndarray:  # type: ignore[override]
        """The unit of each gate, shape (H·K,)."""
        return np.repeat(np.arange(self.units), self.contexts)

    def transform(self, X: Any) -> Array:
        """One-hot gate values, shape (n, H·K): column h·K + c is 1(c_h(x) = c)."""
        context = self.contexts_of(X)
        check_size(context.size * int(self.contexts), "the one-hot gates")
        values = np.zeros((len(context), self.units, self.contexts))
        np.put_along_axis(values, context[:, :, None], 1.0, axis=2)
        return values.reshape(len(context), -1)


class OccupiedRegions(Gates):
    """One-hot gates of those regions of one unit, such as `HyperplaneGates(1, 16)`, that hold samples of `fit`.

        g_j(x) = 1(c(x) = c_j),   c_1 < … < c_k the contexts of the samples

    No margin constraint involves the weights of any other region, so the problems of all regions and of these have
    one solution, with zero weights elsewhere: a new input there scores 0. This is what makes 2¹⁵ regions affordable.

    Parameters
    ----------
    regions : ContextGates, fitted, of one unit

    Attributes
    ----------
    occupied_ : array of int, shape (k,)
        The contexts c_j.
    groups : array of int, shape (k,)
        One group of all regions: zeros.

    Raises
    ------
    InputError
        For gates that are not fitted or of several units.

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
            raise InputError("OccupiedRegions takes the fitted contexts of one unit, such as HyperplaneGates(1, 16)")
        self.occupied_ = np.unique(self.regions.contexts_of(self._first_inputs(X, sample_weight)[0]))
        self.groups = np.zeros(len(self.occupied_), dtype=np.int64)
        return self

    def __sklearn_clone__(self) -> Self:
        """A copy over the same fitted regions, which scikit-learn would unfit."""
        return type(self)(self.regions)

    def transform(self, X: Any) -> Array:
        X = self._fitted_inputs(X)
        return (self.regions.contexts_of(X) == self.occupied_).astype(np.float64)
