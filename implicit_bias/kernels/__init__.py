"""Gram matrices of activations, E[σ'(⟨w, x⟩)σ'(⟨w, x'⟩)]⟨x, x'⟩, and their smallest eigenvalues."""

from implicit_bias.kernels.activations import Activation, activation, elu, leaky_relu, polynomial
from implicit_bias.kernels.circle import circle_eigenvalue
from implicit_bias.kernels.custom import custom_activation
from implicit_bias.kernels.depth import deep_gram
from implicit_bias.kernels.eigenvalues import SmallestEigenvalue, smallest_eigenvalue
from implicit_bias.kernels.gram import Gram, empirical_gram, gram_matrix, mean_square
from implicit_bias.kernels.infinite import InfiniteNetwork, NetworkKernels

__all__ = [
    "Activation",
    "Gram",
    "InfiniteNetwork",
    "NetworkKernels",
    "SmallestEigenvalue",
    "activation",
    "circle_eigenvalue",
    "custom_activation",
    "deep_gram",
    "elu",
    "empirical_gram",
    "gram_matrix",
    "leaky_relu",
    "mean_square",
    "polynomial",
    "smallest_eigenvalue",
]
