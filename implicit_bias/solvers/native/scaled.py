"""A margin problem in the coordinates of the interior-point method: all its samples, and the programs of some."""

from abc import ABC, abstractmethod

import numpy as np

from implicit_bias._utils.checks import Array
from implicit_bias._utils.memory import check_memory
from implicit_bias._utils.scaling import TINY, length
from implicit_bias.features import GatedFeatures
from implicit_bias.margin.problem import MarginProblem
from implicit_bias.norms import GroupForm
from implicit_bias.solvers.native.arrays import (
    Tensor,
    as_numpy,
    filled,
    free_on_device,
    library,
    on_device,
    sparse_on_device,
)
from implicit_bias.solvers.native.cholesky import BLOCK
from implicit_bias.solvers.native.contrasts import Contrasts, contrasts
from implicit_bias.solvers.native.factors import PIVOTS, RANK
from implicit_bias.solvers.native.gated_kernels import KEPT, PATIENCE, BorderedKernels, GatedKernels, affordable
from implicit_bias.solvers.native.interior_point import Outcome, Program
from implicit_bias.solvers.native.kernels import (
    FEWER,
    SINGLE_FROM,
    GroupKernels,
    LinearKernels,
    StackedKernels,
    low_rank,
)

#: Samples whose margins or adjoint are computed at a time.
CHUNK = 8192
#: Entries of S up to which products with it are quickest as dense ones; it has about one nonzero a row.
DENSE_UP_TO = 2**22
#: Multiplications of a step up to which it takes all samples at once, where the features are few: half a second.
AT_ONCE = 5e10
#: Inputs from which a product of theirs for every pair of gates takes less time than one for all.
WIDE = 64


class ScaledProblem(ABC):
    """All n samples of a problem whose norm is Σ_h ‖Ŵ_h‖ with W = TŴ, on a device.

    φ̂_i = y_i φ_i / (m_i s) for the required margins m_i, with s such that these have mean square length 1 in an
    average group. So Ŵ is W times s, and λ̂_i is λ_i times m_i s.
    """

    def __init__(self, problem: MarginProblem, form: GroupForm, device: str, scale: float) -> None:
        self.problem, self.device, self.scale = problem, device, scale
        self.n = problem.features.n
        self.expand, (labels, self.index) = form.expand, np.unique(form.groups, return_inverse=True)
        self.H = len(labels)
        # A price of 0 stands for none.
        prices = np.maximum(problem.prices * problem.required_margin * scale, TINY)
        self.prices = None if problem.hard else self.moved(prices)
        tilt = np.broadcast_to(problem.y / problem.required_margin, self.n)
        self.tilt_scale = float(length(tilt)) / np.sqrt(self.n)
        self.positive = self.moved(problem.y > 0)
        self.tilt = self.moved(tilt / self.tilt_scale) if problem.intercept else None

    def moved(self, values: np.ndarray) -> Tensor:
        """These values on the device, to be read only."""
        return on_device(values, self.device)

    @abstractmethod
    def kernels(self, rows: Tensor, more: Tensor | None = None) -> GroupKernels:
        """The group kernels of the samples `rows`, and of one row more: the sum of all at the λ (n,) of `more`."""

    @property
    def few_features(self) -> bool:
        """Whether the features are so few that a step can take all samples."""
        return low_rank(self.columns, self.n) and self.n * self.columns**2 <= AT_ONCE

    def need(self, samples: int) -> int:
        """Bytes that a step of so many samples takes: kernels and factor, a column a group, the border and its LU."""
        if low_rank(self.columns, samples):
            kernels = self.short(samples) + 2 * self.columns**2
        else:
            # Beyond a block of columns the factor needs one of them more, in single precision.
            kernels = self.kept(samples) + (samples * BLOCK // 2 if samples > BLOCK else 0)
        return 8 * (kernels + 6 * samples * self.H + 2 * (self.H + 3) ** 2)

    def check_room(self, samples: int) -> None:
        """Raise TooLargeError where a step of so many samples takes more memory than the device has free."""
        what = f"a step of {samples} samples in {self.H} groups"
        check_memory(self.need(samples), what, FEWER, free_on_device(self.device))

    def partial(self, samples: int) -> bool:
        """Whether steps of so many samples begin with partial factors."""
        return False

    @property
    @abstractmethod
    def columns(self) -> int:
        """Columns of all factors A_h, K_h = A_hA_hᵀ, filled up to one width."""

    def short(self, samples: int) -> int:
        """Numbers that a step through the features of so many samples keeps, beside a matrix of these."""
        return 3 * samples * self.columns

    @abstractmethod
    def kept(self, samples: int) -> int:
        """Numbers that the kernels of so many samples keep, and take to be applied and factorised."""

    @abstractmethod
    def linear(self, rows: Tensor) -> LinearKernels:
        """The group kernels of the samples `rows`, whose V are those of all samples."""

    def together(self, lam: Tensor) -> Tensor:
        """The V = Φ̂ᵀλ of all samples, a few thousand at a time."""
        used = library(lam).where(lam != 0)[0]
        parts = (used[i : i + CHUNK] for i in range(0, max(len(used), 1), CHUNK))
        return sum(self.linear(rows).adjoint(lam[rows]) for rows in parts)

    @abstractmethod
    def squares(self, V: Tensor) -> Tensor:
        """‖V_h‖² (H,)."""

    @abstractmethod
    def unshifted(self, V: Tensor, eta: Tensor) -> Tensor:
        """The margins (n,) of all samples at the weights η_h V_h, without the intercept."""

    def margins(self, V: Tensor, eta: Tensor, b: Tensor) -> Tensor:
        """The margins (n,) of all samples at those weights and the intercept b (0 or 1,)."""
        f = self.unshifted(V, eta)
        return f if self.tilt is None else f + self.tilt * b

    def program(self, rows: Tensor, priced: Tensor | None = None) -> Program:
        """The problem of the samples `rows` and, if there are any, the `priced` ones as one row: λ_i = λ̄ p_i/Σp."""
        prices = None if self.prices is None else self.prices[rows]
        tilt = None if self.tilt is None else self.tilt[rows]
        if self.prices is None or priced is None or len(priced) == 0:
            return Program(self.kernels(rows), prices, tilt)
        total = self.prices[priced].sum()
        share = self.prices[priced] / total
        if self.tilt is not None:
            tilt = library(share).hstack([self.tilt[rows], self.tilt[priced] @ share])
        more = library(share).zeros_like(self.prices)
        more[priced] = share
        return Program(self.kernels(rows, more), library(share).hstack([self.prices[rows], total]), tilt)

    def nothing(self) -> Outcome:
        """Weights of 0, which nothing bounds."""
        lam = self.moved(np.zeros(self.n))
        return Outcome(lam, (lam, filled(lam, self.H, 0.0), lam[:0]))

    def weights(self, lam: Tensor, eta: Tensor) -> Array:
        """W (k, d) of (λ, η), computed in the original coordinates."""
        features, a = self.problem.features, self.dual(lam) * self.problem.y
        used = np.flatnonzero(a)
        # Most samples of many are outside the working set.
        if 0 < 4 * len(used) < len(a):
            features, a = features.select(used), a[used]
        V = features.mixed(self.expand).adjoint(a)
        return np.asarray(self.expand @ (as_numpy(eta)[self.index, None] * V))

    def intercept(self, b: Tensor) -> float:
        """The intercept that belongs to `weights`, in the original coordinates."""
        return float(b.sum()) * self.scale / self.tilt_scale

    def dual(self, lam: Tensor) -> Array:
        """λ (n,) in the original coordinates."""
        return np.asarray(as_numpy(lam) / self.problem.required_margin / self.scale)


class GatedProblem(ScaledProblem):
    """Of gates and inputs: the inputs stay where they are, rows are scaled when they are taken."""

    def __init__(self, problem: MarginProblem, form: GroupForm, device: str) -> None:
        features = problem.features
        assert isinstance(features, GatedFeatures)
        gates = features.gate_values @ form.expand
        groups = len(np.unique(form.groups))
        gate_scale = float(length(gates)) / np.sqrt(features.n * groups) or 1.0
        input_scale = float(length(features.input_lengths / problem.required_margin)) / np.sqrt(features.n) or 1.0
        super().__init__(problem, form, device, gate_scale * input_scale)
        gates /= gate_scale
        self._prepare(gate_scale, input_scale, contrasts(lambda: [gates], form.groups))
        self.X, self.G = self.moved(features.X), self.moved(self.contrasts.of(gates))

    def _prepare(self, gate_scale: float, input_scale: float, found: Contrasts) -> None:
        """What is kept beside inputs and gate values."""
        self.gate_scale, self.contrasts, share = gate_scale, found, found.share
        self.signs = self.moved(np.broadcast_to(self.problem.y / self.problem.required_margin, self.n) / input_scale)
        self.inputs = self.moved(np.flatnonzero(self.problem.features.largest().any(axis=0)))
        small = share.shape[0] * share.shape[1] <= DENSE_UP_TO
        self.share = self.moved(share.toarray()) if small else sparse_on_device(share, self.device)

    def inputs_of(self, rows: Tensor) -> Tensor:
        """x_i of some samples, shape (m, d)."""
        return self.X[rows]

    def gates_of(self, rows: Tensor) -> Tensor:
        """The contrasts of their gate values, shape (m, k')."""
        return self.G[rows]

    def kernels(self, rows: Tensor, more: Tensor | None = None) -> GroupKernels:
        """Of the rows y_i x_i / (m_i s), with all inputs that are constant in them turned into one."""
        X, short = self.inputs_of(rows), low_rank(self.columns, len(rows))
        if more is not None:
            X = X[:, self.inputs] * self.signs[rows, None]
            own = GatedKernels(X, self.gates_of(rows), self.share, short, self.wide)
            return BorderedKernels(own, self.together(more)[:, self.inputs])
        constant = (X[0] == X).all(axis=0)
        if constant.any():
            # Without squares that overflow or vanish.
            size = float(length(as_numpy(X[0, constant])))
            X = library(X).hstack([X[:, ~constant], filled(X, (len(X), 1), size)])
        return GatedKernels(X * self.signs[rows, None], self.gates_of(rows), self.share, short, self.wide)

    @property
    def columns(self) -> int:
        """Of contrasts times inputs that are not zero in every sample."""
        return self.share.shape[0] * len(self.inputs)

    @property
    def wide(self) -> bool:
        """Whether features are computed as they are needed: there are many inputs, though some may be zero."""
        return bool(self.problem.features.d >= WIDE)

    def kept(self, samples: int) -> int:
        """A factor, XXᵀ unless that is made anew, in single precision for many samples; rows of inputs and gates."""
        columns, d = self.share.shape[0], self.problem.features.d
        if self.partial(samples):
            square = int((1.5 * RANK + RANK**2) * samples**2) + 2 * PIVOTS * samples
        elif samples < SINGLE_FROM:
            square = 2 * samples**2
        else:
            square = samples**2 // (1 if self.H == 1 or samples <= KEPT * d else 2)
        return square + 3 * samples * d + 4 * samples * columns + 2 * columns * d

    def short(self, samples: int) -> int:
        """Of many inputs these and parts of them alone, with columns of gate values."""
        if not self.wide:
            return super().short(samples)
        return samples * (4 * self.problem.features.d + 4 * self.share.shape[0])

    def partial(self, samples: int) -> bool:
        """Of those whose products a refinement can afford, unless the features are fewer still."""
        columns = self.problem.features.d * self.share.shape[0]
        return not low_rank(self.columns, samples) and affordable(samples, columns) >= PATIENCE

    def linear(self, rows: Tensor) -> GatedKernels:
        """With all inputs; V has a row for each column of gate values, shape (k, d)."""
        X = self.inputs_of(rows) * self.signs[rows, None]
        return GatedKernels(X, self.gates_of(rows), self.share, wide=self.wide)

    def squares(self, V: Tensor) -> Tensor:
        """Σ_j S_jh ‖V_j‖²."""
        return (V * V).sum(axis=1) @ self.share

    def unshifted(self, V: Tensor, eta: Tensor) -> Tensor:
        """A few thousand samples at a time."""
        W = V * (self.share @ eta)[:, None]
        chunks = (slice(i, i + CHUNK) for i in range(0, self.n, CHUNK))
        parts = [((self.X[chunk] @ W.T) * self.G[chunk]).sum(axis=1) for chunk in chunks]
        return library(W).concatenate(parts) * self.signs


class BlockProblem(ScaledProblem):
    """Of features without gates: the blocks of a group side by side."""

    def __init__(self, problem: MarginProblem, form: GroupForm, device: str) -> None:
        features = problem.features
        blocks = features.mixed(form.expand).dense().reshape(features.n, -1, features.d)
        blocks = blocks / np.reshape(problem.required_margin * problem.y, (-1, 1, 1))
        groups = [blocks[:, form.groups == label].reshape(features.n, -1) for label in np.unique(form.groups)]
        scale = float(length(blocks)) / np.sqrt(features.n * len(groups)) or 1.0
        super().__init__(problem, form, device, scale)
        A = np.zeros((features.n, len(groups), max(group.shape[1] for group in groups)))
        for h, group in enumerate(groups):
            A[:, h, : group.shape[1]] = group / scale
        self.A = self.moved(A)

    def linear(self, rows: Tensor) -> StackedKernels:
        """Of the rows y_i φ_i / (m_i s); V has a row for each group, shape (H, r)."""
        return StackedKernels(self.A[rows])

    def kernels(self, rows: Tensor, more: Tensor | None = None) -> StackedKernels:
        """Of these rows, and one."""
        A = self.A[rows]
        return StackedKernels(A if more is None else library(A).concatenate([A, self.together(more)[None]]))

    @property
    def columns(self) -> int:
        """Of all blocks."""
        return self.A.shape[1] * self.A.shape[2]

    def kept(self, samples: int) -> int:
        """The rows twice, all kernels, and their sum, once more in single precision."""
        return 2 * samples * self.columns + (self.H + 2) * samples**2

    def squares(self, V: Tensor) -> Tensor:
        """Row by row."""
        return (V * V).sum(axis=1)

    def unshifted(self, V: Tensor, eta: Tensor) -> Tensor:
        """Σ_h η_h A_h V_h."""
        return library(V).tensordot(self.A, V * eta[:, None], 2)
