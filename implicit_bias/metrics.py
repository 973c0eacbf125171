"""How far two models agree: error, inconsistency, margins and alignment."""

from typing import Any

import numpy as np

from implicit_bias._utils.checks import Array, InputError, as_floats, as_fraction, as_positive, as_signs
from implicit_bias.margin.problem import MarginProblem, check_problem

__all__ = [
    "alignment",
    "error",
    "expected_inconsistency",
    "inconsistency",
    "normalised_margin",
    "optimality_ratio",
    "predictions",
]


def predictions(scores: Any) -> Array:
    """Predicted labels of scores (n,): +1 where the score is positive, else −1 (a score of exactly 0 as well).

    >>> from implicit_bias.metrics import predictions
    >>> predictions([0.3, -2.0, 0.0]).tolist()
    [1.0, -1.0, -1.0]
    """
    return np.where(as_floats(scores, "scores", 1) > 0, 1.0, -1.0)


def error(scores: Any, y: Any) -> float:
    """Fraction of samples whose predicted label is not y: scores (n,), y (n,) of −1 and +1.

    >>> from implicit_bias.metrics import error
    >>> error([0.3, -2.0, 1.0, -1.0], [1, -1, -1, -1])
    0.25
    """
    labels = predictions(scores)
    return float(np.mean(labels != as_signs(y, len(labels), both=False)))


def inconsistency(scores_a: Any, scores_b: Any) -> float:
    """Fraction of samples for which two models predict different labels: scores (n,) and (n,).

    >>> from implicit_bias.metrics import inconsistency
    >>> inconsistency([1.0, 2.0, -1.0, -3.0], [5.0, -1.0, -2.0, -2.0])
    0.25
    """
    a, b = predictions(scores_a), predictions(scores_b)
    if len(a) != len(b):
        raise InputError(f"the two models score {len(a)} and {len(b)} samples; score the same ones")
    return float(np.mean(a != b))


def expected_inconsistency(error_a: float, error_b: float) -> float:
    """Inconsistency of two models that err independently: e_a (1 − e_b) + e_b (1 − e_a).

    >>> from implicit_bias.metrics import expected_inconsistency
    >>> round(expected_inconsistency(0.1, 0.2), 12)
    0.26
    """
    a, b = as_fraction(error_a, "error_a"), as_fraction(error_b, "error_b")
    return a * (1 - b) + b * (1 - a)


def normalised_margin(problem: MarginProblem, W: Any) -> float:
    """min_i y_i (ΦW)_i / ‖W‖ in the problem's norm; at most 1/optimum, with equality at a solution. W (k, d).

    >>> from implicit_bias import ConstantGate, svm_gln
    >>> from implicit_bias.metrics import normalised_margin
    >>> normalised_margin(svm_gln([[2.0, 1.0], [-2.0, 1.0]], [1, -1], ConstantGate()), [[3.0, 0.0]])
    2.0
    """
    check_problem(problem)
    W = _of_size_one(as_floats(W, "weights", 2))
    size = problem.norm.value(W)
    if size == 0:
        raise InputError("these weights have norm 0, so they have no normalised margin")
    return float(problem.margins(W).min() / size)


def alignment(W_a: Any, W_b: Any) -> float:
    """Cosine ⟨W_a, W_b⟩ / (‖W_a‖ ‖W_b‖) of two weights of one shape (k, d), in Frobenius geometry.

    >>> from implicit_bias.metrics import alignment
    >>> alignment([[1.0, 0.0]], [[2.0, 0.0]])
    1.0
    """
    a, b = as_floats(W_a, "weights", 2), as_floats(W_b, "weights", 2)
    if a.shape != b.shape:
        raise InputError(f"weights of shapes {a.shape} and {b.shape} cannot be aligned")
    if not a.any() or not b.any():
        raise InputError("weights that are all zero have no direction")
    a, b = _of_size_one(a), _of_size_one(b)
    return float(np.sum(a * b)) / float(np.linalg.norm(a) * np.linalg.norm(b))


def _of_size_one(W: Array) -> Array:
    """W over its largest entry, so that no square overflows or vanishes; zeros as they are."""
    largest = np.abs(W).max()
    return W / largest if largest > 0 else W


def optimality_ratio(problem: MarginProblem, W: Any, optimum: float) -> float:
    """(‖W‖ / min margin) / optimum: 1 if W points to the max-margin solution, infinity if it does not separate.

    >>> from implicit_bias import ConstantGate, svm_gln
    >>> from implicit_bias.metrics import optimality_ratio
    >>> problem = svm_gln([[2.0, 1.0], [-2.0, 1.0]], [1, -1], ConstantGate())
    >>> optimality_ratio(problem, [[3.0, 0.0]], optimum=0.5)
    1.0
    """
    margin = normalised_margin(problem, W)
    optimum = as_positive(optimum, "optimum")
    return 1.0 / margin / optimum if margin > 0 else np.inf
