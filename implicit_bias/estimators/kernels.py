"""Max-margin classifier with several kernels."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from joblib import effective_n_jobs
from sklearn.metrics.pairwise import PAIRWISE_KERNEL_FUNCTIONS
from sklearn.utils.parallel import Parallel, delayed

from implicit_bias._utils.blocks import ROWS as BLOCK_ROWS
from implicit_bias._utils.blocks import row_blocks
from implicit_bias._utils.checks import Array, InputError, as_flag, as_floats, check_range, one_of, shown
from implicit_bias._utils.deadline import Deadline
from implicit_bias._utils.memory import check_memory
from implicit_bias._utils.rounding import precise_product
from implicit_bias._utils.scaling import length
from implicit_bias._utils.validation import validated
from implicit_bias.estimators.base import COST_SCALE, FitData, MarginClassifier, NotSeparableError
from implicit_bias.features import KernelFeatures
from implicit_bias.features.base import UnkeptFeatures, semidefinite
from implicit_bias.features.expansion import ExpansionFeatures
from implicit_bias.gates import KernelExpansions
from implicit_bias.gates.expansions import diagonal_of, entry_error, evaluated, expansion, function_of
from implicit_bias.gates.half_space_kernel import half_spaces_error, half_spaces_of_samples
from implicit_bias.margin.model import MarginModel
from implicit_bias.margin.problem import MarginProblem
from implicit_bias.margin.solution import Certificate, Solution, Status
from implicit_bias.norms import GroupLasso
from implicit_bias.solvers import Options, certify, margin_path
from implicit_bias.solvers.native.interior_point import balanced
from implicit_bias.solvers.native.kernel_matrices import solve_kernel_matrices
from implicit_bias.solvers.one_kernel import ADDED, Expansion, solve_one_kernel

#: γ p Var X of the default Gaussian kernels.
WIDTHS = (1 / 16, 1 / 4, 1.0, 4.0, 16.0)
#: Kernels are too narrow if those of most samples with the nearest other one, relative to k(x, x), are below this.
NARROW = 0.01
#: Largest number of samples at which one kernel is checked, drawn at random.
SAMPLED = 500
#: Rows of a kernel matrix that are computed at a time.
ROWS = 1000
#: Largest √(k(x, x)/s), and largest inverse, for single precision.
SINGLE_RANGE = 1e6
#: Reason of a gap that only the rounding of the certificate leaves.
ROUNDED = (
    "the rounding of the kernel's values, multiplied by coefficients as large as these, exceeds the gap; use a smaller "
    "C, a larger tol, or a kernel with a larger margin"
)
#: Reason why samples count as inseparable, with a place for the lower bound.
INSEPARABLE = (
    "no weights of a norm below {:.3g} separate these samples, and the rounding of the kernel's values hides larger "
    "ones; use another kernel, or a soft margin (finite C)"
)
#: Largest number of samples of one kernel whose factors follow if rounding leaves too large a gap.
FACTORED = 2000
#: Statuses after which no factors follow.
CONCLUSIVE = {Status.OPTIMAL, Status.TIME_LIMIT}
#: Rows of a precomputed kernel that are copied at a time.
TAKEN = 256
#: Share of the norm up to which the weights of a kernel count as zero.
NEGLIGIBLE = 1e-6
#: Relative thresholds, tried in order, up to which λ_i is set to zero; the first that keeps the gap is taken.
THRESHOLDS = (1e-5, 1e-6, 1e-7, 1e-8, 0.0)


@dataclass(eq=False, repr=False)
class MultipleKernelClassifier(MarginClassifier):
    """Max-margin classifier that learns weights for several kernels (multiple-kernel learning).

        minimise Σ_m ‖w_m‖ + C Σ_i c_i ξ_i   subject to   y_i (Σ_m ⟨w_m, φ_m(x_i)⟩ + b) ≥ 1 − ξ_i,   ξ ≥ 0

    with ⟨φ_m(x), φ_m(x′)⟩ = k_m(x, x′)/s_m. This is SVM-GLN with kernels instead of units. At the optimum
    w_m = η_m Σ_i λ_i y_i φ_m(x_i), so that the classifier is a support vector machine with the kernel Σ_m η_m k_m/s_m.
    Many η_m are 0.

    Parameters
    ----------
    kernels : sequence, optional
        Each kernel is a positive semidefinite function k(X, Z) from inputs (n, p) and (m, p) to a matrix (n, m), the
        name of one of scikit-learn's `pairwise_kernels`, or such a name and a dict of parameters. For given matrices
        use `PrecomputedKernel`. The default is the linear kernel and Gaussian kernels with γ p Var X = 1/16, …, 16.
        "half-spaces" is the kernel of infinitely many gated units, ((1 − θ/π)^b − (1 − l) 2⁻ᵇ) ⟨x, z⟩ for the angle θ
        of x and z, with the parameters b = `hyperplanes` (1) and l = `linear` (1): the limit of SVM-Fro for l = 1, and
        of SVM-L2 for l = 0. With `fit_intercept=True` the hyperplanes have offsets. For local units it is the sum over
        patches of square images, `side` × `side` at distances `stride` (1), or over `sets` of columns.
    normalise : bool
        If True, s_m is the (weighted) mean of k_m(x, x) over the training samples; otherwise s_m = 1, and the norm
        penalises kernels with small values more.
    fit_intercept : bool
        Append the constant input 1, for kernels that depend on it.
    C, free_intercept, solver, tol, max_seconds, device, verbose, n_jobs, warm_start, class_weight
        As for `GLNClassifier`. Several kernels are computed in any case, also if this takes longer than `max_seconds`,
        and their matrices must fit in memory. For one kernel, with NATIVE on the CPU, only rows of support vectors and
        candidates are computed, and `n_jobs` has no effect: all classes are solved together. Those of "half-spaces" are
        in single precision if `tol` is about 1e-4 or larger; the certificate includes their errors.

    Attributes
    ----------
    classes_, C_, certificate_, status_, intercept_, support_, n_support_, n_features_in_, feature_names_in_
        As for `GLNClassifier`. The certificate is that of the expansion used for prediction, and holds for the kernels
        themselves: it includes the rounding of their values. Those of a function or matrix count as the kernel, up to
        1e-12 √(k(x, x) k(z, z)) and what makes them positive semidefinite. If this rounding hides the weights of a hard
        margin, NotSeparableError states a norm below which none separate.
    kernel_weights_ : array, shape (k,), or (classes, k)
        Share ‖w_m‖ / Σ_l ‖w_l‖ of each kernel.
    dual_coef_ : array, shape (k, s), or (classes, k, s)
        a_mi = η_m λ_i y_i / s_m, with f(x) = Σ_m Σ_i a_mi k_m(x, x_i) + b.
    support_vectors_ : array, shape (s, p)
        The samples x_i of this sum; a few of these samples may be missing in `support_`.
    kernels_ : list of functions
        The k_m.

    Examples
    --------
    Compare two groups of inputs for distinguishing benign from malignant tumours:

    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.metrics.pairwise import rbf_kernel
    >>> from sklearn.preprocessing import StandardScaler
    >>> from implicit_bias import MultipleKernelClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> X = StandardScaler().fit_transform(X)[:300]
    >>> kernels = [lambda X, Z: rbf_kernel(X[:, :10], Z[:, :10]), lambda X, Z: rbf_kernel(X[:, 20:], Z[:, 20:])]
    >>> model = MultipleKernelClassifier(kernels, C=0.1).fit(X, y[:300])
    >>> model.status_.name, model.kernel_weights_.round(1).tolist()
    ('OPTIMAL', [0.1, 0.9])
    """

    kernels: Sequence[Any] | None = None
    C: float | str = "scale"
    normalise: bool = field(default=True, kw_only=True)
    fit_intercept: bool = field(default=False, kw_only=True)

    def _shared_gates(self, X: Array, seed: int, weight: Array | None) -> Any:
        """Return the features Φ_m of the kernels k_m/s_m at X (n, p), which take the place of gates."""
        as_flag(self.normalise, "normalise")
        kernels = _listed(self.kernels, X, weight)
        changes = np.zeros(len(kernels))
        if len(kernels) == 1:
            diagonals = diagonal_of(kernels[0], X)[None]
            # The matrix is not computed, but a random part of it is checked.
            some = X[np.random.default_rng(seed).permutation(len(X))[:SAMPLED]]
            known, changes[0] = _semidefinite(kernels[0], 0, some)
            values = known[None]
        else:
            need = 8.0 * (len(kernels) + 3) * len(X) ** 2
            check_memory(need, f"{len(kernels)} kernels of {len(X)} samples", "use fewer kernels or samples")
            values = np.empty((len(kernels), len(X), len(X)))
            for m, kernel in enumerate(kernels):
                values[m], changes[m] = _semidefinite(kernel, m, X)
            diagonals = values.diagonal(axis1=1, axis2=2).copy()
        _warn_if_narrow(values)
        scales = np.ones(len(kernels))
        if self.normalise:
            means = np.average(diagonals, axis=1, weights=weight)
            scales = np.where(means > 0, means, 1.0)
        if len(kernels) > 1:
            values /= scales[:, None, None]
        errors = changes + [entry_error(kernel, X) for kernel in kernels]
        return _FittedKernels(X, kernels, scales, diagonals, errors, values if len(kernels) > 1 else None)

    def _problem(self, X: Array, y: Array, gates: Any, seed: int) -> MarginProblem:
        return MarginProblem(gates, y, GroupLasso(range(gates.k)))

    def _solve(
        self, data: FitData, costs: Sequence[Any], earlier: list[Solution | None], deadline: Deadline
    ) -> Iterator[tuple[list[MarginProblem], list[Solution]]]:
        """Yield problems and solutions like the base class, where solutions certify weights w_m = Σ_i a_mi φ_m(x_i)."""
        whole = list(data.problems)
        features, weight = whole[0].features, whole[0].sample_weight
        assert isinstance(features, _FittedKernels)
        scale = COST_SCALE / (float(length(weight * features.lengths, axis=1).max()) or 1.0)
        values = [scale if cost == "scale" else float(cost) for cost in costs]
        method = self._solve_one_kernel if features.k == 1 else self._solve_several_kernels
        factored = self.solver not in (None, "NATIVE") or str(self.device) != "cpu"
        if factored:
            method = self._solve_factored
        for C, found in zip(values, method(whole, values, earlier, deadline), strict=True):
            statuses, gap = {solution.status for solution, _ in found}, max(solution.gap for solution, _ in found)
            few = features.k > 1 or features.n <= FACTORED or gap == np.inf
            if few and not factored and not statuses <= CONCLUSIVE and Status.NOT_SEPARABLE_BELOW not in statuses:
                # Factors, and sums without rounding, lose fewer digits.
                again = next(self._solve_factored(whole, [C], earlier, deadline))
                pairs = zip(again, found, strict=True)
                found = [min(pair, key=lambda one: (not one[0].status.inseparable, one[0].gap)) for pair in pairs]
            for name, (solution, _) in zip(data.names, found, strict=True):
                if solution.status.inseparable:
                    raise NotSeparableError(f"{name}: {solution.reason}", solution)
            unkept = UnkeptFeatures((features.n, features.k, 1), products=False)
            # `_set_results` replaces these pairs of features and coefficients by gates.
            yield (
                [p.replace(C=C, features=unkept, gates=(features, a)) for p, (_, a) in zip(whole, found, strict=True)],
                [solution for solution, _ in found],
            )

    def _solve_factored(
        self, whole: list[MarginProblem], costs: list[float], earlier: list[Solution | None], deadline: Deadline
    ) -> Iterator[list[tuple[Solution, Array]]]:
        workers, classes = effective_n_jobs(self.n_jobs), len(whole)
        options = {key: getattr(self, key) for key in ("solver", "tol", "device", "verbose")}

        def tasks() -> Iterator[Any]:
            for c, (problem, start) in enumerate(zip(whole, earlier, strict=True)):
                seconds = deadline.left(min(workers / (classes - c), 1.0))
                yield delayed(_factored_path)(problem, costs, start=start, max_seconds=seconds, **options)

        yield from map(list, zip(*Parallel(self.n_jobs)(tasks()), strict=True))

    def _solve_one_kernel(
        self, whole: list[MarginProblem], costs: list[float], earlier: list[Solution | None], deadline: Deadline
    ) -> Iterator[list[tuple[Solution, Array]]]:
        """Yield, for each C of `costs`, solution and coefficients (1, n) of each class, all solved together."""
        features = whole[0].features
        assert isinstance(features, _FittedKernels)
        known = [solution.dual for solution in earlier if solution is not None]
        for number, C in enumerate(costs):
            problems = [problem.replace(C=C) for problem in whole]
            problems[0].check_upper_bounds()
            start = np.stack(known, axis=1) if len(known) == len(whole) else None
            # Rows in single precision are tried first if they suffice for the tolerance.
            for single in [True, False] if features.single_error < self.tol else [False]:
                limit = Deadline(deadline.left(1 / (len(costs) - number)))
                found, errors = self._expansion_of(problems, start, limit, single)
                cost = {"tol": self.tol, "seconds": limit.seconds, "iterations": found.rounds}
                answers = [
                    _solution_of_class(problem, features, found, c, errors, **cost)
                    for c, problem in enumerate(problems)
                ]
                solutions = [solution for solution, _ in answers]
                if max(solution.gap for solution in solutions) <= self.tol or found.reason == "max_seconds":
                    break
                start = np.stack([solution.dual for solution in solutions], axis=1)
            known = [solution.dual for solution in solutions]
            yield answers

    def _solve_several_kernels(
        self, whole: list[MarginProblem], costs: list[float], earlier: list[Solution | None], deadline: Deadline
    ) -> Iterator[list[tuple[Solution, Array]]]:
        """Yield, for each C of `costs`, solution and coefficients (k, n) of each class, by the kernel matrices."""
        workers, known, classes = effective_n_jobs(self.n_jobs), earlier, len(whole)

        def tasks(C: float, share: Deadline) -> Iterator[Any]:
            for c in range(classes):
                seconds = share.left(min(workers / (classes - c), 1.0))
                options = Options(self.tol, max_seconds=seconds, start=known[c], verbose=self.verbose)
                yield delayed(_solved)(whole[c].replace(C=C), options)

        for number, C in enumerate(costs):
            whole[0].replace(C=C).check_upper_bounds()
            found = Parallel(self.n_jobs)(tasks(C, Deadline(deadline.left(1 / (len(costs) - number)))))
            known = [solution for solution, _ in found]
            if any(solution.status is Status.INTERRUPTED for solution, _ in found):
                raise KeyboardInterrupt  # A search over many fits must end, too.
            yield found

    def _expansion_of(
        self, problems: list[MarginProblem], start: Array | None, limit: Deadline, single: bool
    ) -> tuple[Expansion, Array]:
        """Return the expansions of all classes, and the errors (n, c) of entries of K in their outputs."""
        features, intercept = problems[0].features, bool(problems[0].intercept)
        assert isinstance(features, _FittedKernels)
        signs = np.stack([problem.y for problem in problems], axis=1)
        upper = np.repeat(problems[0].upper_bounds[:, None], len(problems), axis=1)
        kernel, dtype = (features.of_half_spaces(np.float32), np.float32) if single else (features.values, float)
        with limit:
            found = solve_one_kernel(kernel, signs, upper, intercept, self.tol / 2, limit, start, self.verbose, dtype)
        if limit.interrupted:
            raise KeyboardInterrupt  # A search over many fits must end, too.
        # After the time limit, errors of single precision remain.
        error = features.single_error if single else features.entry_errors[0]
        if not single or found.reason == "max_seconds":
            return found, np.full(signs.shape, error)
        return features.recomputed(found, signs, error)

    def _set_results(self, problems: list[MarginProblem], solutions: list[Solution]) -> None:
        gates: list[Any] = [problem.gates for problem in problems]
        super()._set_results([problem.replace(gates=None) for problem in problems], solutions)
        features, coefficients = gates[0][0], np.stack([found for _, found in gates])
        coefficients = coefficients / features.scales[:, None]
        used = coefficients.any(axis=(0, 1))
        sizes = length(self.weights_, axis=-1)
        totals = sizes.sum(axis=-1, keepdims=True)
        self.kernel_weights_ = np.divide(sizes, totals, out=np.zeros_like(sizes), where=totals > 0)
        self.dual_coef_ = coefficients[..., used] if len(gates) > 1 else coefficients[0][:, used]
        self.support_vectors_ = features.samples[used]
        self.kernels_ = [function_of(kernel) for kernel in features.kernels]
        self._model = _model_of_expansions(self._model, features.kernels, features.samples, coefficients)

    def decision_function(self, X: Any) -> Array:
        """Return scores of X (n, p), as for `GLNClassifier`; each kernel is computed once for all classes.

        The kernel "half-spaces" is computed in single precision if `support_vectors_` has more than 2²⁰ entries. Then a
        score's error is at most ε ‖φ(x)‖ Σ_i ‖a_i φ(x_i)‖, with ‖φ(x)‖² = k(x, x), where ε is 2.0e-5 for 8 × 8 patches
        at stride 4 with b = 1, and below 4e-5 with b = 3. Typical errors are a hundred times smaller.
        """
        inputs = self.as_model().inputs(validated(self, X, reset=False, sparse=True))
        coefficients = self.dual_coef_ if self.dual_coef_.ndim > 2 else self.dual_coef_[None]
        scores = np.repeat(self.intercept_[None], len(inputs), axis=0)
        for m in np.flatnonzero(coefficients.any(axis=(0, 2))).tolist():
            scores += expansion(self.kernels_[m], m, self.support_vectors_, coefficients[:, m].T)(inputs)
        return scores if scores.shape[1] > 1 else scores[:, 0]


@dataclass(frozen=True)
class PrecomputedKernel:
    """Kernel given by its matrix: k(i, j) = K_ij, where the only input of a sample is its row number in K.

    Cross-validation works as with other kernels.

    Parameters
    ----------
    K : array, shape (n, n)
        Symmetric positive semidefinite matrix of all samples, those to be predicted included.

    Raises
    ------
    InputError
        If K is not square and finite; in a call, if an input is not a row number of K.

    Examples
    --------
    >>> import numpy as np
    >>> from implicit_bias import MultipleKernelClassifier, PrecomputedKernel
    >>> X, y = np.array([[1.0, 2.0], [2.0, 1.0], [-1.0, 1.0], [1.5, 1.5]]), [1, 1, 0]
    >>> rows = np.arange(4)[:, None]
    >>> kernels = [PrecomputedKernel(X @ X.T), PrecomputedKernel((X @ X.T) ** 2)]
    >>> MultipleKernelClassifier(kernels, C=10.0).fit(rows[:3], y).predict(rows[3:])
    array([1])
    """

    K: Any

    def __post_init__(self) -> None:
        K = as_floats(self.K, "K", 2)
        if K.shape[0] != K.shape[1]:
            raise InputError(f"K must have a row and a column for every sample, not shape {K.shape}")
        object.__setattr__(self, "K", K)

    def __call__(self, X: Array, Z: Array) -> Array:
        """Return the entries of K at the row numbers X (n, 1) and Z (m, 1); shape (n, m)."""
        for rows in (X, Z):
            if rows.shape[1:] != (1,) or not np.isin(rows, np.arange(len(self.K))).all():
                raise InputError(f"a precomputed kernel takes one column of row numbers from 0 to {len(self.K) - 1}")
        i, j = X[:, 0].astype(int), Z[:, 0].astype(int)
        found = np.empty((len(i), len(j)))
        # Entries of a row are nearer to each other than those that `np.ix_` visits in turn.
        for part in row_blocks(len(i), TAKEN):
            found[part] = self.K[i[part]][:, j]
        return found


class _FittedKernels(KernelFeatures):
    """Kernels k_m/s_m, whose factors are computed when they are first needed; `diagonals` are the k_m(x, x)."""

    verified = True
    samples: Array
    #: The k_m.
    kernels: list[Any]
    #: The s_m, shape (k,).
    scales: Array
    #: √(k_m(x, x)/s_m) of the samples, shape (k, n).
    lengths: Array
    #: Bounds of the errors of the values, as shares of √(k_m(x, x) k_m(z, z)), shape (k,).
    entry_errors: Array
    #: The matrices (k, n, n) of the k_m/s_m; None for one kernel, of which `values` are computed when needed.
    stack: Array | None

    def __init__(
        self, samples: Array, kernels: list[Any], scales: Array, diagonals: Array, entry_errors: Array, stack: Any
    ) -> None:
        check_range(np.sqrt(np.abs(diagonals)).ravel(), "the kernels")
        lengths = np.sqrt(np.maximum(diagonals, 0.0) / scales[:, None])
        found = {"scales": scales, "lengths": lengths, "entry_errors": entry_errors, "stack": stack}
        vars(self).update(samples=samples, kernels=kernels, **found)

    def values(self, rows: np.ndarray, columns: np.ndarray) -> Array:
        """Return k(x_i, x_j)/s of the first kernel for i in `rows` and j in `columns`, shape (rows, columns)."""
        return evaluated(self.kernels[0], 0, self.samples[rows], self.samples[columns]) / self.scales[0]

    def of_half_spaces(self, dtype: Any) -> Callable[[np.ndarray, np.ndarray], Array]:
        """Return a function like `values`, of a data type, for the kernel "half-spaces"; it stores the directions."""
        # k(X/√s) = k(X)/s.
        return half_spaces_of_samples(self.samples / np.sqrt(self.scales[0]), self.kernels[0][1], dtype)

    @cached_property
    def single_error(self) -> float:
        """Error of an entry of K/√(k_ii k_jj) in an output from single precision; infinity if it is not faster."""
        kernel = self.kernels[0]
        if callable(kernel) or kernel[0] != "half-spaces":
            return np.inf
        entry = half_spaces_error(kernel[1], self.samples.shape[1], np.float32)
        positive = self.lengths[self.lengths > 0]
        moderate = (positive < SINGLE_RANGE).all() and (positive > 1 / SINGLE_RANGE).all()
        return entry + (ADDED + 4) * 2.0**-24 if moderate else np.inf

    def recomputed(self, found: Expansion, signs: Array, error: float) -> tuple[Expansion, Array]:
        """Return the expansions with outputs in double precision, and the errors (n, c) of entries of K in them."""
        lengths, used = self.lengths[0], found.coefficients.any(axis=1, keepdims=True)
        reach = 1.01 * error * np.outer(lengths, np.abs(found.coefficients).T @ lengths)
        # Other margins of samples without coefficients exceed 1 by more than their error.
        near = ~used & (signs * (found.outputs + found.intercepts) < 1 + reach)
        support, outputs, exact = np.flatnonzero(used), found.outputs.copy(), self.of_half_spaces(float)
        a = found.coefficients[support]
        outputs[support] = 0.0
        for rows in row_blocks(len(support), ROWS * self.n // max(len(support), 1)):
            # K is symmetric.
            values = exact(support[rows], support[rows.start :])
            outputs[support[rows]] += values @ a[rows.start :]
            outputs[support[rows.stop :]] += values[:, rows.stop - rows.start :].T @ a[rows]
        for c, own in enumerate(found.coefficients.T):
            others, columns = np.flatnonzero(near[:, c]), np.flatnonzero(own)
            for rows in row_blocks(len(others), ROWS * self.n // max(len(columns), 1)):
                outputs[others[rows], c] = exact(others[rows], columns) @ own[columns]
        return replace(found, outputs=outputs), np.where(used | near, self.entry_errors[0], error)

    @cached_property
    def matrices(self) -> Array:
        """The matrices of all kernels, `stack` if it is not None."""
        every = np.arange(self.n)
        return self.values(every, every)[None] if self.stack is None else self.stack

    @cached_property
    def factors(self) -> Array:
        check_memory(24.0 * self.k * self.n**2, f"the factors of kernels of {self.n} samples", "use fewer samples")
        stack = self.stack
        if stack is None:
            stack = _semidefinite(self.kernels[0], 0, self.samples)[0][None] / self.scales[0]
        return KernelFeatures.from_kernels(stack).factors

    @property
    def n(self) -> int:
        return len(self.samples)

    @property
    def k(self) -> int:
        return len(self.kernels)

    # The checks of a problem need no factors.
    def row_norms(self, units: Any = 1.0) -> Array:
        return np.asarray(length(self.lengths, axis=0)) if np.ndim(units) == 0 else super().row_norms(units)

    def closed(self) -> np.ndarray:
        return np.asarray(~self.lengths.any(axis=0))


def _solved(problem: MarginProblem, options: Options) -> tuple[Solution, Array]:
    """Return the certified solution with several kernels, and coefficients a (k, n) with w_m = Σ_i a_mi φ_m(x_i)."""
    features = problem.features
    assert isinstance(features, _FittedKernels)
    assert features.stack is not None
    with options.deadline as deadline:
        found = solve_kernel_matrices(problem, features.stack, options)
        candidates = (
            one
            for dual in (found.dual, found.best_dual)
            for one in _along_dual(problem, dual, lambda lengths: found.eta * lengths)
        )
        bounds, a, resolved = _certified(problem, features, candidates, found.intercept, options.tol, deadline)
    stopped = Status.INTERRUPTED if deadline.interrupted else found.stopped
    cost = {"tol": options.tol, "seconds": deadline.seconds, "iterations": found.iterations}
    solution = _concluded(problem, bounds, resolved, stopped, found.reason, **cost)
    return (replace(solution, status=Status.INTERRUPTED) if deadline.interrupted else solution), a


def _factored_path(problem: MarginProblem, costs: Sequence[float], **options: Any) -> list[tuple[Solution, Array]]:
    deadline = Deadline(options["max_seconds"])
    features, path = problem.features, margin_path(problem, costs, **options)
    assert isinstance(features, _FittedKernels)
    if path[-1].status is Status.INTERRUPTED or len(path) < len(costs):
        raise KeyboardInterrupt  # A search over many fits must end, too.
    answers = []
    # The bounds of rounded factors are not those of the kernels, which are certified here.
    for C, solution in zip(costs, path, strict=True):
        weights, own = np.nan_to_num(solution.weights), problem.replace(C=C)
        candidates = itertools.chain(
            _along_dual(own, solution.dual, partial(lambda sizes, _: sizes, length(weights, axis=1))),
            _along_weights(features, weights, solution.dual),
        )
        rest = solution.intercept, solution.tol, deadline
        bounds, a, resolved = _certified(own, features, candidates, *rest, exact=True)
        stopped = solution.status if solution.status is Status.TIME_LIMIT else None
        reason = solution.reason if solution.gap > solution.tol else ""
        cost = {name: getattr(solution, name) for name in ("tol", "seconds", "iterations")}
        answers.append((replace(_concluded(own, bounds, resolved, stopped, reason, **cost), solver=solution.solver), a))
    return answers


def _along_dual(problem: MarginProblem, dual: Array, sizes: Callable[[Array], Array]) -> Iterator[Any]:
    """Yield candidates of `_certified` with a_mi = λ_i y_i, where more and more of the smallest λ_i are kept."""
    for threshold in THRESHOLDS:
        lam = np.where(dual > threshold * dual.max(), dual, 0.0)
        lam = balanced(lam, problem.y) if problem.intercept and lam.any() else lam
        yield (problem.y * lam)[None], sizes, lam


def _along_weights(features: _FittedKernels, weights: Array, dual: Array) -> Iterator[Any]:
    """Yield a candidate of `_certified` whose a_m (n,) are nearest to the weights w_m: they may not belong to λ."""
    blocks = features.factors.transpose(1, 2, 0)
    yield np.stack([np.linalg.lstsq(A, w)[0] for A, w in zip(blocks, weights, strict=True)]), lambda sizes: sizes, dual


def _certified(
    problem: MarginProblem,
    features: _FittedKernels,
    candidates: Iterable[tuple[Array, Callable[[Array], Array], Array]],
    b: float,
    tol: float,
    deadline: Deadline,
    exact: bool = False,
) -> tuple[Certificate, Array, bool]:
    """Return the best bounds of expansions, the a (k, n) of the upper one, and whether that of λ is resolved.

    The candidates are a (k, n) or (1, n), a function from the lengths (k,) of Σ_i a_mi φ_m(x_i) to those of the w_m,
    and λ (n,). They end when the `deadline` passes. Sums K_m a_m are rounded once if `exact`.
    """
    found = list[tuple[Certificate, Array, bool]]()
    for a, norms, lam in candidates:
        a = np.broadcast_to(a, (features.k, features.n))
        given = a, _products(features.matrices, a, exact), features.lengths, features.entry_errors[:, None]
        along = ExpansionFeatures(*given, terms=0 if exact else None)
        sizes = norms(along.sizes).copy()
        sizes[sizes <= NEGLIGIBLE * sizes.sum()] = 0.0
        bounds = certify(problem.replace(features=along), sizes[:, None], lam, b)
        by = np.divide(bounds.weights, along.sizes[:, None], out=np.zeros((features.k, 1)), where=sizes[:, None] > 0)
        found.append((bounds, by * a, along.resolved or not a.any()))
        upper, lower = min(found, key=lambda one: one[0].objective), max(found, key=lambda one: one[0].lower_bound)
        best = _merged(upper[0], lower[0])
        if best.gap <= tol or (deadline.passed() and best.gap < np.inf):
            break
    return best, upper[1], lower[2]


def _products(stack: Array, coefficients: Array, exact: bool) -> Array:
    found = np.zeros_like(coefficients)
    for K, a, own in zip(stack, coefficients, found, strict=True):
        used = np.flatnonzero(a)
        if exact and len(used):
            upper, lower, _ = precise_product(a[None, used], K[used])
            own[:] = (upper + lower)[0]
        else:
            own[:] = a[used] @ K[used]
    return found


def _merged(upper: Certificate, lower: Certificate) -> Certificate:
    """Return the upper bound of one certificate with its weights, and the lower bound of another with its dual."""
    gap = (upper.objective - lower.lower_bound) / upper.objective if 0 < upper.objective < np.inf else upper.gap
    proof = {name: getattr(lower, name) for name in ("dual", "lower_bound", "farkas_residual")}
    return replace(upper, **proof, gap=gap)


def _concluded(
    problem: MarginProblem, bounds: Certificate, resolved: bool, stopped: Status | None, reason: str, **cost: Any
) -> Solution:
    status = Status.OPTIMAL if bounds.gap <= cost["tol"] else stopped or Status.INACCURATE
    # Neither a margin nor Σ_i λ_i y_i φ_m(x_i) exceeds its error.
    if problem.hard and np.isinf(bounds.objective) and not resolved and stopped is None:
        status, reason = Status.NOT_SEPARABLE_BELOW, INSEPARABLE.format(bounds.lower_bound)
    elif status is not Status.INACCURATE:
        reason = ""
    elif not reason:
        reason = ROUNDED
    return Solution(**vars(bounds), status=status, reason=reason, solver="NATIVE", **cost)


def _solution_of_class(
    problem: MarginProblem, features: _FittedKernels, found: Expansion, c: int, errors: Array, **cost: Any
) -> tuple[Solution, Array]:
    """Return the certified solution of class number c with one kernel, and coefficients a (1, n)."""
    a, stopped = found.coefficients[:, c], Status.TIME_LIMIT if found.reason == "max_seconds" else None
    along = ExpansionFeatures(a[None], found.outputs[None, :, c], features.lengths, errors[None, :, c])
    b = float(found.intercepts[c])
    bounds = certify(problem.replace(features=along), along.sizes[:, None], np.abs(a), b)
    solution = _concluded(problem, bounds, along.resolved, stopped, found.reason, **cost)
    return solution, a[None] * (bounds.weights[0, 0] / (along.sizes[0] or 1.0))


def _semidefinite(kernel: Any, m: int, X: Array) -> tuple[Array, float]:
    """Return the positive semidefinite k_m(X, X), and the change from the values as a share of √(k(x, x) k(z, z))."""
    # A copy, because products of many rows with themselves crash; see `_utils.blocks`.
    K = evaluated(kernel, m, X, X if len(X) <= BLOCK_ROWS else X.copy())
    values, lengths = semidefinite(K, f"kernel {m}"), np.sqrt(np.abs(K.diagonal()))
    if values is K:
        return values, 0.0
    sizes = np.outer(lengths, lengths)
    return values, float(np.divide(np.abs(values - K), sizes, out=np.zeros_like(K), where=sizes > 0).max())


def _warn_if_narrow(values: Array) -> None:
    if _narrow(values):
        warnings.warn(
            "most samples have nearly zero kernel values with all others, so that nothing is learned about new "
            "inputs; standardise the inputs, or use a wider kernel (a smaller gamma)",
            UserWarning,
            stacklevel=5,
        )


def _narrow(values: Array) -> bool:
    """Return True if, for most samples x, |k(x, z)|/√(k(x, x) k(z, z)) < NARROW for all kernels and other samples z."""
    nearest = np.zeros(values.shape[1])
    for K in values:
        lengths = np.sqrt(np.abs(K.diagonal()))
        others = np.abs(K)
        np.fill_diagonal(others, 0.0)
        sizes = np.outer(lengths, lengths)
        nearest = np.maximum(nearest, np.divide(others, sizes, out=others, where=sizes > 0).max(axis=1))
        if np.median(nearest) >= NARROW:
            return False
    return True


def _listed(kernels: Any, X: Array, weight: Array | None) -> list[Any]:
    """Return `kernels`, or the default kernels for training samples X (n, p), as functions or (name, parameters)."""
    if kernels is None:
        centred = X - np.average(X, weights=None if weight is None else np.repeat(weight[:, None], X.shape[1], 1))
        unit = float(np.average((centred**2).sum(axis=1), weights=weight)) or 1.0
        kernels = ["linear", *(("rbf", {"gamma": width / unit}) for width in WIDTHS)]
    if not isinstance(kernels, Sequence) or isinstance(kernels, str) or not kernels:
        raise InputError("kernels must be a list of at least one function, name, or name and dict of parameters")
    return [kernel if callable(kernel) else _named(kernel) for kernel in kernels]


def _named(kernel: Any) -> tuple[str, dict[str, Any]]:
    match kernel:
        case str(name):
            parameters: dict[str, Any] = {}
        case (str(name), dict(parameters)):
            pass
        case _:
            raise InputError(f"a kernel is a function, a name, or a name and a dict of parameters, not {shown(kernel)}")
    return one_of(name, ["half-spaces", *sorted(PAIRWISE_KERNEL_FUNCTIONS)], "kernel"), dict(parameters)


def _model_of_expansions(
    model: MarginModel, kernels: Sequence[Any], samples: Array, coefficients: Array
) -> MarginModel:
    """Return the model whose features are the parts Σ_i a_mi k_m(x, x_i) of f, scaled to norm 1, with weights ‖w_m‖."""
    problems, solutions = [], []
    for problem, solution, a in zip(model.problems, model.solutions, coefficients, strict=True):
        sizes = length(solution.weights, axis=1)[:, None]
        used = a.any(axis=0)
        # Kernel expansions need at least one sample, even if its coefficients are zero.
        used[0] |= not used.any()
        units = np.divide(a, sizes, out=np.zeros_like(a), where=sizes > 0)[:, used]
        features = UnkeptFeatures((problem.features.n, len(kernels), 1), products=False)
        gates = KernelExpansions(kernels, samples[used], units)
        problems.append(problem.replace(features=features, gates=gates))
        solutions.append(replace(solution, weights=sizes))
    return replace(model, problems=problems, solutions=solutions)
