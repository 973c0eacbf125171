"""The regions of a shallow GLN that hold samples."""

from typing import Any, Self

import numpy as np

from implicit_bias._utils.checks import Array, InputError
from implicit_bias.gates.base import Gates
from implicit_bias.gates.contexts import ContextGates


class OccupiedRegions(Gates):
    """One-hot gates of those regions of one unit, of `HyperplaneGates` say, that hold samples of `fit`.

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
        """Find the regions of X (n, d)."""
        if not isinstance(self.regions, ContextGates) or self.regions.units != 1:
            raise InputError("OccupiedRegions takes the fitted contexts of one unit, such as HyperplaneGates(1, 16)")
        self.occupied_ = np.unique(self.regions.contexts_of(self._first_inputs(X, sample_weight)[0]))
        self.groups = np.zeros(len(self.occupied_), dtype=np.int64)
        return self

    def __sklearn_clone__(self) -> Self:
        """A copy over the same fitted regions, which scikit-learn would unfit."""
        return type(self)(self.regions)

    def transform(self, X: Any) -> Array:
        """One-hot gate values, shape (n, k); all zero in other regions."""
        X = self._fitted_inputs(X)
        return (self.regions.contexts_of(X) == self.occupied_).astype(np.float64)
