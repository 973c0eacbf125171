"""What a regulariser is: its value, its dual norm and its CVXPY expression."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import cvxpy as cp
import numpy as np
import scipy.sparse as sp

from implicit_bias.features.base import Features
from implicit_bias.ground.checks import Array, InputError, as_floats


@dataclass(frozen=True, eq=False)
class GroupForm:
    """A norm as a sum of group norms: ‖W‖ = Σ_h ‖Ŵ_h‖₂ with W = TŴ, up to what no margin can tell.

    `expand` is T (k, k̂), `groups` (k̂,) the group of each row of Ŵ.

    >>> import numpy as np
    >>> import scipy.sparse as sp
    >>> from implicit_bias import GroupForm
    >>> GroupForm(sp.csr_array(np.eye(2)), np.array([0, 1])).groups
    array([0, 1])
    """

    expand: sp.csr_array
    groups: np.ndarray


class Norm(ABC):
    """A (semi)norm of weights W (k, d).

    A new norm is a subclass with `value`, `dual` and `expression`. The certificate needs no more: `value` gives the
    upper bound, `dual` the lower one. `ExpressionNorm` makes one of a CVXPY expression alone.

    >>> from implicit_bias import Frobenius, GroupLasso, PredictorL2, Norm
    >>> [issubclass(norm, Norm) for norm in (Frobenius, GroupLasso, PredictorL2)]
    [True, True, True]
    """

    #: The attributes that the class is made from again, in the order that it takes them; None if it is not saved.
    made_of: tuple[str, ...] | None = None
    #: Number of gates k the norm is for; None if it takes any.
    gates: int | None = None
    #: Whether ‖WV‖ = ‖W‖ for orthogonal V, as for norms of whole rows and spectral norms: CVXPY then gets the inputs
    #: rotated to their rank.
    rotation_invariant: bool = True
    #: Whether ‖W‖ = 0 for some W ≠ 0 that no margin tells from 0. Constraints could tell: such norms take none.
    seminorm: bool = False

    @abstractmethod
    def value(self, W: Array) -> float:
        """‖W‖ for W (k, d)."""

    @abstractmethod
    def dual(self, V: Array) -> float:
        """The dual norm sup {⟨V, W⟩: ‖W‖ ≤ 1} for V (k, d); infinity where the supremum is."""

    @abstractmethod
    def expression(self, W: cp.Expression) -> cp.Expression:
        """‖W‖ of a CVXPY expression W (k, r)."""

    def of_gates(self, W: Any) -> Array:
        """Weights (k, d) as an array, for as many gates as the norm is for."""
        W = as_floats(W, "weights", 2)
        if self.gates not in (None, len(W)):
            raise InputError(f"the norm is for weights of {self.gates} gates, not of {len(W)}")
        return W

    def dual_bound(self, lengths: Array) -> float | None:
        """sup ‖V‖_* over all V whose rows have at most these lengths (k,), for the rounding of V; None if not known."""
        return None

    def refuses(self, features: Features) -> str | None:
        """Why the norm does not take these features; None if it does."""
        return None

    def quadratic(self, W: cp.Expression) -> cp.Expression | None:
        """‖W‖² as a CVXPY quadratic form, for QP solvers; None if it is none."""
        return None

    def gauge(self, W: cp.Expression) -> list[cp.Constraint]:
        """Constraints that pick one W of those that no margin and no norm tells apart; none for a true norm."""
        return []

    def group_form(self, k: int) -> GroupForm | None:
        """The norm of weights of k gates as a sum of group norms, which the native solver needs; None if it is none."""
        return None
