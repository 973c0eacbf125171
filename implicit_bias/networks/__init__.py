"""Gated networks in torch, each exposing its gates and effective weights W in the margin problems' coordinates."""

from implicit_bias.networks.base import GatedNetwork
from implicit_bias.networks.files import load_network, save_network
from implicit_bias.networks.gln import GatedLinearNetwork
from implicit_bias.networks.relu import FrozenReLUNetwork, ReLUNetwork

__all__ = [
    "FrozenReLUNetwork",
    "GatedLinearNetwork",
    "GatedNetwork",
    "ReLUNetwork",
    "load_network",
    "save_network",
]
