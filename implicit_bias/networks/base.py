"""Base class of the networks."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike
from scipy.linalg import helmert
from torch import Tensor, nn

from implicit_bias._utils.checks import Array, InputError, as_count, as_floats, shown
from implicit_bias.gates import Gates
from implicit_bias.gates.modules import copied

#: Number of contexts above which selecting each sample's rows of weights is cheaper than products with all rows.
GATHER_FROM = 16
#: Number of samples at which a network is compared with its layer.
CHECKED = 1000


class OneLayer(NamedTuple):
    """Weights of f(x) = A V(x) + b, V_h(x) = Σ_m g_mh(x) ⟨w_mh, x⟩: gated linear units of one layer, detached.

    If the context c(x) of a unit chooses one of its M weights, g_m(x) = 1(c(x) = m). Training then multiplies these
    weights by an orthogonal Q with a constant first row: w′_m = Σ_c Q_mc w_c and g′_m(x) = Q_{m, c(x)} have the same V,
    and the first gate is the same for all samples, so that the gradient of w′_1 is an outer product.
    """

    #: w, one row for each unit and linear part, shape (H·M, d).
    hidden: Tensor
    #: A, shape (q, H); None if f is the only unit.
    readout: Tensor | None
    #: b, shape (q,); None without a bias.
    bias: Tensor | None = None
    #: M.
    parts: int = 1
    #: True if a unit's context chooses one of its parts; otherwise contexts are gate values.
    chosen: bool = False

    @property
    def has_formulas(self) -> bool:
        """True if explicit gradients are cheaper than autograd: with a readout, and not too many parts per unit."""
        return self.readout is not None and self.parts <= GATHER_FROM

    def turn(self) -> Array:
        """Return the orthogonal Q (M, M), whose first row is constant."""
        return np.asarray(helmert(self.parts, full=True))

    def turned_gates(self, contexts: Tensor) -> Tensor:
        """Return g′ (M, n, H), float64, for contexts (n, H); if not `chosen`, contexts are gate values, and M = 1."""
        if not self.chosen:
            return contexts.double()[None]
        turn = torch.as_tensor(self.turn(), device=contexts.device)
        return turn.index_select(1, contexts.flatten()).view(self.parts, *contexts.shape)


class GatedNetwork(nn.Module, ABC):
    """A network f: R^d → R^q whose outputs are linear in the inputs once its gates are fixed; mostly q = 1.

    The last input is the constant 1. A subclass defines `forward` and `degree`; it can then be trained and driven to
    its limit. `gates` and `effective_weights` add its margin problem, `config` and `from_config` its file.
    `contexts(X)` returns the values or contexts of fixed gates, so that a training loop computes them only once; None
    if training changes the gates. `TorchNetwork` wraps a torch module instead. Limits of other optimisers than gradient
    descent need one hidden layer: two parameters, w (H, d) and a readout with an entry per output and unit.

    Parameters
    ----------
    inputs : int
        The number d of inputs.
    outputs : int
        The number q of outputs.

    Examples
    --------
    >>> from implicit_bias.networks import GatedNetwork
    >>> class Square(GatedNetwork):
    ...     degree = 2
    ...
    ...     def __init__(self):
    ...         super().__init__(inputs=3)
    ...         self.w = nn.Parameter(torch.ones(3))
    ...
    ...     def forward(self, X, contexts=None):
    ...         return X @ (self.w * self.w.abs())
    >>> Square().decision_function([[1.0, 2.0, 1.0]]).tolist()
    [4.0]
    """

    def __init__(self, inputs: int, outputs: int = 1) -> None:
        super().__init__()
        self.inputs, self.outputs = as_count(inputs, "inputs"), as_count(outputs, "outputs")

    def __call__(self, X: Tensor, contexts: Tensor | None = None) -> Tensor:
        """Return the outputs of `forward`; raise InputError unless X is (n, d) and contexts have n rows."""
        if not isinstance(X, Tensor):
            raise InputError(f"a network takes a torch tensor, not {shown(X)}; decision_function takes any array")
        if X.ndim != 2 or X.shape[1] != self.inputs:
            text = f"a network with {self.inputs} inputs takes a tensor of shape (n, {self.inputs})"
            raise InputError(f"{text}, not {tuple(X.shape)}; reshape it")
        if contexts is not None and (contexts.ndim != 2 or len(contexts) != len(X)):
            raise InputError(f"contexts must have a row for each of the {len(X)} inputs, not {tuple(contexts.shape)}")
        outputs: Tensor = super().__call__(X, contexts)
        return outputs

    @abstractmethod
    def forward(self, X: Tensor, contexts: Tensor | None = None) -> Tensor:
        """Return the outputs (n,), or (n, q) for q > 1, of inputs (n, d) in the network's dtype."""

    @property
    def parts(self) -> list[GatedNetwork]:
        """The parallel networks, one per output, of a `ParallelNetwork`; by default this network alone."""
        return [self]

    def contexts(self, X: Array) -> Tensor | None:
        """Return values or contexts of fixed gates for inputs X (n, d), a tensor of n rows; None for learned gates."""
        return None

    def layer_gates(self, X: Array) -> list[Array] | None:
        """Return the values (n, units, gates per unit) of each gated layer's gates; None by default."""
        return None

    def gates(self) -> Gates:
        """Return a copy of the current gates; raise InputError without any, or for more than one gated layer."""
        raise InputError(f"{type(self).__name__} defines no gates(), which its margin problem needs; add the method")

    def effective_weights(self) -> Array:
        """Return W (k, d), float64, with f(x) = ⟨W, Φ(x)⟩ for the features of `gates()`; (q, k, d) for q > 1 outputs.

        Raises InputError as `gates` does.
        """
        raise InputError(f"{type(self).__name__} defines no effective_weights(); add the method")

    @property
    @abstractmethod
    def degree(self) -> int:
        """Degree L; scaling all trainable weights except `readout_biases` by c > 0 scales the output by c^L."""

    def config(self) -> dict[str, Any]:
        """Return plain arguments from which `from_config` builds a network of this shape."""
        raise InputError(f"a {type(self).__name__} cannot be saved here; use torch.save(network.state_dict(), path)")

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> GatedNetwork:
        """Return a network of the shape that `config()` describes; `load_state_dict` then sets its weights."""
        raise InputError(f"a {cls.__name__} is not built from a file; build it, then load_state_dict(torch.load(path))")

    @torch.no_grad()
    def hidden(self, X: ArrayLike) -> Array:
        """Return the activations of the last hidden layer (n, H), float64; a `ParallelNetwork` raises InputError."""
        return to_array(self._hidden(*self.tensors(X)))

    def _hidden(self, X: Tensor, contexts: Tensor | None) -> Tensor:
        raise InputError(f"{type(self).__name__} has no hidden layer to read; use a built-in network or one of `parts`")

    def tensors(self, X: ArrayLike) -> tuple[Tensor, Tensor | None]:
        """Return inputs X (n, d) as a tensor of the network's dtype and device, and their contexts (or None)."""
        X = as_floats(X, "X", 2)
        if X.shape[1] != self.inputs:
            raise InputError(f"X has {X.shape[1]} columns, but the network takes {self.inputs}")
        like, contexts = self.first_parameter(), self.contexts(X)
        inputs = torch.as_tensor(X, dtype=like.dtype, device=like.device)
        return inputs, None if contexts is None else contexts.to(like.device)

    def first_parameter(self) -> nn.Parameter:
        """Return the first parameter, whose dtype and device the inputs get; raise InputError if there is none."""
        for parameter in self.parameters():
            return parameter
        raise InputError(f"{type(self).__name__} has no parameters; assign its weights as torch.nn.Parameter")

    @torch.no_grad()
    def decision_function(self, X: ArrayLike) -> Array:
        """Return the outputs f(x) of inputs X (n, d) as float64, shape (n,), or (n, q) for q > 1."""
        return to_array(self.outputs_of(*self.tensors(X)))

    def outputs_of(self, X: Tensor, contexts: Tensor | None) -> Tensor:
        """Return f(x) of `tensors`, shape (n,) or (n, q); raise InputError if `forward` returns another shape."""
        outputs = self(X, contexts)
        shape = (len(X), self.outputs) if self.outputs > 1 else (len(X),)
        if not isinstance(outputs, Tensor) or outputs.shape != shape:
            given = tuple(outputs.shape) if isinstance(outputs, Tensor) else type(outputs).__name__
            raise InputError(f"the network must give outputs of shape {shape}, not {given}")
        return outputs

    def require_one_layer(self, layers: int) -> None:
        """Raise InputError if `layers`, the number of gated layers of this network, exceeds 1."""
        if layers > 1:
            text = f"a network with {layers} gated layers has no separate weights for each gate"
            raise InputError(f"{text}; use a network with one gated layer")

    def input_layers(self) -> list[Any]:
        """Return a list of weights for each of `parts`, the first multiplying the inputs; [] if no input may rotate."""
        return []

    @torch.no_grad()
    def one_layer(self, X: Array) -> OneLayer | None:
        """Return the weights if, at X (n, d), this is one layer of gated linear units and a readout; else None.

        Its two parameters must be w (H, d) and A with q·H entries, both trained, and its contexts gate values (n, H),
        or None for the gates of relu. Outputs and their gradients are compared at random weights.
        """
        parameters, q, X = list(self.parameters()), self.outputs, X[:CHECKED]
        if len(parameters) != 2 or not all(p.is_contiguous() and p.requires_grad for p in parameters):
            return None
        (hidden, readout), random = (p.detach() for p in parameters), torch.Generator().manual_seed(0)
        try:
            # Outputs may have no gradients.
            with torch.enable_grad():
                twin, H = copied(self).cpu(), len(hidden)
                inputs, contexts = twin.tensors(X)
                seen = contexts is None or contexts.shape == (len(X), H)
                if hidden.shape != (H, self.inputs) or readout.numel() != q * H or not seen:
                    return None
                w, A = (parameter.data.normal_(generator=random) for parameter in twin.parameters())
                outputs = twin.outputs_of(inputs, contexts).view(len(X), q)
                measured = [outputs, *torch.autograd.grad((outputs * outputs.detach()).sum(), list(twin.parameters()))]
        except RuntimeError:
            return None
        V = inputs @ w.T
        opened = (V > 0 if contexts is None else contexts).to(V.dtype)
        f = (opened * V) @ A.view(q, H).T
        expected = f, (opened * (f @ A.view(q, H))).T @ inputs, (f.T @ (opened * V)).view(A.shape)
        near = torch.finfo(f.dtype).eps ** 0.5
        same = all((a - b).abs().max() <= near * b.abs().max() for a, b in zip(measured, expected, strict=True))
        return OneLayer(hidden, readout.view(q, H)) if same else None

    def layer_shapes(self) -> list[tuple[int, int]]:
        """Return (units, contexts per unit) of each gated layer; empty by default."""
        return []

    def readout_biases(self) -> list[nn.Parameter]:
        """Return the biases in which the outputs are not homogeneous; empty by default."""
        return []

    def norm(self) -> float:
        """Return the norm ‖w‖₂ of all trainable parameters."""
        return math.sqrt(sum(float((p.detach().double() ** 2).sum()) for p in self.parameters() if p.requires_grad))


def views(row: Tensor, like: Sequence[Tensor]) -> list[Tensor]:
    """Return views of consecutive parts of a vector `row`, in the shapes of the tensors `like`."""
    parts = row.split([tensor.numel() for tensor in like])
    return [part.view(tensor.shape) for part, tensor in zip(parts, like, strict=True)]


def check_differentiable(outputs: Tensor) -> None:
    """Raise InputError if a network's outputs have no gradient."""
    if not outputs.requires_grad:
        raise InputError("the network's outputs have no gradient; its forward must not detach them or run without grad")


def to_array(tensor: Tensor) -> Array:
    """Return a tensor as a float64 array, a copy on the CPU."""
    # NumPy has no bfloat16.
    return tensor.detach().to("cpu", torch.float64, copy=True).numpy()
