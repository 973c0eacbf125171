"""Least-squares models: fitted gates and a closed-form solution as one predictor of targets or classes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from implicit_bias._utils.checks import Array, InputError, as_numbers, shown
from implicit_bias._utils.files import finite_numbers
from implicit_bias.datasets.labels import Labelled
from implicit_bias.extensions.galu.closed_form import LeastSquares
from implicit_bias.features.base import UnkeptFeatures
from implicit_bias.gates import Gates
from implicit_bias.saving.problems import gate_parts, gates_of


@dataclass(frozen=True, eq=False, repr=False)
class LeastSquaresModel(Labelled):
    """Predictor of a fitted `GaLURegressor` or `GaLUClassifier`: f(x) = ⟨W, Φ(x)⟩ + b.

    Parameters
    ----------
    gates : Gates, fitted
    solution : LeastSquares
        Holds the weights W, shape (k, d), or (q, k, d) for q targets.
    intercept : float, or array, shape (q,)
        The intercept b.
    classes, constant, columns, dtype, scaling, ranges : optional, keyword only
        As for `MarginModel`. One target has two classes; q > 1 targets have one class each. Without classes, the
        model predicts f(x).

    Raises
    ------
    InputError
        If the gates are not fitted, or gates, solution, intercept and classes do not fit together.

    Examples
    --------
    >>> from implicit_bias import ConstantGate
    >>> from implicit_bias.extensions.galu import LeastSquaresModel, least_squares
    >>> X = [[0.0, 1.0], [1.0, 1.0], [2.0, 1.0]]
    >>> gates = ConstantGate().fit(X)
    >>> LeastSquaresModel(gates, least_squares(gates(X), [1.0, 2.0, 3.0])).predict([[5.0, 1.0]]).round(6).tolist()
    [6.0]
    """

    gates: Gates
    solution: LeastSquares
    intercept: Any = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.gates, Gates):
            raise InputError(f"gates must be fitted Gates, not {shown(self.gates)}")
        if not isinstance(self.solution, LeastSquares):
            raise InputError(f"solution must be a LeastSquares of least_squares(…), not {shown(self.solution)}")
        if not self.gates.is_fitted:
            raise InputError("gates must be fitted; call fit(X) first")
        W = self.solution.weights
        probe = self.gates(np.zeros((1, self.width)))
        if W.ndim not in (2, 3) or W.shape[-2:] != (probe.k, probe.d):
            raise InputError(f"the solution has weights of shape {W.shape}, but the gates need {(probe.k, probe.d)}")
        intercept = as_numbers(self.intercept, W.shape[:-2], "the intercept")
        object.__setattr__(self, "intercept", finite_numbers(intercept, "the intercept"))
        needed = 2 if W.ndim == 2 else len(W)
        if self.classes is not None and len(self.classes) != needed:
            raise InputError(f"the solution is for a model of {needed} classes, not of {shown(list(self.classes))}")
        self._check_inputs()

    @property
    def width(self) -> int:
        """Number of inputs of the gates."""
        return int(self.gates.n_features_in_)

    def decision_function(self, X: Any) -> Array:
        """Return f(X) for inputs X (n, p), shape (n,) or (n, q); raise InputError if X does not have p columns."""
        return np.asarray(self.solution.predict(self.gates(self.inputs(X))) + self.intercept)

    def predict(self, X: Any) -> np.ndarray:
        """Return f(x), or the class if the model has classes, for each row of X (n, p).

        Errors as for `decision_function`.
        """
        return self.chosen(self.decision_function(X))

    def parts(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Return gates and solution as a JSON dictionary and arrays, for `save_model`."""
        about, arrays = gate_parts(self.gates)
        arrays |= {f"solution.{name}": np.asarray(value) for name, value in vars(self.solution).items()}
        return about, arrays | {"intercept": self.intercept}

    @classmethod
    def from_parts(cls, about: dict[str, Any], arrays: Mapping[str, np.ndarray], **shared: Any) -> Self:
        """Return the model that `parts` describes, for `load_model`; `shared` are its other fields.

        Raise InputError if the parts are invalid.
        """
        held = {name.removeprefix("solution."): arrays[name] for name in arrays if name.startswith("solution.")}
        numbers = {name: finite_numbers(values, name) for name, values in held.items() if name != "form"}
        weights, form = numbers.pop("weights"), held["form"].item()
        if form not in ("samples", "weights") or weights.dtype != np.float64 or min(numbers.values()) < 0:
            raise InputError("the file's solution is not a result of least_squares(…); save the model again")
        solution = LeastSquares(weights, form=form, **{name: value.item() for name, value in numbers.items()})
        gates = gates_of(about, arrays, UnkeptFeatures((1, *weights.shape[-2:]), products=True))
        return cls(gates, solution, arrays["intercept"], **shared)

    def __repr__(self) -> str:
        targets = 1 if self.solution.weights.ndim == 2 else len(self.solution.weights)
        outputs = f"{len(self.classes)} classes" if self.classes else f"{targets} target{'s' if targets > 1 else ''}"
        return f"LeastSquaresModel({type(self.gates).__name__}, {outputs}, {self.n_features_in} inputs)"
