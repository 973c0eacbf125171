"""Gates: contexts and half-spaces that turn inputs X (n, d) into gate values (n, k)."""

from implicit_bias.gates.base import ConstantGate, ContextGates, Gates, OccupiedRegions
from implicit_bias.gates.expansions import KernelExpansions as KernelExpansions
from implicit_bias.gates.functions import (
    FunctionContexts,
    FunctionGates,
    HiddenActivations,
    LeakyReLUGates,
    ProductGates,
    SoftGates,
)
from implicit_bias.gates.hyperplanes import HyperplaneGates, RandomHalfSpaces, ReLUGates, SubsetGates

__all__ = [
    "ConstantGate",
    "ContextGates",
    "FunctionContexts",
    "FunctionGates",
    "Gates",
    "HiddenActivations",
    "HyperplaneGates",
    "LeakyReLUGates",
    "OccupiedRegions",
    "ProductGates",
    "RandomHalfSpaces",
    "ReLUGates",
    "SoftGates",
    "SubsetGates",
]
