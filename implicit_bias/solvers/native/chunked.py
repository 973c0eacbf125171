"""A margin problem over more samples than memory holds, in the coordinates of the interior-point method."""

import numpy as np

from implicit_bias._utils.scaling import length
from implicit_bias.features import ChunkedFeatures
from implicit_bias.margin.problem import MarginProblem
from implicit_bias.norms import GroupForm
from implicit_bias.solvers.native.arrays import Tensor, as_numpy
from implicit_bias.solvers.native.contrasts import contrasts
from implicit_bias.solvers.native.scaled import BlockProblem, GatedProblem, ScaledProblem


class ChunkedProblem(GatedProblem):
    """Of inputs in chunks: rows of the working set are taken from them, margins of all samples are asked of them."""

    def __init__(self, problem: MarginProblem, form: GroupForm, device: str) -> None:
        features = problem.features
        assert isinstance(features, ChunkedFeatures)
        self.mixed = features.mixed(form.expand)
        groups = len(np.unique(form.groups))
        scale = float(length(self.mixed.row_norms() / problem.required_margin)) / np.sqrt(features.n * groups) or 1.0
        ScaledProblem.__init__(self, problem, form, device, scale)
        self._prepare(1.0, scale, contrasts(lambda: map(self.mixed.gates, features.X.chunks), form.groups))

    def inputs_of(self, rows: Tensor) -> Tensor:
        """Read where they lie."""
        return self.moved(self.mixed.X[as_numpy(rows)])

    def gates_of(self, rows: Tensor) -> Tensor:
        """Turned anew."""
        return self.moved(self.contrasts.of(self.mixed.gates(as_numpy(rows))))

    def unshifted(self, V: Tensor, eta: Tensor) -> Tensor:
        """By the features, where their chunks lie."""
        W = as_numpy(V * (self.share @ eta)[:, None])
        return self.moved(self.mixed.apply(self.contrasts.turn @ W)) * self.signs


def scaled(problem: MarginProblem, form: GroupForm, device: str) -> ScaledProblem:
    """The problem in our coordinates for the groups of a form, whichever features it has."""
    if isinstance(problem.features, ChunkedFeatures):
        return ChunkedProblem(problem, form, device)
    kind = BlockProblem if problem.features.gate_values is None else GatedProblem
    return kind(problem, form, device)
