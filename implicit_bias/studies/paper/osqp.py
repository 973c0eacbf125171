"""The point at which OSQP stopped on the published SVM-L2, computed in the span of the features.

The published program has separate variables t = Aζ, with A from eq. 23:

    minimise ‖t‖²   subject to   t = Aζ,   y_i (Φζ)_i ≥ 1

A is singular, so that many ζ are optimal, and the published numbers are those of the point at which OSQP stops. The
iteration of OSQP starts at 0 and is linear except for the clipping of n numbers. If no input is larger than the
constant 1, OSQP scales all of ζ by one number and all of t by another, and all iterates stay in the span

    ζ = Σ_e P_e Φᵀ(y∘w_e),   w_e ∈ Rⁿ

of the three eigenspaces of A, with projections P_e on contrasts within a group, the mean, and differences of groups,
and eigenvalues K, 1 and 0. A step costs three products with n × n kernels (GP_eGᵀ)∘(XXᵀ) instead of one with a factor
of size 2kd + n.
"""

from dataclasses import dataclass

import numpy as np

from implicit_bias._utils.blocks import Cholesky, gram
from implicit_bias._utils.checks import Array
from implicit_bias.features import GatedFeatures
from implicit_bias.margin.problem import MarginProblem
from implicit_bias.studies.paper.published import Equation23

# OSQP's settings. CVXPY sets the tolerance and the number of iterations (the paper's A.2: at most 10 000).
#: Regularisation σ of the linear system.
SIGMA = 1e-6
#: Relaxation of a step.
ALPHA = 1.6
#: ρ of the equalities, relative to that of the inequalities.
EQUALITIES = 1e3
#: Tolerance of the residuals, absolute and relative.
TOLERANCE = 1e-5
#: Largest number of iterations.
ITERATIONS = 10_000
#: Iterations between two checks of the residuals.
CHECK = 25
#: Iterations between two changes of ρ.
ADAPT = 50
#: Pairs of an array and its scale.
Parts = list[tuple[Array, float]]


@dataclass(frozen=True)
class Scales:
    """Factors by which OSQP (Ruiz) scales t and ζ, and the rows of equalities (`equal`) and inequalities (`margin`)."""

    t: float
    zeta: float
    equal: float
    margin: float

    @classmethod
    def of(cls, diagonal: float, rounds: int = 10) -> "Scales":
        """Return the scaling for A with the largest entry `diagonal`, and features with largest entry 1 in each row."""
        square, first, second, feature = 2.0, 1.0, diagonal, 1.0
        t = zeta = equal = margin = 1.0
        for _ in range(rounds):
            a, b = max(square, first) ** -0.5, max(second, feature) ** -0.5
            c, d = max(first, second) ** -0.5, feature**-0.5
            square, first, second, feature = square * a * a, first * a * c, second * b * c, feature * b * d
            t, zeta, equal, margin = t * a, zeta * b, equal * c, margin * d
        return cls(t, zeta, equal, margin)


def _largest(parts: Parts, *, scaled: bool = False) -> float:
    """Return the largest |entry| of all arrays in pairs (array, scale), each divided by its scale unless `scaled`."""
    return max(float(np.abs(values).max()) / (1.0 if scaled else scale) for values, scale in parts)


class _OSQPIteration:
    """OSQP's iteration; scaled t, ζ and multipliers of the equalities are coefficients w_e, shape (3, n)."""

    def __init__(self, problem: MarginProblem) -> None:
        features, norm = problem.features, problem.norm
        assert isinstance(features, GatedFeatures)
        assert isinstance(norm, Equation23)
        groups = norm.groups
        self.G, self.yX = np.asarray(features.gate_values, dtype=float), problem.y[:, None] * features.X
        k, units = self.G.shape[1], int(groups.max()) + 1
        within = np.equal.outer(groups, groups) * (units / k)
        mean = np.full((k, k), 1 / k)
        self.projections = (np.eye(k) - within, mean, within - mean)
        self.eigenvalues = np.array([k / units, 1.0, 0.0])
        self.A = (k / units) * self.projections[0] + mean
        inner = gram(self.yX)
        self.kernels = [(self.G @ P @ self.G.T) * inner for P in self.projections]
        self.scales = Scales.of(self.A[0, 0])
        n = len(problem.y)
        self.t, self.zeta, self.dual = np.zeros((3, 3, n))
        self.z, self.v = np.zeros((2, n))
        self.rescale(0.1)

    def rescale(self, rho: float) -> None:
        """Set the step sizes, ρ = `rho` and EQUALITIES · ρ, and factorise the n × n system of `step`."""
        s = self.scales
        self.rho, self.rho_equal = rho, EQUALITIES * rho
        self.on_t, self.on_zeta = s.equal * s.t, s.equal * s.zeta * self.eigenvalues
        self.total = 2 * s.t**2 + SIGMA + self.rho_equal * self.on_t**2
        self.cross = self.rho_equal * self.on_t * self.on_zeta
        self.schur = SIGMA + self.rho_equal * self.on_zeta**2 - self.cross**2 / self.total
        self.slope = s.margin * s.zeta
        weighted = np.sum([K / m for K, m in zip(self.kernels, self.schur, strict=True)], axis=0)
        self.factor = Cholesky(np.eye(len(self.z)) / rho + self.slope**2 * weighted)

    def outputs(self, coefficients: Array) -> Array:
        """Return y ∘ Φζ, shape (n,), for ζ with coefficients w_e: Σ_e K_e w_e."""
        return np.sum([K @ w for K, w in zip(self.kernels, coefficients, strict=True)], axis=0)

    def array(self, coefficients: Array) -> Array:
        """Return Σ_e P_e Φᵀ(y∘w_e), shape (k, d), the array with coefficients w_e."""
        parts = zip(self.projections, coefficients, strict=True)
        return np.sum([P @ ((self.G * w[:, None]).T @ self.yX) for P, w in parts], axis=0)

    def weights(self) -> Array:
        """Return the weights ζ (k, d) without scaling."""
        return self.scales.zeta * self.array(self.zeta)

    def step(self) -> None:
        """Make one iteration in place: linear system, relaxation, projection, and update of the multipliers."""
        schur, cross, on_zeta = self.schur[:, None], self.cross[:, None], self.on_zeta[:, None]
        right_t = SIGMA * self.t - self.on_t * self.dual
        free = (SIGMA * self.zeta + on_zeta * self.dual + cross / self.total * right_t) / schur
        nu = self.factor.solve(self.v / self.rho - self.z - self.slope * self.outputs(free))
        zeta = free + self.slope / schur * nu
        t = (right_t + cross * zeta) / self.total
        self.dual = self.dual + self.rho_equal * ALPHA * (self.on_t * t - on_zeta * zeta)
        self.t = ALPHA * t + (1 - ALPHA) * self.t
        self.zeta = ALPHA * zeta + (1 - ALPHA) * self.zeta
        relaxed = self.z + ALPHA * (nu - self.v) / self.rho
        self.z = np.minimum(relaxed + self.v / self.rho, -self.scales.margin)
        self.v = self.v + self.rho * (relaxed - self.z)

    def progress(self) -> tuple[bool, float]:
        """Return (True, 1) if the unscaled residuals meet OSQP's criterion; else (False, factor by which to change ρ).

        The primal residual is the violation of the constraints, and the dual residual the gradient. Each is relative to
        its largest term. The factor is √(primal/dual) of the scaled residuals.
        """
        s = self.scales
        t, zeta, dual = map(self.array, (self.t, self.zeta, self.dual))
        equal = self.on_t * t - s.equal * s.zeta * (self.A @ zeta)
        margins = -self.slope * self.outputs(self.zeta)
        pulled = -s.equal * s.zeta * (self.A @ dual) - self.slope * (self.G * self.v[:, None]).T @ self.yX
        square, pushed = 2 * s.t**2 * t, self.on_t * dual
        missing: Parts = [(equal, s.equal), (margins - self.z, s.margin)]
        outputs: Parts = [(equal, s.equal), (margins, s.margin), (self.z, s.margin)]
        gradient: Parts = [(square + pushed, s.t), (pulled, s.zeta)]
        pairs = (missing, outputs), (gradient, [(square, s.t), (pushed, s.t), (pulled, s.zeta)])
        if all(_largest(parts) <= TOLERANCE * (1 + _largest(terms)) for parts, terms in pairs):
            return True, 1.0
        primal, dual_share = (
            _largest(parts, scaled=True) / (_largest(terms, scaled=True) + 1e-10) for parts, terms in pairs
        )
        return False, float(np.sqrt(primal / dual_share))


def osqp_choice(problem: MarginProblem) -> tuple[Array, int]:
    """Return the weights ζ (k, d) at which OSQP stops on the published program, and the number of its iterations.

    `problem` is that of `published_svm_l2`, and must be separable. The result equals OSQP's own answer if the inputs
    are in [−1, 1] and the last one is 1, as in the published experiments. For other inputs, the iteration is the same
    but the scaling differs.
    """
    iteration = _OSQPIteration(problem)
    for count in range(1, ITERATIONS + 1):
        iteration.step()
        if count % CHECK:
            continue
        ended, factor = iteration.progress()
        if ended:
            return iteration.weights(), count
        if count % ADAPT == 0 and max(factor, 1 / factor) > 5:
            iteration.rescale(iteration.rho * factor)
    return iteration.weights(), ITERATIONS
