"""The published experiment's faults, apart from everything else, so that its numbers can be met (docs/errata.md)."""

import copy
from collections.abc import Collection
from dataclasses import replace
from typing import Any

import cvxpy as cp
import numpy as np
import scipy.sparse as sp
import torch

from implicit_bias._utils.checks import Array, context_bits
from implicit_bias._utils.scaling import length
from implicit_bias.gates import HyperplaneGates, RandomHalfSpaces
from implicit_bias.gates.hyperplanes import Cutoff, draw_hyperplanes
from implicit_bias.margin.formulations import svm_gln, svm_l2
from implicit_bias.margin.problem import MarginProblem
from implicit_bias.networks import GatedNetwork
from implicit_bias.norms import GroupForm, GroupLasso, Norm
from implicit_bias.studies.paper.studies import FAULTS

#: Size of the least-norm term that makes the published SVM-L2 well posed.
FLOOR = 1e-3


def mixed_groups(units: int, contexts: int) -> np.ndarray:
    """The groups of a column-major reshape: gate j belongs to j mod H, so that units mix. Shape (H·K,) for K contexts.

    >>> mixed_groups(3, 2).tolist()
    [0, 1, 2, 0, 1, 2]
    """
    return np.tile(np.arange(units), contexts)


class Equation23(Norm):
    """The published objective of SVM-L2: ‖Aζ‖_F with the paper's eq. 23, A = J/(HK) − Q + K·I, made well posed.

    There are K contexts, and Q sums within the given groups. A is singular: constants c_h with Σc_h = 0 on the groups
    have no cost. With the units as groups no margin sees them; with column-major groups the margins do see them, the
    published problem has many solutions, and a solver's arbitrary choice decides the validation error. Here they cost
    `FLOOR` each, which chooses the solution of least norm: a variant, and not the published solution, which is that of
    `osqp_choice`. `groups` (H·K,) says the group of each gate, K of each.

    >>> norm = Equation23([0, 0, 1, 1])
    >>> zeta = np.array([[1.0], [2.0], [4.0], [8.0]])
    >>> A = np.full((4, 4), 0.25) - np.kron(np.eye(2), np.ones((2, 2))) + 2 * np.eye(4)
    >>> bool(np.isclose(norm.value(zeta), np.linalg.norm(A @ zeta), rtol=1e-4))
    True
    """

    # A check takes CVXPY's gradient, whose matrices have k²d entries.
    verified = True
    rotation_invariant = True

    def __init__(self, groups: Any) -> None:
        labels, index = np.unique(np.asarray(groups), return_inverse=True)
        k, units = len(index), len(labels)
        self.groups = index
        self.gates, contexts = k, k // units
        member = np.eye(units)[index]
        self.published = np.full((k, k), 1 / k) - member @ member.T + contexts * np.eye(k)
        # Symmetric, with eigenvalues C, 1 and 0: the floor lifts the zeros alone.
        null = member @ member.T / contexts - np.full((k, k), 1 / k)
        self.root = self.published + FLOOR * null
        self.inverse = np.linalg.inv(self.root)

    def rounding(self, k: int, d: int) -> float:
        """Sums of A that cancel: no count of operations."""
        return 1e-12

    def value(self, W: Array) -> float:
        """‖AW‖_F."""
        return float(length(self.root @ W))

    def dual(self, V: Array) -> float:
        """‖A⁻¹V‖_F."""
        return float(length(self.inverse @ V))

    def expression(self, W: cp.Expression) -> cp.Expression:
        """‖AW‖_F."""
        return cp.norm(cp.vec(self.root @ W, order="C"), 2)

    def group_form(self, k: int) -> GroupForm:
        """One group of Ŵ = AW."""
        return GroupForm(sp.csr_array(self.inverse), np.zeros(k, dtype=np.int64))


def published_svm_gln(X: Any, y: Any, gates: HyperplaneGates, faults: Collection[str] = FAULTS) -> MarginProblem:
    """SVM-GLN as published: the group lasso over the wrong groups.

    >>> from implicit_bias import HyperplaneGates, load_binary
    >>> task = load_binary("digits", train_size=60)
    >>> published_svm_gln(task.X_train, task.y_train, HyperplaneGates(3, 2)).norm.groups.tolist()
    [0, 1, 2, 0, 1, 2]
    """
    problem = svm_gln(X, y, gates)
    if "column-major groups" not in faults:
        return problem
    return replace(problem, norm=GroupLasso(mixed_groups(gates.units, gates.contexts)))


def published_svm_l2(X: Any, y: Any, gates: HyperplaneGates, faults: Collection[str] = FAULTS) -> MarginProblem:
    """SVM-L2 with eq. 23 in place of the square root, its columns over the wrong groups.

    Solved, it gives the published problem's solution of least norm, a variant of the published one, which `osqp_choice`
    gives. The correct norm of the predictors has no groups: without eq. 23 this is `svm_l2`.

    >>> from implicit_bias import HyperplaneGates, load_binary, solve
    >>> task = load_binary("digits", train_size=60)
    >>> problem = published_svm_l2(task.X_train, task.y_train, HyperplaneGates(3, 2))
    >>> problem.name, solve(problem).status.name
    ('SVM-L2 of least norm', 'OPTIMAL')
    """
    problem = svm_l2(X, y, gates)
    if "equation 23" not in faults:
        return problem
    mixed = "column-major groups" in faults
    norm = Equation23(mixed_groups(gates.units, gates.contexts) if mixed else gates.groups)
    return replace(problem, norm=norm, name="SVM-L2 of least norm")


def published_half_spaces(
    units: int, seed: int, cutoff: Cutoff, faults: Collection[str] = FAULTS, *, momentum: float = 0.0
) -> RandomHalfSpaces:
    """The contexts that SVM-RC had as published, beside a network of this seed and momentum.

    There is a gate that is always open. The half-spaces are one draw, of seed 1, for all networks without momentum;
    those with momentum have a draw of their own seed.

    >>> published_half_spaces(10, 3, "median").seed, published_half_spaces(10, 3, "median", momentum=0.9).seed
    (1, 3)
    """
    shared = "one draw" in faults and momentum == 0
    return RandomHalfSpaces(units, 1 if shared else seed, cutoff, always_on="always-on gate" in faults)


def published_scores(network: GatedNetwork, gates: HyperplaneGates, X: Any, faults: Collection[str] = FAULTS) -> Array:
    """Outputs (n,) on X (n, d) of a network reloaded from a published checkpoint, which had lost its cutoffs.

    The cutoffs are then those that were drawn before the medians replaced them, N(0, 9²).
    """
    lost = "lost cutoffs" in faults and context_bits(gates.contexts) > 0
    if not lost or all(contexts == 1 for _, contexts in network.layer_shapes()):
        return network.decision_function(X)
    _, random = draw_hyperplanes(gates.n_features_in_, len(gates.directions_), gates.seed)
    reloaded = copy.deepcopy(network)
    state = reloaded.get_extra_state()
    state["cutoffs"] = [torch.as_tensor(random)]
    reloaded.set_extra_state(state)
    return reloaded.decision_function(X)
