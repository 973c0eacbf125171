"""Scaling of inputs, which models apply before their constant input and their gates."""

from collections.abc import Callable, Iterable
from typing import Any, Self

import numpy as np

from implicit_bias._utils.checks import Array, InputError, as_floats, one_of


def _filled(X: Array, values: Array, out: Array) -> Array:
    np.copyto(out, values, where=np.isnan(X))
    return out


#: Operations on columns with one number per column, and their inverses; limits have none. "fill" replaces NaN.
OPERATIONS: dict[str, tuple[Callable[..., Array], Callable[..., Array] | None]] = {
    "subtract": (np.subtract, np.add),
    "divide": (np.divide, np.multiply),
    "multiply": (np.multiply, np.divide),
    "add": (np.add, np.subtract),
    "maximum": (np.maximum, None),
    "minimum": (np.minimum, None),
    "fill": (_filled, None),
}
_FACTORS = ("divide", "multiply")


class Scaling:
    """Operations on the columns of inputs, applied in order: pairs of a name in `OPERATIONS` and a number per column.

    Operations are kept apart, as scikit-learn's scalers compute them. A product of factors would round differently, and
    a sample on the hyperplane of a gate would then change its side.
    """

    def __init__(self, operations: Iterable[tuple[str, Any]]) -> None:
        listed = list(operations)
        self.names = tuple(one_of(name, OPERATIONS, "operation") for name, _ in listed)
        self.values = as_floats([values for _, values in listed], "the numbers of a scaling", 2)
        factors = [values for name, values in zip(self.names, self.values, strict=True) if name in _FACTORS]
        if not all((values > 0).all() for values in factors):
            raise InputError("the factors and divisors of a scaling must be positive")

    @property
    def operations(self) -> list[tuple[str, Array]]:
        return list(zip(self.names, self.values, strict=True))

    @property
    def units(self) -> Array:
        """Changes of the inputs (p,) that change scaled inputs by 1."""
        factors = {"divide": 1.0, "multiply": -1.0}
        return np.asarray(np.prod([values ** factors.get(name, 0.0) for name, values in self.operations], axis=0))

    @property
    def fills(self) -> bool:
        """True if missing inputs (NaN) are filled."""
        return "fill" in self.names

    @classmethod
    def standard(cls, X: Array) -> Self:
        """Return the scaling of X (n, p) to columns of mean 0 and standard deviation 1; equal entries become 0."""
        varied, mean = X.max(axis=0) > X.min(axis=0), X.mean(axis=0)
        # Squares of very large or small numbers would overflow or vanish.
        size = np.where(varied, np.abs(X - mean).max(axis=0), 1.0)
        return cls([("subtract", mean), ("divide", np.where(varied, size * ((X - mean) / size).std(axis=0), 1.0))])

    def __call__(self, X: Array) -> Array:
        """Return inputs X (n, p), scaled in their precision, as scikit-learn's scalers do."""
        scaled = X.copy()
        for name, values in zip(self.names, self.values.astype(X.dtype), strict=True):
            OPERATIONS[name][0](scaled, values, out=scaled)
        return scaled

    def undone(self, X: Array) -> Array:
        """Return the inputs whose scaling is X (n, p); limits are not undone."""
        inputs = X.copy()
        for name, values in zip(self.names[::-1], self.values[::-1], strict=True):
            inverse = OPERATIONS[name][1]
            if inverse is not None:
                inverse(inputs, values, out=inputs)
        return inputs
