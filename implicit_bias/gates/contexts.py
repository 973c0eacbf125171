"""Gates that are the contexts of hidden units, any number of them, and those that a function computes."""

from collections.abc import Callable
from typing import Any, Self

import numpy as np

from implicit_bias._utils.checks import Array, InputError, as_count, as_floats, check_size, shown
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


class FunctionContexts(ContextGates):
    """Contexts of your own, any number of them: c(X) = function(X).

    Parameters
    ----------
    function : callable
        From inputs X (n, d) to contexts (n, H), whole numbers from 0 to K − 1, row by row.
    contexts : int
        K. All K count, for SVM-L2 and in the network, whether samples are in them or not.

    Attributes
    ----------
    units : int
        H, as many as `function` gives columns.

    Raises
    ------
    InputError
        For a function that gives anything else, or another number of units than in `fit`.

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
        self.function = function
        self.contexts = contexts

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Store the number of inputs and units."""
        as_count(self.contexts, "contexts")
        if not callable(self.function):
            raise InputError(f"function must be callable, not {type(self.function).__name__}")
        X, _ = self._first_inputs(X, sample_weight)
        self.units = self._values(X).shape[1]
        return self

    def contexts_of(self, X: Any) -> np.ndarray:
        """function(X), shape (n, H)."""
        values = self._values(self._fitted_inputs(X))
        if values.shape[1] != self.units:
            raise InputError(f"the function gave {self.units} units in fit and now gives {values.shape[1]}")
        return values

    def _values(self, X: Array) -> np.ndarray:
        values = as_floats(self.function(X), "the values of the contexts' function", 2)
        if len(values) != len(X):
            raise InputError(f"the contexts' function gave {len(values)} rows for {len(X)} inputs; give one per sample")
        wrong = values[(values % 1 != 0) | (values < 0) | (values >= self.contexts)]
        if wrong.size:
            raise InputError(f"contexts are whole numbers from 0 to {self.contexts - 1}, not {shown(float(wrong[0]))}")
        return values.astype(np.int64)
