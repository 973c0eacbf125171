"""References of a network: the certified optimum behind its gates, or the bound for several gated layers."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from torch.func import functional_call

from implicit_bias._utils.checks import Array
from implicit_bias.datasets import BinaryTask
from implicit_bias.extensions.best_networks import margin_bound
from implicit_bias.gates import ConstantGate, ReLUGates
from implicit_bias.margin.formulations import svm_gln, svm_lc, svm_shallow
from implicit_bias.margin.problem import MarginProblem
from implicit_bias.metrics import alignment, error, inconsistency, optimality_ratio
from implicit_bias.networks import GatedNetwork, ReLUNetwork
from implicit_bias.networks.base import to_array
from implicit_bias.solvers import solve

MEASURES = ("error", "ratio", "inconsistency", "alignment", "optimum", "gap", "svm_error")
FROBENIUS = ("frobenius_error", "frobenius_inconsistency")
#: Gates that learn have a reference in every row up to this n² times their number, and above it at the ends only.
FOLLOWED_UP_TO = 25_000_000
#: Relative distance at which the bound for several gated layers is good enough.
BOUND_GAP = 0.01


@dataclass(frozen=True, eq=False)
class Reference:
    """A certified solution: its objective and gap, its scores on the validation set, and a network's ratio to it."""

    optimum: float
    gap: float
    scores: Array
    ratio: Callable[[GatedNetwork], float]
    #: The solution's weights, and the scores of the one of least Frobenius norm, where there is one gated layer.
    weights: Array | None = None
    frobenius: Array | None = None


def is_deep(network: GatedNetwork) -> bool:
    """True if the network has several gated layers."""
    return len(network.layer_shapes()) > 1


def reference(network: GatedNetwork, task: BinaryTask) -> Reference | None:
    """Reference of a network's present gates; None if these cannot separate the samples."""
    if is_deep(network):
        return _bounded(network, task)
    if _has_contexts(network):
        return _certified(margin_problem(network, task.X_train, task.y_train), task)
    gates: ReLUGates = network.gates()
    return _behind(gates.directions_.tobytes(), task)


def margin_problem(network: GatedNetwork, X: Array, y: Array) -> MarginProblem:
    """The margin problem of one layer's present gates."""
    if not _has_contexts(network):
        return svm_lc(X, y, network)
    return svm_shallow(X, y, ConstantGate()) if network.degree == 1 else svm_gln(X, y, network.gates())


def _has_contexts(network: GatedNetwork) -> bool:
    layer = network.one_layer()
    return layer is not None and layer.chosen


@lru_cache(maxsize=1)
def _behind(weights: bytes, task: BinaryTask) -> Reference | None:
    """The latest of ReLU gates: networks with the same follow each other."""
    gates = ReLUGates(np.frombuffer(weights).reshape(-1, task.X_train.shape[1]))
    return _certified(svm_gln(task.X_train, task.y_train, gates), task)


def _certified(problem: MarginProblem, task: BinaryTask) -> Reference | None:
    """A margin problem's solution, with that of least Frobenius norm behind the same gates."""
    solution = solve(problem)
    if solution.status.inseparable:
        return None
    gates = problem.gates or ConstantGate()
    other, validation = svm_shallow(task.X_train, task.y_train, gates), gates(task.X_val)
    return Reference(
        solution.objective,
        solution.gap,
        validation @ solution.weights,
        lambda network: optimality_ratio(problem, network.effective_weights(), solution.lower_bound),
        solution.weights,
        validation @ solve(other).weights,
    )


def _bounded(network: GatedNetwork, task: BinaryTask) -> Reference | None:
    bound = margin_bound(network, task.X_train, task.y_train, BOUND_GAP)
    if bound is None:
        return None

    def ratio(network: GatedNetwork) -> float:
        """NaN while a GLN has the readout bias that training gives it."""
        if any(bias.any() for bias in network.readout_biases()):
            return float("nan")
        return bound.ratio(network, task.X_train, task.y_train)

    gap = bound.objective / bound.lower_bound - 1
    return Reference(bound.lower_bound, gap, bound.decision_function(network, task.X_val), ratio)


class Measurer:
    """Measurements of every row of the table, for networks with the same gates, or with gates that learn.

    Errors and inconsistencies are on the validation set. The reference is that of the network's present gates; learned
    gates of several layers, or of many units, have one at the end only (`measured` with `last`), for it takes long.
    """

    def __init__(self, task: BinaryTask, followed_up_to: float = FOLLOWED_UP_TO) -> None:
        self.task, self.followed_up_to = task, followed_up_to
        self.inputs: tuple[torch.Tensor, torch.Tensor | None] | None = None
        self.reference: Reference | None = None
        self.asked = False

    def __call__(self, network: GatedNetwork, last: bool = False) -> dict[str, float]:
        """The numbers of one row; NaN where they are not known."""
        task, row = self.task, dict.fromkeys((*MEASURES, *FROBENIUS), float("nan"))
        scores = self.scores(network)
        row["error"] = error(scores, task.y_val)
        found = self._reference(network, last)
        if found is None:
            return row
        row |= {"optimum": found.optimum, "gap": found.gap, "svm_error": error(found.scores, task.y_val)}
        row |= {"ratio": found.ratio(network), "inconsistency": inconsistency(scores, found.scores)}
        if found.weights is not None:
            row["alignment"] = alignment(network.effective_weights(), found.weights)
        if found.frobenius is not None:
            row["frobenius_error"] = error(found.frobenius, task.y_val)
            row["frobenius_inconsistency"] = inconsistency(scores, found.frobenius)
        return row

    def margin(self, network: GatedNetwork, tolerance: float) -> float:
        """The normalised margin that proves a ratio of at most 1 + tolerance; 0 where no optimum is known.

        Behind fixed gates of one layer the ratio is at most (‖w‖^L/L)/min_i q_i over the certified lower bound, because
        ‖a_h V_h‖ ≤ (a_h² + ‖V_h‖²)/2.
        """
        if isinstance(network, ReLUNetwork) or is_deep(network) or (found := self._reference(network, False)) is None:
            return 0.0
        return 1 / (network.degree * (1 + tolerance) * found.optimum * (1 - found.gap))

    def inseparable(self, network: GatedNetwork) -> bool:
        """True if the gates are fixed and cannot separate the samples."""
        return not isinstance(network, ReLUNetwork) and self._reference(network, False) is None

    def _reference(self, network: GatedNetwork, last: bool) -> Reference | None:
        """Reference of fixed gates, computed once, or of gates that learn, computed again."""
        if isinstance(network, ReLUNetwork) and not last:
            size = len(self.task.y_train) ** 2 * network.units[0]
            if is_deep(network) or size > self.followed_up_to:
                return None
        if isinstance(network, ReLUNetwork) or not self.asked:
            self.reference, self.asked = reference(network, self.task), True
        return self.reference

    @torch.no_grad()
    def scores(self, network: GatedNetwork) -> Array:
        """The outputs on the validation set in float32, whose contexts, those of float64, are computed once."""
        if self.inputs is None:
            inputs, contexts = network.tensors(self.task.X_val)
            self.inputs = inputs.float(), contexts
        weights = {name: weight.float() for name, weight in network.named_parameters()}
        return to_array(functional_call(network, weights, self.inputs))
