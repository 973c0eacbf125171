"""What all networks of bias-free layers share: their shape, weights, outputs and gates."""

import itertools
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn

from implicit_bias._utils.checks import Array, InputError, as_count, as_seed, check_size
from implicit_bias.gates import Gates, ReLUGates
from implicit_bias.networks.base import GatedNetwork, OneLayer, to_array

Tensors = Sequence[Tensor]


def as_widths(units: Any) -> list[int]:
    """The units of each hidden layer, from a number or a sequence."""
    several = isinstance(units, Sequence) and not isinstance(units, str | bytes)
    several = several or (isinstance(units, np.ndarray) and units.ndim > 0)
    widths = [as_count(width, "units") for width in (units if several else [units])]
    if not widths:
        raise InputError("units must name at least one hidden layer")
    return widths


class LayeredNetwork(GatedNetwork):
    """Bias-free layers d → k_1 → … → k_L → q; subclasses say what a hidden layer does.

    Weights are Kaiming-normal, N(0, 2/fan-in), drawn in the order of the layers; then filters, if there are any. What
    a hidden layer does is written on lists of weights and filters that may have a leading axis, one network an entry,
    so that `train` takes many networks at once.

    A subclass may declare in its class line what a hidden layer makes of z: g ∘ Az with its `fixed_gates` g
    (`kind="gated"`), relu(Az) ("relu"), or Az ("linear"). Its gradients are then written out.
    """

    kind: str | None = None

    #: Hidden layers that are trained with the readout; else they are filters.
    hidden_is_trained = True

    def __init_subclass__(cls, kind: str | None = None) -> None:
        """Declare the kind; classes derived from this one may compute something else."""
        super().__init_subclass__(gated_linear=kind in ("gated", "relu"))
        cls.kind = kind

    def __init__(self, inputs: int, units: int | Sequence[int], *, outputs: int = 1, seed: int = 1) -> None:
        super().__init__()
        self.inputs, self.units = as_count(inputs, "inputs"), as_widths(units)
        self.outputs = as_count(outputs, "outputs")
        generator = torch.Generator().manual_seed(as_seed(seed))
        sizes = [self.inputs, *self.units, self.outputs]
        check_size(sum(a * b for a, b in itertools.pairwise(sizes)), "the network's weights")
        drawn = [
            nn.init.kaiming_normal_(torch.empty(out, into), generator=generator)
            for into, out in itertools.pairwise(sizes)
        ]
        self.layers = nn.ParameterList(drawn if self.hidden_is_trained else drawn[-1:])
        filters = self._draw_filters(generator) if self.hidden_is_trained else drawn[:-1]
        for index, values in enumerate(filters):
            self.register_buffer(f"filters{index}", values)

    def _draw_filters(self, generator: torch.Generator) -> list[Tensor]:
        """What fixed gates need besides the weights; nothing here."""
        return []

    def filters(self) -> list[Tensor]:
        """The tensors that are not trained."""
        return list(self.buffers())

    def fixed_gates(self, filters: Tensors, X: Tensor) -> list[Tensor] | None:
        """The gates (…, n, k_ℓ) of every layer for inputs (…, n, d); None if there are none that training leaves."""
        return None

    def contexts(self, X: Array) -> Tensor | None:
        """The fixed gates of every layer, shape (n, total units), computed in float64."""
        gates = self.fixed_gates([u.detach().cpu().double() for u in self.filters()], torch.as_tensor(X))
        return None if gates is None else torch.cat(gates, dim=1)

    @abstractmethod
    def activations(self, weights: Tensors, filters: Tensors, X: Tensor, opened: Tensors | None = None) -> Tensor:
        """The last hidden layer (…, n, k_L) of inputs (…, n, d); `opened` are the gates (…, n, k_ℓ), if known."""

    def forward(self, X: Tensor, contexts: Tensor | None = None) -> Tensor:
        """Outputs (n,) for inputs (n, d), or (n, q) of a network with several outputs."""
        outputs = self._hidden(X, contexts) @ self.layers[-1].T
        return outputs[:, 0] if self.outputs == 1 else outputs

    def _hidden(self, X: Tensor, contexts: Tensor | None) -> Tensor:
        opened = None if contexts is None else contexts.to(X.dtype).split(self.units, dim=1)
        return self.activations(list(self.layers), self.filters(), X, opened)

    def gates(self) -> Gates:
        """The gates of the hidden layer, the filters' if there are any; for networks with one."""
        self.require_one_layer(len(self.units))
        return self._gates_of([*self.filters(), *self.layers][0])

    def _gates_of(self, weights: Tensor) -> Gates:
        return ReLUGates(to_array(weights))

    def effective_weights(self) -> Array:
        """W (k, d) with w_j = b_j a_j, or (q, k, d) of several outputs; for networks with one hidden layer."""
        self.require_one_layer(len(self.units))
        hidden = to_array(self.layers[0] if self.hidden_is_trained else self.filters()[0])
        weights: Array = to_array(self.layers[-1])[:, :, None] * hidden
        return weights[0] if self.outputs == 1 else weights

    def one_layer(self) -> OneLayer | None:
        """The weights of a network with one hidden layer that is gated linear."""
        if not self._gated_linear or len(self.units) > 1:
            return None
        hidden, readout = (weight.detach() for weight in self.layers)
        return OneLayer(hidden, readout, None, parts=1, chosen=False)

    def layer_shapes(self) -> list[tuple[int, int]]:
        """Units of each hidden layer, each with one context."""
        return [(units, 1) for units in self.units]

    @property
    def degree(self) -> int:
        """Trained layers: hidden ones and the readout."""
        return len(self.layers)

    def config(self) -> dict[str, Any]:
        """Number of inputs, units and outputs."""
        return {"inputs": self.inputs, "units": self.units, "outputs": self.outputs}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        """A network of that shape, its weights still to be loaded."""
        return cls(**config, seed=0)
