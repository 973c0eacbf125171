"""Parallel networks, each with its own output."""

import copy
from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np
import torch
from torch import Tensor, nn

from implicit_bias._utils.checks import Array, InputError, shown
from implicit_bias.gates import Gates
from implicit_bias.networks.base import GatedNetwork


class ParallelNetwork(GatedNetwork):
    """Parallel networks as one network of several outputs, f_c = f^{(c)}: each output has its own units.

    Parameters
    ----------
    networks : sequence of GatedNetwork
        Two or more networks of one class, with one output each, and with equal inputs and degree. They are copied.

    Raises
    ------
    InputError
        If the networks do not match; from `gates` and `effective_weights` if the networks' gates differ; and from
        saving, because the networks must be saved one by one.

    Examples
    --------
    >>> import numpy as np
    >>> from implicit_bias import GatedLinearNetwork, HyperplaneGates, ParallelNetwork
    >>> X = np.random.default_rng(0).normal(size=(20, 3))
    >>> gates = HyperplaneGates(4, 2).fit(X)
    >>> network = ParallelNetwork([GatedLinearNetwork(gates, seed=seed) for seed in range(5)])
    >>> network.decision_function(X).shape, network.effective_weights().shape
    ((20, 5), (5, 8, 3))
    """

    def __init__(self, networks: Sequence[GatedNetwork]) -> None:
        given = list(networks) if isinstance(networks, Sequence) and not isinstance(networks, str) else []
        if len(given) < 2 or not all(isinstance(one, GatedNetwork) for one in given):
            raise InputError(f"networks must be two or more GatedNetworks, not {shown(networks)}")
        if len({(type(one), one.inputs, one.degree, one.outputs) for one in given}) > 1 or given[0].outputs != 1:
            raise InputError("the networks must be of one class, one output, and equal numbers of inputs and layers")
        super().__init__(given[0].inputs, len(given))
        self.networks = nn.ModuleList(copy.deepcopy(given))
        seen = [one.contexts(np.zeros((1, self.inputs))) for one in given]
        self._widths = [0 if each is None else each.shape[1] for each in seen]

    @property
    def parts(self) -> list[GatedNetwork]:
        return [part for part in self.networks if isinstance(part, GatedNetwork)]

    def contexts(self, X: Array) -> Tensor | None:
        parts = [part.contexts(X) for part in self.parts]
        fixed = [one for one in parts if one is not None]
        return torch.cat(fixed, dim=1) if len(fixed) == len(parts) else None

    def forward(self, X: Tensor, contexts: Tensor | None = None) -> Tensor:
        parts: Any = [None] * self.outputs if contexts is None else contexts.split(self._widths, dim=1)
        return torch.stack([part(X, seen) for part, seen in zip(self.parts, parts, strict=True)], dim=1)

    def gates(self) -> Gates:
        every = [part.gates() for part in self.parts]
        if not all(_alike(every[0], other) for other in every[1:]):
            raise InputError("the networks have different gates, and none for all outputs; use the networks in `parts`")
        return every[0]

    def effective_weights(self) -> Array:
        self.gates()
        return np.stack([part.effective_weights() for part in self.parts])

    def input_layers(self) -> list[Any]:
        each = [part.input_layers() for part in self.parts]
        return [layers for part in each for layers in part] if all(each) else []

    @property
    def degree(self) -> int:
        return self.parts[0].degree

    def config(self) -> NoReturn:
        """Raise InputError, because the networks must be saved one by one."""
        raise InputError("a ParallelNetwork is not saved; save its networks one by one")


def _alike(one: Any, other: Any) -> bool:
    if type(one) is not type(other):
        return False
    if isinstance(one, Gates):
        one, other = (sorted(vars(gates).items()) for gates in (one, other))
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(_alike, one, other))
    return np.array_equal(one, other) if isinstance(one, np.ndarray) else bool(one == other)
