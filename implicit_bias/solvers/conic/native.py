"""From a margin problem to the interior-point method and back."""

from __future__ import annotations

import numpy as np

from implicit_bias.features import GatedFeatures
from implicit_bias.problems import MarginProblem
from implicit_bias.solvers.answer import Answer
from implicit_bias.solvers.conic.interior_point import Bounds, largest_margin
from implicit_bias.solvers.conic.kernels import GroupKernels
from implicit_bias.threads import one_thread

#: Iterations after which the method gives up; it usually needs 10 to 20.
DEFAULT_ITERATIONS = 100
#: The method keeps a handful of n×n matrices: 13 GiB at this size.
MOST_SAMPLES = 20_000


def unfit(problem: MarginProblem) -> str | None:
    """Why the native solver cannot take `problem`; None if it can."""
    if np.isfinite(problem.C):
        return "it solves hard margins only so far; use CLARABEL, ECOS or SCS for a soft margin"
    if problem.norm.group_form(problem.features.k) is None:
        return (
            f"it needs a norm that is a sum of group norms, {problem.norm!r} gives no group_form(); use CLARABEL or SCS"
        )
    if problem.features.n > MOST_SAMPLES:
        return f"it keeps n × n matrices and takes at most {MOST_SAMPLES} samples; give fewer"
    return None


def solve_native(problem: MarginProblem, tol: float, max_iterations: int | None, verbose: bool) -> Answer:
    """Weights and dual of a hard-margin problem to a relative gap of `tol`.

    With W = TŴ the norm is Σ_h ‖Ŵ_h‖ over the groups of its group form, and Φ sees the gate values GT. At the optimum
    Ŵ_h = η_h Φ_hᵀ(λ∘y).
    """
    features = problem.features
    form = problem.norm.group_form(features.k)
    assert form is not None
    limit = DEFAULT_ITERATIONS if max_iterations is None else max_iterations
    # Half the tolerance is kept for the rounding of the certificate in the original coordinates.
    with one_thread():
        kernels = GroupKernels(GatedFeatures(features.X, features.gate_values @ form.expand), problem.y, form.groups)
        outcome = largest_margin(kernels, tol / 2, limit, _print if verbose else None)
    return Answer(form.expand @ outcome.weights.numpy(), outcome.lam.numpy(), outcome.iterations, outcome.limit_reached)


def _print(iteration: int, bounds: Bounds, mu: float) -> None:
    print(f"{iteration:4d}  margin {bounds.lower:.9e} … {bounds.upper:.9e}  gap {bounds.gap:.1e}  μ {mu:.1e}")
