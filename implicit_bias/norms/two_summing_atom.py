"""The 2-summing norm as a function of CVXPY."""

from __future__ import annotations

from typing import Any

import cvxpy as cp
import numpy as np
from cvxpy.atoms import PSD_ATOMS
from cvxpy.atoms.norm_nuc import normNuc
from cvxpy.reductions.dcp2cone.canonicalizers import CANON_METHODS

from implicit_bias.norms.two_summing import rescaled, value_bound


class TwoSummingAtom(normNuc):
    """ρ(W) of an expression W (H, D): min (Σ_h s_h + t)/2 subject to WWᵀ ⪯ t diag(s), a semidefinite program.

    Shape, sign, convexity and monotonicity are those of the nuclear norm.
    """

    @normNuc.numpy_numeric
    def numeric(self, values: list[Any]) -> float:
        return rescaled(value_bound, np.asarray(values[0]))

    def _grad(self, values: list[Any]) -> list[None]:
        return [None]


def _canonical(expression: Any, args: list[Any], solver_context: Any = None) -> tuple[Any, list[Any]]:
    """Return the epigraph variable and the constraints that replace ρ(W) in a conic program."""
    W = args[0]
    H, D = W.shape
    s, t = cp.Variable(H), cp.Variable()
    return (cp.sum(s) + t) / 2, [cp.bmat([[cp.diag(s), W], [W.T, t * np.eye(D)]]) >> 0]


CANON_METHODS[TwoSummingAtom] = _canonical
# Solvers are chosen, and their cones converted, by this list.
PSD_ATOMS.append(TwoSummingAtom)
