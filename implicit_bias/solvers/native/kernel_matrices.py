"""Margin problems of given kernel matrices, one for each group, without factors of them."""

from dataclasses import replace

import numpy as np

from implicit_bias._utils.checks import Array
from implicit_bias._utils.floats import length, precise_product
from implicit_bias.margin.problem import MarginProblem
from implicit_bias.margin.solution import Status
from implicit_bias.solvers.base import Answer, Options, Progress, end_line
from implicit_bias.solvers.native.algebra import Product, Tensor, library
from implicit_bias.solvers.native.kernels import GroupKernels, LinearKernels
from implicit_bias.solvers.native.loop import Bounds
from implicit_bias.solvers.native.scaled import ScaledProblem
from implicit_bias.solvers.native.settings import Settings
from implicit_bias.solvers.native.working_set import SampleSet

#: Sets are smaller at first than those of features, because all kernels are read in every step, and grow faster.
SETTINGS = replace(Settings(), all_samples_up_to=150, first_samples=120, least_samples=100, growth=1.0)


def products(stack: Array, coefficients: Array, exact: bool = False) -> Array:
    """Return K_h a_h (H, n) for symmetric kernels in `stack` (H, n, n) and `coefficients` a (H, n).

    Only the rows with a_hi ≠ 0 are used. The sums are rounded once if `exact`.
    """
    outputs = np.zeros(coefficients.shape)
    for K, a, output in zip(stack, coefficients, outputs, strict=True):
        used = np.flatnonzero(a)
        if exact and len(used):
            upper, lower, _ = precise_product(a[None, used], K[used])
            output[:] = (upper + lower)[0]
        else:
            output[:] = a[used] @ K[used]
    return outputs


def solve_kernel_matrices(problem: MarginProblem, stack: Array, options: Options) -> tuple[Answer, Array]:
    """Solve a margin problem with the group lasso over kernels K_h in `stack` (H, n, n) to a gap of `options.tol`.

    Return an answer and a λ (n,) with w_h = η_h Σ_i λ_i y_i φ_h(x_i) and b, up to one factor, for its `weights` η (H,).
    Its `dual` is the λ of the best lower bound: the same, unless zero weights are best.
    """
    ours = KernelProblem(problem, stack, SETTINGS)
    start = None if options.start is None else np.asarray(options.start.dual)

    def watch(earlier: int, step: int, size: int, bounds: Bounds, gap: float, _: object) -> Status | None:
        """Report an iterate; return a status to stop with. See `WatchAll`."""
        bounds, seconds = bounds.over(ours.scale), options.deadline.seconds
        options.report(Progress(earlier + step, seconds, bounds.lower, bounds.upper, gap, size, ours.n))
        return options.stop()

    tol, most = options.tol / 2, SETTINGS.max_iterations
    outcome = SampleSet(ours, start, ours.nothing_known(), tol, most, watch, options.limited).run(strict=False)
    if options.verbose:
        end_line()
    return ours.answer(outcome), ours.dual(outcome.weights[0])


class KernelMatrices(GroupKernels):
    """Kernels K_h that are stored, shape (H, n, n), including the signs y."""

    def __init__(self, stack: Tensor, settings: Settings) -> None:
        super().__init__(stack[0], len(stack), settings)
        self.stack = stack

    def weighted(self, eta: Tensor) -> Tensor:
        return library(eta).tensordot(eta, self.stack, 1)

    def _product(self, eta: Tensor, diagonal: Tensor) -> Product:
        kernel = self.weighted(eta)
        return lambda x: kernel @ x + diagonal * x

    def sweep(self, lam: Tensor) -> tuple[Tensor, Tensor]:
        P = (self.stack @ lam).T
        # Rounding may leave a form negative that nearly vanishes.
        return library(lam).clip(lam @ P, 0, None), P


class KernelProblem(ScaledProblem):
    """A problem of kernel matrices K (H, n, n); V is not Φ̂ᵀλ, but the rows K̂_hλ and the row λ, shape (H + 1, n)."""

    def __init__(self, problem: MarginProblem, stack: Array, settings: Settings) -> None:
        form, diagonals = problem.group_form, stack.diagonal(axis1=1, axis2=2)
        assert form is not None
        lengths = np.sqrt(np.maximum(diagonals, 0.0)) / problem.required_margin
        scale = float(length(lengths)) / np.sqrt(diagonals.size) or 1.0
        super().__init__(problem, form, "cpu", settings, scale)
        self.stack, self.columns = stack, stack.shape[0] * stack.shape[1]
        self.signs = problem.y / problem.required_margin / scale

    def by_features(self, samples: int) -> bool:
        return False

    def group_kernels(self, rows: Tensor, more: Tensor | None = None) -> KernelMatrices:
        signs, m = self.signs[rows], len(rows)
        size = m + (more is not None)
        stack, both = np.empty((self.H, size, size)), np.outer(signs, signs)
        for K, place in zip(self.stack, stack, strict=True):
            np.multiply(K[rows][:, rows], both, out=place[:m, :m])
        if more is not None:
            products = self.adjoint(more)[:-1]
            stack[:, :m, m] = stack[:, m, :m] = products[:, rows]
            stack[:, m, m] = products @ more
        return KernelMatrices(stack, self.settings)

    def _kernel_numbers(self, samples: int) -> int:
        return (self.H + 3) * samples**2

    def linear(self, rows: Tensor) -> LinearKernels:
        raise NotImplementedError("kernel matrices have no features")

    def adjoint(self, lam: Tensor) -> Tensor:
        return np.vstack([self.signs * products(self.stack, np.tile(self.signs * lam, (self.H, 1))), lam])

    def weights(self, lam: Tensor, eta: Tensor) -> Array:
        """Return η (H,), with which w_h = η_h Σ_i λ_i y_i φ_h(x_i), up to one factor."""
        return np.asarray(eta)

    def squares(self, V: Tensor) -> Tensor:
        return np.maximum(V[:-1] @ V[-1], 0.0)

    def _outputs(self, V: Tensor, eta: Tensor) -> Tensor:
        return eta @ V[:-1]
