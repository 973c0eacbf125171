"""Max-margin classifier with several kernels."""

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from implicit_bias._utils.blocks import row_blocks
from implicit_bias._utils.checks import Array, InputError, as_flag, as_floats
from implicit_bias._utils.floats import length
from implicit_bias._utils.limits import Deadline
from implicit_bias._utils.validation import validated
from implicit_bias.estimators.base import COST_SCALE, FitData, MarginClassifier, NotSeparableError
from implicit_bias.features.base import UnkeptFeatures
from implicit_bias.gates import KernelExpansions
from implicit_bias.gates.expansions import expansion, function_of
from implicit_bias.gates.fitted_kernels import FittedKernels
from implicit_bias.margin.problem import MarginProblem
from implicit_bias.margin.solution import Solution, Status
from implicit_bias.norms import GroupLasso
from implicit_bias.solvers import Options
from implicit_bias.solvers.expansions import solve_expansions
from implicit_bias.solvers.path import balanced_weights

#: Rows of a precomputed kernel that are copied at a time.
TAKEN = 256


@dataclass(eq=False, repr=False)
class MultipleKernelClassifier(MarginClassifier):
    """Max-margin classifier that learns weights for several kernels (multiple-kernel learning).

        minimise Σ_m ‖w_m‖ + C Σ_i c_i ξ_i   subject to   y_i (Σ_m ⟨w_m, φ_m(x_i)⟩ + b) ≥ 1 − ξ_i,   ξ ≥ 0

    with ⟨φ_m(x), φ_m(x′)⟩ = k_m(x, x′)/s_m. This is SVM-GLN with kernels instead of units. At the optimum
    w_m = η_m Σ_i λ_i y_i φ_m(x_i), so that the classifier is a support vector machine with the kernel Σ_m η_m k_m/s_m.
    Many η_m are 0.

    Parameters
    ----------
    kernels : sequence, or one kernel, optional
        Each kernel is a positive semidefinite function k(X, Z) from inputs (n, p) and (m, p) to a matrix (n, m), the
        name of one of scikit-learn's `pairwise_kernels`, or such a name and a dict of parameters. For given matrices
        use `PrecomputedKernel`. The default is the linear kernel and Gaussian kernels with γ p Var X = 1/16, …, 16.
        "half-spaces" is the kernel of infinitely many gated units, ((1 − θ/π)^b − (1 − l) 2⁻ᵇ) ⟨x, z⟩ for the angle θ
        of x and z, with the parameters b = `hyperplanes` (1) and l = `linear` (1): the limit of SVM-Fro for l = 1, and
        of SVM-L2 for l = 0. With `fit_intercept=True` the hyperplanes have offsets. For local units it is the sum over
        patches of square images, `side` × `side` at distances `stride` (1), over `sets` of columns, or over at most
        `count` (300) different random sets of `columns` columns, each with the constant input, drawn by `random_state`.
    normalise : bool
        If True, s_m is the (weighted) mean of k_m(x, x) over the training samples; otherwise s_m = 1, and the norm
        penalises kernels with small values more.
    fit_intercept : bool
        Append the constant input 1, for kernels that depend on it.
    C, free_intercept, solver, tol, max_seconds, device, verbose, n_jobs, warm_start, class_weight
        As for `GLNClassifier`. Several kernels are computed in any case, also if this takes longer than `max_seconds`,
        and their matrices must fit in memory. For one kernel, with NATIVE on the CPU, only rows of support vectors and
        candidates are computed, and `n_jobs` has no effect: all classes are solved together. Those of "half-spaces" are
        in single precision if `tol` is about 1e-4 or larger; the certificate includes their errors. Several classes
        have one C, of which "scale" is the median of their scales.

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

    kernels: Any = None
    C: float | str = "scale"
    normalise: bool = field(default=True, kw_only=True)
    fit_intercept: bool = field(default=False, kw_only=True)

    def _shared_gates(self, X: Array, seed: int, weight: Array | None) -> Any:
        """Return the features Φ_m of the kernels k_m/s_m at X (n, p), which take the place of gates."""
        features = FittedKernels(self.kernels, X, weight, as_flag(self.normalise, "normalise"), seed)
        if features.narrow:
            text = "most samples have nearly zero kernel values with all others, so that nothing is learned about new"
            remedy = "standardise the inputs, or use a wider kernel (a smaller gamma)"
            warnings.warn(f"{text} inputs; {remedy}", UserWarning, stacklevel=4)
        return features

    def _problem(self, X: Array, y: Array, gates: Any, seed: int) -> MarginProblem:
        return MarginProblem(gates, y, GroupLasso(range(gates.k)))

    def _default_cost(self, problem: MarginProblem) -> float:
        assert isinstance(problem.features, FittedKernels)
        size = float(length(balanced_weights(problem) * problem.features.lengths, axis=1).max())
        return COST_SCALE / (size or 1.0)

    def _solve(
        self, data: FitData, costs: Sequence[Any], earlier: list[Solution | None], deadline: Deadline
    ) -> Iterator[tuple[list[MarginProblem], list[Solution]]]:
        """Yield problems and solutions like the base class, where solutions certify weights w_m = Σ_i a_mi φ_m(x_i)."""
        built = list(data.problems)
        features = built[0].features
        assert isinstance(features, FittedKernels)
        # Classes that share C are solved together.
        scale = float(np.median([self._default_cost(problem) for problem in built]))
        unkept = UnkeptFeatures((features.n, features.k, 1), products=False)
        for cost in costs:
            options = Options(self.tol, device=self.device, verbose=self.verbose, deadline=Deadline(deadline.left()))
            problems = [problem.replace(C=scale if cost == "scale" else float(cost)) for problem in built]
            problems[0].check_upper_bounds()
            expanded = solve_expansions(features, problems, earlier, options, self.solver, self.n_jobs)
            for c, (name, (solution, a)) in enumerate(zip(data.names, expanded, strict=True)):
                if solution.status.inseparable:
                    raise NotSeparableError(f"{name}: {solution.reason}", solution)
                gates = KernelExpansions(features.kernels, features.samples, a / features.scales[:, None])
                problems[c] = problems[c].replace(features=unkept, gates=gates)
            solutions = [solution for solution, _ in expanded]
            earlier = list(solutions)
            yield problems, solutions
            if deadline.passed() or Status.TIME_LIMIT in {solution.status for solution in solutions}:
                return

    def _set_results(self, problems: list[MarginProblem], solutions: list[Solution]) -> None:
        gates: list[Any] = [problem.gates for problem in problems]
        super()._set_results([problem.replace(gates=None) for problem in problems], solutions)
        kernels, samples, coefficients = gates[0].kernels, gates[0].samples, np.stack([g.coefficients for g in gates])
        used, sizes = coefficients.any(axis=(0, 1)), length(self.weights_, axis=-1)
        totals = sizes.sum(axis=-1, keepdims=True)
        self.kernel_weights_ = np.divide(sizes, totals, out=np.zeros_like(sizes), where=totals > 0)
        self.dual_coef_ = coefficients[..., used] if len(gates) > 1 else coefficients[0][:, used]
        self.support_vectors_ = samples[used]
        self.kernels_ = [function_of(kernel) for kernel in kernels]
        # The features of the model are the parts Σ_i a_mi k_m(x, x_i) of f, scaled to norm 1, and its weights ‖w_m‖.
        model, problems, parts = self._model, list[MarginProblem](), list[Solution]()
        for problem, solution, a in zip(model.problems, model.solutions, coefficients, strict=True):
            active, norms = a.any(axis=0), length(solution.weights, axis=1)[:, None]
            # Kernel expansions need at least one sample, even if its coefficients are zero.
            active[0] |= not active.any()
            units = np.divide(a, norms, out=np.zeros_like(a), where=norms > 0)[:, active]
            features = UnkeptFeatures((problem.features.n, len(kernels), 1), products=False)
            problems.append(problem.replace(features=features, gates=KernelExpansions(kernels, samples[active], units)))
            parts.append(replace(solution, weights=norms))
        self._model = replace(model, problems=problems, solutions=parts)

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
        entries = np.empty((len(i), len(j)))
        # Entries of a row are nearer to each other than those that `np.ix_` visits in turn.
        for part in row_blocks(len(i), TAKEN):
            entries[part] = self.K[i[part]][:, j]
        return entries
