"""Steps of networks with one hidden layer in the span of their inputs, with explicit gradients."""

import numpy as np
import torch
from torch import Tensor

from implicit_bias.networks.base import GatedNetwork
from implicit_bias.training.optimisers import Optimiser
from implicit_bias.training.stepper import MarginStepper

#: Number of units below which the values of a layer are stored unit by unit.
FEW_UNITS = 16


class TwoLayerSpanUpdates(MarginStepper):
    """Steps of `SGD` on a network with one hidden layer and few samples, by explicit gradients, in float32 at least.

        f(x) = Σ_h a_h Σ_m g_mh(x) p_mh(x) + b,   p_mh(x) = ⟨w_mh, x⟩,   ∂ℓ/∂p_mh = a_h g_mh(x) ∂ℓ/∂f
        V ← μ V + Σ_{i ∈ B} K_i ∂ℓ/∂p(x_i),   p ← p − η V,   K = XXᵀ

    w = w₀ + Σ_i α_i g(x_i) x_i throughout, so that p of all samples and α replace w: the outputs of a batch need no
    product with the inputs. For a GLN, w and g are w′ and g′ of `OneLayer`. Inputs that are 0 for all samples are left
    out.
    """

    @torch.no_grad()
    def __init__(self, network: GatedNetwork, X: np.ndarray, signs: np.ndarray, config: Optimiser) -> None:
        super().__init__(network, config)
        inputs, contexts = network.tensors(X)
        layer = network.one_layer(X)
        assert layer is not None
        self.hidden = layer.hidden
        self.head = [weight for weight in (layer.readout, layer.bias) if weight is not None]
        self.seen = inputs.any(0)
        exact = torch.promote_types(inputs.dtype, torch.float32)
        self.X = inputs[:, self.seen].to(exact)
        self.kernel = self.X @ self.X.T
        self.y = torch.as_tensor(signs, dtype=exact, device=inputs.device)
        self.turn = torch.as_tensor(layer.turn(), dtype=exact, device=inputs.device)
        #: Number of a unit's gates that are constant, 1 or 0.
        self.constant = int(layer.chosen)
        #: The gates (M, n, H), unless they are learned.
        self.gates = None if contexts is None else layer.turned_gates(contexts).to(exact)
        self.readout = [weight.flatten().to(exact, copy=True) for weight in self.head]
        self.update_readout = config.update(self.readout)
        each = self.hidden[:, self.seen].to(exact).unflatten(0, (-1, len(self.turn)))
        #: w₀ (M, d, H).
        self.start = torch.einsum("mc,hcd->mhd", self.turn, each).contiguous().mT
        #: p at w₀ and now, shape (M, n, H).
        self.first = self.X @ self.start
        # Products with few columns are slow.
        many = self.first.shape[2] >= FEW_UNITS
        self.values = self.first.clone(memory_format=torch.contiguous_format) if many else self.first.mT.contiguous().mT
        self.velocity = torch.zeros_like(self.values)
        #: α (n, H); if the gates are learned, it includes them.
        self.alpha = self.first.new_zeros(self.first.shape[1:])
        self.alpha_velocity = torch.zeros_like(self.alpha)

    def _forward(self, values: Tensor, gates: Tensor) -> tuple[Tensor, Tensor]:
        """Return the hidden layer (b, H) and f (b,), given p and g (M, b, H)."""
        hidden = (gates * values).sum(0)
        outputs = hidden @ self.readout[0]
        return hidden, outputs + self.readout[1] if self.constant else outputs

    @torch.no_grad()
    def step(self, batch: Tensor, rate: float) -> None:
        values = self.values.index_select(1, batch)
        gates = _opened(values) if self.gates is None else self.gates.index_select(1, batch)
        hidden, outputs = self._forward(values, gates)
        slopes = self.slopes(outputs, batch)
        self._descend(batch, gates, slopes, rate)
        self.update_readout((slopes @ hidden, slopes.sum())[: len(self.readout)], rate)

    def _descend(self, batch: Tensor, gates: Tensor, slopes: Tensor, rate: float) -> None:
        """Change p and α, for gate values (M, b, H) and `slopes` ∂ℓ/∂f (b,)."""
        rows = self.kernel.index_select(0, batch)
        target, kept, factor = (self.velocity, self.momentum, 1.0) if self.momentum else (self.values, 1.0, -rate)
        pushed = torch.outer(slopes, self.readout[0])
        if self.constant:
            target[0].addr_(slopes @ rows, self.readout[0] * self.turn[0, 0], beta=kept, alpha=factor)
        for weights, gate in zip(target[self.constant :], gates[self.constant :], strict=True):
            weights.addmm_(rows.T, gate * pushed, beta=kept, alpha=factor)
        if self.gates is None:
            pushed = pushed * gates[0]
        if self.momentum:
            self.values.sub_(self.velocity, alpha=rate)
            self.alpha_velocity.mul_(self.momentum).index_add_(0, batch, pushed)
            self.alpha.sub_(self.alpha_velocity, alpha=rate)
        else:
            self.alpha.index_add_(0, batch, pushed, alpha=-rate)

    def _gated(self) -> Tensor:
        return self.alpha[None] if self.gates is None else self.gates * self.alpha

    @torch.no_grad()
    def outputs(self) -> Tensor:
        return self._forward(self.values, _opened(self.values) if self.gates is None else self.gates)[1]

    @torch.no_grad()
    def norm(self) -> float:
        change = float((self._gated() * (self.first + self.values)).sum(dtype=torch.float64))
        fixed = sum(_square(part) for part in (self.hidden[:, ~self.seen], *self.readout))
        return float(max(_square(self.start) + change, 0.0) + fixed) ** 0.5

    @torch.no_grad()
    def write(self) -> None:
        """Write the weights into the network, rounded to its dtype."""
        each = torch.einsum("mc,mdh->hcd", self.turn, self.start + self.X.T @ self._gated())
        self.hidden[:, self.seen] = each.flatten(0, 1).to(self.hidden.dtype)
        for target, values in zip(self.head, self.readout, strict=True):
            target.copy_(values.view(target.shape))


def _square(values: Tensor) -> float:
    return float((values.double() ** 2).sum())


def _opened(values: Tensor) -> Tensor:
    return (values > 0).to(values.dtype)
