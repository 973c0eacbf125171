"""An interior-point method for nuclear norms Σ_h ‖ζ_h‖_* of weights ζ_h (R, D), in the form of `homogeneous`.

With the features A_ih (R, D) of sample i, which include its label, the dual of a margin problem is

    maximise mᵀλ   subject to   λ_i ≥ 0,   λ_i ≤ p_i,   ỹᵀλ = e,   [I, V_h; V_hᵀ, I] ⪰ 0,   V_h = V⁰_h + Σ_i λ_i A_ih,

because the largest singular value of V_h is at most 1 where the block is semidefinite. If Z_h is the multiplier of a
block, ζ_h is −2 times its upper right corner, and tr Z_h ≥ ‖ζ_h‖_*. With the inverse N_h = [P, Q; Qᵀ, T] of the
Nesterov–Todd scaling of a block, N_h S_h N_h = Z_h, the linear system of an iteration has the matrix

    diag(u/λ + ξ/(p − λ)) + 2 Σ_h [tr(A_ihᵀ P A_jh T) + tr(A_ih Qᵀ A_jh Qᵀ)]_ij,

and for A_ih = g_i x_iᵀ the two terms are the Hadamard products GPGᵀ ∘ XTXᵀ and GQXᵀ ∘ (GQXᵀ)ᵀ.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from implicit_bias._utils.blocks import gram
from implicit_bias._utils.checks import Array
from implicit_bias._utils.cholesky import Cholesky
from implicit_bias.margin.problem import MarginProblem
from implicit_bias.norms import NuclearNorm
from implicit_bias.solvers.base import Answer, Options
from implicit_bias.solvers.native.ball import BallProgram, solve_in_ball
from implicit_bias.solvers.native.homogeneous import Conditions, Element, Iterate
from implicit_bias.solvers.native.incumbent import Incumbent
from implicit_bias.solvers.native.settings import Settings

LEAST_CENTRING = 0.01


class NuclearProgram(BallProgram):
    def __init__(self, problem: MarginProblem, norm: NuclearNorm) -> None:
        super().__init__(problem)
        self.norm, (self.n, self.k, self.d) = norm, problem.features.shape
        (self.H, self.R), C = norm.shape, norm.contexts
        self.D, y = C * self.d, problem.y
        X = getattr(problem.features, "X", None)
        self.X = X if isinstance(X, np.ndarray) else None
        if self.X is not None:
            values = (problem.features.gate_values * y[:, None])[:, norm.order].reshape(self.n, self.H, self.R, C)
            #: Signed gate values of each group and context, shape (H, C, n, R).
            self.G = np.ascontiguousarray(values.transpose(1, 3, 0, 2))
        else:
            blocks = problem.features.dense().reshape(self.n, self.k, self.d)[:, norm.order] * y[:, None, None]
            #: A of each group, shape (H, n, R, D).
            self.blocks = np.ascontiguousarray(blocks.reshape(self.n, self.H, self.R, -1).transpose(1, 0, 2, 3))
        self.c = -self.m
        self.E = y[:, None][:, : self.intercept]
        self.e = np.zeros(int(self.intercept))
        box = self.m[:0] if self.p is None else self.p
        eye = np.eye(self.R + self.D)
        self.h = Element(np.concatenate([0 * self.m, box]), np.zeros((0, 2)), (eye,) * self.H)

    refinements = 1

    def image(self, x: Array) -> Element:
        V = self.norm.matrices(self.problem.adjoint(x))
        blocks = np.zeros((self.H, self.R + self.D, self.R + self.D))
        blocks[:, : self.R, self.R :], blocks[:, self.R :, : self.R] = -V, -V.transpose(0, 2, 1)
        return Element(np.concatenate([-x, x[: len(self.h.lines) - self.n]]), np.zeros((0, 2)), tuple(blocks))

    def weights(self, z: Element) -> Array:
        W = np.empty((self.k, self.d))
        W[self.norm.order] = -2 * np.stack([Z[: self.R, self.R :] for Z in z.blocks]).reshape(self.k, self.d)
        return W

    def adjoint(self, z: Element) -> Array:
        out = self.problem.margins(self.weights(z)) - z.lines[: self.n]
        return out + z.lines[self.n :] if self.p is not None else out

    def normal(self, scaling: Any) -> Array:
        diagonal = scaling.lines[: self.n] ** -2.0
        if self.p is not None:
            diagonal = diagonal + scaling.lines[self.n :] ** -2.0
        K = np.zeros((self.n, self.n))
        for h, inverse in enumerate(scaling.inverses):
            N = inverse.T @ inverse
            P, Q, T = N[: self.R, : self.R], N[: self.R, self.R :], N[self.R :, self.R :]
            if self.X is None:
                A = self.blocks[h]
                L, M = np.linalg.cholesky(P), np.linalg.cholesky(T)
                K += gram((L.T @ A @ M).reshape(self.n, -1))
                B = A @ Q.T
                K += B.reshape(self.n, -1) @ B.transpose(0, 2, 1).reshape(self.n, -1).T
                continue
            G, C = self.G[h], len(self.G[h])
            T, Q = T.reshape(C, self.d, C, self.d), Q.reshape(self.R, C, self.d)
            seen = [self.X @ Q[:, c].T for c in range(C)]
            for a in range(C):
                for b in range(C):
                    K += (G[a] @ P @ G[b].T) * (self.X @ T[a, :, b] @ self.X.T)
                    K += (seen[a] @ G[b].T) * (seen[b] @ G[a].T).T
        K *= 2.0
        K[np.diag_indices_from(K)] += diagonal
        return K

    def start(self) -> Iterate:
        unit = self.h.unit()
        return Iterate(0 * self.c, 0 * self.e, unit, unit, 1.0, 1.0)

    def linearised(self, at: Iterate) -> Conditions:
        return Conditions(self, at, Cholesky)

    def solution(self, at: Iterate) -> tuple[Array, float, Array]:
        return self.weights(at.z) / at.tau, float(at.b.sum() / at.tau), np.maximum(at.x, 0.0) / at.tau


def solve_nuclear(incumbent: Incumbent, options: Options, settings: Settings) -> Answer:
    norm = incumbent.problem.norm
    return solve_in_ball(incumbent, lambda ours: NuclearProgram(ours, norm), options, settings, LEAST_CENTRING)
