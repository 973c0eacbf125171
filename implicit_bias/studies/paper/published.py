"""Simulation of the faults of the published experiment, to reproduce its numbers (docs/errata.md)."""

import copy
from collections.abc import Collection
from dataclasses import replace
from typing import Any

import cvxpy as cp
import numpy as np
import scipy.sparse as sp
import torch

from implicit_bias._utils.checks import Array, context_bits
from implicit_bias._utils.floats import length
from implicit_bias.gates import HyperplaneGates, RandomHalfSpaces
from implicit_bias.gates.hyperplanes import Cutoff, draw_hyperplanes
from implicit_bias.margin.formulations import svm_gln, svm_l2
from implicit_bias.margin.problem import MarginProblem
from implicit_bias.metrics import predictions
from implicit_bias.networks import GatedNetwork
from implicit_bias.norms import GroupForm, GroupLasso, Norm
from implicit_bias.studies.paper import FAULTS
from implicit_bias.training.optimisers import SGD

#: Size of the least-norm term that makes the published SVM-L2 well posed.
FLOOR = 1e-3


def mixed_groups(units: int, contexts: int) -> np.ndarray:
    """Return the groups of a column-major reshape, shape (H·K,): gate j is in group j mod H, so that units mix."""
    return np.tile(np.arange(units), contexts)


class Equation23(Norm):
    """The published objective of SVM-L2: ‖Aζ‖_F with the paper's eq. 23, A = J/(HK) − Q + K·I, made well posed.

    There are K contexts, Q sums within the groups, and `groups` (H·K,) is the group of each gate, with K gates in each.
    A is singular: constants c_h with Σc_h = 0 on the groups have no cost. If the groups are the units, these constants
    change no margin. With column-major groups they do change margins, so that the published problem has many solutions,
    and a solver's arbitrary choice determines the validation error. Here the constants have the cost `FLOOR`, which
    selects the solution of least norm. It is a variant; the published solution is that of `osqp_choice`.
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
        # A is symmetric, with eigenvalues K, 1 and 0; the floor replaces only the zeros.
        null = member @ member.T / contexts - np.full((k, k), 1 / k)
        self.root = self.published + FLOOR * null
        self.inverse = np.linalg.inv(self.root)

    def rounding(self, k: int, d: int) -> float:
        """Return 1e-12, independent of k and d, because sums in A cancel."""
        return 1e-12

    def value(self, W: Array) -> float:
        return float(length(self.root @ W))

    def dual(self, V: Array) -> float:
        return float(length(self.inverse @ V))

    def expression(self, W: cp.Expression) -> cp.Expression:
        return cp.norm(cp.vec(self.root @ W, order="C"), 2)

    def group_form(self, k: int) -> GroupForm:
        """Return the form with one group, Ŵ = AW."""
        return GroupForm(sp.csr_array(self.inverse), np.zeros(k, dtype=np.int64))


def published_svm_gln(X: Any, y: Any, gates: HyperplaneGates, faults: Collection[str] = FAULTS) -> MarginProblem:
    """Return `svm_gln`, but with the groups `mixed_groups` if `faults` contains "column-major groups".

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
    """Return SVM-L2 with the norm of eq. 23 (`Equation23`), over the wrong groups if "column-major groups" is a fault.

    `solve` returns the solution of least norm of the published problem; `osqp_choice` returns the published solution.
    Without the fault "equation 23" the result is `svm_l2`, whose norm has no groups.

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
    """Return the published gates of SVM-RC for the comparison with a network of this seed and momentum.

    One gate is always open. The half-spaces are drawn with seed 1 for all networks without momentum, and with `seed`
    for networks with momentum. Each of the two faults applies only if it is in `faults`.
    """
    shared = "one draw" in faults and momentum == 0
    return RandomHalfSpaces(units, 1 if shared else seed, cutoff, always_on="always-on gate" in faults)


def published_training(
    steps: int, seed: int, momentum: float, faults: Collection[str] = FAULTS, *, autograd: bool = False
) -> tuple[SGD, int]:
    """Return the published training of the network of this seed, and the seed of its batches.

    With the fault "training", all networks see the same batches, those of torch's DataLoader with seed 1, and the loss
    is the binary cross-entropy of σ(f) in the network's float32. Above f ≈ 17, σ(f) is 1, and there is no gradient.
    With momentum and learned gates, other orders of rounding lead to other networks: only `autograd` has the published.

    >>> published_training(3200, seed=3, momentum=0.9)[1]
    1
    """
    if "training" not in faults:
        return SGD(steps, momentum=momentum), seed
    return (_Autograd if autograd else SGD)(steps, momentum=momentum, loss=_saturating_loss, loader=True), 1


class _Autograd(SGD):
    def plain_momentum(self) -> None:
        return None


def _saturating_loss(outputs: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.binary_cross_entropy(torch.sigmoid(outputs), (y + 1) / 2)


def published_predictions(scores: Any, faults: Collection[str] = FAULTS) -> Array:
    """Return the predicted labels of scores (n,).

    With the fault "zero outputs", a score of 0 predicts 0: it is wrong, and agrees only with another 0.

    >>> published_predictions(np.array([0.3, -2.0, 0.0])).tolist(), published_predictions(np.zeros(1), ()).tolist()
    ([1.0, -1.0, 0.0], [-1.0])
    """
    return np.sign(scores) if "zero outputs" in faults else predictions(scores)


def published_scores(network: GatedNetwork, gates: HyperplaneGates, X: Any, faults: Collection[str] = FAULTS) -> Array:
    """Return the outputs (n,) on X (n, d) of a network reloaded from a published checkpoint, which lacked its cutoffs.

    The reloaded cutoffs are the random ones, N(0, 9²), that the medians had replaced. Without the fault "lost cutoffs",
    or with one context, the outputs are those of `network`.
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
