"""Descents in the norms of two layers: the steepest one, whose limit is an optimiser's, and a search for its limits.

A network with one hidden layer, f(x) = Σ_h v_h ⟨u_h, φ_h(x)⟩, has the norm N(θ) = max(‖v‖, ‖U‖). Row h of U contains
the weights of all contexts of unit h, and φ_h(x) (M·d,) the gated inputs of the unit.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import one_hot

from implicit_bias._utils.checks import InputError, as_count, as_positive, as_real, shown
from implicit_bias.margin.formulations import layers_of
from implicit_bias.norms.two_layers import TwoLayerNorm
from implicit_bias.training.homogeneous import MarginFunction
from implicit_bias.training.iterations import Descent, Iteration
from implicit_bias.training.layer_norms import BY_NAME

#: The sharpness R² may grow while N(θ)N*(g) − ⟨g, θ⟩ is below this share of 2 (Σ_i p_i q_i − min_i q_i).
SLACK = 0.25
#: Factor of R² when it grows.
GROWTH = 1.05
#: R² stops growing once the smoothing log(n)/(R² min_i q_i) is below this share of the tolerance.
SHARPEST = 1e-3
#: Factor by which the length of a step grows, and by which it shrinks until the step is short enough.
LONGER, SHORTER = 1.05, 0.5
#: Relative rounding error of the loss and of margins.
ROUNDING = 1e-14
#: Length of ‖ζ_h‖₂, as a share of the largest one, up to which a unit counts as dead.
DEAD = 1e-3

#: Weights U (H, M·d) and v (H, 1).
Layers = tuple[Tensor, ...]


class LayeredDescent(Descent):
    """Base class of descents in the norms of two layers."""

    optimiser: str | tuple[str, str]

    @property
    def rotation_invariant(self) -> bool:  # type: ignore[override]
        return self.norm_of(1, 1).rotation_invariant

    def norm_of(self, units: int, gates: int) -> TwoLayerNorm:
        """Return the norm of the effective weights of H units with M gates each; InputError if it is not convex."""
        return TwoLayerNorm(np.repeat(np.arange(units), gates), *layers_of(self.optimiser))


@dataclass(frozen=True)
class SteepestDescent(LayeredDescent):
    """Full-batch steepest descent on log Σ_i exp(−q_i) in the norm N(θ) = max(‖v‖, ‖U‖) of an optimiser.

        m ← μ m + (1 − μ) Σ_i p_i ∇q_i,  p = softmax(−q),      θ ← θ + η Δ,  Δ = argmax { ⟨m, Δ⟩ : N(Δ) ≤ 1 }
        η = s t^{−decay} / max_i N*(∇q_i),      N*(∇q) = ‖∂q/∂v‖_* + ‖∂q/∂U‖_*

    Δ are signs for "sign", the polar factor of U's gradient for "muon", and normalised gradients of each layer for
    "gd". To first order, no margin changes by more than s in a step. The weights then grow like √t, and η decreases
    like 1/√t, the fastest rate for two layers at which a margin changes by a bounded amount. Larger steps are refused.
    "adam" divides m by √(second moment), bias-corrected and with ε = 0; entries of Δ then may exceed 1.

    In direction, gradient flows of this kind converge to KKT points of min N(θ) subject to q_i ≥ 1, for which
    `svm_of_optimiser` names the theorems. These are about smooth networks: for learned gates there is none. With a
    constant s the direction stays within a distance of the limit that grows with s: `ProjectedDescent` comes closer.

    Parameters
    ----------
    optimiser : str or pair of str
        As for `svm_of_optimiser`: "gd", "sign", "adam", "muon", "muon-sign", or the norms of U and v.
    step : float
        The factor s of η.
    decay : float
        Exponent of t, at least 0.
    momentum : float
        μ, from 0 to below 1. "sign" with momentum is Signum; for "adam" it is β₁.
    second_momentum : float
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
    second_momentum: float = 0.999
    tolerance: float = 1e-3
    max_steps: int = 10_000
    max_seconds: float = 600.0

    def __post_init__(self) -> None:
        self.norm_of(1, 1)
        as_positive(self.step, "step")
        if not as_real(self.decay) >= 0:
            raise InputError(
                f"decay must be at least 0, not {shown(self.decay)}: above the rate 1/√t no theorem holds for two "
                "layers, and sign descent and Muon do not converge"
            )
        for name in ("momentum", "second_momentum"):
            if not 0 <= as_real(getattr(self, name)) < 1:
                raise InputError(f"{name} must be a number from 0 to below 1, not {shown(getattr(self, name))}")
        _check_limits(self)

    def stepper(self, function: MarginFunction) -> SteepestIteration:
        """Return the iteration from the network's present weights."""
        return SteepestIteration(TwoLayerMargins(function, self), self)


@dataclass(frozen=True)
class ProjectedDescent(LayeredDescent):
    """Accelerated search for the limits of an optimiser: the KKT points of min N(θ) subject to q_i ≥ 1.

        F_R(θ) = R^{−2} log Σ_i exp(−R² q_i(θ)),      ϑ = θ_k + m/(m+3) (θ_k − θ_{k−1}),
        θ_{k+1} = Π(ϑ − a ∇F_R(ϑ)),      Π the projection onto {N(θ) ≤ 1}

    This is not the path of an optimiser. The ball is that of the optimiser's norm, but steps are Euclidean, with
    Nesterov's momentum and restarts. The fixed points are stationary points of F_R in the ball. As R grows, these tend
    to the same KKT points that steepest descent in N tends to; which one is found may differ, unless it is unique.
    With fixed gates every KKT point without dead units has an optimal W.

    The length a grows by 5 % a step and is halved until F_R is below its quadratic model. R² grows by 5 % in a step
    whose residual N*(∇F_R) − ⟨−∇F_R, θ⟩ is at most 2 `SLACK` (Σ_i p_i q_i − min_i q_i), p = softmax(−R² q).

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

    def __post_init__(self) -> None:
        self.norm_of(1, 1)
        _check_limits(self)

    def stepper(self, function: MarginFunction) -> ProjectedIteration:
        """Return the iteration from the direction of each layer's present weights."""
        return ProjectedIteration(TwoLayerMargins(function, self), self)


def _check_limits(config: SteepestDescent | ProjectedDescent) -> None:
    as_positive(config.tolerance, "tolerance")
    as_count(config.max_steps, "max_steps")
    as_positive(config.max_seconds, "max_seconds", infinite=True)


class TwoLayerMargins:
    """Margins q (n,) of f(x) = Σ_h v_h ⟨u_h, φ_h(x)⟩ as a function of the layers (U, v), and their gradients.

    Inputs are divided by their largest entry c and weights multiplied by √c, so that no product overflows.
    """

    def __init__(self, function: MarginFunction, config: LayeredDescent) -> None:
        layer = function.network.one_layer()
        fits = layer is not None and layer.has_formulas and len(function.parameters) == 2 and function.outputs == 1
        if not fits:
            raise InputError(
                f"{type(config).__name__} takes networks with one hidden layer and a readout, both trained, one "
                "output and at most 16 contexts per unit; use LossScaled for others"
            )
        assert layer is not None
        self.function, self.y = function, function.y
        self.scale = max(float(function.inputs.abs().max()), float(np.finfo(float).tiny))
        self.X = function.inputs / self.scale
        hidden, readout = function.start.split([p.numel() for p in function.parameters])
        self.units, self.gates_per_unit = len(readout), layer.parts
        root = self.scale**0.5
        self.start: Layers = hidden.view(self.units, -1) * root, readout[:, None] * root
        #: Gates (H, M, n); None if they are learned.
        self.gates: Tensor | None = None
        if function.contexts is not None:
            contexts = function.contexts
            gates = one_hot(contexts.long(), layer.parts) if layer.chosen else contexts[..., None]
            self.gates = gates.double().permute(1, 2, 0).contiguous()
        self.norm = config.norm_of(self.units, self.gates_per_unit)
        self.norms = BY_NAME[self.norm.input_layer], BY_NAME[self.norm.output_layer]
        self.lengths = torch.linalg.vector_norm(self.X, self.norms[0].inputs, dim=1)

    def evaluate(self, layers: Layers) -> tuple[Tensor, Tensor, Tensor]:
        """Return the gates (H, M, n), the units ⟨u_h, φ_h(x_i)⟩ (H, n), and q (n,)."""
        U, v = layers
        values = (U.view(-1, self.X.shape[1]) @ self.X.T).view(self.units, self.gates_per_unit, -1)
        gates = (values > 0).double() if self.gates is None else self.gates
        units = (gates * values).sum(1)
        return gates, units, self.y * (v[:, 0] @ units)

    def gradient(self, shares: Tensor, layers: Layers, gates: Tensor, units: Tensor) -> Layers:
        """Return Σ_i λ_i ∇q_i for `shares` λ (n,), given `gates` and `units` of `evaluate`."""
        slopes = shares * self.y
        of_values = gates * (layers[1] * slopes)[:, None]
        return (of_values.view(-1, len(slopes)) @ self.X).view(self.units, -1), (units @ slopes)[:, None]

    def largest_gradient(self, layers: Layers, gates: Tensor, units: Tensor) -> float:
        """Return max_i N*(∇q_i), by ∂q_i/∂U = (v_h g_mh(x_i))_hm ⊗ y_i x_i."""
        of_input = self.norms[0].dual((layers[1][:, :, None] * gates).permute(2, 0, 1)) * self.lengths
        return float((of_input + self.norms[1].dual(units.T[:, :, None])).max())

    def dual(self, layers: Layers) -> float:
        """Return N*(U, v)."""
        return sum(float(norm.dual(each)) for norm, each in zip(self.norms, layers, strict=True))

    def flat(self, layers: Layers, size: float = 1.0) -> Tensor:
        """Return all weights of the network as one tensor, multiplied by `size`."""
        return torch.cat([each.flatten() for each in layers]) * (size / self.scale**0.5)

    def state(self, layers: Layers, size: float, shares: Tensor) -> dict[str, float]:
        """Return the columns of the table for the layers times `size` and multipliers λ = `shares`, Σ_i λ_i = 1.

        `norm` N(θ), with the parts of the weights that no output depends on; `normalised_margin` = margin/N(θ)²;
        `residual` 1 − 2 min_i q_i/(N(θ) N*(Σ_i λ_i ∇q_i)), which is 0 at KKT points only; `ratio`, an upper bound of
        N(θ)²/(margin × optimum) by weak duality with λ; `smoothing` log(n)/margin; and the number of `dead` units.
        """
        gates, units, q = self.evaluate(layers)
        g = self.gradient(shares, layers, gates, units)
        U, v = layers
        if self.function.rest:
            each = U.view(-1, self.X.shape[1]) @ self.function.rotation.T
            U = (each + self.function.rest[0] * (self.scale**0.5 / size)).view(self.units, -1)
        N = max(float(norm.value(each)) for norm, each in zip(self.norms, (U, v), strict=True))
        V = ((gates * (shares * self.y)).view(-1, len(q)) @ self.X).numpy()
        margin = float(q.min())
        lengths = torch.linalg.vector_norm(v * layers[0], dim=1)
        return {
            "norm": N * size / self.scale**0.5,
            "normalised_margin": margin / N**2 * self.scale,
            "residual": 1 - 2 * margin / (N * self.dual(g)) if N * self.dual(g) > 0 else 1.0,
            "ratio": self.norm.dual(V) * N**2 / margin if margin > 0 else np.inf,
            "smoothing": float(np.log(len(q)) / (margin * size**2)) if margin > 0 else np.inf,
            "dead": int((lengths <= DEAD * lengths.max()).sum()),
        }


@dataclass
class SteepestIteration(Iteration):
    """The iteration of `SteepestDescent`."""

    margins: TwoLayerMargins
    config: SteepestDescent
    count: int = 0
    converged: bool = False
    layers: Layers = field(init=False)

    def __post_init__(self) -> None:
        self.layers = self.margins.start
        self.first = [torch.zeros_like(each) for each in self.layers]
        self.second = [torch.zeros_like(each) for each in self.layers]
        #: Sum of p over the steps since the last row of the table: its mean fluctuates less than p.
        self.shares = torch.zeros_like(self.margins.y)

    @property
    def weights(self) -> Tensor:  # type: ignore[override]
        return self.margins.flat(self.layers)

    def step(self) -> bool:
        """Make a step; return False, because rows of the table test for convergence."""
        config, margins = self.config, self.margins
        gates, units, q = margins.evaluate(self.layers)
        shares = torch.softmax(-q, 0)
        self.shares += shares
        self.count += 1
        rate = config.step * self.count**-config.decay / margins.largest_gradient(self.layers, gates, units)
        gradient = margins.gradient(shares, self.layers, gates, units)
        self.layers = tuple(each + rate * self._direction(i, gradient[i]) for i, each in enumerate(self.layers))
        return False

    def _direction(self, index: int, gradient: Tensor) -> Tensor:
        """Return Δ of a layer, and update the moments of its gradient."""
        first = self.first[index].lerp_(gradient, 1 - self.config.momentum)
        if self.config.optimiser != "adam":
            return self.margins.norms[index].steepest(first)
        second = self.second[index].lerp_(gradient**2, 1 - self.config.second_momentum)
        corrected = (1 - self.config.second_momentum**self.count) ** 0.5 / (1 - self.config.momentum**self.count)
        return torch.where(second > 0, first / second.sqrt() * corrected, 0.0)

    def state(self) -> dict[str, float]:
        if not self.shares.any():
            self.shares = torch.softmax(-self.margins.evaluate(self.layers)[2], 0)
        row = self.margins.state(self.layers, 1.0, self.shares / self.shares.sum())
        self.shares = torch.zeros_like(self.shares)
        self.converged = row["ratio"] <= 1 + self.config.tolerance
        return row


class ProjectedIteration(Iteration):
    """The iteration of `ProjectedDescent`."""

    def __init__(self, margins: TwoLayerMargins, config: ProjectedDescent) -> None:
        self.margins, self.config, self.run = margins, config, 0
        if margins.function.has_kinks:
            raise InputError("ProjectedDescent takes networks with fixed gates; use SteepestDescent for learned gates")
        sizes = [float(norm.value(each)) for norm, each in zip(margins.norms, margins.start, strict=True)]
        if not min(sizes) > 0:
            raise InputError("a layer's weights are all zero and have no direction to start from; initialise them")
        self.layers: Layers = tuple(each / size for each, size in zip(margins.start, sizes, strict=True))
        self.before, self.shares = self.layers, torch.zeros_like(margins.y)
        gates, units, q = margins.evaluate(self.layers)
        #: R²: at the start, outputs are at most 1.
        self.sharpness = 1.0 / max(float(q.abs().max()), float(np.finfo(float).tiny))
        # Curvature along a step is at most R² max_i N*(∇q_i)².
        self.length = 1.0 / (self.sharpness * margins.largest_gradient(self.layers, gates, units) ** 2)

    @property
    def weights(self) -> Tensor:  # type: ignore[override]
        return self.margins.flat(self.layers, self.sharpness**0.5)

    def step(self) -> bool:
        """Make an accelerated step for the current norm R, then raise R if the step is near stationary.

        Return False: the rows of the table test for convergence.
        """
        margins, momentum = self.margins, self.run / (self.run + 3)
        now, before = self.layers, self.before
        v = tuple(a + momentum * (a - b) for a, b in zip(now, before, strict=True))
        gates, units, q = margins.evaluate(v)
        loss, shares = self._softmin(q)
        self.shares += shares
        # The ascent direction −∇F_R.
        g = margins.gradient(shares, v, gates, units)
        new, q = self._search(v, loss, g)
        uphill = _dot(_minus(v, new), _minus(new, now)) > 0
        self.run = 0 if uphill else self.run + 1
        self.before, self.layers = now, new
        smallest = float(q.min())
        gap = margins.dual(g) - _dot(g, new)
        least = max(SHARPEST * self.config.tolerance * smallest, ROUNDING * float(q.abs().max()))
        if gap <= 2 * SLACK * (float(shares @ q) - smallest) and np.log(len(q)) > least * self.sharpness:
            self.sharpness *= GROWTH
        return False

    def _softmin(self, q: Tensor) -> tuple[float, Tensor]:
        """Return F_R and softmax(−R² q) for margins q."""
        least = q.min()
        shares = torch.exp(-self.sharpness * (q - least))
        total = shares.sum()
        return float(total.log()) / self.sharpness - float(least), shares / total

    def _search(self, v: Layers, loss: float, g: Layers) -> tuple[Layers, Tensor]:
        """Return the projection of v + a g and its margins, with a so short that F_R is below its quadratic model."""
        while True:
            new = tuple(
                norm.nearest(each + self.length * own) for norm, each, own in zip(self.margins.norms, v, g, strict=True)
            )
            q = self.margins.evaluate(new)[2]
            change = _minus(new, v)
            model = loss - _dot(g, change) + _dot(change, change) / (2 * self.length)
            tiny = self.length * self.sharpness * self.margins.dual(g) <= np.finfo(float).tiny
            if self._softmin(q)[0] <= model + ROUNDING * abs(loss) or tiny:
                self.length *= LONGER
                return new, q
            self.length *= SHORTER

    def state(self) -> dict[str, float]:
        if not self.shares.any():
            self.shares = self._softmin(self.margins.evaluate(self.layers)[2])[1]
        row = self.margins.state(self.layers, self.sharpness**0.5, self.shares / self.shares.sum())
        self.shares = torch.zeros_like(self.shares)
        self.converged = row["ratio"] <= 1 + self.config.tolerance
        return row


def _dot(a: Layers, b: Layers) -> float:
    return sum(float((one * other).sum()) for one, other in zip(a, b, strict=True))


def _minus(a: Layers, b: Layers) -> Layers:
    return a[0] - b[0], a[1] - b[1]
