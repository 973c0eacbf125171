"""Base class of the networks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike
from scipy.linalg import helmert
from torch import Tensor, nn

from implicit_bias._utils.checks import Array, InputError, as_floats, shown
from implicit_bias.gates import Gates

#: Above this many contexts, picking each sample's weight rows is cheaper than multiplying with all of them.
GATHER_FROM = 16


class OneLayer(NamedTuple):
    """Weights of f(x) = A V(x) + b, V_h(x) = Σ_m g_mh(x) ⟨w_mh, x⟩: gated linear units of one layer.

    If the context c(x) of a unit chooses one of its M weights, g_m(x) = 1(c(x) = m). Training then turns these weights
    by an orthogonal Q with a constant first row: w′_m = Σ_c Q_mc w_c and g′_m(x) = Q_{m, c(x)} have the same V, and the
    first gate is the same for all samples, so that the gradient of w′_1 is an outer product.
    """

    #: w, one row for each unit and linear part, shape (H·M, d).
    hidden: Tensor
    #: A, shape (q, H); None if f is the only unit.
    readout: Tensor | None
    #: b, shape (q,).
    bias: Tensor | None
    #: M.
    parts: int
    #: True if a unit's context chooses one of its parts; otherwise contexts are gate values.
    chosen: bool

    @property
    def has_formulas(self) -> bool:
        """True if written-out gradients are cheaper than autograd: a readout, and not too many parts a unit."""
        return self.readout is not None and self.parts <= GATHER_FROM

    def turn(self) -> Array:
        """Q, shape (M, M)."""
        return np.asarray(helmert(self.parts, full=True))

    def turned_gates(self, contexts: Tensor) -> Tensor:
        """Gates (M, n, H) of the turned weights for the network's contexts, in float64."""
        if not self.chosen:
            return contexts.double()[None]
        turn = torch.as_tensor(self.turn(), device=contexts.device)
        return turn.index_select(1, contexts.flatten()).view(self.parts, *contexts.shape)


class GatedNetwork(nn.Module, ABC):
    """A network f: R^d → R^q whose outputs are linear in the inputs once its gates are fixed; mostly q = 1.

    Inputs carry the constant 1 last. `contexts(X)` gives what the gates need and does not change in training (None if
    they do change), so that a training loop computes it once.

    >>> from implicit_bias import GatedLinearNetwork, ReLUNetwork
    >>> from implicit_bias.networks import GatedNetwork
    >>> issubclass(GatedLinearNetwork, GatedNetwork) and issubclass(ReLUNetwork, GatedNetwork)
    True
    """

    inputs: int
    #: q.
    outputs: int = 1
    _gated_linear = False

    def __init_subclass__(cls, gated_linear: bool = False) -> None:
        """Declare that `one_layer` describes the class; classes derived from it may compute something else."""
        super().__init_subclass__()
        cls._gated_linear = gated_linear

    def __call__(self, X: Tensor, contexts: Tensor | None = None) -> Tensor:
        """Outputs of `forward`. Raises InputError for other shapes than (n, d), or contexts of other rows."""
        if not isinstance(X, Tensor):
            raise InputError(f"a network takes a torch tensor, not {shown(X)}; decision_function takes any array")
        if X.ndim != 2 or X.shape[1] != self.inputs:
            raise InputError(
                f"a network with {self.inputs} inputs takes a tensor of shape (n, {self.inputs}), "
                f"not {tuple(X.shape)}; reshape it"
            )
        if contexts is not None and (contexts.ndim != 2 or len(contexts) != len(X)):
            raise InputError(
                f"contexts must have a row for each of the {len(X)} inputs, but their shape is {tuple(contexts.shape)}"
            )
        outputs: Tensor = super().__call__(X, contexts)
        return outputs

    @abstractmethod
    def forward(self, X: Tensor, contexts: Tensor | None = None) -> Tensor:
        """Outputs (n,), or (n, q) of several, for inputs (n, d) in the network's dtype."""

    @property
    def parts(self) -> list[GatedNetwork]:
        """Networks side by side with outputs of their own; by default this network alone."""
        return [self]

    def contexts(self, X: Array) -> Tensor | None:
        """Values of the fixed gates for inputs X (n, d), a tensor with n rows; None if the gates are learned."""
        return None

    def layer_gates(self, X: Array) -> list[Array] | None:
        """Gate values (n, units, gates a unit) of every gated layer; None if units do not choose among weights."""
        return None

    @abstractmethod
    def gates(self) -> Gates:
        """The present gates, detached from the network. Raises InputError for more than one gated layer."""

    @abstractmethod
    def effective_weights(self) -> Array:
        """W (k, d), float64, with f(x) = Φ(x)·W under `gates()`; of several outputs (q, k, d), a W each.

        Raises InputError for more than one gated layer.
        """

    @property
    @abstractmethod
    def degree(self) -> int:
        """Layers of weights L: scaling all weights by c scales the output by c^L (biases aside)."""

    @abstractmethod
    def config(self) -> dict[str, Any]:
        """The plain arguments from which `from_config` rebuilds a network of this shape."""

    @classmethod
    @abstractmethod
    def from_config(cls, config: dict[str, Any]) -> GatedNetwork:
        """A network of the shape that `config()` describes, to be filled by `load_state_dict`."""

    @torch.no_grad()
    def hidden(self, X: ArrayLike) -> Array:
        """Activations of the last hidden layer, shape (n, H), float64. Raises InputError for a `ParallelNetwork`."""
        return to_array(self._hidden(*self.tensors(X)))

    def _hidden(self, X: Tensor, contexts: Tensor | None) -> Tensor:
        raise InputError(f"{type(self).__name__} has no hidden layer to read")

    def tensors(self, X: ArrayLike) -> tuple[Tensor, Tensor | None]:
        """Inputs in the network's dtype and device, and their contexts."""
        X = as_floats(X, "X", 2)
        if X.shape[1] != self.inputs:
            raise InputError(f"X has {X.shape[1]} columns, but the network takes {self.inputs}")
        like = next(self.parameters())
        contexts = self.contexts(X)
        return (
            torch.as_tensor(X, dtype=like.dtype, device=like.device),
            None if contexts is None else contexts.to(like.device),
        )

    @torch.no_grad()
    def decision_function(self, X: ArrayLike) -> Array:
        """Outputs f(x) of inputs X (n, d) as float64, shape (n,), or (n, q) of several."""
        return to_array(self(*self.tensors(X)))

    def require_one_layer(self, layers: int) -> None:
        """Refuse more than one gated layer, of which this network has so many."""
        if layers > 1:
            raise InputError(
                f"a network with {layers} gated layers has no weights of its own for each gate; "
                "only networks with one gated layer do"
            )

    def input_layers(self) -> list[Any]:
        """Lists of weights whose first entry multiplies the inputs; empty if training must not rotate the inputs."""
        return []

    def one_layer(self) -> OneLayer | None:
        """The weights, if these are gated linear units of one layer; training then writes gradients out."""
        return None

    def layer_shapes(self) -> list[tuple[int, int]]:
        """Units and contexts per unit of each gated layer; none by default."""
        return []

    def readout_biases(self) -> list[nn.Parameter]:
        """Biases that homogeneity leaves out; none by default."""
        return []

    def norm(self) -> float:
        """‖w‖₂ over all parameters."""
        return float(torch.sqrt(sum((p.detach().double() ** 2).sum() for p in self.parameters())))  # type: ignore[arg-type]


def views(row: Tensor, like: Sequence[Tensor]) -> list[Tensor]:
    """Consecutive parts of a row in the shapes of some tensors."""
    parts = row.split([tensor.numel() for tensor in like])
    return [part.view(tensor.shape) for part, tensor in zip(parts, like, strict=True)]


def to_array(tensor: Tensor) -> Array:
    """A tensor as a float64 array."""
    # NumPy has no bfloat16.
    return tensor.detach().to("cpu", torch.float64, copy=True).numpy()
