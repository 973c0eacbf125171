"""A margin problem in the coordinates of the interior-point method: all its samples, and the programs of some."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from implicit_bias.checks import Array, length
from implicit_bias.problems import MarginProblem
from implicit_bias.solvers.certificate import best_multiple
from implicit_bias.solvers.conic.interior_point import Bounds, Program
from implicit_bias.solvers.conic.kernels import GroupKernels, contrasts

#: Samples whose margins are computed at a time.
CHUNK = 8192


class Samples:
    """All n samples of a problem whose norm is Σ_h ‖Ŵ_h‖ with W = TŴ, on a device.

    φ̂_i = y_i φ_i / (m_i s) for the required margins m_i, with s such that these have mean square length 1 in an
    average group. So Ŵ is W times s, and λ̂_i is λ_i times m_i s.
    """

    def __init__(self, problem: MarginProblem, device: str) -> None:
        features = problem.features
        form = problem.norm.group_form(features.k)
        assert form is not None
        self.problem, self.form = problem, form
        self.n = features.n
        labels, self.index = np.unique(form.groups, return_inverse=True)
        gates = features.gate_values @ form.expand
        gate_scale = float(length(gates)) / np.sqrt(self.n * len(labels)) or 1.0
        input_scale = float(length(length(features.X, axis=1) / problem.required_margin)) / np.sqrt(self.n) or 1.0
        self.scale = gate_scale * input_scale
        G, share = contrasts(gates / gate_scale, form.groups)

        def moved(values: Array) -> Tensor:
            return torch.as_tensor(values).to(device)

        self.X, self.G, self.share = moved(features.X), moved(G), moved(share)
        self.signs = moved(problem.y / problem.required_margin / input_scale)
        self.prices = None if problem.hard else moved(problem.prices * problem.required_margin * self.scale)

    def program(self, rows: Tensor) -> Program:
        """The problem of the samples `rows` alone."""
        kernels = GroupKernels(self.X[rows] * self.signs[rows, None], self.G[rows], self.share)
        return Program(kernels, None if self.prices is None else self.prices[rows])

    def margins(self, kernels: GroupKernels, lam: Tensor, eta: Tensor) -> Tensor:
        """The margins (n,) of all samples at the weights that (λ, η) of some samples' kernels make."""
        W = kernels.adjoint(lam) * (self.share @ eta)[:, None]
        parts = [
            ((self.X[rows] @ W.T).mul_(self.G[rows])).sum(dim=1)
            for rows in (slice(i, i + CHUNK) for i in range(0, self.n, CHUNK))
        ]
        return torch.cat(parts) * self.signs

    def upper_bound(self, value: float, f: Tensor) -> tuple[float, float]:
        """The objective of the best multiple of weights with norm `value` and margins f, and the margin it asks."""
        if self.prices is None:
            worst = float(f.min())
            return (value / worst if worst > 0 else float("inf")), worst
        ones = torch.ones_like(f).cpu().numpy()
        t, objective = best_multiple(value, f.cpu().numpy(), ones, self.prices.cpu().numpy())
        return objective, 1 / t if t > 0 else float("inf")

    def weights(self, lam: Tensor, eta: Tensor) -> Array:
        """W (k, d) of (λ, η), computed in the original coordinates."""
        problem = self.problem
        V = problem.features.mixed(self.form.expand).adjoint(self.dual(lam) * problem.y)
        return np.asarray(self.form.expand @ (eta.cpu().numpy()[self.index, None] * V))

    def dual(self, lam: Tensor) -> Array:
        """λ (n,) in the original coordinates."""
        return np.asarray(lam.cpu().numpy() / self.problem.required_margin / self.scale)

    def original(self, bounds: Bounds) -> Bounds:
        """Bounds on the original objective."""
        return Bounds(bounds.lower / self.scale, bounds.upper / self.scale)
