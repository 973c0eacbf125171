"""References of a network: the certified optimum with its gates, or the bound for several gated layers."""

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
from implicit_bias.networks import GatedLinearNetwork, GatedNetwork, ReLUNetwork
from implicit_bias.networks.base import to_array
from implicit_bias.solvers import solve

MEASURES = ("error", "ratio", "inconsistency", "alignment", "optimum", "gap", "svm_error")
FROBENIUS = ("frobenius_error", "frobenius_inconsistency")
#: Learned gates have a reference in every row if n² times their number is at most this, otherwise only in last rows.
FOLLOWED_UP_TO = 25_000_000
#: Relative gap required of the bound for several gated layers.
BOUND_GAP = 0.01


@dataclass(frozen=True, eq=False)
class Reference:
    """A certified solution: `optimum`, relative gap, and scores (n_val,) on the validation set.

    `optimum` is the objective, with several gated layers its certified lower bound. `ratio` maps a network to its
    objective at a smallest margin of 1, divided by the lower bound.
    """

    optimum: float
    gap: float
    scores: Array
    ratio: Callable[[GatedNetwork], float]
    #: Weights of the solution, and scores of the one of least Frobenius norm; None with several gated layers.
    weights: Array | None = None
    frobenius: Array | None = None


def is_deep(network: GatedNetwork) -> bool:
    """True if the network has more than one gated layer."""
    return len(network.layer_shapes()) > 1


def reference(network: GatedNetwork, task: BinaryTask) -> Reference | None:
    """Return the reference of a network's current gates; None if these gates cannot separate the samples."""
    if is_deep(network):
        return _bounded(network, task)
    if isinstance(network, GatedLinearNetwork):
        return _certified(margin_problem(network, task.X_train, task.y_train), task)
    gates: ReLUGates = network.gates()
    return _behind(gates.directions_.tobytes(), task)


def margin_problem(network: GatedNetwork, X: Array, y: Array) -> MarginProblem:
    """Return the margin problem of the current gates of a network with one gated layer."""
    if not isinstance(network, GatedLinearNetwork):
        return svm_lc(X, y, network)
    return svm_shallow(X, y, ConstantGate()) if network.degree == 1 else svm_gln(X, y, network.gates())


@lru_cache(maxsize=1)
def _behind(weights: bytes, task: BinaryTask) -> Reference | None:
    gates = ReLUGates(np.frombuffer(weights).reshape(-1, task.X_train.shape[1]))
    return _certified(svm_gln(task.X_train, task.y_train, gates), task)


def _certified(problem: MarginProblem, task: BinaryTask) -> Reference | None:
    solution = solve(problem)
    if solution.status.inseparable:
        return None
    gates = problem.gates or ConstantGate()
    least_frobenius, validation = svm_shallow(task.X_train, task.y_train, gates), gates(task.X_val)
    return Reference(
        solution.objective,
        solution.gap,
        validation @ solution.weights,
        lambda network: optimality_ratio(problem, network.effective_weights(), solution.lower_bound),
        solution.weights,
        validation @ solve(least_frobenius).weights,
    )


def _bounded(network: GatedNetwork, task: BinaryTask) -> Reference | None:
    bound = margin_bound(network, task.X_train, task.y_train, BOUND_GAP)
    if bound is None:
        return None

    def ratio(network: GatedNetwork) -> float:
        """Return the ratio to the bound; NaN while a GLN has a readout bias from training."""
        if any(bias.any() for bias in network.readout_biases()):
            return float("nan")
        return bound.ratio(network, task.X_train, task.y_train)

    gap = bound.objective / bound.lower_bound - 1
    return Reference(bound.lower_bound, gap, bound.decision_function(network, task.X_val), ratio)


class Measurer:
    """Function from a network to the measurements of a row; all networks have the same gates, or learned gates.

    Errors and inconsistencies are on the validation set. The reference is that of the network's current gates. Learned
    gates of several layers, or of many units, have a reference only in the last row (`last`), because it takes long.
    """

    def __init__(self, task: BinaryTask, followed_up_to: float = FOLLOWED_UP_TO) -> None:
        self.task, self.followed_up_to = task, followed_up_to
        self.inputs: tuple[torch.Tensor, torch.Tensor | None] | None = None
        self.reference: Reference | None = None
        self.is_computed = False

    def __call__(self, network: GatedNetwork, last: bool = False) -> dict[str, float]:
        """Return the columns `MEASURES` and `FROBENIUS` of a row; all except `error` are NaN without a reference."""
        task, row = self.task, dict.fromkeys((*MEASURES, *FROBENIUS), float("nan"))
        scores = self.scores(network)
        row["error"] = error(scores, task.y_val)
        optimal = self._reference(network, last)
        if optimal is None:
            return row
        row |= {"optimum": optimal.optimum, "gap": optimal.gap, "svm_error": error(optimal.scores, task.y_val)}
        row |= {"ratio": optimal.ratio(network), "inconsistency": inconsistency(scores, optimal.scores)}
        if optimal.weights is not None:
            row["alignment"] = alignment(network.effective_weights(), optimal.weights)
        if optimal.frobenius is not None:
            row["frobenius_error"] = error(optimal.frobenius, task.y_val)
            row["frobenius_inconsistency"] = inconsistency(scores, optimal.frobenius)
        return row

    def margin(self, network: GatedNetwork, tolerance: float) -> float:
        """Return the normalised margin that proves a ratio of at most 1 + tolerance; 0 if no optimum is known.

        With one layer of fixed gates, the ratio is at most (‖w‖^L/L)/min_i q_i divided by the certified lower bound,
        because ‖a_h V_h‖ ≤ (a_h² + ‖V_h‖²)/2. The result is 0 for learned gates and deep networks.
        """
        if isinstance(network, ReLUNetwork) or is_deep(network):
            return 0.0
        optimal = self._reference(network, False)
        return 1 / (network.degree * (1 + tolerance) * optimal.optimum * (1 - optimal.gap)) if optimal else 0.0

    def inseparable(self, network: GatedNetwork) -> bool:
        """True if fixed gates cannot separate the training samples; False for gates that are learned."""
        return not isinstance(network, ReLUNetwork) and self._reference(network, False) is None

    def _reference(self, network: GatedNetwork, last: bool) -> Reference | None:
        """Return the reference, computed once for fixed gates; None if inseparable, or too slow (see the class)."""
        if isinstance(network, ReLUNetwork) and not last:
            size = len(self.task.y_train) ** 2 * network.units[0]
            if is_deep(network) or size > self.followed_up_to:
                return None
        if isinstance(network, ReLUNetwork) or not self.is_computed:
            self.reference, self.is_computed = reference(network, self.task), True
        return self.reference

    @torch.no_grad()
    def scores(self, network: GatedNetwork) -> Array:
        """Return the outputs on the validation set in float32; contexts are computed once, in float64."""
        if self.inputs is None:
            inputs, contexts = network.tensors(self.task.X_val)
            self.inputs = inputs.float(), contexts
        weights = {name: weight.float() for name, weight in network.named_parameters()}
        return to_array(functional_call(network, weights, self.inputs))
