"""What networks behind fixed gates share: hyperplanes that are saved with the weights, and that no cast rounds."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import torch
from torch import Tensor

from implicit_bias._utils.checks import InputError, as_numbers, context_bits
from implicit_bias.gates import HyperplaneGates
from implicit_bias.networks.base import GatedNetwork


class FixedGatesNetwork(GatedNetwork):
    """A network that owns fitted gates, a list `_gates`; if these are HyperplaneGates, it can be saved."""

    #: Not buffers: casting or moving the network must not round the gates. They are saved as extra state.
    _gates: list[Any]

    def get_extra_state(self) -> dict[str, list[Tensor]]:
        """The hyperplanes and cutoffs, which `state_dict` therefore includes."""
        return {
            "directions": [torch.as_tensor(g.directions_) for g in self._hyperplanes()],
            "cutoffs": [torch.as_tensor(g.cutoffs_) for g in self._hyperplanes()],
        }

    def set_extra_state(self, state: dict[str, list[Tensor]]) -> None:
        """Take the hyperplanes and cutoffs of a `state_dict`."""
        restored = []
        for gates, directions, cutoffs in zip(self._hyperplanes(), state["directions"], state["cutoffs"], strict=True):
            v = as_numbers(directions, gates.directions_.shape, "directions").copy()
            b = as_numbers(cutoffs, gates.cutoffs_.shape, "cutoffs").copy()
            restored.append(copy.copy(gates).restore(n_features_in_=self.inputs, directions_=v, cutoffs_=b))
        rest = iter(restored)
        self._gates = [next(rest) if isinstance(gates, HyperplaneGates) else gates for gates in self._gates]

    def _hyperplanes(self) -> list[HyperplaneGates]:
        """Those of the gates that have something to save."""
        return [gates for gates in self._gates if isinstance(gates, HyperplaneGates)]

    def config(self) -> dict[str, Any]:
        """Number of inputs, and the parameters of all gates."""
        for gates in self._gates:
            if type(gates) is not HyperplaneGates:
                raise InputError(
                    f"a network of {type(gates).__name__} cannot be saved; only one of HyperplaneGates can"
                )
        return {"inputs": self.inputs, "gates": [gates.get_params() for gates in self._gates]}


def blank_gates(config: dict[str, Any]) -> list[HyperplaneGates]:
    """The gates that `config()` describes, their hyperplanes still to be loaded."""
    d = config["inputs"]
    found: list[HyperplaneGates] = []
    for parameters in config["gates"]:
        gates = HyperplaneGates(**parameters)
        planes = gates.units * context_bits(gates.contexts)
        zeros = {"directions_": np.zeros((planes, d)), "cutoffs_": np.zeros(planes)}
        found.append(gates.restore(n_features_in_=d, **zeros))
    return found
