"""A margin problem of units that each see few inputs: compiled loops over the units that count."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from implicit_bias._utils.compiled import compiled
from implicit_bias._utils.scaling import TINY, length
from implicit_bias.features import SubsetFeatures
from implicit_bias.margin.problem import MarginProblem
from implicit_bias.norms import GroupForm
from implicit_bias.solvers.native.arrays import Tensor
from implicit_bias.solvers.native.kernels import StackedKernels
from implicit_bias.solvers.native.scaled import ScaledProblem
from implicit_bias.solvers.native.settings import Settings


class SubsetProblem(ScaledProblem):
    """A problem of `SubsetFeatures` whose groups are the units, without a copy of the features; NumPy only."""

    sparse_groups = True

    def __init__(self, problem: MarginProblem, form: GroupForm, features: SubsetFeatures, settings: Settings) -> None:
        scale = float(length(features.row_norms() / problem.required_margin)) / np.sqrt(features.n * form.count) or 1.0
        super().__init__(problem, form, "cpu", settings, scale)
        self.features, self.columns = features, features.k * features.d
        self.signs = np.broadcast_to(problem.y / problem.required_margin, self.n) / scale

    def linear(self, rows: Tensor) -> SubsetKernels:
        """Return the kernels of samples `rows`; V has a row for each unit, shape (H, K·r)."""
        return SubsetKernels(self.features.select(rows), self.signs[rows], self.settings)

    def kernels(self, rows: Tensor, more: Tensor | None = None) -> StackedKernels:
        A = self.linear(rows).A
        return StackedKernels(A if more is None else np.concatenate([A, self.adjoint(more)[None]]), self.settings)

    def adjoint(self, lam: Tensor) -> Tensor:
        return self.features.adjoint(lam * self.signs).reshape(self.H, -1)

    def _kernel_numbers(self, samples: int) -> int:
        return 2 * samples * self.columns + 2 * samples**2

    def squares(self, V: Tensor) -> Tensor:
        return (V * V).sum(axis=1)

    def _outputs(self, V: Tensor, eta: Tensor) -> Tensor:
        return self.features.apply((V * eta[:, None]).reshape(self.features.k, -1)) * self.signs


class SubsetKernels(StackedKernels):
    """Kernels of units that each see few inputs; `signs` (n,) multiply their features. A is formed if it is used."""

    def __init__(self, features: SubsetFeatures, signs: Tensor, settings: Settings) -> None:
        self.features, self.signs, self.n, self.settings = features, signs, features.n, settings

    @cached_property
    def A(self) -> Tensor:  # noqa: N802
        units = len(self.features.subsets)
        return self.features.dense().reshape(self.n, units, -1) * self.signs[:, None, None]

    def part(self, rows: slice) -> SubsetKernels:
        return SubsetKernels(self.features.select(rows), self.signs[rows], self.settings)

    def ascended(
        self, V: Tensor, eta: Tensor, lam: Tensor, box: Tensor, column: Tensor, b: Tensor, stiffness: Tensor
    ) -> Tensor:
        new, features, units = lam.copy(), self.features, np.flatnonzero(eta)
        parts = features.X, features.contexts, features.subsets, self.signs, V.reshape(len(V), -1, features.d)
        _ascend(*parts, units, eta, new, box, column, float(np.sum(b)), float(stiffness), TINY)
        return new


@compiled
def _ascend(X, contexts, subsets, signs, V, units, eta, lam, box, column, b, stiffness, tiny):  # type: ignore[no-untyped-def]
    """Maximise over one λ_i at a time, in place, and update V (H, K, r) of `units`."""
    for i in range(len(X)):
        f, curvature = b * column[i], stiffness * column[i] ** 2
        for h in units:
            v, product, square = V[h, contexts[i, h]], 0.0, 0.0
            for r in range(len(v)):
                x = signs[i] * X[i, subsets[h, r]]
                product += v[r] * x
                square += x * x
            f += eta[h] * product
            curvature += eta[h] * square
        new = min(max(lam[i] + (1 - f) / max(curvature, tiny), 0.0), box[i])
        change = new - lam[i]
        if change != 0:
            lam[i] = new
            b += stiffness * column[i] * change
            for h in units:
                v = V[h, contexts[i, h]]
                for r in range(len(v)):
                    v[r] += change * signs[i] * X[i, subsets[h, r]]
