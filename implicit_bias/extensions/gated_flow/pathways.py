"""Gated pathways through two trained layers: the flow of the full matrices, and its reduction to separate modes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.integrate import solve_ivp

from implicit_bias._utils import checks
from implicit_bias._utils.checks import Array, InputError
from implicit_bias.extensions.gated_flow.flow import as_start, as_times
from implicit_bias.extensions.gated_flow.gate_blocks import SIZES

#: Tolerances of the integrators.
TOLERANCES = {"rtol": 1e-11, "atol": 1e-13}
#: Largest number of weights for LSODA, which handles stiff flows of large inputs but stores the square of this number.
MAX_LSODA_SIZE = 1000


@dataclass(frozen=True, eq=False)
class Race:
    """Result of `Pathways.race`: the strengths of all modes over time.

    Attributes
    ----------
    times : array, shape (T,)
    first : array, shape (T, F, r)
        v_im, the strength of mode m in first layer i.
    second : array, shape (T, S, r)
        u_jm, the strength of mode m in second layer j.
    losses : array, shape (T,)
        ⟨‖y − ŷ‖²⟩ for ŷ of the modes; the part of y outside the modes counts in full.
    edges : tuple of pairs
        (i, j) of every pathway.

    Examples
    --------
    >>> from implicit_bias.extensions.gated_flow import Pathways
    >>> X = np.sqrt(2) * np.eye(2)
    >>> paths = Pathways.from_samples(X, X * [3.0, 1.0], [[1.0], [1.0]])
    >>> found = paths.race([[0.1, 0.1]], [[0.1, 0.1]], [0.0, 1.0, 10.0])
    >>> found.strengths[:, 0].round(3).tolist()
    [[0.01, 0.01], [1.723, 0.069], [3.0, 1.0]]
    """

    times: Array = field(repr=False)
    first: Array = field(repr=False)
    second: Array = field(repr=False)
    losses: Array = field(repr=False)
    edges: tuple[tuple[int, int], ...] = field(repr=False)

    @property
    def strengths(self) -> Array:
        """s_pm = u_jm v_im of the pathways p = (i, j), shape (T, P, r)."""
        i, j = np.array(self.edges).T
        return np.asarray(self.second[:, j] * self.first[:, i])


@dataclass(frozen=True, eq=False)
class Pathways:
    """Moments of ŷ = Σ_p g_p(x) U_j V_i x over pathways p = (i, j), whose layers V_i (h, d) and U_j (o, h) are trained.

        A_pq = ⟨g_p g_q x xᵀ⟩,   B_p = ⟨g_p y xᵀ⟩,   L = ⟨‖y − ŷ‖²⟩,   E_p = B_p − Σ_q U_j(q) V_i(q) A_qp
        τ dV_i/dt = −½ ∂L/∂V_i = Σ_{p ∋ i} U_jᵀ E_p,   τ dU_j/dt = −½ ∂L/∂U_j = Σ_{p ∋ j} E_p V_iᵀ

    Several pathways may share a layer. **Reduction to modes.** Suppose that orthonormal Q (o, r) and P (d, r) satisfy
    A_pq P = P diag(a_pq) and B_p = Q diag(b_p) Pᵀ for all p and q. Suppose also that V_i = R diag(v_i) Pᵀ and
    U_j = Q diag(u_j) Rᵀ at the start, with orthonormal R (h, r). Then the weights keep this form, and

        τ dv_im/dt = Σ_{p ∋ i} u_jm e_pm,   τ du_jm/dt = Σ_{p ∋ j} v_im e_pm,   e_pm = b_pm − Σ_q a_pqm u_jm(q) v_im(q)

    exactly: pathways compete within each mode, and modes are independent. docs/pathways.md has the proof and conserved
    quantities. `coupling` measures the violation of the assumption. This is ours, inspired by Saxe, Sodhani & Lewallen
    (2022), "The neural race reduction", whose text we did not have.

    Attributes
    ----------
    A : array, shape (P, P, d, d)
    B : array, shape (P, o, d)
    power : float
        ⟨‖y‖²⟩.
    edges : tuple of pairs
        (i, j) of every pathway.

    Examples
    --------
    >>> from implicit_bias.extensions.gated_flow import Pathways
    >>> X = np.sqrt(4) * np.vstack([np.eye(2), np.eye(2)])
    >>> both_and_half = [[1.0, 1.0], [1.0, 1.0], [1.0, 0.0], [1.0, 0.0]]
    >>> paths = Pathways.from_samples(X, X, both_and_half)
    >>> end = paths.race(0.1 * np.ones((2, 2)), 0.1 * np.ones((2, 2)), [0.0, 30.0]).strengths[-1]
    >>> paths.coupling < 1e-12, bool(end[0, 0] > end[1, 0])
    (True, True)
    """

    A: Array = field(repr=False)
    B: Array = field(repr=False)
    power: float
    edges: tuple[tuple[int, int], ...]

    @classmethod
    def from_samples(
        cls, X: ArrayLike, Y: ArrayLike, gates: ArrayLike, edges: Sequence[tuple[int, int]] | None = None
    ) -> Pathways:
        """Return the means over samples X (n, d), Y (n, o) or (n,), and gate values (n, P).

        Parameters
        ----------
        edges : list of pairs, optional
            (i, j) of each pathway, numbered from 0 without gaps; by default no two pathways share a layer.

        Raises
        ------
        InputError
            If arrays are not finite or do not fit, the largest size of X, Y or gates is nonzero and outside
            1e-60 … 1e60, (P d)² numbers are too many, or edges are not P different pairs.
        """
        X, G = checks.as_floats(X, "X", 2), checks.as_floats(gates, "gates", 2)
        Y = checks.as_floats(Y, "Y", max(1, checks.dimensions(Y)))
        Y = Y[:, None] if Y.ndim == 1 else Y
        if len(Y) != len(X) or len(G) != len(X) or Y.ndim != 2:
            raise InputError(f"X, Y and gates must have one row a sample, not {X.shape}, {Y.shape} and {G.shape}")
        for values, what in ((X, "X"), (Y, "Y"), (G, "the gates")):
            checks.check_range(np.array([np.abs(values).max()]), what, *SIZES)
        P, d = G.shape[1], X.shape[1]
        checks.check_size(P * P * d * d, "the moments")
        given = [(p, p) for p in range(P)] if edges is None else edges
        if not isinstance(given, list | tuple) or not all(isinstance(e, list | tuple) and len(e) == 2 for e in given):
            raise InputError("edges must be a list of pairs (first layer, second layer), one for each gate")
        pairs = tuple(
            (checks.as_count(i, "a layer", least=0), checks.as_count(j, "a layer", least=0)) for i, j in given
        )
        if len(pairs) != P or len(set(pairs)) < P:
            raise InputError(f"edges must be {P} different pairs, one for each gate, not {len(set(pairs))}")
        for layers in zip(*pairs, strict=True):
            if set(layers) != set(range(max(layers) + 1)):
                raise InputError("layers must be numbered from 0 without gaps; renumber them")
        A = np.einsum("np,nq,nd,ne->pqde", G, G, X, X, optimize=True) / len(X)
        B = np.einsum("np,no,nd->pod", G, Y, X, optimize=True) / len(X)
        return cls(A, B, float(np.sum(Y**2)) / len(X), pairs)

    @property
    def layers(self) -> tuple[int, int]:
        """F and S, the numbers of first and second layers."""
        first, second = zip(*self.edges, strict=True)
        return max(first) + 1, max(second) + 1

    @cached_property
    def basis(self) -> tuple[Array, Array]:
        """Q (o, r) and P (d, r), r = min(o, d), singular vectors of a linear combination of all B_p, largest first.

        The combination has fixed irregular weights, which separate modes that are degenerate on two pathways but differ
        on a third one.
        """
        weights = 1 + np.sqrt(np.arange(2.0, 2.0 + len(self.B))) % 1
        Q, _, Pt = np.linalg.svd(np.einsum("p,pod->od", weights, self.B), full_matrices=False)
        return Q, Pt.T

    @cached_property
    def modes(self) -> tuple[Array, Array]:
        """a_pqm (P, P, r) and b_pm (P, r), the diagonals of PᵀA_pqP and QᵀB_pP."""
        Q, P = self.basis
        a = np.einsum("dm,pqde,em->pqm", P, self.A, P, optimize=True)
        return a, np.einsum("om,pod,dm->pm", Q, self.B, P, optimize=True)

    @cached_property
    def coupling(self) -> float:
        """Error of the reduction, the largest ‖A_pqP − P diag(a_pq)‖/‖A‖ or ‖B_p − Q diag(b_p)Pᵀ‖/‖B‖; 0 if exact."""
        (Q, P), (a, b) = self.basis, self.modes
        residuals = self.A @ P - P * a[:, :, None, :], self.B - np.einsum("om,pm,dm->pod", Q, b, P)
        ratios = [
            np.linalg.norm(r, axis=(-2, -1)).max() / max(np.linalg.norm(matrix, axis=(-2, -1)).max(), 1e-300)
            for r, matrix in zip(residuals, (self.A, self.B), strict=True)
        ]
        return float(max(ratios))

    def race(self, first: ArrayLike, second: ArrayLike, times: ArrayLike, *, tau: float = 1.0) -> Race:
        """Return the strengths of all modes over time, from v (F, r) and u (S, r), integrated to about 1e-9.

        The result is that of the network if `coupling` is 0, and otherwise that of a network whose modes cannot mix.
        Errors of `times` as for `gradient_flow`; strengths of another shape raise InputError, too.
        """
        a, b = self.modes
        F, S = self.layers
        r = b.shape[1]
        v0, u0 = as_start(first, (F, r), "first"), as_start(second, (S, r), "second")
        i, j = np.array(self.edges).T

        def slope(_: float, state: Array) -> Array:
            """Return τ times the derivative of all strengths, in one row."""
            v, u = state[: F * r].reshape(F, r), state[F * r :].reshape(S, r)
            error = b - np.einsum("pqm,qm->pm", a, u[j] * v[i])
            dv, du = np.zeros_like(v), np.zeros_like(u)
            np.add.at(dv, i, u[j] * error)
            np.add.at(du, j, v[i] * error)
            return np.concatenate([dv.ravel(), du.ravel()])

        at = as_times(times)
        states = _integrated(slope, np.concatenate([v0.ravel(), u0.ravel()]), at, tau)
        v, u = states[:, : F * r].reshape(-1, F, r), states[:, F * r :].reshape(-1, S, r)
        s = u[:, j] * v[:, i]
        losses = self.power - 2 * np.einsum("pm,tpm->t", b, s) + np.einsum("pqm,tpm,tqm->t", a, s, s)
        return Race(at, v, u, losses, self.edges)

    def network(
        self, first: ArrayLike, second: ArrayLike, times: ArrayLike, *, tau: float = 1.0
    ) -> tuple[Array, Array]:
        """Return V (T, F, h, d) and U (T, S, o, h) of the unreduced flow from V (F, h, d) and U (S, o, h).

        Integrated to about 1e-9; errors as for `race`.
        """
        F, S = self.layers
        (_, o, d), V0 = self.B.shape, checks.as_floats(first, "first", 3)
        h = V0.shape[1]
        V0, U0 = as_start(V0, (F, h, d), "first"), as_start(second, (S, o, h), "second")
        i, j = np.array(self.edges).T

        def slope(_: float, state: Array) -> Array:
            """Return τ times the derivative of all weights, in one row."""
            V, U = state[: V0.size].reshape(V0.shape), state[V0.size :].reshape(U0.shape)
            error = self.B - np.einsum("qod,qpde->poe", U[j] @ V[i], self.A, optimize=True)
            dV, dU = np.zeros_like(V), np.zeros_like(U)
            np.add.at(dV, i, U[j].transpose(0, 2, 1) @ error)
            np.add.at(dU, j, error @ V[i].transpose(0, 2, 1))
            return np.concatenate([dV.ravel(), dU.ravel()])

        states = _integrated(slope, np.concatenate([V0.ravel(), U0.ravel()]), as_times(times), tau)
        return states[:, : V0.size].reshape(-1, *V0.shape), states[:, V0.size :].reshape(-1, *U0.shape)

    def start(self, first: ArrayLike, second: ArrayLike, width: int, *, seed: int = 1) -> tuple[Array, Array]:
        """Return V (F, width, d) and U (S, o, width) to start `network`: V_i = R diag(v_i) Pᵀ, U_j = Q diag(u_j) Rᵀ.

        v (F, r) and u (S, r) are `first` and `second`, and R (width, r) has random orthonormal columns. Raise
        InputError if `width` is smaller than the number r of modes.
        """
        (Q, P), F, S = self.basis, *self.layers
        r = P.shape[1]
        v, u = as_start(first, (F, r), "first"), as_start(second, (S, r), "second")
        if checks.as_count(width, "width") < r:
            raise InputError(f"width must be at least the number of modes, {r}, not {width}")
        R = np.linalg.qr(np.random.default_rng(checks.as_seed(seed)).normal(size=(width, r)))[0]
        return np.einsum("hm,im,dm->ihd", R, v, P), np.einsum("om,jm,hm->joh", Q, u, R)


def _integrated(slope: Any, start: Array, times: Array, tau: float) -> Array:
    tau = checks.as_positive(tau, "tau")
    if times[-1] == 0:
        return np.tile(start, (len(times), 1))
    # The integrator rejects repeated times.
    stops, which = np.unique(times / tau, return_inverse=True)
    method = "LSODA" if start.size <= MAX_LSODA_SIZE else "DOP853"
    integral = solve_ivp(slope, (0.0, stops[-1]), start, method, t_eval=stops, **TOLERANCES)
    if not integral.success:
        raise InputError(f"the flow could not be integrated ({integral.message}); rescale targets or inputs")
    return np.asarray(integral.y.T[which])
