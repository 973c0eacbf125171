"""Gates that a function computes: one of your own, or a trained network's hidden layer."""

from collections.abc import Callable
from typing import Any, Self

import numpy as np

from implicit_bias._utils.checks import Array, InputError, as_floats
from implicit_bias.features import GatedFeatures
from implicit_bias.gates.base import ConstantGate, Gates


class FunctionGates(Gates):
    """Gates of your own: g(X) = function(X), any real numbers.

    Parameters
    ----------
    function : callable
        From inputs X (n, d) to gate values (n, k), row by row: the gates of a sample must not depend on the others.
    grouping : array of int, shape (k,), optional
        The unit of each gate, `groups` once fitted; by default every gate is a unit of its own.

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
        self.function = function
        self.grouping = grouping

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Store the number of inputs and gates."""
        X, _ = self._first_inputs(X, sample_weight)
        k = self._values(X).shape[1]
        groups = np.arange(k) if self.grouping is None else as_floats(self.grouping, "grouping", 1)
        if len(groups) != k or (groups % 1).any():
            raise InputError(f"grouping must hold {k} whole numbers, one for each gate that the function gives")
        self.k_, self.groups = k, groups.astype(np.int64)
        return self

    def transform(self, X: Any) -> Array:
        """function(X), shape (n, k)."""
        X = self._fitted_inputs(X)
        values = self._values(X)
        if values.shape[1] != self.k_:
            raise InputError(f"the function gave {self.k_} gates in fit and now gives {values.shape[1]}")
        return values

    def _values(self, X: Array) -> Array:
        if not callable(self.function):
            raise InputError(f"function must be callable, not {type(self.function).__name__}")
        values = as_floats(self.function(X), "the values of the gates' function", 2)
        if len(values) != len(X):
            raise InputError(f"the gates' function gave {len(values)} rows for {len(X)} inputs; give one per sample")
        return values


class HiddenActivations(ConstantGate):
    """The features h(x) of a trained network's last hidden layer, behind one open gate: those of SVM-HL.

    Parameters
    ----------
    network : object with a method `hidden(X)` → (n, H)
        Taken as it is; there is nothing to fit.

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
        """Store the number of inputs."""
        if not callable(getattr(self.network, "hidden", None)):
            raise InputError(f"HiddenActivations needs a network with hidden(X), not {type(self.network).__name__}")
        return super().fit(X, y, sample_weight)

    def __call__(self, X: Any) -> Any:
        """The activations as features: d = H, k = 1."""
        return GatedFeatures(self.network.hidden(self._fitted_inputs(X)))
