"""A margin problem in the coordinates of the interior-point method: all its samples, and the programs of some."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from copy import copy
from functools import cache, partial

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from implicit_bias._utils.blocks import ROWS, row_blocks, sparse_if_faster
from implicit_bias._utils.checks import Array
from implicit_bias._utils.floats import TINY, length
from implicit_bias.features import ChunkedFeatures, GatedFeatures, SubsetFeatures
from implicit_bias.margin.problem import MarginProblem
from implicit_bias.norms import GroupForm
from implicit_bias.solvers.base import Answer
from implicit_bias.solvers.native import kernels
from implicit_bias.solvers.native.algebra import Tensor, as_numpy, filled, library, on_device
from implicit_bias.solvers.native.interior_point import Outcome, Program
from implicit_bias.solvers.native.settings import Settings


def many_bounded(lam: Tensor, box: Tensor | None, settings: Settings) -> bool:
    """Return True if the share of the positive λ (n,) near their bounds exceeds `bounded`; False for a hard margin."""
    at_bound = settings.at_bound
    return box is not None and bool(((lam > 0) & (lam >= at_bound * box)).sum() > settings.bounded * (lam > 0).sum())


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
        #: Returns values on the device; they must not be written to.
        self.to_device = partial(on_device, device=device)
        self.n = problem.features.n
        self.expand, self.index, self.H = form.expand, form.index, form.count
        # Upper bounds of λ. Zero would mean an equality.
        box = np.maximum(problem.upper_bounds * problem.required_margin * scale, TINY)
        self.box = None if problem.hard else self.to_device(box)
        column = problem.y / problem.required_margin
        self.intercept_scale = float(length(column)) / np.sqrt(self.n)
        self.positive = self.to_device(problem.y > 0)
        self.intercept_column = self.to_device(column / self.intercept_scale) if problem.intercept else None

    @abstractmethod
    def group_kernels(self, rows: Tensor, more: Tensor | None = None) -> kernels.GroupKernels:
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

    def screening_pays(self, start: Array | None) -> bool:
        """Return True if a screening is faster than a start from an earlier λ (n,) in `start`, or from few samples.

        An earlier solution is a faster start, unless many of its λ are at their bound.
        """
        if start is not None:
            share = self.to_device(start / self.problem.upper_bounds)
            if not many_bounded(share, share.max() + 0 * share, self.settings):
                return False
        pays = not self.few or (self.sparse_groups and start is None)
        return pays and (self.box is not None or not self.few_features)

    def step_work(self, samples: int) -> float:
        """Return about how many multiplications a step of so many samples takes."""
        if self.by_features(samples):
            return samples * self.columns**2
        return samples**2 * (samples / 3 + self.H) + 2 * self.settings.side_cost * samples * self.columns

    def bytes_needed(self, samples: int) -> int:
        """Return the bytes of a step: kernels and factor, a column for each group, the border and its LU."""
        if self.by_features(samples):
            numbers = self._feature_numbers(samples) + 2 * self.columns**2
        else:
            # Beyond a block of columns the factor needs another block, in single precision.
            numbers = self._kernel_numbers(samples) + (samples * ROWS // 2 if samples > ROWS else 0)
        return 8 * (numbers + 6 * samples * self.H + 2 * (self.H + 3) ** 2)

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
    def linear(self, rows: Tensor) -> kernels.LinearKernels:
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
            return Program(self.group_kernels(rows), box, column)
        total = shares[bounded].sum()
        share = shares[bounded] / total
        if self.intercept_column is not None:
            column = library(share).hstack([column, self.intercept_column[bounded] @ share])
        more = library(share).zeros_like(shares)
        more[bounded] = share
        return Program(self.group_kernels(rows, more), library(share).hstack([box, total]), column)

    def nothing_known(self) -> Outcome:
        """Return an outcome with zero weights and without bounds."""
        lam = self.to_device(np.zeros(self.n))
        return Outcome(lam, (lam, filled(lam, self.H, 0.0), lam[:0]))

    def answer(self, outcome: Outcome) -> Answer:
        """Return a result for all samples in the original coordinates."""
        lam, eta, b = outcome.weights
        weights, dual = self.weights(lam, eta), self.dual(outcome.lam)
        intercept = float(b.sum()) * self.scale / self.intercept_scale
        return Answer(weights, dual, outcome.iterations, outcome.stopped, intercept, reason=outcome.reason)

    def weights(self, lam: Tensor, eta: Tensor) -> Array:
        """Return s times the weights W (k, d) that (λ, η) define, in the original coordinates: T(η_h V_h)."""
        features, a = self.problem.features, self.dual(lam) * self.problem.y
        used = np.flatnonzero(a)
        # Most samples of many are outside the working set.
        if 0 < 4 * len(used) < len(a):
            features, a = features.select(used), a[used]
        return np.asarray(self.expand @ (as_numpy(eta)[self.index, None] * (self.expand.T @ features.adjoint(a))))

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
        self._prepare(input_scale, gates.__getitem__, row_blocks(features.n))
        self.X = sparse_if_faster(self.to_device(features.X))
        self.G = self.to_device(np.ascontiguousarray(gates @ self.turn))

    def _prepare(self, input_scale: float, gates: Callable[[slice], Array], blocks: list[slice]) -> None:
        """Set the attributes of gates and inputs; `inputs` are those that are not zero in every sample."""
        self.turn, share = contrasts(gates, blocks, self.index, self.settings)
        self.signs = self.to_device(self.problem.y / self.problem.required_margin / input_scale)
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

    def group_kernels(self, rows: Tensor, more: Tensor | None = None) -> kernels.GroupKernels:
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
        gated = kernels.GatedKernels(X, self.gates_of(rows), self.share, self.settings, by_features, self.wide)
        return gated if more is None else kernels.BorderedKernels(gated, self.adjoint(more)[:, self.inputs])

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
        products = kernels.affordable_products(samples, self.problem.features.d * self.share.shape[0], self.settings)
        return not self.by_features(samples) and products >= self.settings.least_products

    def linear(self, rows: Tensor) -> kernels.GatedKernels:
        """Return the kernels with all inputs; V has a row for each column of gate values, shape (k, d)."""
        X, signs = self.inputs_of(rows), self.signs[rows]
        X = sp.diags_array(signs) @ X if sp.issparse(X) else X * signs[:, None]
        return kernels.GatedKernels(X, self.gates_of(rows), self.share, self.settings, wide=self.wide)

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
        self._prepare(scale, self.mixed.gates, features.X.chunks)

    def inputs_of(self, rows: Tensor) -> Tensor:
        return self.to_device(self.mixed.X[as_numpy(rows)])

    def gates_of(self, rows: Tensor) -> Tensor:
        return self.to_device(np.ascontiguousarray(self.mixed.gates(as_numpy(rows)) @ self.turn))

    def _outputs(self, V: Tensor, eta: Tensor) -> Tensor:
        W = as_numpy(V * (self.share @ eta)[:, None])
        return self.to_device(self.mixed.apply(self.turn @ W)) * self.signs


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

    def linear(self, rows: Tensor) -> kernels.StackedKernels:
        """Return the kernels of y_i φ_i / (m_i s); V has a row for each group, shape (H, r)."""
        return kernels.StackedKernels(self.A[rows], self.settings)

    def group_kernels(self, rows: Tensor, more: Tensor | None = None) -> kernels.StackedKernels:
        A = self.linear(rows).A
        A = A if more is None else library(A).concatenate([A, self.adjoint(more)[None]])
        return kernels.StackedKernels(A, self.settings)

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
        self.signs = problem.y / problem.required_margin / scale

    def of_groups(self, groups: np.ndarray) -> SubsetProblem:
        part = copy(self)
        part.features, part.H = self.features.of_units(groups), len(groups)
        part.columns = int(np.count_nonzero(part.features.largest()))
        return part

    def linear(self, rows: Tensor) -> kernels.SubsetKernels:
        """Return the kernels of samples `rows`; V has a row for each unit, shape (H, K·r)."""
        return kernels.SubsetKernels(self.features.select(rows), self.signs[rows], self.settings)

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


def contrasts(
    gates: Callable[[slice], Array], blocks: list[slice], index: np.ndarray, settings: Settings
) -> tuple[sp.csr_array | Array, sp.csr_array | Array]:
    """Return matrices L and S of fewer columns with the same kernels as gate values G (n, k̂).

    For columns g' of GL, Σ_{j∈h} g_j g_jᵀ = Σ_j S_jh g'_j g'_jᵀ, where the groups 0…H − 1 of G are `index` (k̂,).
    `gates(rows)` returns the rows of G in a slice, one of `blocks`. A group whose gate values have the same sum, not 0,
    in every sample (one-hot contexts, an always-on gate) is rotated by Helmert's orthogonal matrix to that constant and
    c − 1 contrasts; all groups then share one constant column. Columns that are zero in every sample are left out.
    Groups of more than `contrasts_up_to` columns remain as they are.
    """
    sizes, order = np.bincount(index), np.argsort(index, kind="stable")
    H, starts = len(sizes), np.cumsum(sizes) - sizes
    low, high = np.full(H, np.inf), np.full(H, -np.inf)
    for rows in blocks:
        sums = np.add.reduceat(gates(rows)[:, order], starts, axis=1)
        low, high = np.minimum(low, sums.min(axis=0)), np.maximum(high, sums.max(axis=0))
    constant = np.where((low == high) & (low != 0) & (sizes <= settings.contrasts_up_to), low, 0.0)
    turn, owners = _turn(np.split(order, starts[1:]), constant, settings)
    used = np.zeros(turn.shape[1], dtype=bool)
    for rows in blocks:
        used |= (gates(rows) @ turn).any(axis=0)
    # The constant column counts in each of its groups.
    others = np.arange(first := turn.shape[1] - len(owners), turn.shape[1])
    places = np.concatenate([np.zeros(first * H, dtype=np.int64), others]), np.append(np.arange(first * H), owners)
    values = np.concatenate([(constant**2 / sizes)[: first * H], np.ones(len(owners))])
    share = _matrix(values, places, (turn.shape[1], H), settings.dense_share_up_to)
    return (turn, share) if used.all() else (turn[:, used], share[used])


def _turn(members: list[np.ndarray], constant: Array, settings: Settings) -> tuple[sp.csr_array | Array, np.ndarray]:
    """Return L (k̂, k'), with a constant column first if a `constant` (H,) is not 0, and the groups of the others."""
    rows, columns, values, owners = list[np.ndarray](), list[np.ndarray](), list[Array](), list[int]()
    first = np.flatnonzero(constant)[:1]
    for h in first:
        rows.append(members[h])
        columns.append(0 * members[h])
        values.append(np.full(len(members[h]), 1 / constant[h]))
    for h, group in enumerate(members):
        i, j, entries, width = _rotation(len(group), bool(constant[h]))
        rows.append(group[i])
        columns.append(j + len(first) + len(owners))
        values.append(entries)
        owners += [h] * width
    places, shape = (np.concatenate(rows), np.concatenate(columns)), (sum(map(len, members)), len(first) + len(owners))
    return _matrix(np.concatenate(values), places, shape, settings.dense_turn_up_to), np.array(owners, dtype=np.int64)


@cache
def _rotation(c: int, constant: bool) -> tuple[np.ndarray, np.ndarray, Array, int]:
    """Return rows, columns and values of the contrasts of c gates, and their number: c, or c − 1 beside a constant."""
    block = np.eye(c) if not constant else scipy.linalg.helmert(c).T if c > 1 else np.zeros((1, 0))
    i, j = np.nonzero(block)
    return i, j, block[i, j], block.shape[1]


def _matrix(
    values: Array, places: tuple[np.ndarray, np.ndarray], shape: tuple[int, int], up_to: int
) -> sp.csr_array | Array:
    """Return the matrix with these values in these places, as an array if it has at most `up_to` entries."""
    if shape[0] * shape[1] > up_to:
        return sp.csr_array((values, places), shape=shape)
    matrix = np.zeros(shape)
    matrix[places] = values
    return matrix
