"""ReLU networks without biases, the same with their gates frozen, and their comparisons: linear and readout-only."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from implicit_bias._utils.checks import Array
from implicit_bias.gates import ConstantGate, Gates
from implicit_bias.networks.base import to_array
from implicit_bias.networks.layers import LayeredNetwork, Tensors


class ReLUNetwork(LayeredNetwork, kind="relu"):
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

    def activations(self, weights: Tensors, filters: Tensors, X: Tensor, opened: Tensors | None = None) -> Tensor:
        """relu(W^{(L)} … relu(W^{(1)} x))."""
        for weight in weights[:-1]:
            X = torch.relu(X @ weight.mT)
        return X

    def input_layers(self) -> list[Any]:
        """The layers, whose first reads the inputs."""
        return [self.layers]

    def layer_gates(self, X: Array) -> list[Array] | None:
        """The present gates, shape (n, units, 1) for every layer; None if the network has several outputs."""
        return self.freeze().layer_gates(X)

    def freeze(self) -> FrozenReLUNetwork:
        """A network of the same weights whose gates stay as they are now, at any moment of training."""
        frozen = FrozenReLUNetwork(self.inputs, self.units, outputs=self.outputs)
        frozen.to(self.layers[0].device, self.layers[0].dtype)
        gates = {f"filters{index}": weight for index, weight in enumerate(self.layers[:-1])}
        frozen.load_state_dict(self.state_dict() | gates)
        return frozen


class FrozenReLUNetwork(LayeredNetwork, kind="gated"):
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
        """The layers, whose first reads the inputs."""
        return [self.layers]

    def fixed_gates(self, filters: Tensors, X: Tensor) -> list[Tensor]:
        """The frozen gates (…, n, k_ℓ) of every layer, true or false."""
        opened = []
        for u in filters:
            X = X @ u.mT
            opened.append(X >= 0)
            X = torch.relu(X)
        return opened

    def layer_gates(self, X: Array) -> list[Array] | None:
        """The frozen gates, shape (n, units, 1) for every layer; None if the network has several outputs."""
        opened = self.contexts(X) if self.outputs == 1 else None
        if opened is None:
            return None
        return [gates[:, :, None] for gates in np.split(to_array(opened), np.cumsum(self.units)[:-1], axis=1)]

    def activations(self, weights: Tensors, filters: Tensors, X: Tensor, opened: Tensors | None = None) -> Tensor:
        """Each layer times the frozen copy's gates."""
        for gate, weight in zip(opened or self.fixed_gates(filters, X), weights[:-1], strict=True):
            X = gate.to(X.dtype) * (X @ weight.mT)
        return X


class LinearNetwork(LayeredNetwork, kind="linear"):
    """A linear network f(x) = W^{(L+1)} … W^{(1)} x: what a GaLU network of the same shape is without its gates.

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
        """W^{(L)} … W^{(1)} x."""
        for weight in weights[:-1]:
            X = X @ weight.mT
        return X

    def gates(self) -> Gates:
        """One gate that is always open."""
        return ConstantGate().fit(torch.ones(1, self.inputs).numpy())

    def effective_weights(self) -> Array:
        """The product of all layers, shape (1, d), or (q, 1, d) of several outputs."""
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
        """relu of the fixed layers."""
        for weight in filters:
            X = torch.relu(X @ weight.mT)
        return X
