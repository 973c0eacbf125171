"""An interior-point method for spectral norms of weights W (H, D), with a learned metric Q (H, H) between units.

Both norms have ‖W‖² = min { Σ_j σ_j : WWᵀ ⪯ diag(Bσ) }: with B = I it is the 2-summing norm, and with one column, the
squares of its scales, an operator norm. With rows f_i = y_i (⟨φ_i, W⟩ + b), the largest γ with f_i ≥ γ m_i and ‖W‖ ≤ 1,
and the least (T + Σσ)/2 + Σ_i p_i ξ_i with f_i ≥ m_i − ξ_i and WWᵀ ⪯ T diag(Bσ), have the optimality conditions

    Q Ŵ = V = Φᵀ(λ∘y),   W = TŴ,   Bᵀ diag(Q) = ν1,   λ_i u_i = 0,   Q S = 0,   S = diag(Bσ) − TŴŴᵀ,

where u ≥ 0 is the slack of the rows. For a hard margin, T = 1, Σσ = 1 and mᵀλ = 1; for a soft one, ν = 1, γ = 1,
⟨Q, ŴŴᵀ⟩ + θ = 1 with θT = 0, and λ + z = p with z_i ξ_i = 0.

W is a variable of its own, because Q⁻¹V is inaccurate where Q is singular. In the coordinates J with JᵀQ⁻¹J = I and
Jᵀ(TŴŴᵀ + S/2)J = diag(ω), the linearised equation of QS is diagonal in the entries of E, dQ = JEJᵀ. Its elimination
leaves an n × n matrix for λ,

    T K_Q − CCᵀ + diag(u/λ + ξ/z),   C_i,ab = T (ĝ_ia ŷ_ib + ĝ_ib ŷ_ia)/2 · √(2/(ω_a + ω_b)),   ĝ = J⁻¹g, ŷ = JᵀŴx

with the kernel K_Q(x, x′) = ⟨x, x′⟩ g(x)ᵀQ⁻¹g(x′), and a border for σ, b, γ and ν, or for σ, T and b.
"""

from dataclasses import dataclass

import numpy as np

from implicit_bias._utils.blocks import Cholesky, gram
from implicit_bias._utils.checks import Array
from implicit_bias.margin.problem import MarginProblem
from implicit_bias.norms import SpectralForm
from implicit_bias.solvers.native.ball import BallProgram, MatrixConditions, MatrixIterate, Units
from implicit_bias.solvers.native.loop import longest_step


@dataclass(frozen=True)
class SpectralIterate(MatrixIterate):
    """An iterate or a direction, in the symbols of the module; `W` is Ŵ."""

    W: Array
    sigma: Array
    nu: float
    T: float
    theta: float


class SpectralProgram(BallProgram):
    """The program of a margin problem whose norm has a spectral form."""

    least_centring = 0.05

    def __init__(self, problem: MarginProblem, form: SpectralForm) -> None:
        super().__init__(problem)
        self.rows = Units(problem.features, problem.y, form.order, form.bounds.shape[:1])
        self.B = form.bounds

    def solution(self, at: SpectralIterate) -> tuple[Array, float, Array]:
        return self.rows.weights(at.T * at.W), at.b, at.lam

    def sizes(self, at: SpectralIterate, W: Array, V: Array) -> tuple[float, float]:
        """Return √Σσ ‖diag(Bσ)^−½ W‖ and √(tr(Q⁻¹VVᵀ) max_j (Bᵀ diag Q)_j), which are upper bounds for any σ and Q."""
        lengths, M = np.sqrt(self.B @ at.sigma), self.rows.matrices(V)
        value = np.sqrt(at.sigma.sum()) * np.linalg.norm(self.rows.matrices(W) / lengths[:, None], 2)
        try:
            square = max(float(np.sum(M * np.linalg.solve(at.Q, M))), 0.0)
        except np.linalg.LinAlgError:
            square = np.inf
        return float(value), float(np.sqrt(square * (self.B.T @ np.diag(at.Q)).max()))

    def start(self) -> SpectralIterate:
        B, J = self.B, self.B.shape[1]
        sigma, shares = np.ones(J) / J, np.linalg.lstsq(B.T, np.ones(J))[0]
        # The largest singular value of diag(Bσ)^−½ diag(q)⁻¹ V for ν = 1.
        lengths = (shares * np.sqrt(B @ sigma))[:, None]
        lam, V, size = self.first(self.rows.adjoint, lambda V: float(np.linalg.norm(V / lengths, 2)))
        nu = 2 * size if self.hard else 1.0
        T = 1.0 if self.hard else float(self.m @ lam)
        sigma, q = T * sigma, nu * shares
        W = V / q[:, None]
        f, mu = T * self.rows.times(W), float(np.mean(q * (B @ sigma)))
        u, z, xi, gamma = self.slacks(lam, f, mu)
        theta = 0.0 if self.hard else 1.0 - float(q @ W**2 @ np.ones(W.shape[1]))
        return SpectralIterate(lam, u, z, xi, np.diag(q), 0.0, gamma, W, sigma, nu, T, theta)

    def slack(self, at: SpectralIterate) -> Array:
        """Return S = diag(Bσ) − TŴŴᵀ, shape (H, H)."""
        return np.asarray(np.diag(self.B @ at.sigma) - at.T * at.W @ at.W.T)

    def products(self, at: SpectralIterate) -> float:
        """Return the sum of all complementarity products, λᵀu + zᵀξ + Tθ + ⟨Q, S⟩."""
        return float(at.lam @ at.u + at.z @ at.xi + at.T * at.theta + np.sum(at.Q * self.slack(at)))

    def linearised(self, at: SpectralIterate) -> "SpectralConditions":
        return SpectralConditions(self, at)


class SpectralConditions(MatrixConditions):
    """The optimality conditions of a program, linearised at an iterate."""

    def __init__(self, program: SpectralProgram, at: SpectralIterate) -> None:
        rows, B, H, T, self.S = program.rows, program.B, len(at.Q), at.T, program.slack(at)
        super().__init__(program, at, rows.n + H + (0 if program.hard else rows.n + 1))
        L = np.tril(Cholesky(at.Q.copy()).factor)
        omega, vectors = np.linalg.eigh(L.T @ (T * at.W @ at.W.T + self.S / 2) @ L)
        self.J, self.inverse = L @ vectors, vectors.T @ np.linalg.inv(L)
        self.Y = self.J.T @ at.W
        K, products = rows.kernel(self.inverse.T), rows.products(self.inverse, self.Y)
        #: Places of the entries a ≤ b of a symmetric matrix, ω_a + ω_b, and √2 for those that count twice.
        self.upper = np.triu_indices(H)
        self.sums = omega[self.upper[0]] + omega[self.upper[1]]
        self.fold = np.where(self.upper[0] == self.upper[1], 1.0, np.sqrt(2.0))
        flat, a, b = products.reshape(rows.n, -1), *self.upper
        self.C = flat.take(a * H + b, axis=1)
        self.C += flat.take(b * H + a, axis=1)
        self.C *= self.fold * T * np.sqrt(0.5 / self.sums)
        K = T * K - gram(self.C)
        f = rows.times(at.W)
        self.factorise(K, T * f)
        self.missing_V = rows.adjoint(at.lam) - at.Q @ at.W
        self.values = at.nu - B.T @ np.diag(at.Q)
        Z = [self.J.T @ (column[:, None] * self.J) for column in B.T]
        columns = [np.zeros((rows.n, len(Z)))]
        if not program.hard:
            Z, columns = [*Z, -self.Y @ self.Y.T], [*columns, f[:, None]]
            self.values = np.append(self.values, 1.0 - float(np.sum(self.Y**2)) - at.theta)
        #: Columns of σ and, for a soft margin, T; equations of the diagonal of Q, and of ⟨Q, ŴŴᵀ⟩.
        self.Z = np.stack([self.folded(R) for R in Z], axis=1)
        border = np.hstack(columns) + self.C @ self.Z
        more, self.more = program.border(at.lam)
        self.border, self.left = np.column_stack([border, *more]), np.column_stack([2 * border, *more])
        self.solved = self.factor.solve(self.border)
        known, size = self.Z.shape[1], self.border.shape[1]
        self.small = np.zeros((size + program.hard, size + program.hard))
        self.small[:size, :size] = -self.left.T @ self.solved
        self.small[:known, :known] -= 2 * self.Z.T @ self.Z
        if not program.hard:
            self.small[known - 1, known - 1] -= at.theta / at.T
        else:
            # The last unknown is ν, the last equation Σσ = 1.
            self.small[:known, -1], self.small[-1, :known] = -1.0, 1.0

    def folded(self, R: Array) -> Array:
        """Return R_ab `fold`_ab / √(2(ω_a + ω_b)) of all a ≤ b, as a vector (H(H + 1)/2,), for a symmetric R (H, H)."""
        return R[self.upper] * self.fold / np.sqrt(2 * self.sums)

    def over_metric(self, M: Array) -> Array:
        """Return Q⁻¹M."""
        return self.inverse.T @ (self.inverse @ M)

    def direction(self, target: float, guess: SpectralIterate | None) -> SpectralIterate:
        program, at = self.program, self.at
        rows, B, H = program.rows, program.B, len(at.Q)
        c_u, c_z, right = self.required(target, guess)
        c_T = target - at.T * at.theta
        missing_V, R = self.missing_V, target * np.eye(H) - self.J.T @ self.S @ self.J
        if guess is not None:
            c_T -= guess.T * guess.theta
            missing_V = missing_V - guess.Q @ guess.W
            JW = self.J.T @ guess.W
            twist = guess.T * JW @ self.Y.T
            R = R + at.T * JW @ JW.T + twist + twist.T
            right = right - guess.T * rows.times(guess.W)
        P = at.T * self.inverse @ missing_V @ self.Y.T
        fixed = self.folded(R + P + P.T)
        right = right - at.T * rows.times(self.over_metric(missing_V)) + self.C @ fixed
        first = self.factor.solve(right)
        known, values = self.Z.shape[1], self.values - 2 * self.Z.T @ fixed
        if not program.hard:
            values[-1] -= 2 * float(np.sum(at.W * missing_V)) + c_T / at.T
        values = np.append(values, self.more) - self.left.T @ first
        if program.hard:
            values = np.append(values, 1.0 - float(at.sigma.sum()))
        q = np.linalg.solve(self.small, values)
        lam = first - self.solved @ q[: self.border.shape[1]]
        sigma, rest = q[: B.shape[1]], list(q[B.shape[1] :])
        nu, gamma = (float(rest.pop()), float(rest.pop())) if program.hard else (0.0, 0.0)
        b = float(rest.pop()) if program.intercept else 0.0
        T = 0.0 if program.hard else float(rest.pop())
        E = np.zeros((H, H))
        E[self.upper] = (fixed + self.C.T @ lam - self.Z @ q[:known]) * np.sqrt(2 / self.sums) / self.fold
        E = E + np.triu(E, 1).T
        Q = self.J @ E @ self.J.T
        W = self.over_metric(rows.adjoint(lam) + missing_V - Q @ at.W)
        theta, slacks = 0.0 if program.hard else (c_T - at.theta * T) / at.T, self.slacks(lam, c_u, c_z)
        return SpectralIterate(lam, *slacks, (Q + Q.T) / 2, b, gamma, W, sigma, nu, T, theta)

    def longest(self, change: SpectralIterate) -> float:
        at = self.at
        values, changes = [at.lam, at.u, at.z, at.xi], [change.lam, change.u, change.z, change.xi]
        if not self.program.hard:
            values, changes = [*values, np.array([at.T, at.theta])], [*changes, np.array([change.T, change.theta])]
        least = np.linalg.eigvalsh(self.inverse @ change.Q @ self.inverse.T)[0]
        return min(longest_step(values, changes), -1 / least if least < -1 else 1.0)
