"""ReLU networks without biases, and the same networks with their gates frozen."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn

from implicit_bias.checks import Array, InputError, as_count, as_seed, check_size
from implicit_bias.gates import ReLUGates
from implicit_bias.networks.base import GatedNetwork, to_array


class _BiasFreeNetwork(GatedNetwork):
    """Bias-free layers d → H_1 → … → H_L → 1; subclasses decide which units are open."""

    def __init__(self, inputs: int, units: int | Sequence[int], seed: int) -> None:
        super().__init__()
        self.inputs = as_count(inputs, "inputs")
        several = isinstance(units, Sequence) and not isinstance(units, str | bytes)
        several = several or (isinstance(units, np.ndarray) and units.ndim > 0)
        widths: list[Any] = list(units) if several else [units]  # type: ignore[arg-type]
        self.units = [as_count(width, "units") for width in widths]
        if not self.units:
            raise InputError("units must name at least one hidden layer")
        generator = torch.Generator().manual_seed(as_seed(seed))
        sizes = [self.inputs, *self.units, 1]
        check_size(sum(a * b for a, b in itertools.pairwise(sizes)), "the network's weights")
        self.layers = nn.ParameterList(
            nn.init.kaiming_normal_(torch.empty(out, into), generator=generator)
            for into, out in itertools.pairwise(sizes)
        )

    def _activations(self, X: Tensor, contexts: Tensor | None) -> Tensor:
        raise NotImplementedError("abstract")

    def _gate_weights(self) -> Tensor:
        raise NotImplementedError("abstract")

    def forward(self, X: Tensor, contexts: Tensor | None = None) -> Tensor:
        """Outputs (n,) for inputs (n, d)."""
        return (self._activations(X, contexts) @ self.layers[-1].T)[:, 0]

    @torch.no_grad()
    def hidden(self, X: Any) -> Array:
        """Activations of the last hidden layer, shape (n, H)."""
        return to_array(self._activations(*self.tensors(X)))

    def gates(self) -> ReLUGates:
        """The gates 1(⟨u_h, x⟩ ≥ 0) of the hidden layer; for networks with one."""
        self._require_one_layer()
        return ReLUGates(to_array(self._gate_weights()))

    def effective_weights(self) -> Array:
        """ζ (H, d): ζ_h = w^{(2)}_h w^{(1)}_h; for networks with one hidden layer."""
        self._require_one_layer()
        return to_array(self.layers[1]).T * to_array(self.layers[0])

    def _require_one_layer(self) -> None:
        if len(self.units) > 1:
            raise InputError(
                f"a network with {len(self.units)} gated layers has no weights of its own for each gate; "
                "only networks with one gated layer do"
            )

    @property
    def degree(self) -> int:
        """Hidden layers and the readout."""
        return len(self.layers)

    def config(self) -> dict[str, Any]:
        """Number of inputs and units."""
        return {"inputs": self.inputs, "units": self.units}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        """A network of that shape, its weights still to be loaded."""
        return cls(config["inputs"], config["units"], seed=0)


class ReLUNetwork(_BiasFreeNetwork):
    """A ReLU network without biases, f(x) = ⟨w^{(L+1)}, relu(W^{(L)} … relu(W^{(1)} x))⟩; GD-ReLU has one hidden layer.

    Parameters
    ----------
    inputs : int
        d, the constant input included.
    units : int or sequence of int
        Hidden units of each layer.
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

    def __init__(self, inputs: int, units: int | Sequence[int], seed: int = 1) -> None:
        super().__init__(inputs, units, seed)

    def _activations(self, X: Tensor, contexts: Tensor | None) -> Tensor:
        for weight in list(self.layers)[:-1]:
            X = torch.relu(X @ weight.T)
        return X

    def _gate_weights(self) -> Tensor:
        return self.layers[0]

    def freeze(self) -> FrozenReLUNetwork:
        """A network of the same weights whose gates stay as they are now, at any moment of training."""
        frozen = FrozenReLUNetwork(self.inputs, self.units)
        frozen.to(self.layers[0].device, self.layers[0].dtype)
        with torch.no_grad():
            for target, source in zip(frozen.layers, self.layers, strict=True):
                target.copy_(source)
            for index, source in enumerate(list(self.layers)[:-1]):
                getattr(frozen, f"gates{index}").copy_(source)
        return frozen


class FrozenReLUNetwork(_BiasFreeNetwork):
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

    def __init__(self, inputs: int, units: int | Sequence[int], seed: int = 1) -> None:
        super().__init__(inputs, units, seed)
        for index, weight in enumerate(list(self.layers)[:-1]):
            self.register_buffer(f"gates{index}", weight.detach().clone())

    def contexts(self, X: Array) -> Tensor:
        """The frozen gates of every layer, 0 or 1, shape (n, total units)."""
        z = torch.as_tensor(X)
        opened = []
        for index in range(len(self.units)):
            z = z @ getattr(self, f"gates{index}").detach().cpu().double().T
            opened.append(z >= 0)
            z = torch.relu(z)
        return torch.hstack(opened)

    def _activations(self, X: Tensor, contexts: Tensor | None) -> Tensor:
        if contexts is None:
            contexts = self.contexts(to_array(X)).to(X.device)
        opened = contexts.to(X.dtype).split(self.units, dim=1)
        for gate, weight in zip(opened, list(self.layers)[:-1], strict=True):
            X = gate * (X @ weight.T)
        return X

    def _gate_weights(self) -> Tensor:
        return self.gates0  # type: ignore[return-value]
