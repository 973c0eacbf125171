"""Layers of gated linear units that replace a linear or convolutional layer and its ReLU in any torch model."""

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn

from implicit_bias._utils.checks import InputError, as_positive, check_callable, shown
from implicit_bias.extensions.galu.networks import gate_values

Gate = Callable[[Tensor], Tensor]


class _GatedLayer(nn.Module, ABC):
    """Mixin that adds untrained filters and offsets to the torch layer that follows it among a subclass's bases."""

    _plain: ClassVar[type[nn.Module]]
    weight: Tensor
    bias: Any
    filters: Tensor
    offsets: Tensor | None

    def __init__(
        self,
        *shape: Any,
        sharpness: float | None = None,
        gate: Gate | None = None,
        filters: Any = None,
        offsets: Any = None,
        generator: torch.Generator | None = None,
        **options: Any,
    ) -> None:
        super().__init__(*shape, **options)
        if sharpness is not None and gate is not None:
            raise InputError("give either sharpness, for soft gates, or gate, a custom function, not both")
        check_callable(gate, "gate")
        self.sharpness = None if sharpness is None else as_positive(sharpness, "sharpness")
        self.gate = gate
        if 0 in self.weight.shape:
            raise InputError(f"give at least one input and one output, not weights of shape {tuple(self.weight.shape)}")
        like, bound = self.weight.detach(), self.weight[0].numel() ** -0.5
        if generator is not None:
            for drawn in self.parameters():
                drawn.data.uniform_(-bound, bound, generator=generator)
        if filters is None:
            filters = torch.empty_like(like).normal_(0, bound, generator=generator)
            if offsets is None and self.bias is not None:
                offsets = torch.empty_like(self.bias.detach()).uniform_(-bound, bound, generator=generator)
        self.register_buffer("filters", _given(filters, like, "filters", (len(like), None, *like.shape[2:])))
        self.register_buffer("offsets", None if offsets is None else _given(offsets, like, "offsets", (len(like),)))

    @abstractmethod
    def _linear(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """Apply the layer's linear map or convolution with another weight and bias, those of the outputs or gates."""

    @abstractmethod
    def _check(self, input: Tensor, inputs: int) -> None:
        """Raise InputError unless `input` has `inputs` features, or `inputs` channels per group of a convolution."""

    def gates(self, input: Tensor) -> Tensor:
        """Return the gate values g(U x + c), or g(U ∗ x + c) of a convolution, in the shape of the outputs."""
        self._check(input, self.filters.shape[1])
        values = self._linear(input, self.filters, self.offsets)
        if self.gate is None:
            return gate_values(values, self.sharpness)
        results = self.gate(values)
        if not isinstance(results, Tensor) or results.shape != values.shape:
            raise InputError(f"gate must return a tensor of the shape of its argument, {tuple(values.shape)}")
        return results

    def forward(self, input: Tensor, gates: Tensor | None = None) -> Tensor:
        """Return g ∘ (A x + b), or g ∘ (A ∗ x + b), for the gate values g = `gates`, by default `gates(input)`."""
        self._check(input, self.weight.shape[1])
        outputs = self._linear(input, self.weight, self.bias)
        gates = self.gates(input) if gates is None else gates
        if not isinstance(gates, Tensor):
            raise InputError(f"gates must be a tensor, not {type(gates).__name__}")
        if gates.shape != outputs.shape:
            raise InputError(f"gates must have the outputs' shape {tuple(outputs.shape)}, not {tuple(gates.shape)}")
        return gates.to(outputs.dtype) * outputs

    @classmethod
    def frozen(cls, layer: nn.Module, **gates: Any) -> Self:
        """Return g(U x + c) ∘ (A x + b) with A, b copied from a linear or convolutional `layer`, frozen U = A, c = b.

        With hard gates, the default, its outputs are relu(A x + b) until A or b are trained. Keyword arguments are
        `sharpness` or `gate`, as for the class.

        >>> layer, x = torch.nn.Linear(3, 4), torch.randn(5, 3)
        >>> torch.equal(GaLULinear.frozen(layer)(x), layer(x) * (layer(x) >= 0))
        True
        """
        if not isinstance(layer, cls._plain):
            raise InputError(f"layer must be an nn.{cls._plain.__name__}, not {type(layer).__name__}")
        weight, bias = layer.weight, layer.bias
        changed: dict[str, Any] = {"bias": bias is not None, "device": weight.device, "dtype": weight.dtype}
        options = {
            name: changed.get(name, getattr(layer, name, None)) for name in inspect.signature(cls._plain).parameters
        }
        made = cls(**options, filters=weight, offsets=bias, **gates)
        made.load_state_dict(layer.state_dict(), strict=False)
        return made

    def extra_repr(self) -> str:
        """Return sizes and the kind of gates, for torch's `repr`."""
        kind = "gate=…" if self.gate else "hard gates" if self.sharpness is None else f"sharpness={self.sharpness:g}"
        return f"{super().extra_repr()}, {kind}"


def _given(values: Any, like: Tensor, name: str, shape: tuple[int | None, ...]) -> Tensor:
    try:
        given = torch.as_tensor(values).detach()
        if given.is_complex():
            raise TypeError
        tensor = given.to(like.device, like.dtype, copy=True)
    except (TypeError, ValueError, RuntimeError):
        raise InputError(f"{name} must be a tensor or array of real numbers, not {shown(values)}") from None
    if tensor.ndim != len(shape) or any(b not in (None, a) for a, b in zip(tensor.shape, shape, strict=True)):
        wanted = ", ".join("any" if size is None else str(size) for size in shape)
        raise InputError(f"{name} must have shape ({wanted}), not {tuple(tensor.shape)}")
    if not tensor.is_meta and not bool(tensor.isfinite().all()):
        raise InputError(f"{name} hold NaN or infinity; give finite numbers")
    return tensor


class GaLULinear(_GatedLayer, nn.Linear):
    """Fully connected layer of gated linear units, which replaces `nn.Linear` and its ReLU.

        z = g(U x + c) ∘ (A x + b),   g(v) = 1(v ≥ 0), σ(s v) or a custom function

    A (`weight`) and b (`bias`) are trained. U (`filters`) and c (`offsets`) are untrained buffers, which `state_dict`
    contains and `.to(device)` moves. Source: Fiat, Malach & Shalev-Shwartz, first version, section 2. Biases and
    offsets are ours.

    Parameters
    ----------
    in_features, out_features, bias, device, dtype
        As for `nn.Linear`; without a bias the gates have no offsets.
    sharpness : float, optional
        s of soft gates σ(s v).
    gate : callable, optional
        Custom function of the values v = U x + c that keeps their shape. By default gates are hard.
    filters : tensor, shape (out_features, r), optional
        U; N(0, 1/r) with r = `in_features` by default. With another r the gates read another input, and the layer is
        called as `layer(x, layer.gates(read))`.
    offsets : tensor, shape (out_features,), optional
        The offsets c. By default drawn like the bias of `nn.Linear` if the filters are drawn, else 0.
    generator : torch.Generator, optional
        Draws weights (as `nn.Linear` does), filters and offsets, in this order; torch's global generator by default.

    Raises
    ------
    InputError
        If filters, offsets or inputs have another shape, the sharpness is not positive, or both `sharpness` and `gate`
        are given.

    Examples
    --------
    >>> from torch import nn
    >>> model = nn.Sequential(GaLULinear(8, 32), GaLULinear(32, 32, sharpness=2.0), nn.Linear(32, 3))
    >>> model(torch.zeros(5, 8)).shape, sum(p.numel() for p in model[0].parameters())
    (torch.Size([5, 3]), 288)

    The gates of every layer may read the network's input, as in a `GaLU0Network`:

    >>> x, second = torch.ones(5, 8), GaLULinear(32, 16, filters=torch.randn(16, 8))
    >>> second(model[0](x), second.gates(x)).shape
    torch.Size([5, 16])
    """

    _plain = nn.Linear

    def _linear(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        return nn.functional.linear(input, weight, bias)

    def _check(self, input: Tensor, inputs: int) -> None:
        if input.ndim == 0 or input.shape[-1] != inputs:
            raise InputError(f"the layer takes inputs of shape (…, {inputs}), not {tuple(input.shape)}")


class GaLUConv2d(_GatedLayer, nn.Conv2d):
    """Convolutional layer of gated linear units, which replaces `nn.Conv2d` and its ReLU.

        z = g(U ∗ x + c) ∘ (A ∗ x + b),   g(v) = 1(v ≥ 0), σ(s v) or a custom function

    Errors as for `GaLULinear`. The papers have no convolutions.

    Parameters
    ----------
    in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, padding_mode, device, dtype
        As for `nn.Conv2d`; without a bias the gates have no offsets.
    sharpness, gate, filters, offsets, generator
        As for `GaLULinear`. Filters have shape (out_channels, r, height, width), where height and width are those of
        the kernel, and r is `in_channels / groups` unless the gates read another input.

    Examples
    --------
    >>> layer = GaLUConv2d(1, 8, kernel_size=3, padding=1)
    >>> layer(torch.zeros(2, 1, 28, 28)).shape, sorted(layer.state_dict())
    (torch.Size([2, 8, 28, 28]), ['bias', 'filters', 'offsets', 'weight'])
    """

    _plain = nn.Conv2d

    def _linear(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        return self._conv_forward(input, weight, bias)

    def _check(self, input: Tensor, inputs: int) -> None:
        channels = inputs * self.groups
        if input.ndim not in (3, 4) or input.shape[-3] != channels:
            raise InputError(f"the layer takes images of shape (n, {channels}, h, w), not {tuple(input.shape)}")
