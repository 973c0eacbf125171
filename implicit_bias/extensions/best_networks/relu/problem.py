"""Margin problem of a two-layer ReLU network over activation patterns, with each unit in the cone of its pattern."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from implicit_bias._utils.checks import Array, InputError, as_floats, as_numbers, as_signs, check_size
from implicit_bias.extensions.best_networks.arrangement import Arrangement, activation_patterns
from implicit_bias.extensions.best_networks.relu.network import network_of
from implicit_bias.features import GatedFeatures
from implicit_bias.margin.constraints import LinearConstraints
from implicit_bias.margin.problem import MarginProblem
from implicit_bias.norms import GroupLasso

if TYPE_CHECKING:
    from implicit_bias.networks import ReLUNetwork


@dataclass(frozen=True, eq=False, repr=False)
class ReLUMarginProblem(MarginProblem):
    """Margin problem whose weights W (k, d) are the units of a ReLU network (`svm_relu`).

    The sign of gate h is the sign of the output weight of unit h.

    >>> from implicit_bias import solve
    >>> from implicit_bias.extensions.best_networks import svm_relu
    >>> problem = svm_relu([[1.0, 0.5], [-1.0, 0.5]], [1, -1])
    >>> problem.network(solve(problem).weights).units
    [2]
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        values = self._values
        if not np.isin(values, (-1.0, 0.0, 1.0)).all() or (values.min(axis=0) * values.max(axis=0) < 0).any():
            raise InputError("each gate of a ReLU network must be 0 or 1, or 0 or -1; use svm_relu")

    @property
    def _values(self) -> Array:
        """Gate values (n, k); NaN of shape (1, 1) for features without gates."""
        values = getattr(self.features, "gate_values", None)
        return np.full((1, 1), np.nan) if values is None else np.asarray(values)

    def network(self, W: Any) -> ReLUNetwork:
        """Return the balanced ReLU network of W (k, d), f(x) = Σ_h s_h (⟨w_h, x⟩)_+, in float64, without zero units."""
        W = as_numbers(W, (self.features.k, self.features.d), "weights")
        return network_of(W, self._values.sum(axis=0) >= 0)


def svm_relu(X: Any, y: Any, patterns: Any = None, C: float = np.inf) -> ReLUMarginProblem:
    """Formulate the two-layer ReLU network of least norm with margins of 1, over given activation patterns or all.

        minimise Σ_h (‖u_h‖ + ‖v_h‖)   subject to   y ∘ Σ_h D_h X(u_h − v_h) ≥ 1,
                                                    (2D_h − I)X u_h ≥ 0,   (2D_h − I)X v_h ≥ 0

    If the D_h = diag 1(Xu ≥ 0) are the patterns of all cells of the samples' arrangement, this convex problem has the
    same optimum as min ½ Σ_j (a_j² + ‖w_j‖²) subject to y_i Σ_j a_j (⟨w_j, x_i⟩)_+ ≥ 1 over networks of any width. The
    page "The best two-layer ReLU network" has the proof.

    **Dual.** Maximise Σ_i λ_i subject to λ ≥ 0 and ``|Σ_i λ_i y_i (⟨u, x_i⟩)_+| ≤ ‖u‖`` for all u. Equivalently,
    ‖P_h(±Xᵀ D_h(λ ∘ y))‖ ≤ 1 for every h and both signs, with the projection P_h onto the cone.

    **Bounds.** The solution for any patterns is a network, and hence an upper bound of the optimum over all; more
    patterns never increase it. Without the cone constraints, the group lasso over *all* patterns is a lower bound.
    Over *some* it is neither: SVM-LC can be below or above the best network.

    Convex forms of ReLU networks over activation patterns are an idea of Pilanci & Ergen (2020), whose text we did not
    have. This derivation for margins is ours.

    Parameters
    ----------
    X : array, shape (n, d)
    y : array of −1 and +1, shape (n,)
    patterns : Arrangement, or array of 0 and 1, shape (P, n), optional
        Diagonals of the D_h as rows; all patterns by default (`activation_patterns`).
    C : float
        Upper bound of each λ_i, the weight of the slack; inf for the hard margin.

    Returns
    -------
    ReLUMarginProblem
        Problem with 2P gates: D_h, then −D_h. Its method `network` converts weights to a network.

    Raises
    ------
    InputError
        If arrays or labels are invalid, patterns have other values or shapes, or there are too many of them.

    Examples
    --------
    >>> import numpy as np
    >>> from implicit_bias import solve
    >>> from implicit_bias.extensions.best_networks import svm_relu
    >>> X = np.array([[-1.0, 1.0], [0.0, 1.0], [1.0, 1.0]])
    >>> problem = svm_relu(X, [1, -1, 1])
    >>> solution = solve(problem)
    >>> network = problem.network(solution.weights)
    >>> round(solution.objective, 4), np.round(network.decision_function(X), 4).tolist()
    (5.0, [1.0, -1.0, 1.0])
    """
    X = as_floats(X, "X", 2)
    y = as_signs(y, len(X))
    given = activation_patterns(X) if patterns is None else patterns
    rows = as_floats(given.patterns if isinstance(given, Arrangement) else given, "patterns", 2)
    if rows.shape[1] != len(X) or not np.isin(rows, (0.0, 1.0)).all():
        raise InputError(f"patterns must be 0 or 1 and of shape (P, {len(X)}), such as those of activation_patterns")
    walls = given.walls if isinstance(given, Arrangement) else None
    return cone_problem(X, y, np.vstack([rows, rows]), np.repeat([1.0, -1.0], len(rows)), walls, C)


def cone_problem(
    X: Array, y: Array, patterns: Array, signs: Array, walls: np.ndarray | None = None, C: float = np.inf
) -> ReLUMarginProblem:
    """Return the margin problem of ReLU units with given patterns (k, n), and signs ±1 (k,) of their output weights.

    `walls` (k, n), or (k/2, n) if the second half of the patterns repeats the first, marks the samples whose
    half-spaces define each cone; by default all.
    """
    k, (n, d) = len(patterns), X.shape
    walls = np.ones((k, n), dtype=bool) if walls is None else np.tile(walls, (k // len(walls), 1))
    walls = walls & X.any(axis=1)
    gate, sample = np.nonzero(walls)
    check_size(len(gate) * d + n * k, "the cones of the patterns")
    facing = (1 - 2 * patterns[gate, sample])[:, None] * X[sample]
    columns = gate[:, None] * d + np.arange(d)
    E = sp.csr_array((facing.ravel(), columns.ravel(), np.arange(len(gate) + 1) * d), shape=(len(gate), k * d))
    E.eliminate_zeros()
    cones = LinearConstraints(E, np.zeros(len(gate), dtype=bool), (k, d))
    features, norm = GatedFeatures(X, (signs[:, None] * patterns).T), GroupLasso(np.arange(k))
    return ReLUMarginProblem(features, y, norm, C, name="ReLU network", constraints=cones)
