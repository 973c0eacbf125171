"""Gated networks in torch, each exposing its gates and effective weights W in the margin problems' coordinates."""

from implicit_bias.networks.base import GatedNetwork
from implicit_bias.networks.chain import ChainNetwork
from implicit_bias.networks.galu import GaLU0Network, GaLUNetwork
from implicit_bias.networks.gated_layers import GaLUConv2d, GaLULinear
from implicit_bias.networks.gln import GatedLinearNetwork
from implicit_bias.networks.layers import LayeredNetwork
from implicit_bias.networks.parallel import ParallelNetwork
from implicit_bias.networks.relu import FrozenReLUNetwork, LinearNetwork, ReadoutNetwork, ReLUNetwork

__all__: list[str] = [
    "ChainNetwork",
    "FrozenReLUNetwork",
    "GaLU0Network",
    "GaLUConv2d",
    "GaLULinear",
    "GaLUNetwork",
    "GatedLinearNetwork",
    "GatedNetwork",
    "LayeredNetwork",
    "LinearNetwork",
    "ParallelNetwork",
    "ReLUNetwork",
    "ReadoutNetwork",
]
