"""A margin problem in the coordinates of the interior-point method: all its samples, and the programs of some."""

from __future__ import annotations

from abc import ABC, abstractmethod
from copy import copy

import numpy as np
import scipy.sparse as sp

from implicit_bias._utils.blocks import ROWS, row_blocks, sparse_if_faster
from implicit_bias._utils.checks import Array
from implicit_bias._utils.floats import TINY, length
from implicit_bias._utils.limits import check_memory
from implicit_bias.features import ChunkedFeatures, GatedFeatures, SubsetFeatures
from implicit_bias.margin.problem import MarginProblem
from implicit_bias.norms import GroupForm
from implicit_bias.solvers.native.arrays import Tensor, as_numpy, filled, free_on_device, library, on_device
from implicit_bias.solvers.native.interior_point import Outcome, Program
from implicit_bias.solvers.native.kernels import (
    FEWER,
    BorderedKernels,
    Contrasts,
    GatedKernels,
    GroupKernels,
    LinearKernels,
    StackedKernels,
    SubsetKernels,
    affordable_products,
    contrasts,
)
from implicit_bias.solvers.native.settings import Settings


class ScaledProblem(ABC):
    """All n samples of a problem whose norm is Σ_h ‖Ŵ_h‖ with W = TŴ, on a device.

    φ̂_i = y_i φ_i / (m_i s), where s makes their lengths about 1. Ŵ is W times s, and λ̂_i is λ_i times m_i s.
    """

    #: Number of columns of all factors A_h, K_h = A_hA_hᵀ, padded to one width.
    columns: int
    #: True if a screening is faster without the groups that hardly count.
    sparse_groups = False

    def __init__(self, problem: MarginProblem, form: GroupForm, device: str, settings: Settings, scale: float) -> None:
        self.problem, self.device, self.settings, self.scale = problem, device, settings, scale
        self.n = problem.features.n
        self.expand, self.index, self.H = form.expand, form.index, form.count
        # Upper bounds of λ. Zero would mean an equality.
        box = np.maximum(problem.upper_bounds * problem.required_margin * scale, TINY)
        self.box = None if problem.hard else self.to_device(box)
        column = np.broadcast_to(problem.y / problem.required_margin, self.n)
        self.intercept_scale = float(length(column)) / np.sqrt(self.n)
        self.positive = self.to_device(problem.y > 0)
        self.intercept_column = self.to_device(column / self.intercept_scale) if problem.intercept else None

    def to_device(self, values: np.ndarray | sp.csr_array) -> Tensor:
        """Return the values on the device; they must not be written to."""
        return on_device(values, self.device)

    @abstractmethod
    def kernels(self, rows: Tensor, more: Tensor | None = None) -> GroupKernels:
        """Return the group kernels of samples `rows`; `more` (n,) appends one sample with features Σ_i more_i φ̂_i."""

    def by_features(self, samples: int) -> bool:
        """Return True if steps of so many samples use the features instead of the kernels."""
        return self.columns <= self.settings.features_per_sample * samples

    @property
    def few(self) -> bool:
        """True if the samples are so few that one set holds all."""
        return self.n <= self.settings.all_samples_up_to

    @property
    def few_features(self) -> bool:
        """True if the features are so few that a step can take all samples."""
        return self.by_features(self.n) and self.n * self.columns**2 <= self.settings.all_products_up_to

    def step_work(self, samples: int) -> float:
        """Return about how many multiplications a step of so many samples takes."""
        if self.by_features(samples):
            return samples * self.columns**2
        return samples**2 * (samples / 3 + self.H) + 2 * self.settings.side_cost * samples * self.columns

    @property
    def check_work(self) -> float:
        """Multiplications of steps after which the margins and the adjoint of all samples cost little next to them."""
        return self.settings.check_after * self.n * max(self.columns, self.problem.features.k * self.problem.features.d)

    def check_room(self, samples: int) -> None:
        """Raise TooLargeError if a step of so many samples needs more memory than the device has free."""
        what = f"a step of {samples} samples in {self.H} groups"
        check_memory(self.bytes_needed(samples), what, FEWER, free_on_device(self.device))

    def bytes_needed(self, samples: int) -> int:
        """Return the bytes of a step: kernels and factor, a column for each group, the border and its LU."""
        if self.by_features(samples):
            kernels = self._feature_numbers(samples) + 2 * self.columns**2
        else:
            # Beyond a block of columns the factor needs another block, in single precision.
            kernels = self._kernel_numbers(samples) + (samples * ROWS // 2 if samples > ROWS else 0)
        return 8 * (kernels + 6 * samples * self.H + 2 * (self.H + 3) ** 2)

    def _feature_numbers(self, samples: int) -> int:
        """Return how many numbers a step by features stores for so many samples, besides matrices of ΦᵀΦ's size."""
        return 3 * samples * self.columns

    @abstractmethod
    def _kernel_numbers(self, samples: int) -> int:
        """Return how many numbers it takes to store, apply and factorise the kernels of so many samples."""

    def uses_partial(self, samples: int) -> bool:
        """Return True if steps of so many samples start with partial factors."""
        return False

    @abstractmethod
    def linear(self, rows: Tensor) -> LinearKernels:
        """Return the group kernels of samples `rows`, without merged inputs: V has the same shape for all `rows`."""

    def adjoint(self, lam: Tensor) -> Tensor:
        """Return V = Φ̂ᵀλ of all samples, computed in chunks."""
        used, size = library(lam).where(lam != 0)[0], self.settings.chunk
        parts = (used[i : i + size] for i in range(0, max(len(used), 1), size))
        return sum(self.linear(rows).adjoint(lam[rows]) for rows in parts)

    @abstractmethod
    def squares(self, V: Tensor) -> Tensor:
        """Return ‖V_h‖² (H,)."""

    @abstractmethod
    def _outputs(self, V: Tensor, eta: Tensor) -> Tensor:
        """Return the margins (n,) of all samples at the weights η_h V_h, without the intercept."""

    def of_groups(self, groups: np.ndarray) -> ScaledProblem:
        """Return the problem of some groups, in the same scale, if `sparse_groups`."""
        raise NotImplementedError(f"{type(self).__name__} must define of_groups(groups), or keep sparse_groups False")

    def margins(self, V: Tensor, eta: Tensor, b: Tensor) -> Tensor:
        """Return the margins (n,) of all samples at the weights η_h V_h and the intercept b (0 or 1,)."""
        f = self._outputs(V, eta)
        return f if self.intercept_column is None else f + self.intercept_column * b

    def program(self, rows: Tensor, bounded: Tensor, shares: Tensor | None) -> Program:
        """Return the program of the samples `rows`; `bounded` ones are a last row, λ_i = λ̄ s_i/Σs with `shares` s."""
        box = None if self.box is None else self.box[rows]
        column = None if self.intercept_column is None else self.intercept_column[rows]
        if shares is None or len(bounded) == 0:
            return Program(self.kernels(rows), box, column)
        total = shares[bounded].sum()
        share = shares[bounded] / total
        if self.intercept_column is not None:
            column = library(share).hstack([column, self.intercept_column[bounded] @ share])
        more = library(share).zeros_like(shares)
        more[bounded] = share
        return Program(self.kernels(rows, more), library(share).hstack([box, total]), column)

    def nothing_known(self) -> Outcome:
        """Return an outcome with zero weights and without bounds."""
        lam = self.to_device(np.zeros(self.n))
        return Outcome(lam, (lam, filled(lam, self.H, 0.0), lam[:0]))

    def weights(self, lam: Tensor, eta: Tensor) -> Array:
        """Return s times the weights W (k, d) that (λ, η) define, in the original coordinates: T(η_h V_h)."""
        features, a = self.problem.features, self.dual(lam) * self.problem.y
        used = np.flatnonzero(a)
        # Most samples of many are outside the working set.
        if 0 < 4 * len(used) < len(a):
            features, a = features.select(used), a[used]
        return np.asarray(self.expand @ (as_numpy(eta)[self.index, None] * (self.expand.T @ features.adjoint(a))))

    def intercept(self, b: Tensor) -> float:
        """Return s times the intercept, as `weights` returns s times W, in the original coordinates."""
        return float(b.sum()) * self.scale / self.intercept_scale

    def dual(self, lam: Tensor) -> Array:
        """Return λ (n,) in the original coordinates."""
        return np.asarray(as_numpy(lam) / self.problem.required_margin / self.scale)


class GatedProblem(ScaledProblem):
    """A problem of gates and inputs, without a copy of the inputs: rows are signed and scaled when they are used."""

    def __init__(self, problem: MarginProblem, form: GroupForm, device: str, settings: Settings) -> None:
        features = problem.features
        assert isinstance(features, GatedFeatures)
        gates = features.gate_values @ form.expand
        gate_scale = float(length(gates)) / np.sqrt(features.n * form.count) or 1.0
        input_scale = float(length(features.input_lengths / problem.required_margin)) / np.sqrt(features.n) or 1.0
        super().__init__(problem, form, device, settings, gate_scale * input_scale)
        gates /= gate_scale
        parts = lambda: (gates[rows] for rows in row_blocks(features.n))  # noqa: E731
        self._prepare(input_scale, contrasts(parts, form.index, settings))
        self.X, self.G = sparse_if_faster(self.to_device(features.X)), self.to_device(self.contrasts.of(gates))

    def _prepare(self, input_scale: float, contrasts: Contrasts) -> None:
        """Set the attributes of gates and inputs; `inputs` are those that are not zero in every sample."""
        self.contrasts, share = contrasts, contrasts.share
        signs = np.broadcast_to(self.problem.y / self.problem.required_margin, self.n)
        self.signs = self.to_device(signs / input_scale)
        self.inputs = self.to_device(np.flatnonzero(self.problem.features.largest().any(axis=0)))
        self.share = self.to_device(share)
        self.columns = share.shape[0] * len(self.inputs)
        # Inputs count although some may be zero.
        self.wide = self.problem.features.d >= self.settings.wide_from

    def inputs_of(self, rows: Tensor) -> Tensor:
        """Return x_i of some samples, shape (m, d), without their signs and scales, perhaps as a sparse array."""
        return self.X[rows]

    def gates_of(self, rows: Tensor) -> Tensor:
        """Return the contrasts of their gate values, shape (m, k')."""
        return self.G[rows]

    def kernels(self, rows: Tensor, more: Tensor | None = None) -> GroupKernels:
        """Return the kernels as the base class does; without `more`, constant inputs are merged into one."""
        X = self.inputs_of(rows)
        X = X.toarray() if sp.issparse(X) else X
        if more is not None:
            X = X[:, self.inputs]
        elif (constant := (X[0] == X).all(axis=0)).any():
            # `length` forms no squares that overflow or vanish.
            size = float(length(as_numpy(X[0, constant])))
            X = library(X).hstack([X[:, ~constant], filled(X, (len(X), 1), size)])
        X, by_features = X * self.signs[rows, None], self.by_features(len(rows))
        kernels = GatedKernels(X, self.gates_of(rows), self.share, self.settings, by_features, self.wide)
        return kernels if more is None else BorderedKernels(kernels, self.adjoint(more)[:, self.inputs])

    def _kernel_numbers(self, samples: int) -> int:
        """Count doubles of a step: a partial factor, or a whole one and XXᵀ if stored, and rows of inputs and gates."""
        columns, d, settings = self.share.shape[0], self.problem.features.d, self.settings
        if self.uses_partial(samples):
            rank = settings.partial_rank
            square = int((1.5 * rank + rank**2) * samples**2) + 2 * settings.partial_pivots * samples
        elif samples < settings.single_from:
            square = 2 * samples**2
        else:
            square = samples**2 // (1 if self.H == 1 or samples <= settings.kept_per_input * d else 2)
        return square + 3 * samples * d + 4 * samples * columns + 2 * columns * d

    def _feature_numbers(self, samples: int) -> int:
        # The features of many inputs are not stored, only inputs, parts of them, and columns of gate values.
        if not self.wide:
            return super()._feature_numbers(samples)
        return samples * (4 * self.problem.features.d + 4 * self.share.shape[0])

    def uses_partial(self, samples: int) -> bool:
        products = affordable_products(samples, self.problem.features.d * self.share.shape[0], self.settings)
        return not self.by_features(samples) and products >= self.settings.least_products

    def linear(self, rows: Tensor) -> GatedKernels:
        """Return the kernels with all inputs; V has a row for each column of gate values, shape (k, d)."""
        X, signs = self.inputs_of(rows), self.signs[rows]
        X = sp.diags_array(signs) @ X if sp.issparse(X) else X * signs[:, None]
        return GatedKernels(X, self.gates_of(rows), self.share, self.settings, wide=self.wide)

    def squares(self, V: Tensor) -> Tensor:
        return (V * V).sum(axis=1) @ self.share

    def _outputs(self, V: Tensor, eta: Tensor) -> Tensor:
        W, size = V * (self.share @ eta)[:, None], self.settings.chunk
        chunks = (slice(i, i + size) for i in range(0, self.n, size))
        parts = [((self.X[chunk] @ W.T) * self.G[chunk]).sum(axis=1) for chunk in chunks]
        return library(W).concatenate(parts) * self.signs


class ChunkedProblem(GatedProblem):
    """A problem of inputs in chunks: working sets read their rows from them; margins are computed chunk by chunk."""

    def __init__(self, problem: MarginProblem, form: GroupForm, device: str, settings: Settings) -> None:
        features = problem.features
        assert isinstance(features, ChunkedFeatures)
        self.mixed = features.mixed(form.expand)
        size = float(length(self.mixed.row_norms() / problem.required_margin))
        scale = size / np.sqrt(features.n * form.count) or 1.0
        ScaledProblem.__init__(self, problem, form, device, settings, scale)
        self._prepare(scale, contrasts(lambda: map(self.mixed.gates, features.X.chunks), form.index, settings))

    def inputs_of(self, rows: Tensor) -> Tensor:
        return self.to_device(self.mixed.X[as_numpy(rows)])

    def gates_of(self, rows: Tensor) -> Tensor:
        return self.to_device(self.contrasts.of(self.mixed.gates(as_numpy(rows))))

    def _outputs(self, V: Tensor, eta: Tensor) -> Tensor:
        W = as_numpy(V * (self.share @ eta)[:, None])
        return self.to_device(self.mixed.apply(self.contrasts.turn @ W)) * self.signs


class BlockProblem(ScaledProblem):
    """A problem of features without gates; the blocks of a group are concatenated."""

    def __init__(self, problem: MarginProblem, form: GroupForm, device: str, settings: Settings) -> None:
        features = problem.features
        blocks = features.mixed(form.expand).dense().reshape(features.n, -1, features.d)
        blocks = blocks / np.reshape(problem.required_margin * problem.y, (-1, 1, 1))
        groups = [blocks[:, form.index == h].reshape(features.n, -1) for h in range(form.count)]
        scale = float(length(blocks)) / np.sqrt(features.n * len(groups)) or 1.0
        super().__init__(problem, form, device, settings, scale)
        A = np.zeros((features.n, len(groups), max(group.shape[1] for group in groups)))
        for h, group in enumerate(groups):
            A[:, h, : group.shape[1]] = group / scale
        self.A, self.columns = self.to_device(A), A.shape[1] * A.shape[2]

    def linear(self, rows: Tensor) -> StackedKernels:
        """Return the kernels of y_i φ_i / (m_i s); V has a row for each group, shape (H, r)."""
        return StackedKernels(self.A[rows], self.settings)

    def kernels(self, rows: Tensor, more: Tensor | None = None) -> StackedKernels:
        A = self.linear(rows).A
        A = A if more is None else library(A).concatenate([A, self.adjoint(more)[None]])
        return StackedKernels(A, self.settings)

    def _kernel_numbers(self, samples: int) -> int:
        return 2 * samples * self.columns + (self.H + 2) * samples**2

    def squares(self, V: Tensor) -> Tensor:
        return (V * V).sum(axis=1)

    def _outputs(self, V: Tensor, eta: Tensor) -> Tensor:
        return library(V).tensordot(self.A, V * eta[:, None], 2)


class SubsetProblem(BlockProblem):
    """A problem of `SubsetFeatures` whose groups are the units, without a copy of the features; NumPy only."""

    sparse_groups = True

    def __init__(self, problem: MarginProblem, form: GroupForm, features: SubsetFeatures, settings: Settings) -> None:
        scale = float(length(features.row_norms() / problem.required_margin)) / np.sqrt(features.n * form.count) or 1.0
        ScaledProblem.__init__(self, problem, form, "cpu", settings, scale)
        self.features, self.columns = features, features.k * features.d
        self.signs = np.broadcast_to(problem.y / problem.required_margin, self.n) / scale

    def of_groups(self, groups: np.ndarray) -> SubsetProblem:
        part = copy(self)
        part.features, part.H = self.features.of_units(groups), len(groups)
        part.columns = int(np.count_nonzero(part.features.largest()))
        return part

    def linear(self, rows: Tensor) -> SubsetKernels:
        """Return the kernels of samples `rows`; V has a row for each unit, shape (H, K·r)."""
        return SubsetKernels(self.features.select(rows), self.signs[rows], self.settings)

    def adjoint(self, lam: Tensor) -> Tensor:
        return self.features.adjoint(lam * self.signs).reshape(self.H, -1)

    def _kernel_numbers(self, samples: int) -> int:
        return 2 * samples * self.columns + 2 * samples**2

    def _outputs(self, V: Tensor, eta: Tensor) -> Tensor:
        return self.features.apply((V * eta[:, None]).reshape(self.features.k, -1)) * self.signs


def scaled(problem: MarginProblem, form: GroupForm, device: str, settings: Settings) -> ScaledProblem:
    """Return the problem in the solver's coordinates, for the groups of a form and any kind of features."""
    features = problem.features
    if isinstance(features, ChunkedFeatures):
        return ChunkedProblem(problem, form, device, settings)
    if isinstance(features, SubsetFeatures) and device == "cpu":
        mixed = features.mixed(form.expand)
        if isinstance(mixed, SubsetFeatures) and np.array_equal(form.index, np.arange(mixed.k) // mixed.count):
            return SubsetProblem(problem, form, mixed, settings)
    return (BlockProblem if features.gate_values is None else GatedProblem)(problem, form, device, settings)
