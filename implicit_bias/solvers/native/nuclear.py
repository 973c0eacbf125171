"""An interior-point method for nuclear norms Σ_h ‖ζ_h‖_* of weights ζ_h (R, D), with metrics Q_h (R, R) of the groups.

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

Many samples are solved for by working sets.
"""

from dataclasses import dataclass
from itertools import product
from typing import Any, cast

import numpy as np

from implicit_bias._utils.blocks import gram, row_blocks
from implicit_bias._utils.checks import Array
from implicit_bias._utils.limits import check_memory
from implicit_bias.margin.problem import MarginProblem
from implicit_bias.norms import NuclearNorm
from implicit_bias.solvers.native.ball import BallProgram, MatrixConditions, MatrixIterate, Units
from implicit_bias.solvers.native.loop import Bounds, longest_step
from implicit_bias.solvers.native.settings import Settings
from implicit_bias.solvers.native.working_set import Support

#: Rows of a block of Hadamard products, which stay in the processor's cache.
TILE = 128
#: Gap of a working set, as a share of the gap over all samples, at which the next one follows.
INNER_GAP = 0.1
#: Factor by which the gap over all samples must fall for samples to be set to their bound, or to 0, by their margins.
FALL = 0.7


def symmetric(M: Any) -> Any:
    return (M + M.mT) / 2


@dataclass(frozen=True)
class NuclearIterate(MatrixIterate):
    """An iterate or a direction, in the symbols of the module; Q and V are those of all groups."""

    V: Array
    t: float


class NuclearProgram(BallProgram):
    """The program of a nuclear norm for the rows of `support`; its bounded samples are one more row, the last."""

    least_centring = 0.01

    def __init__(self, problem: MarginProblem, settings: Settings, support: Support | None = None) -> None:
        super().__init__(problem)
        n, norm = len(self.m), cast("NuclearNorm", problem.norm)
        few, self.settings, self.shape = n <= settings.all_samples_up_to, settings, norm.shape
        self.support = support or Support.drawn(problem.y, n if few else settings.first_samples, self.p)
        #: Bounds over all samples when the set was chosen.
        self.known = Bounds()
        rows, bounded = self.support.rows, self.support.bounded
        check_memory(32 * (len(rows) + 1) ** 2, f"the kernels of {len(rows)} samples", "use fewer samples or larger C")
        self.units = Units(problem.features.select(rows), problem.y[rows], norm.order, norm.shape)
        #: The joined row, shape (1, H, R, D), or (0, H, R, D) without one.
        self.joined = self.units.matrices(np.zeros(problem.features.shape[1:]))[None][:0]
        m, y, self.m, self.y = self.m, self.y, self.m[rows], self.y[rows]
        if self.p is not None:
            # Samples drawn at random stand for all.
            p, self.p = self.p, self.p[rows] * (1.0 if support else n / len(rows))
            if len(bounded):
                shares = self.support.scattered(np.append(0 * self.m, 1.0))
                self.joined = self.units.matrices(problem.adjoint(shares))[None]
                self.m, self.y = np.append(self.m, shares @ m), np.append(self.y, shares @ y)
                self.p = np.append(self.p, float(p[bounded].sum()))

    def adjoint(self, lam: Array) -> Array:
        """Return V (H, R, D) = Σ_i λ_i A_i."""
        count = len(self.support.rows)
        return self.units.adjoint(lam[:count]) + np.tensordot(lam[count:], self.joined, axes=1)

    def times(self, M: Array) -> Array:
        """Return ⟨A_i, M⟩ of all rows, given M (H, R, D)."""
        return np.append(self.units.times(M), np.tensordot(self.joined, M, axes=3))

    def matrix(self, at: NuclearIterate, root: Any, inverse: Any) -> Array:
        """Return the lower triangle of 2⟨A_i, QA_j⟩/t + ⟨B_i, NB_jN⟩ for roots of Q and N; 0 for a joined row."""
        units, R, count = self.units, self.shape[1], self.units.n
        whole = np.zeros((len(self.m), len(self.m)))
        K, (i, j) = whole[:count, :count], np.triu_indices(R)
        for h in range(self.shape[0]):
            M, V = inverse[h], inverse[h] @ at.V[h]
            if units.X is not None and 8 * len(units.G[h]) ** 2 < R:
                self._add_products(K, at.t, units.G[h] @ root[h], units.G[h] @ M.T, units.seen(V))
            else:
                pairs = units.products(M, V, h)
                K += (2 / at.t) * units.kernel(root[h], h)
                K += gram((pairs[:, i, j] + pairs[:, j, i]) * (np.where(i == j, 1.0, np.sqrt(2.0)) / at.t))
        return whole

    def _add_products(self, K: Array, t: float, half: Array, g: Array, v: Array) -> None:
        """Add the Hadamard products of a group; arguments are (contexts, n, R)."""
        contexts = range(len(g))
        for rows in row_blocks(len(K), TILE):
            block, to = K[rows, : rows.stop], slice(rows.stop)
            for a in contexts:
                block += (half[a][rows] @ half[a][to].T) * ((2 / t) * self.units.gram[rows, to])
            for a, b in product(contexts, contexts):
                block += (g[a][rows] @ ((2 / t**2) * g[b][to].T)) * (v[a][rows] @ v[b][to].T)
                block += (g[a][rows] @ ((2 / t**2) * v[b][to].T)) * (v[a][rows] @ g[b][to].T)

    def solution(self, at: NuclearIterate) -> tuple[Array, float, Array]:
        lam = self.support.scattered(at.lam)
        return self.units.weights(2 / at.t * (at.Q @ at.V)), at.b, lam

    def solved(self, at: NuclearIterate, f: Array, best: Bounds) -> bool:
        # As shares of the margin γ of the set, which for a hard margin need not be 1.
        f = 1 + (f - at.gamma) / (at.gamma if at.gamma > 0 else np.abs(f).max())
        self.last = at.lam, f, best
        inner = self.products(at) / (at.t * float(self.m @ at.lam))
        whole = len(self.support.rows) == len(f)
        return not whole and inner <= INNER_GAP * min(best.gap, 1.0) and bool(len(self.support.outside(f, len(f))))

    def grown(self) -> "NuclearProgram":
        (lam, f, best), support = self.last, self.support
        lam, p, n = lam[: len(support.rows)], None if self.p is None else self.p[: len(support.rows)], len(f)
        most, new = max(self.settings.first_samples, len(support.rows)), support.outside(f, n)
        # Of few samples, a set of more than half becomes all.
        if n / 2 < min(len(support.rows) + len(new), self.settings.all_samples_up_to + 1):
            return NuclearProgram(self.problem, self.settings, Support.drawn(self.problem.y, n, support.shares))
        if p is None:
            new = new[:most]
        elif best.gap < FALL * self.known.gap:
            # Far from the margin, samples are at their bound, or λ is 0; only the nearest ones become rows.
            support.left[:] = False
            support.bounded = np.setxor1d(support.bounded, new[:-most])
            new = new[-most:]
        else:
            new = new[:most]
        support.renew(new, lam, f, p, best.lower > self.known.lower)
        program = NuclearProgram(self.problem, self.settings, support)
        program.known = best
        return program

    def slack(self, at: NuclearIterate) -> Array:
        """Return S (H, R, R)."""
        return at.t * np.eye(self.shape[1]) - at.V @ at.V.mT / at.t

    def products(self, at: NuclearIterate) -> float:
        """Return the sum of all complementarity products, λᵀu + zᵀξ + Σ_h ⟨Q_h, S_h⟩."""
        return float(at.lam @ at.u + at.z @ at.xi + np.sum(at.Q * self.slack(at)))

    def start(self) -> NuclearIterate:
        lam, V, size = self.first(self.adjoint, lambda V: float(np.linalg.norm(V, 2, axis=(1, 2)).max()))
        t = 2 * size if self.hard else 1.0
        q = (1.0 if self.hard else float(self.m @ lam)) / (np.prod(self.shape) + float(np.sum(V**2)) / t**2)
        Q = q * np.broadcast_to(np.eye(self.shape[1]), (*self.shape, self.shape[1]))
        u, z, xi, gamma = self.slacks(lam, self.times(2 / t * (Q @ V)), q * t)
        return NuclearIterate(lam, u, z, xi, Q, 0.0, gamma, V, t)

    def linearised(self, at: NuclearIterate) -> "NuclearConditions":
        return NuclearConditions(self, at)


class NuclearConditions(MatrixConditions):
    """The optimality conditions of a program, linearised at an iterate."""

    def __init__(self, program: NuclearProgram, at: NuclearIterate) -> None:
        t, V = at.t, at.V
        super().__init__(program, at, len(at.lam) + len(at.z) + int(np.prod(program.shape)))
        L, M = np.linalg.cholesky(program.slack(at)), np.linalg.cholesky(at.Q)
        U, self.s, right = np.linalg.svd(M.mT @ L)
        roots = np.sqrt(self.s)[:, None, :]
        #: R with R⁻¹SR⁻ᵀ = RᵀQR = diag(s), and its inverse.
        self.scale, self.inverse = L @ right.mT / roots, (M @ U / roots).mT
        self.N, self.J = self.inverse.mT @ self.inverse, np.eye(program.shape[1]) + V @ V.mT / t**2
        K = program.matrix(at, M, self.inverse)
        if len(program.joined):
            K[-1] = program.times(self.response(program.joined[0]))
        f = program.times(2 / t * (at.Q @ V))
        self.factorise(K, f)
        # K dλ + border q = right side, and borderᵀ dλ + corner q = values, for the changes q of b, γ and t.
        columns, self.values = program.border(at.lam)
        if program.hard:
            NJN = self.N @ self.J @ self.N
            turn = program.times(2 / t * (NJN @ V)) + f / t
            columns, self.values = [*columns, -turn], [*self.values, float(np.sum(at.Q * self.J)) - 1.0]
        self.border = np.column_stack(columns or [np.zeros((len(K), 0))])
        self.solved = self.solve(self.border)
        self.small = -self.border.T @ self.solved
        if program.hard:
            self.small[-1, -1] += np.sum(NJN * self.J) + 2 / t**3 * np.sum(at.Q * (V @ V.mT))

    def response(self, dV: Array) -> Array:
        """Return the change 2(Q dV + N B N V)/t of W for B = (dV Vᵀ + V dVᵀ)/t, at a constant t."""
        at = self.at
        B = 2 / at.t * symmetric(dV @ at.V.mT)
        return 2 / at.t * (at.Q @ dV + self.N @ B @ self.N @ at.V)

    def solve(self, right: Array) -> Array:
        """Return K⁻¹ `right`, for right sides (n,) or (n, c), refined once."""
        x = self.factor.solve(right)
        columns = x.reshape(len(x), -1).T
        products = [self.program.times(self.response(self.program.adjoint(c))) + self.diagonal * c for c in columns]
        return x + self.factor.solve(right - np.reshape(products, columns.shape).T.reshape(right.shape))

    def direction(self, target: float, guess: NuclearIterate | None) -> NuclearIterate:
        program, at, t, V = self.program, self.at, self.at.t, self.at.V
        c_u, c_z, right = self.required(target, guess)
        rest, curve = (target - self.s[:, :, None] ** 2) * np.eye(program.shape[1]), np.zeros_like(at.Q)
        if guess is not None:
            # Second-order terms of S, of its product with Q, and of W.
            dV, dt = guess.V, guess.t
            crossed = symmetric(dV @ V.mT)
            curve = 2 * dt / t**2 * crossed - dV @ dV.mT / t - dt**2 / t**3 * (V @ V.mT)
            dS = self.inverse @ (dt * self.J - 2 / t * crossed) @ self.inverse.mT
            rest = rest - symmetric(dS @ self.scale.mT @ guess.Q @ self.scale)
            bent = guess.Q @ dV - dt / t * (guess.Q @ V + at.Q @ dV) + (dt / t) ** 2 * (at.Q @ V)
            right = right - program.times(2 / t * bent)
        quotient = 2 * rest / (self.s[:, :, None] + self.s[:, None, :])
        H = self.inverse.mT @ quotient @ self.inverse - self.N @ curve @ self.N
        right = right - program.times(2 / t * (H @ V))
        values = np.array(self.values)
        if program.hard:
            values[-1] += np.sum(H * self.J)
        first = self.solve(right)
        q = np.linalg.solve(self.small, values - self.border.T @ first)
        lam = first - self.solved @ q
        b = float(q[0]) if program.intercept else 0.0
        gamma, dt = (float(q[-2]), float(q[-1])) if program.hard else (0.0, 0.0)
        dV = program.adjoint(lam)
        dS = dt * self.J - 2 / t * symmetric(dV @ V.mT)
        return NuclearIterate(lam, *self.slacks(lam, c_u, c_z), symmetric(H - self.N @ dS @ self.N), b, gamma, dV, dt)

    def longest(self, change: NuclearIterate) -> float:
        at = self.at
        values = [at.lam, at.u, at.z, at.xi, np.array([0.99 * at.t])]
        room = longest_step(values, [change.lam, change.u, change.z, change.xi, np.array([change.t])])
        half = self.scale / np.sqrt(self.s)[:, None, :]
        least = float(np.linalg.eigvalsh(half.mT @ change.Q @ half).min())
        return min(room, -1 / least if least < -1 else 1.0)
