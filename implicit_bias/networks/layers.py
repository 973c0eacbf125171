"""Networks of bias-free layers: ReLU networks with learned or frozen gates, linear networks, and trained readouts."""

import itertools
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn

from implicit_bias._utils.checks import Array, InputError, as_count, as_seed, check_size, dimensions
from implicit_bias.gates import ConstantGate, Gates, ReLUGates
from implicit_bias.networks.base import GatedNetwork, to_array

Tensors = Sequence[Tensor]


class LayeredNetwork(GatedNetwork):
    """Bias-free layers d → k_1 → … → k_L → q, by default those of a ReLU network.

    `activations` and `fixed_gates` accept weights and filters with a leading axis of networks, for `train`.
    """

    #: True if hidden layers are trained, like the readout; False if they are filters.
    hidden_is_trained = True

    def __init__(self, inputs: int, units: int | Sequence[int], *, outputs: int = 1, seed: int = 1) -> None:
        super().__init__(inputs, outputs)
        listed: Any = units if dimensions(units) else [units]
        self.units = [as_count(width, "units") for width in listed]
        if not self.units:
            raise InputError("units is empty; give the number of units of each hidden layer")
        generator = torch.Generator().manual_seed(as_seed(seed))
        sizes = list(itertools.pairwise([self.inputs, *self.units, self.outputs]))
        check_size(sum(into * out for into, out in sizes), "the network's weights")
        drawn = [nn.init.kaiming_normal_(torch.empty(out, into), generator=generator) for into, out in sizes]
        self.layers = nn.ParameterList(drawn if self.hidden_is_trained else drawn[-1:])
        for index, values in enumerate(self._draw_filters(generator) if self.hidden_is_trained else drawn[:-1]):
            self.register_buffer(f"filters{index}", values)

    def _draw_filters(self, generator: torch.Generator) -> list[Tensor]:
        return []

    def filters(self) -> list[Tensor]:
        """Return the weights that are not trained, one (k_ℓ, k_{ℓ−1}) per hidden layer; empty if there are none."""
        return list(self.buffers())

    def fixed_gates(self, filters: Tensors, X: Tensor) -> list[Tensor] | None:
        """Return the gates (…, n, k_ℓ) of each hidden layer for inputs (…, n, d); None if no gates are fixed."""
        return None

    def contexts(self, X: Array) -> Tensor | None:
        gates = self.fixed_gates([u.detach().cpu().double() for u in self.filters()], torch.as_tensor(X))
        return None if gates is None else torch.cat(gates, dim=1)

    def activations(self, weights: Tensors, filters: Tensors, X: Tensor, opened: Tensors | None = None) -> Tensor:
        """Return the last hidden layer (…, n, k_L) of X (…, n, d), given all weights and known gates (…, n, k_ℓ)."""
        for weight in weights[:-1]:
            X = torch.relu(X @ weight.mT)
        return X

    def forward(self, X: Tensor, contexts: Tensor | None = None) -> Tensor:
        outputs = self._hidden(X, contexts) @ self.layers[-1].T
        return outputs[:, 0] if self.outputs == 1 else outputs

    def _hidden(self, X: Tensor, contexts: Tensor | None) -> Tensor:
        opened = None if contexts is None else contexts.to(X.dtype).split(self.units, dim=1)
        return self.activations(list(self.layers), self.filters(), X, opened)

    def gates(self) -> Gates:
        self.require_one_layer(len(self.units))
        return self._gates_of([*self.filters(), *self.layers][0])

    def _gates_of(self, weights: Tensor) -> Gates:
        return ReLUGates(to_array(weights))

    def effective_weights(self) -> Array:
        self.require_one_layer(len(self.units))
        hidden = to_array(self.layers[0] if self.hidden_is_trained else self.filters()[0])
        weights: Array = to_array(self.layers[-1])[:, :, None] * hidden
        return weights[0] if self.outputs == 1 else weights

    def layer_shapes(self) -> list[tuple[int, int]]:
        return [(units, 1) for units in self.units]

    @property
    def degree(self) -> int:
        return len(self.layers)

    def config(self) -> dict[str, Any]:
        return {"inputs": self.inputs, "units": self.units, "outputs": self.outputs}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        return cls(**config, seed=0)


class ReLUNetwork(LayeredNetwork):
    """A ReLU network without biases, f(x) = W^{(L+1)} relu(W^{(L)} … relu(W^{(1)} x)); GD-ReLU has one hidden layer.

    Parameters
    ----------
    inputs : int
        d, the constant input included.
    units : int or sequence of int
        Hidden units of each layer.
    outputs : int
        q; with one output f(X) has shape (n,), with several (n, q).
    seed : int
        Weights are Kaiming-normal, N(0, 2/fan-in), drawn from torch's Mersenne twister in the order of the layers.

    Examples
    --------
    >>> from implicit_bias import ReLUNetwork, load_binary
    >>> task = load_binary("digits")
    >>> network = ReLUNetwork(task.X_train.shape[1], units=20, seed=1)
    >>> network.effective_weights().shape, network.hidden(task.X_val).shape
    ((20, 65), (359, 20))
    """

    def input_layers(self) -> list[Any]:
        return [self.layers]

    def layer_gates(self, X: Array) -> list[Array] | None:
        return self.freeze().layer_gates(X)

    def freeze(self) -> "FrozenReLUNetwork":
        """Return a network with the same weights whose gates are fixed at their current values."""
        frozen = FrozenReLUNetwork(self.inputs, self.units, outputs=self.outputs)
        frozen.to(self.layers[0].device, self.layers[0].dtype)
        gates = {f"filters{index}": weight for index, weight in enumerate(self.layers[:-1])}
        frozen.load_state_dict(self.state_dict() | gates)
        return frozen


class FrozenReLUNetwork(LayeredNetwork):
    """A ReLU network with frozen gates: a_h = 1(⟨u_h, z⟩ ≥ 0) ⟨w_h, a⟩, z the activations of the frozen copy u.

    With one hidden layer f(x) = Σ_h w^{(2)}_h 1(⟨u_h, x⟩ ≥ 0) ⟨w^{(1)}_h, x⟩. Usually made by `ReLUNetwork.freeze()`;
    built directly, its gates are those of its own initial weights. Parameters as for `ReLUNetwork`.

    Examples
    --------
    >>> import numpy as np
    >>> from implicit_bias import ReLUNetwork, load_binary
    >>> X = load_binary("digits").X_val
    >>> network = ReLUNetwork(65, 20, seed=1)
    >>> bool(np.allclose(network.freeze().decision_function(X), network.decision_function(X), atol=1e-5))
    True
    """

    def _draw_filters(self, generator: torch.Generator) -> list[Tensor]:
        return [weight.detach().clone() for weight in list(self.layers)[:-1]]

    def input_layers(self) -> list[Any]:
        return [self.layers]

    def fixed_gates(self, filters: Tensors, X: Tensor) -> list[Tensor]:
        opened = []
        for u in filters:
            X = X @ u.mT
            opened.append(X >= 0)
            X = torch.relu(X)
        return opened

    def layer_gates(self, X: Array) -> list[Array] | None:
        opened = self.contexts(X) if self.outputs == 1 else None
        if opened is None:
            return None
        return [gates[:, :, None] for gates in np.split(to_array(opened), np.cumsum(self.units)[:-1], axis=1)]

    def activations(self, weights: Tensors, filters: Tensors, X: Tensor, opened: Tensors | None = None) -> Tensor:
        for gate, weight in zip(opened or self.fixed_gates(filters, X), weights[:-1], strict=True):
            X = gate.to(X.dtype) * (X @ weight.mT)
        return X


class LinearNetwork(LayeredNetwork):
    """A linear network f(x) = W^{(L+1)} … W^{(1)} x: a GaLU network of the same shape with all gates open.

    Parameters as for `ReLUNetwork`.

    Examples
    --------
    >>> import numpy as np
    >>> from implicit_bias.networks import LinearNetwork
    >>> network = LinearNetwork(inputs=3, units=[4, 4], seed=1)
    >>> X = np.eye(3)
    >>> bool(np.allclose(network.gates()(X) @ network.effective_weights(), network.decision_function(X), atol=1e-6))
    True
    """

    def activations(self, weights: Tensors, filters: Tensors, X: Tensor, opened: Tensors | None = None) -> Tensor:
        for weight in weights[:-1]:
            X = X @ weight.mT
        return X

    def gates(self) -> Gates:
        return ConstantGate().fit(torch.ones(1, self.inputs).numpy())

    def effective_weights(self) -> Array:
        """Return the product of all layers, shape (1, d), or (q, 1, d) for q > 1 outputs."""
        product = to_array(self.layers[0])
        for weight in list(self.layers)[1:]:
            product = to_array(weight) @ product
        return product if self.outputs == 1 else product[:, None, :]


class ReadoutNetwork(LayeredNetwork):
    """A ReLU network of which only the readout is trained: random features. Parameters as for `ReLUNetwork`.

    Examples
    --------
    >>> from implicit_bias.networks import ReadoutNetwork
    >>> network = ReadoutNetwork(inputs=3, units=[5, 4], outputs=2)
    >>> [tuple(weight.shape) for weight in network.parameters()]
    [(2, 4)]
    """

    hidden_is_trained = False

    def activations(self, weights: Tensors, filters: Tensors, X: Tensor, opened: Tensors | None = None) -> Tensor:
        return super().activations([*filters, *weights], filters, X)
