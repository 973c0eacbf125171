"""Features as linear operators, above all gated linear features Φ(x) = g(x) ⊗ x."""

from implicit_bias.features.base import Features, KernelFeatures
from implicit_bias.features.chunked import ChunkedFeatures, ChunkedInputs
from implicit_bias.features.gated import GatedFeatures
from implicit_bias.features.subsets import SubsetFeatures

__all__ = ["ChunkedFeatures", "ChunkedInputs", "Features", "GatedFeatures", "KernelFeatures", "SubsetFeatures"]
