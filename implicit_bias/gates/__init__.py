"""Gates: contexts and half-spaces that turn inputs X (n, d) into gate values (n, k)."""

from implicit_bias.gates.arrangement import Arrangement, activation_patterns
from implicit_bias.gates.base import ConstantGate, Gates
from implicit_bias.gates.contexts import ContextGates, OccupiedRegions
from implicit_bias.gates.expansions import KernelExpansions as KernelExpansions
from implicit_bias.gates.functions import FunctionContexts, FunctionGates, HiddenActivations, ProductGates, SoftGates
from implicit_bias.gates.hyperplanes import HyperplaneGates, RandomHalfSpaces, ReLUGates

__all__ = [
    "Arrangement",
    "ConstantGate",
    "ContextGates",
    "FunctionContexts",
    "FunctionGates",
    "Gates",
    "HiddenActivations",
    "HyperplaneGates",
    "OccupiedRegions",
    "ProductGates",
    "RandomHalfSpaces",
    "ReLUGates",
    "SoftGates",
    "activation_patterns",
]
