"""Least logistic loss of weights with a bounded norm: the problem of decoupled weight decay."""

import warnings
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
from scipy.special import entr, expit

from implicit_bias._utils.checks import Array, InputError, as_positive
from implicit_bias._utils.lazy import cp
from implicit_bias.margin.problem import MarginProblem, check_problem


@dataclass(frozen=True, eq=False)
class LeastLoss:
    """Weights (k, d) of norm at most the bound, their `loss`, and a `lower_bound` of that of all such weights."""

    weights: Array
    loss: float
    lower_bound: float

    @property
    def gap(self) -> float:
        """(loss − lower_bound)/loss."""
        return 1 - self.lower_bound / self.loss if self.loss > 0 else 0.0


def least_loss(problem: MarginProblem, bound: float) -> LeastLoss:
    """Minimise (1/n) Σ_i log(1 + exp(−y_i (ΦW)_i)) subject to ‖W‖ ≤ bound, by CVXPY with CLARABEL.

    Steepest descent with decoupled weight decay λ keeps weights in ‖W‖ ≤ 1/λ, for its norm, once they are there; two
    layers in ‖W‖ ≤ 1/λ². Where AdamW with full batches converges, its limit on one layer is a KKT point of this problem
    (Xie & Li, arXiv 2404.04454). Any W proves a lower bound, with p_i = σ(−y_i (ΦW)_i) and the dual norm ‖·‖_* (ours):

        minimum ≥ (1/n) Σ_i [−p_i log p_i − (1 − p_i) log(1 − p_i)] − bound ‖(1/n) Σ_i p_i y_i φ(x_i)‖_*

    It is computed in doubles, without a bound of their rounding.

    Parameters
    ----------
    problem : MarginProblem
        Features, labels and norm; its C, weights and required margins have no effect.
    bound : float
        Positive; compare it with the optimum of `problem`, the least norm of margins of 1.

    Returns
    -------
    LeastLoss
        `weights` (k, d), their `loss`, its `lower_bound`, and the `gap` (loss − lower_bound)/loss.

    Raises
    ------
    InputError
        If `bound` is not positive, or the problem has a free intercept or constraints.

    Examples
    --------
    >>> from implicit_bias import ConstantGate, least_loss, svm_shallow
    >>> found = least_loss(svm_shallow([[2.0, 1.0], [-1.0, 1.0]], [1, -1], ConstantGate()), bound=1.0)
    >>> round(found.loss, 4), found.gap < 1e-6
    (0.2133, True)
    """
    check_problem(problem)
    bound, features, y = as_positive(bound, "bound"), problem.features, problem.y
    if problem.intercept or problem.affine:
        raise InputError("least_loss takes problems without a free intercept and without constraints")
    # Weights are divided by the bound.
    W = cp.Variable((features.k, features.d))
    margins = (bound * y[:, None] * features.dense().reshape(len(y), -1)) @ cp.reshape(W, (W.size,), order="C")
    losses = cp.sum(cp.logistic(-margins)) / len(y)
    # The lower bound tells how accurate the solution is.
    with warnings.catch_warnings(), suppress(cp.SolverError, ValueError):
        warnings.simplefilter("ignore")
        tolerances = dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), 1e-12)
        cp.Problem(cp.Minimize(losses), [problem.norm.expression(W) <= 1]).solve("CLARABEL", **tolerances)
    weights = np.zeros(W.shape) if W.value is None else bound * np.asarray(W.value)
    weights *= bound / max(problem.norm.value(weights), bound)
    q = problem.margins(weights)
    p, loss = expit(-q), float(np.logaddexp(0.0, -q).mean())
    lower = (entr(p) + entr(1 - p)).mean() - bound * problem.norm.dual(features.adjoint(p * y) / len(y))
    return LeastLoss(weights, loss, min(max(float(lower), 0.0), loss))
