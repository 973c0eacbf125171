"""Gated linear features Φ(x) = g(x) ⊗ x, the one data structure of this toolkit: what they can do, and their kinds."""

from implicit_bias.features.base import Features
from implicit_bias.features.gated import GatedFeatures
from implicit_bias.features.kernel import KernelFeatures

__all__ = ["Features", "GatedFeatures", "KernelFeatures"]
