"""Metrics of models: error, inconsistency, normalised margin and alignment."""

from typing import Any

import numpy as np

from implicit_bias._utils.checks import Array, InputError, as_floats, as_fraction, as_positive, as_signs
from implicit_bias._utils.floats import without_exponent
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
    """Return the predicted labels of scores (n,): +1 for positive scores, else −1, also for a score of 0.

    Examples
    --------
    >>> from implicit_bias.metrics import predictions
    >>> predictions([0.3, -2.0, 0.0]).tolist()
    [1.0, -1.0, -1.0]
    """
    return np.where(as_floats(scores, "scores", 1) > 0, 1.0, -1.0)


def error(scores: Any, y: Any) -> float:
    """Return the fraction of misclassified samples, for scores (n,) and labels y (n,) of −1 and +1.

    Examples
    --------
    >>> from implicit_bias.metrics import error
    >>> error([0.3, -2.0, 1.0, -1.0], [1, -1, -1, -1])
    0.25
    """
    labels = predictions(scores)
    return float(np.mean(labels != as_signs(y, len(labels), both=False)))


def inconsistency(scores_a: Any, scores_b: Any) -> float:
    """Return the fraction of samples for which two models with scores (n,) predict different labels.

    A score of 0 predicts −1.

    Examples
    --------
    >>> from implicit_bias.metrics import inconsistency
    >>> inconsistency([1.0, 2.0, -1.0, -3.0], [5.0, -1.0, -2.0, -2.0])
    0.25
    """
    a, b = predictions(scores_a), predictions(scores_b)
    if len(a) != len(b):
        raise InputError(f"there are {len(a)} and {len(b)} scores; give scores of the same samples")
    return float(np.mean(a != b))


def expected_inconsistency(error_a: float, error_b: float) -> float:
    """Return the inconsistency of two models with independent errors: e_a (1 − e_b) + e_b (1 − e_a).

    Examples
    --------
    >>> from implicit_bias.metrics import expected_inconsistency
    >>> round(expected_inconsistency(0.1, 0.2), 12)
    0.26
    """
    a, b = as_fraction(error_a, "error_a"), as_fraction(error_b, "error_b")
    return a * (1 - b) + b * (1 - a)


def normalised_margin(problem: MarginProblem, W: Any) -> float:
    """Return min_i y_i (ΦW)_i / ‖W‖ for the problem's norm and weights W (k, d), or (q, k/q, d) of q outputs.

    For a hard-margin problem with m_i = 1 and b = 0 it is at most 1/optimum, with equality at a solution.
    InputError is raised if ‖W‖ = 0.

    Examples
    --------
    >>> from implicit_bias import ConstantGate, svm_gln
    >>> from implicit_bias.metrics import normalised_margin
    >>> normalised_margin(svm_gln([[2.0, 1.0], [-2.0, 1.0]], [1, -1], ConstantGate()), [[3.0, 0.0]])
    2.0
    """
    check_problem(problem)
    W = without_exponent(as_floats(W, "weights", (2, 3)))[0]
    W = W.reshape(-1, W.shape[-1])
    size = problem.norm.value(W)
    if size == 0:
        raise InputError("these weights have norm 0 and no normalised margin; give other weights")
    return float(problem.margins(W).min() / size)


def alignment(W_a: Any, W_b: Any) -> float:
    """Return the cosine ⟨W_a, W_b⟩ / (‖W_a‖_F ‖W_b‖_F) of two weights (k, d).

    InputError is raised if one is zero or their shapes differ.

    Examples
    --------
    >>> from implicit_bias.metrics import alignment
    >>> alignment([[1.0, 0.0]], [[2.0, 0.0]])
    1.0
    """
    a, b = as_floats(W_a, "weights", 2), as_floats(W_b, "weights", 2)
    if a.shape != b.shape:
        raise InputError(f"the weights have shapes {a.shape} and {b.shape}; give weights of one shape")
    if not a.any() or not b.any():
        raise InputError("weights that are all zero have no direction; give other weights")
    a, b = without_exponent(a)[0], without_exponent(b)[0]
    return float(np.sum(a * b)) / float(np.linalg.norm(a) * np.linalg.norm(b))


def optimality_ratio(problem: MarginProblem, W: Any, optimum: float) -> float:
    """Return (‖W‖ / min_i y_i (ΦW)_i) / optimum: 1 at the max-margin solution, infinity if W does not separate.

    `optimum` is the least ‖W‖ of the hard margin. InputError is raised if it is not positive, or ‖W‖ = 0.

    Examples
    --------
    >>> from implicit_bias import ConstantGate, svm_gln
    >>> from implicit_bias.metrics import optimality_ratio
    >>> problem = svm_gln([[2.0, 1.0], [-2.0, 1.0]], [1, -1], ConstantGate())
    >>> optimality_ratio(problem, [[3.0, 0.0]], optimum=0.5)
    1.0
    """
    margin = normalised_margin(problem, W)
    optimum = as_positive(optimum, "optimum")
    return 1.0 / margin / optimum if margin > 0 else np.inf
