"""An interior-point method for nuclear norms Σ_h ‖ζ_h‖_* of weights ζ_h (R, D), with a metric Q_h (R, R) for each group.

Let V = Φᵀ(λ∘y), in groups V_h (R, D), and f_i = y_i (⟨φ_i, W⟩ + b). The dual norm is the largest singular value of all
V_h: the least t with S_h = tI − V_hV_hᵀ/t ⪰ 0, which is convex in V and t. Its multipliers are Q_h ⪰ 0, and W = 2QV/t.
For a hard margin t is minimised with mᵀλ = 1, whose multiplier is γ, and

    f = γm + u,   λ_i u_i = 0,   Q_h S_h = 0,   Σ_h ⟨Q_h, J_h⟩ = 1   for J = I + VVᵀ/t².

For a soft margin, t = γ = 1, f = m + u − ξ, and λ + z = p with z_i ξ_i = 0. With the features A_i (R, D) of a sample,
which include its label, and B_i = (A_iVᵀ + VA_iᵀ)/t, changes are dS = dt J − Σ_j dλ_j B_j and, with the Nesterov–Todd
scaling N, NSN = Q, dQ = H − N dS N. Their elimination leaves an n × n matrix for λ,

    [2⟨A_i, QA_j⟩/t + ⟨B_i, NB_jN⟩]_ij + diag(u/λ + ξ/z),

with a border for b, γ and t. For A_i = g_i x_iᵀ and v_i = Vx_i, its terms are Hadamard products, GQGᵀ ∘ XXᵀ and
GNGᵀ ∘ VNVᵀ + GNVᵀ ∘ (GNVᵀ)ᵀ with rows g_i and v_i, summed over the contexts of gates.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular

from implicit_bias._utils.blocks import gram, row_blocks
from implicit_bias._utils.checks import Array
from implicit_bias._utils.cholesky import Cholesky
from implicit_bias.margin.problem import MarginProblem
from implicit_bias.solvers.base import Answer, Options
from implicit_bias.solvers.native.ball import BallProgram, solve_in_ball
from implicit_bias.solvers.native.incumbent import Incumbent
from implicit_bias.solvers.native.mehrotra import longest_step
from implicit_bias.solvers.native.settings import Settings

TO_BOUNDARY = 0.98
LEAST_CENTRING = 0.01
SHORTEST_STEP = 1e-8
SHIFT = 1e-15
TILE = 128


def _t(M: Array) -> Array:
    return np.swapaxes(M, -1, -2)


def _sym(M: Array) -> Array:
    return (M + _t(M)) / 2


@dataclass(frozen=True)
class Iterate:
    lam: Array
    u: Array
    z: Array
    xi: Array
    Q: Array
    V: Array
    b: float
    gamma: float
    t: float

    def plus(self, step: float, change: Iterate) -> Iterate:
        return Iterate(*(getattr(self, name) + step * getattr(change, name) for name in vars(self)))


class NuclearProgram(BallProgram):
    def __init__(self, problem: MarginProblem) -> None:
        super().__init__(problem)
        norm: Any = problem.norm
        self.norm, (self.n, self.k, self.d), self.y = norm, problem.features.shape, problem.y
        (self.H, self.R), X = norm.shape, getattr(problem.features, "X", None)
        self.X = X if isinstance(X, np.ndarray) else None
        if self.X is not None:
            values = (problem.features.gate_values * self.y[:, None])[:, norm.order]
            self.G = np.ascontiguousarray(values.reshape(self.n, self.H, self.R, -1).transpose(1, 3, 0, 2))
            self.gram = gram(self.X)
        else:
            A = problem.features.dense().reshape(problem.features.shape)[:, norm.order] * self.y[:, None, None]
            self.A = np.moveaxis(A.reshape(self.n, self.H, self.R, -1), 1, 0)

    def adjoint(self, lam: Array) -> Array:
        return self.norm.matrices(self.problem.adjoint(lam))

    def weights(self, M: Array) -> Array:
        W = np.empty((self.k, self.d))
        W[self.norm.order] = M.reshape(W.shape)
        return W

    def times(self, M: Array) -> Array:
        return self.problem.margins(self.weights(M))

    def matrix(self, at: Iterate, root: Array, inverse: Array) -> Array:
        """Lower triangle of 2⟨A_i, QA_j⟩/t + ⟨B_i, NB_jN⟩, for Q = root rootᵀ, N = inverseᵀ inverse."""
        K, R = np.zeros((self.n, self.n)), self.R
        for h in range(self.H):
            M, V = inverse[h], inverse[h] @ at.V[h]
            if self.X is None:
                A = self.A[h]
                K += (2 / at.t) * gram((root[h].T @ A).reshape(self.n, -1))
                pairs = M @ A @ V.T
            else:
                G, contexts = self.G[h], range(len(self.G[h]))
                half, g = G @ root[h], G @ M.T
                v = np.stack([self.X @ V.reshape(R, len(G), self.d)[:, c].T for c in contexts])
                if R > 8 * len(G) ** 2:
                    for rows in row_blocks(self.n, TILE):
                        own, to = K[rows, : rows.stop], slice(rows.stop)
                        for a in contexts:
                            own += (half[a][rows] @ half[a][to].T) * ((2 / at.t) * self.gram[rows, to])
                        for a, b in product(contexts, contexts):
                            own += (g[a][rows] @ ((2 / at.t**2) * g[b][to].T)) * (v[a][rows] @ v[b][to].T)
                            own += (g[a][rows] @ ((2 / at.t**2) * v[b][to].T)) * (v[a][rows] @ g[b][to].T)
                    continue
                K += np.sum([gram(one) for one in half], axis=0) * ((2 / at.t) * self.gram)
                pairs = np.einsum("cna,cnb->nab", g, v)
            i, j = np.triu_indices(R)
            fold = np.where(i == j, 1.0, np.sqrt(2.0)) / at.t
            K += gram((pairs[:, i, j] + pairs[:, j, i]) * fold)
        return K

    def solution(self, at: Iterate) -> tuple[Array, float, Array]:
        return self.weights(2 / at.t * (at.Q @ at.V)), at.b, at.lam

    def slack(self, at: Iterate) -> Array:
        return at.t * np.eye(self.R) - at.V @ _t(at.V) / at.t

    def products(self, at: Iterate) -> float:
        return float(at.lam @ at.u + at.z @ at.xi + np.sum(at.Q * self.slack(at)))

    def start(self) -> Iterate:
        lam = 1 / (self.n * self.m)
        V, none = self.adjoint(lam), self.m[:0]
        size = float(np.linalg.norm(V, 2, axis=(1, 2)).max()) or 1.0
        if self.p is not None:
            share = min(0.5 / size, float((self.p / lam).min()) / 2)
            lam, V, size = share * lam, share * V, share * size
        t = 2 * size if self.hard else 1.0
        q = 1 / (self.H * self.R + float(np.sum(V**2)) / t**2)
        if not self.hard:
            q *= float(self.m @ lam)
        Q = q * np.broadcast_to(np.eye(self.R), (self.H, self.R, self.R))
        f = self.times(2 / t * (Q @ V))
        mu = q * t
        u = np.maximum(mu / lam, 1e-3 * float(np.abs(f).max()))
        if self.p is None:
            gamma = float(((f - u) / self.m).min())
            return Iterate(lam, f - gamma * self.m, none, none, Q, V, 0.0, gamma, t)
        u = np.maximum(self.m, 2 * np.abs(f))
        return Iterate(lam, u, self.p - lam, u + self.m - f, Q, V, 0.0, 1.0, t)

    def linearised(self, at: Iterate) -> Conditions:
        return Conditions(self, at)


class Conditions:
    def __init__(self, program: NuclearProgram, at: Iterate) -> None:
        self.program, self.at, t, V = program, at, at.t, at.V
        self.S = program.slack(at)
        self.count = program.n * (1 if program.hard else 2) + program.H * program.R
        self.mu = program.products(at) / self.count
        L, M = np.linalg.cholesky(self.S), np.linalg.cholesky(at.Q)
        U, s, Wt = np.linalg.svd(_t(M) @ L)
        self.s = s
        root = np.sqrt(s)[:, None, :]
        #: R with R⁻¹SR⁻ᵀ = RᵀQR = diag(s), and its inverse.
        self.scale, self.inverse = L @ _t(Wt) / root, _t(M @ U / root)
        self.N = _t(self.inverse) @ self.inverse
        K = program.matrix(at, M, self.inverse)
        self.diagonal = at.u / at.lam + (at.xi / at.z if len(at.z) else 0.0)
        K[np.diag_indices_from(K)] += self.diagonal + SHIFT * K.trace() / program.n
        self.factor = Cholesky(K)
        W = 2 / t * (at.Q @ V)
        self.f = f = program.times(W)
        self.missing = f + program.y * at.b - at.gamma * program.m - at.u
        if len(at.z):
            self.missing = self.missing + at.xi
        columns, values = [], []
        if program.intercept:
            columns, values = [-program.y], [-float(program.y @ at.lam)]
            columns, values = [program.y], [-float(program.y @ at.lam)]
        self.J = np.eye(program.R) + V @ _t(V) / t**2
        if program.hard:
            self.NJN = self.N @ self.J @ self.N
            self.a = program.times(2 / t * (self.NJN @ V)) + f / t
            columns, values = [*columns, -program.m, -self.a], [*values, float(program.m @ at.lam) - 1.0, 0.0]
        self.border = np.column_stack(columns or [np.zeros((program.n, 0))])
        self.values = np.array(values)
        self.solved = self.solve(self.border)
        # borderᵀ dλ + corner q = values, K dλ + border q = right.
        self.corner = np.zeros((len(values), len(values)))
        if program.hard:
            self.corner[-1, -1] = np.sum(self.NJN * self.J) + 2 / t**3 * np.sum(at.Q * (V @ _t(V)))

    def times(self, x: Array) -> Array:
        """K x."""
        program, at = self.program, self.at
        dV = program.adjoint(x)
        B = 2 / at.t * _sym(dV @ _t(at.V))
        return program.times(2 / at.t * (at.Q @ dV + self.N @ B @ self.N @ at.V)) + self.diagonal * x

    def solve(self, right: Array) -> Array:
        x = self.factor.solve(right)
        if right.ndim == 1:
            return x + self.factor.solve(right - self.times(x))
        rest = right - np.reshape([self.times(c) for c in x.T], x.T.shape).T
        return x + self.factor.solve(rest)

    def direction(self, target: float, guess: Iterate | None) -> Iterate:
        program, at, t, V = self.program, self.at, self.at.t, self.at.V
        c_u, c_z = target - at.lam * at.u, target - at.z * at.xi
        rest, right = target * np.eye(program.R) - self.s[:, :, None] ** 2 * np.eye(program.R), -self.missing
        curve = np.zeros_like(at.Q)
        if guess is not None:
            c_u, c_z = c_u - guess.lam * guess.u, c_z - guess.z * guess.xi
            # Second-order terms of S, of its product with Q, and of W.
            dV, dt = guess.V, guess.t
            curve = -dV @ _t(dV) / t + 2 * dt / t**2 * _sym(dV @ _t(V)) - dt**2 / t**3 * (V @ _t(V))
            dS = dt * self.J - 2 / t * _sym(dV @ _t(V))
            scaled = self.inverse @ dS @ _t(self.inverse), _t(self.scale) @ guess.Q @ self.scale
            rest = rest - _sym(scaled[0] @ scaled[1])
            bent = 2 / t * (guess.Q @ dV) - 2 * dt / t**2 * (guess.Q @ V + at.Q @ dV) + 2 * dt**2 / t**3 * (at.Q @ V)
            right = right - program.times(bent)
        quotient = 2 * rest / (self.s[:, :, None] + self.s[:, None, :])
        H = _t(self.inverse) @ quotient @ self.inverse - self.N @ curve @ self.N
        right = right + c_u / at.lam - program.times(2 / t * (H @ V))
        if len(at.z):
            right = right - c_z / at.z
        values = self.values.copy()
        if program.hard:
            values[-1] = np.sum(at.Q * self.J) + np.sum(H * self.J) - 1.0
        first = self.solve(right)
        small = self.corner - self.border.T @ self.solved
        q = np.linalg.solve(small, values - self.border.T @ first) if len(values) else values
        lam = first - self.solved @ q
        b = float(q[0]) if program.intercept else 0.0
        gamma, dt = (float(q[-2]), float(q[-1])) if program.hard else (0.0, 0.0)
        dV = program.adjoint(lam)
        dS = dt * self.J - 2 / t * _sym(dV @ _t(V))
        Q = _sym(H - self.N @ dS @ self.N)
        u = (c_u - at.u * lam) / at.lam
        z, xi = (-lam, (c_z + at.xi * lam) / at.z) if len(at.z) else (at.z, at.xi)
        return Iterate(lam, u, z, xi, Q, dV, b, gamma, dt)

    def room(self, change: Iterate) -> float:
        at = self.at
        room = longest_step([at.lam, at.u, at.z, at.xi], [change.lam, change.u, change.z, change.xi])
        roots = np.sqrt(self.s)
        scaled = _t(self.scale) @ change.Q @ self.scale / roots[:, :, None] / roots[:, None, :]
        least = float(np.linalg.eigvalsh(scaled).min())
        room = min(room, -1 / least if least < -1 else 1.0)
        if change.t < 0:
            room = min(room, -0.99 * at.t / change.t)
        while room > SHORTEST_STEP:
            try:
                np.linalg.cholesky(self.program.slack(at.plus(room, change)))
            except np.linalg.LinAlgError:
                room *= 0.8
            else:
                return room
        return 0.0

    def ahead(self, guess: Iterate) -> float:
        return self.program.products(self.at.plus(self.room(guess), guess)) / self.count

    def moved(self, direction: Iterate) -> Iterate | None:
        step = TO_BOUNDARY * self.room(direction)
        if step < 0.1:
            other = self.direction(0.5 * self.mu, None)
            room = TO_BOUNDARY * self.room(other)
            step, direction = (room, other) if room > step else (step, direction)
        return self.at.plus(step, direction) if step > SHORTEST_STEP else None


def solve_nuclear(incumbent: Incumbent, options: Options, settings: Settings) -> Answer:
    return solve_in_ball(incumbent, NuclearProgram, options, settings, LEAST_CENTRING)
