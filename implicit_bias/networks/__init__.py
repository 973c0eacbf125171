"""Gated networks in torch, each exposing its gates and effective weights W in the margin problems' coordinates."""

from implicit_bias.networks.base import GatedNetwork
from implicit_bias.networks.gln import GatedLinearNetwork
from implicit_bias.networks.layers import FrozenReLUNetwork, LinearNetwork, ReadoutNetwork, ReLUNetwork
from implicit_bias.networks.layers import LayeredNetwork as LayeredNetwork
from implicit_bias.networks.module import TorchNetwork
from implicit_bias.networks.parallel import ParallelNetwork

__all__: list[str] = [
    "FrozenReLUNetwork",
    "GatedLinearNetwork",
    "GatedNetwork",
    "LinearNetwork",
    "ParallelNetwork",
    "ReLUNetwork",
    "ReadoutNetwork",
    "TorchNetwork",
]
