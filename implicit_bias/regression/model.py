"""A model of least squares: gates and closed form as one predictor, of targets or of classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from implicit_bias.datasets.labels import Labelled, as_labels
from implicit_bias.datasets.tables import Columns
from implicit_bias.datasets.task import with_constant
from implicit_bias.gates import Gates
from implicit_bias.ground.checks import Array, InputError, as_floats, as_numbers, shown
from implicit_bias.regression.closed_form import LeastSquares


@dataclass(frozen=True, eq=False, repr=False)
class LeastSquaresModel(Labelled):
    """A fitted `GaLURegressor` or `GaLUClassifier` as what predicts: f(x) = ⟨W, Φ(x)⟩ + b.

    Parameters
    ----------
    gates : Gates, fitted
    solution : LeastSquares
        Of weights W (k, d), or (q, k, d) for q targets.
    intercept : float, or array, shape (q,)
        b.
    classes : sequence of texts or numbers, optional
        Two for one target, the second where f(x) > 0; or q, of which the largest f_c(x) wins; without, f(x) itself.
    constant : bool
        Whether the gates' inputs are those of the model with the constant 1 appended.
    columns : Columns, optional
        The columns of a CSV file by which new samples are read.
    dtype : NumPy type, optional
        Of the classes that are predicted; by default that of `classes`.

    Raises
    ------
    InputError
        If these do not belong together.

    Examples
    --------
    >>> from implicit_bias import ConstantGate, LeastSquaresModel, least_squares
    >>> X = [[0.0, 1.0], [1.0, 1.0], [2.0, 1.0]]
    >>> gates = ConstantGate().fit(X)
    >>> LeastSquaresModel(gates, least_squares(gates(X), [1.0, 2.0, 3.0])).predict([[5.0, 1.0]]).round(6).tolist()
    [6.0]
    """

    gates: Gates
    solution: LeastSquares
    intercept: Any = 0.0
    classes: Any = None
    constant: bool = False
    columns: Columns | None = None
    dtype: Any = None

    def __post_init__(self) -> None:
        for name, kind in (("gates", Gates), ("solution", LeastSquares), ("constant", bool | np.bool_)):
            if not isinstance(getattr(self, name), kind):
                raise InputError(f"{name} must be {_KINDS[name]}, not {shown(getattr(self, name))}")
        if not self.gates.is_fitted:
            raise InputError("gates must be fitted; call fit(X) first")
        W = self.solution.weights
        made = self.gates(np.zeros((1, self.gates.n_features_in_)))
        if W.ndim not in (2, 3) or W.shape[-2:] != (made.k, made.d):
            raise InputError(f"the solution has weights of shape {W.shape}, the gates need {(made.k, made.d)}")
        object.__setattr__(self, "intercept", as_numbers(self.intercept, W.shape[:-2], "the intercept"))
        if not np.isfinite(self.intercept).all():
            raise InputError("the intercept must hold finite numbers")
        for name, value in zip(("classes", "dtype"), as_labels(self.classes, self.dtype), strict=True):
            object.__setattr__(self, name, value)
        if self.classes is not None:
            object.__setattr__(self, "classes", self._known_classes(2 if W.ndim == 2 else len(W)))

    def _known_classes(self, number: int) -> tuple[Any, ...]:
        given = self.classes
        listed = given if isinstance(given, list) else []
        known = all(isinstance(label, str | int | float) for label in listed) and len(set(listed)) == number
        if not known or not np.isfinite([label for label in listed if isinstance(label, float)]).all():
            raise InputError(f"classes must be {number} different texts or finite numbers, not {shown(given)}")
        return tuple(listed)

    @property
    def n_features_in(self) -> int:
        """How many inputs the model takes."""
        return int(self.gates.n_features_in_) - bool(self.constant)

    def decision_function(self, X: Any) -> Array:
        """f of inputs X (n, p): (n,), or (n, q). Raises InputError for inputs that do not fit."""
        inputs = as_floats(X, "X", 2)
        if inputs.shape[1] != self.n_features_in:
            raise InputError(f"X has {inputs.shape[1]} columns, the model takes {self.n_features_in}")
        features, W = self.gates(with_constant(inputs) if self.constant else inputs), self.solution.weights
        if W.ndim == 2:
            return np.asarray(features @ W + self.intercept)
        return np.stack([features @ each for each in W], axis=1) + self.intercept

    def predict(self, X: Any) -> np.ndarray:
        """f of each row of X (n, p), or its class if there are classes; errors as `decision_function`."""
        scores = self.decision_function(X)
        return scores if self.classes is None else self.chosen(scores)

    def __repr__(self) -> str:
        targets = 1 if self.solution.weights.ndim == 2 else len(self.solution.weights)
        told = f"{len(self.classes)} classes" if self.classes else f"{targets} target{'s' if targets > 1 else ''}"
        return f"LeastSquaresModel({type(self.gates).__name__}, {told}, {self.n_features_in} inputs)"


_KINDS = {"gates": "fitted Gates", "solution": "a LeastSquares of least_squares(…)", "constant": "True or False"}
