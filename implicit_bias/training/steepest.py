"""Steepest descent in the norm that an optimiser gives the layers, and a faster search for the limits of this descent.

A network f(x) = Σ_h v_h ⟨u_h, φ_h(x)⟩ has the norm N(θ) = max(‖v‖, ‖U‖), with the gated inputs φ_h(x) (M·d,) of a unit.
A linear model of K classes, f(x) = U x, has the norm N(U) = ‖U‖. L, 2 or 1, is the number of layers.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import reduce
from math import inf, log

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import one_hot

from implicit_bias._utils.checks import InputError, as_fraction, as_positive, as_real, shown
from implicit_bias.margin.formulations import layers_of
from implicit_bias.norms.two_layers import TwoLayerNorm
from implicit_bias.training.homogeneous import MarginFunction
from implicit_bias.training.iterations import Descent, Iteration
from implicit_bias.training.layer_norms import BY_NAME, LayerNorm

#: The sharpness R^L may grow while N(θ)N*(g) − ⟨g, θ⟩ is below this share of L (Σ_i p_i q_i − min_i q_i).
SLACK = 0.25
#: Factor of R^L when it grows.
GROWTH = 1.05
#: R^L stops growing once the smoothing log(n)/(R^L min_i q_i) is below this share of the tolerance.
SHARPEST = 1e-3
#: Factor by which the length of a step grows, and by which it shrinks until the step is short enough.
LONGER, SHORTER = 1.05, 0.5
#: Relative rounding error of the loss and of margins.
ROUNDING = 1e-14
#: Length of a row of effective weights, as a share of the largest one, up to which a unit counts as dead.
DEAD = 1e-3

#: Weights U (H, M·d) and v (H, 1), or U (K, d).
Layers = tuple[Tensor, ...]


class LayeredDescent(Descent):
    """Base class of descents in N(θ), the largest norm of a layer; `optimiser` names the norms."""

    optimiser: str | tuple[str, str]
    tolerance: float

    def __post_init__(self) -> None:
        self.norm_of(1, 1)
        as_positive(self.tolerance, "tolerance")
        super().__post_init__()

    @property
    def rotation_invariant(self) -> bool:  # type: ignore[override]
        return self.norm_of(1, 1).rotation_invariant

    def norm_of(self, units: int, gates: int) -> TwoLayerNorm:
        """Return the norm of the effective weights of H units with M gates each; raise InputError if not convex."""
        return TwoLayerNorm(np.repeat(np.arange(units), gates), *layers_of(self.optimiser))


@dataclass(frozen=True)
class SteepestDescent(LayeredDescent):
    """Full-batch steepest descent on log Σ_i exp(−q_i) in the norm N(θ) = max(‖v‖, ‖U‖) of an optimiser.

        m ← μ m + (1 − μ) Σ_i p_i ∇q_i,  p = softmax(−q),      θ ← θ + η Δ,  Δ = argmax { ⟨m, Δ⟩ : N(Δ) ≤ 1 }
        η = s t^{−decay} / max_i N*(∇q_i),      N*(∇q) = ‖∂q/∂v‖_* + ‖∂q/∂U‖_*

    Δ are signs for "sign", the polar factor of U's gradient for "muon", and normalised gradients of each layer for
    "gd". To first order, no margin changes by more than s in a step. The weights then grow like √t, and η decreases
    like 1/√t, the fastest rate for two layers at which a margin changes by a bounded amount; for one layer η is
    constant. Larger steps are refused. "adam" divides m by √(second moment), bias-corrected and with ε = 0; entries of
    Δ then may exceed 1.

    In direction, gradient flows of this kind converge to KKT points of min N(θ) subject to q_i ≥ 1, for which
    `svm_of_optimiser` names the theorems. These are about smooth networks: for learned gates there is none. With a
    constant s the direction stays within a distance of the limit that grows with s: `ProjectedDescent` comes closer.

    A network of K > 1 outputs must be linear, f(x) = U x, such as `TorchNetwork(nn.Linear(d, K, bias=False), d)`. Its
    limit is the optimum of `svm_classes` with the norm of U. It has fixed gates if its inputs are gated features Φ(x).

    Parameters
    ----------
    optimiser : str or pair of str
        As for `svm_of_optimiser`: "gd", "sign", "adam", "muon", "muon-sign", a synonym of one of these, whose steps it
        then takes, or the norms of U and v.
    step : float
        The factor s of η.
    decay : float
        Exponent of t, at least 0.
    momentum : float
        μ, from 0 to below 1. "sign" with momentum is Signum; for "adam" it is β₁.
    beta2 : float
        β₂ of "adam", from 0 to below 1.
    tolerance : float
        The descent ends once a row of the table has a `ratio` of at most 1 + tolerance.
    max_steps, max_seconds : int, float
        Limits of the descent.

    Raises
    ------
    InputError
        If a value is out of range, or the norms induce a function of the effective weights that is not convex.

    Examples
    --------
    >>> from implicit_bias.training import SteepestDescent
    >>> SteepestDescent("muon").step
    0.1
    """

    optimiser: str | tuple[str, str]
    step: float = 0.1
    decay: float = 0.0
    momentum: float = 0.9
    beta2: float = 0.999
    tolerance: float = 1e-3
    max_steps: int = 10_000
    max_seconds: float = 600.0

    def __post_init__(self) -> None:
        super().__post_init__()
        as_positive(self.step, "step")
        if not as_real(self.decay) >= 0:
            text = f"decay must be at least 0, not {shown(self.decay)}: above the rate 1/√t no theorem holds for two"
            raise InputError(f"{text} layers, and sign descent and Muon do not converge")
        as_fraction(self.momentum, "momentum", below=True)
        as_fraction(self.beta2, "beta2", below=True)

    def stepper(self, function: MarginFunction) -> "SteepestIteration":
        """Return the iteration from the network's present weights."""
        return SteepestIteration(layer_margins(function, self), self)


@dataclass(frozen=True)
class ProjectedDescent(LayeredDescent):
    """Accelerated search for the limits of an optimiser: the KKT points of min N(θ) subject to q_i ≥ 1.

        F_R(θ) = R^{−L} log Σ_i exp(−R^L q_i(θ)),      ϑ = θ_k + m/(m+3) (θ_k − θ_{k−1}),
        θ_{k+1} = Π(ϑ − a ∇F_R(ϑ)),      Π the projection onto {N(θ) ≤ 1}

    This is not the path of an optimiser. The ball is that of the optimiser's norm, but steps are Euclidean, with
    Nesterov's momentum and restarts. The fixed points are stationary points of F_R in the ball. As R grows, these tend
    to the same KKT points that steepest descent in N tends to; which one is found may differ, unless it is unique.
    With fixed gates every KKT point without dead units has an optimal W. L is 2, or 1 for a linear network of K > 1
    outputs as in `SteepestDescent`, which has a convex problem.

    The length a grows by 5 % a step and is halved until F_R is below its quadratic model. R^L grows by 5 % in a step
    whose residual N*(∇F_R) − ⟨−∇F_R, θ⟩ is at most L `SLACK` (Σ_i p_i q_i − min_i q_i), p = softmax(−R^L q).

    Parameters
    ----------
    optimiser : str or pair of str
        As for `SteepestDescent`; "adam" is the same as "sign".
    tolerance : float
        The descent ends once a row of the table has a `ratio` of at most 1 + tolerance.
    max_steps, max_seconds : int, float
        Limits of the descent.

    Raises
    ------
    InputError
        As for `SteepestDescent`.

    Examples
    --------
    >>> from implicit_bias import GatedLinearNetwork, HyperplaneGates, load_binary
    >>> from implicit_bias import descend_to_limit, solve, svm_of_optimiser
    >>> from implicit_bias.training import ProjectedDescent
    >>> task = load_binary("digits", train_size=60)
    >>> gates = HyperplaneGates(4, 2, seed=1).fit(task.X_pool)
    >>> network = GatedLinearNetwork(gates)
    >>> table = descend_to_limit(network, task.X_train, task.y_train, ProjectedDescent("muon", tolerance=0.01)).table
    >>> optimum = solve(svm_of_optimiser(task.X_train, task.y_train, gates, "muon")).objective
    >>> bool(1 - 1e-6 <= 1 / (table.normalised_margin.iloc[-1] * optimum) <= table.ratio.iloc[-1] <= 1.01)
    True
    """

    optimiser: str | tuple[str, str]
    tolerance: float = 1e-3
    max_steps: int = 1_000_000
    max_seconds: float = 600.0

    def stepper(self, function: MarginFunction) -> "ProjectedIteration":
        """Return the iteration from the direction of each layer's present weights."""
        return ProjectedIteration(layer_margins(function, self), self)


class LayerMargins(ABC):
    """Margins q (n,) as a function of layers, and their gradients.

    Inputs are divided by their largest entry c and weights multiplied by c^{1/L}, so that no product overflows.
    """

    #: Number of layers L.
    degree: int
    #: True if the gates are learned.
    has_kinks: bool
    #: Norm of the effective weights, and that of each layer.
    norm: TwoLayerNorm
    norms: tuple[LayerNorm, ...]
    start: Layers

    def __init__(self, function: MarginFunction) -> None:
        self.function, self.y, self.count = function, function.y, function.count
        largest = max(float(function.inputs.abs().max()), float(np.finfo(float).tiny))
        self.X, self.scale = function.inputs / largest, largest
        self.root = largest ** (1 / self.degree)

    @abstractmethod
    def evaluate(self, layers: Layers) -> tuple[Tensor, ...]:
        """Return the margins q (n,), then `values`, which other methods take instead of computing them again."""

    @abstractmethod
    def gradient(self, shares: Tensor, layers: Layers, *values: Tensor) -> Layers:
        """Return Σ_i λ_i ∇q_i in the shapes of the layers, for `shares` λ (n,)."""

    @abstractmethod
    def largest_gradient(self, layers: Layers, *values: Tensor) -> float:
        """Return max_i N*(∇q_i)."""

    @abstractmethod
    def correlation(self, shares: Tensor, *values: Tensor) -> Tensor:
        """Return the gradient of Σ_i λ_i q_i by the effective weights, one row per gate, from `evaluate`."""

    def dual(self, layers: Layers) -> float:
        """Return N*(layers), the sum of the dual norms of the layers."""
        return sum(float(norm.dual(each)) for norm, each in zip(self.norms, layers, strict=True))

    def flat(self, layers: Layers, size: float) -> Tensor:
        """Return all weights of the network as one vector: the layers times `size`, for inputs not divided by c."""
        return torch.cat([each.flatten() for each in layers]) * (size / self.root)

    def state(self, layers: Layers, size: float, shares: Tensor) -> dict[str, float]:
        """Return the columns of the table for the layers times `size` and multipliers λ = `shares`, Σ_i λ_i = 1.

        `norm` N(θ), with the parts of the weights that no output depends on; `normalised_margin` = margin/N(θ)^L;
        `residual` 1 − L min_i q_i/(N(θ) N*(Σ_i λ_i ∇q_i)), which is 0 at KKT points only; `ratio`, an upper bound of
        N(θ)^L/(margin × optimum) by weak duality with λ; `smoothing` log(n)/margin; and the number of `dead` units.
        """
        q, *values = self.evaluate(layers)
        dual, L, margin = self.dual(self.gradient(shares, layers, *values)), self.degree, float(q.min())
        U = layers[0]
        if self.function.rest:
            each = U.view(-1, self.X.shape[1]) @ self.function.rotation.T
            U = (each + self.function.rest[0] * (self.root / size)).view(len(U), -1)
        N = max(float(norm.value(each)) for norm, each in zip(self.norms, (U, *layers[1:]), strict=True))
        # Effective weights have one row per unit: v_h u_h (H, M·d), or U (K, d).
        lengths = torch.linalg.vector_norm(reduce(torch.mul, layers), dim=1)
        return {
            "norm": N * size / self.root,
            "normalised_margin": margin / N**L * self.scale,
            "residual": 1 - L * margin / (N * dual) if N * dual > 0 else 1.0,
            "ratio": self.norm.dual(self.correlation(shares, *values).numpy()) * N**L / margin if margin > 0 else inf,
            "smoothing": log(self.count) / (margin * size**L) if margin > 0 else inf,
            "dead": int((lengths <= DEAD * lengths.max()).sum()),
        }


class TwoLayerMargins(LayerMargins):
    """Margins of f(x) = Σ_h v_h ⟨u_h, φ_h(x)⟩ as a function of (U, v)."""

    degree = 2

    def __init__(self, function: MarginFunction, config: LayeredDescent) -> None:
        super().__init__(function)
        layer = function.layers[0]
        if layer is None or not layer.has_formulas or len(function.parameters) != 2 or function.outputs > 1:
            kind = "gated linear units (or relu) and a readout, one output and at most 16 contexts per unit"
            text = f"{type(config).__name__} takes networks with two trained parameters, weights (H, d) of {kind}"
            raise InputError(f"{text}; or one linear layer with several outputs; for gradient descent, use LossScaled")
        hidden, readout = function.start.split([p.numel() for p in function.parameters])
        self.units, self.gates_per_unit = len(readout), layer.parts
        self.start = hidden.view(self.units, -1) * self.root, readout[:, None] * self.root
        self.has_kinks = function.has_kinks
        #: Gates (H, M, n); None if they are learned.
        self.gates: Tensor | None = None
        if function.contexts is not None:
            contexts = function.contexts
            gates = one_hot(contexts.long(), layer.parts) if layer.chosen else contexts[..., None]
            self.gates = gates.double().permute(1, 2, 0).contiguous()
        self.norm = config.norm_of(self.units, self.gates_per_unit)
        self.norms = BY_NAME[self.norm.input_layer], BY_NAME[self.norm.output_layer]
        self.lengths = torch.linalg.vector_norm(self.X, self.norms[0].inputs, dim=1)

    def evaluate(self, layers: Layers) -> tuple[Tensor, ...]:
        """Return q (n,), the gates (H, M, n), and the units ⟨u_h, φ_h(x_i)⟩ (H, n)."""
        U, v = layers
        values = (U.view(-1, self.X.shape[1]) @ self.X.T).view(self.units, self.gates_per_unit, -1)
        gates = (values > 0).double() if self.gates is None else self.gates
        units = (gates * values).sum(1)
        return self.y * (v[:, 0] @ units), gates, units

    def gradient(self, shares: Tensor, layers: Layers, *values: Tensor) -> Layers:
        gates, units = values
        slopes = shares * self.y
        of_values = gates * (layers[1] * slopes)[:, None]
        return (of_values.view(-1, len(slopes)) @ self.X).view(self.units, -1), (units @ slopes)[:, None]

    def largest_gradient(self, layers: Layers, *values: Tensor) -> float:
        """Return max_i N*(∇q_i), by ∂q_i/∂U = (v_h g_mh(x_i))_hm ⊗ y_i x_i."""
        gates, units = values
        of_input = self.norms[0].dual((layers[1][:, :, None] * gates).permute(2, 0, 1)) * self.lengths
        return float((of_input + self.norms[1].dual(units.T[:, :, None])).max())

    def correlation(self, shares: Tensor, *values: Tensor) -> Tensor:
        return (values[0] * (shares * self.y)).view(-1, len(shares)) @ self.X


class ClassMargins(LayerMargins):
    """Margins q_ic = ⟨u_{y_i} − u_c, x_i⟩, c ≠ y_i, in one row, as a function of (U,), U (K, d)."""

    degree = 1
    has_kinks = False

    def __init__(self, function: MarginFunction, config: LayeredDescent) -> None:
        super().__init__(function)
        K, d = function.outputs, self.X.shape[1]
        self.start = (function.start.view(-1, d) * self.root,)
        self.norm = TwoLayerNorm(np.arange(K), layers_of(config.optimiser)[0], "l_inf")
        self.norms = (BY_NAME[self.norm.input_layer],)
        # ∂q_ic/∂U = (e_{y_i} − e_c) ⊗ x_i.
        of_classes = self.norms[0].dual(torch.tensor([[1.0], [-1.0]], dtype=torch.float64))
        self.largest = float(of_classes * torch.linalg.vector_norm(self.X, self.norms[0].inputs, dim=1).max())

    def evaluate(self, layers: Layers) -> tuple[Tensor, ...]:
        return (self.function.margins_of(self.X @ layers[0].T),)

    def gradient(self, shares: Tensor, layers: Layers, *values: Tensor) -> Layers:
        return (self.correlation(shares),)

    def largest_gradient(self, layers: Layers, *values: Tensor) -> float:
        return self.largest

    def correlation(self, shares: Tensor, *values: Tensor) -> Tensor:
        slopes = torch.zeros(len(self.y) * self.function.outputs, dtype=shares.dtype)
        slopes[self.function.pairs] = -shares
        slopes = slopes.view(len(self.y), -1)
        slopes.scatter_(1, self.y[:, None], -slopes.sum(1, keepdim=True))
        return slopes.T @ self.X


def layer_margins(function: MarginFunction, config: LayeredDescent) -> LayerMargins:
    """Return `ClassMargins` of a linear network of several outputs, else `TwoLayerMargins`, or raise InputError."""
    X, K = function.inputs, function.outputs
    if K > 1 and [p.shape for p in function.parameters] == [(K, X.shape[-1])]:
        outputs = X @ function.start.view(K, -1).T
        if torch.allclose(function.network.outputs_of(X, function.contexts), outputs):
            return ClassMargins(function, config)
    return TwoLayerMargins(function, config)


class LayeredIteration(Iteration):
    """An iteration on `layers`, whose rows of the table, not whose steps, test for convergence."""

    #: R^L, with R times `layers` as weights.
    sharpness = 1.0

    def __init__(self, margins: LayerMargins, layers: Layers, tolerance: float) -> None:
        self.margins, self.layers, self.tolerance = margins, layers, tolerance
        #: Sum of p over the steps since the last row of the table: its mean fluctuates less than p.
        self.shares = torch.zeros(margins.count, dtype=torch.float64)

    @property
    def size(self) -> float:
        """R, the factor of `layers`."""
        return self.sharpness ** (1 / self.margins.degree)

    @property
    def weights(self) -> Tensor:  # type: ignore[override]
        return self.margins.flat(self.layers, self.size)

    def state(self) -> dict[str, float]:
        if not self.shares.any():
            self.shares = torch.softmax(-self.sharpness * self.margins.evaluate(self.layers)[0], 0)
        row = self.margins.state(self.layers, self.size, self.shares / self.shares.sum())
        self.shares = torch.zeros_like(self.shares)
        self.converged = row["ratio"] <= 1 + self.tolerance
        return row


class SteepestIteration(LayeredIteration):
    """The iteration of `SteepestDescent`."""

    def __init__(self, margins: LayerMargins, config: SteepestDescent) -> None:
        super().__init__(margins, margins.start, config.tolerance)
        self.config, self.count = config, 0
        self.first, self.second = ([torch.zeros_like(each) for each in self.layers] for _ in range(2))

    def step(self) -> bool:
        config, margins = self.config, self.margins
        q, *values = margins.evaluate(self.layers)
        shares = torch.softmax(-q, 0)
        self.shares += shares
        self.count += 1
        largest = margins.largest_gradient(self.layers, *values)
        if largest == 0:
            # All units are closed for all samples, and no weight changes a margin.
            return False
        rate = config.step * self.count**-config.decay / largest
        gradient = margins.gradient(shares, self.layers, *values)
        self.layers = tuple(each + rate * self._direction(i, gradient[i]) for i, each in enumerate(self.layers))
        return False

    def _direction(self, index: int, gradient: Tensor) -> Tensor:
        """Return Δ of the layer number `index`, given Σ_i p_i ∇q_i; update m and the second moment of this layer."""
        first = self.first[index].lerp_(gradient, 1 - self.config.momentum)
        if self.config.optimiser != "adam":
            return self.margins.norms[index].steepest(first)
        second = self.second[index].lerp_(gradient**2, 1 - self.config.beta2)
        corrected = (1 - self.config.beta2**self.count) ** 0.5 / (1 - self.config.momentum**self.count)
        return torch.where(second > 0, first / second.sqrt() * corrected, 0.0)


class ProjectedIteration(LayeredIteration):
    """The iteration of `ProjectedDescent`."""

    def __init__(self, margins: LayerMargins, config: ProjectedDescent) -> None:
        if margins.has_kinks:
            raise InputError("ProjectedDescent takes networks with fixed gates; use SteepestDescent for learned gates")
        sizes = [float(norm.value(each)) for norm, each in zip(margins.norms, margins.start, strict=True)]
        if not min(sizes) > 0:
            raise InputError("a layer's weights are all zero and have no direction to start from; initialise them")
        layers = tuple(each / size for each, size in zip(margins.start, sizes, strict=True))
        super().__init__(margins, layers, config.tolerance)
        self.before, self.run = layers, 0
        q, *values = margins.evaluate(self.layers)
        # At the start, outputs are at most 1.
        self.sharpness = 1.0 / max(float(q.abs().max()), float(np.finfo(float).tiny))
        largest = margins.largest_gradient(self.layers, *values)
        if largest == 0:
            raise InputError("all gates are 0 for all samples, so that no weight changes a margin; use other gates")
        # Curvature along a step is at most R^L max_i N*(∇q_i)².
        self.length = 1.0 / (self.sharpness * largest**2)

    def step(self) -> bool:
        """Make an accelerated step, then raise R if it is near stationary."""
        margins, momentum = self.margins, self.run / (self.run + 3)
        now, before = self.layers, self.before
        v = tuple(a + momentum * (a - b) for a, b in zip(now, before, strict=True))
        q, *values = margins.evaluate(v)
        loss, shares = self._softmin(q)
        self.shares += shares
        # The ascent direction −∇F_R.
        g = margins.gradient(shares, v, *values)
        new, q = self._search(v, loss, g)
        uphill = _dot(_minus(v, new), _minus(new, now)) > 0
        self.run = 0 if uphill else self.run + 1
        self.before, self.layers = now, new
        smallest = float(q.min())
        gap = margins.dual(g) - _dot(g, new)
        smallest_smoothing = max(SHARPEST * self.tolerance * smallest, ROUNDING * float(q.abs().max()))
        slack = margins.degree * SLACK * (float(shares @ q) - smallest)
        if gap <= slack and log(margins.count) > smallest_smoothing * self.sharpness:
            self.sharpness *= GROWTH
        return False

    def _softmin(self, q: Tensor) -> tuple[float, Tensor]:
        """Return F_R and softmax(−R^L q) for margins q."""
        smallest = q.min()
        shares = torch.exp(-self.sharpness * (q - smallest))
        total = shares.sum()
        return float(total.log()) / self.sharpness - float(smallest), shares / total

    def _search(self, v: Layers, loss: float, g: Layers) -> tuple[Layers, Tensor]:
        """Return Π(v + a g) and its margins, `loss` = F_R(v), g = −∇F_R(v); adapt `length` a to the quadratic model."""
        while True:
            layers = zip(self.margins.norms, v, g, strict=True)
            new = tuple(norm.nearest(each + self.length * update) for norm, each, update in layers)
            q, change = self.margins.evaluate(new)[0], _minus(new, v)
            model = loss - _dot(g, change) + _dot(change, change) / (2 * self.length)
            tiny = self.length * self.sharpness * self.margins.dual(g) <= np.finfo(float).tiny
            if self._softmin(q)[0] <= model + ROUNDING * abs(loss) or tiny:
                self.length *= LONGER
                return new, q
            self.length *= SHORTER


def _dot(a: Layers, b: Layers) -> float:
    return sum(float((one * other).sum()) for one, other in zip(a, b, strict=True))


def _minus(a: Layers, b: Layers) -> Layers:
    return tuple(one - other for one, other in zip(a, b, strict=True))
