"""Gram matrices of activations and their smallest eigenvalues; NNGP and NTK of networks of infinite width."""

from implicit_bias.kernels.activations import Activation, activation, elu, leaky_relu, polynomial
from implicit_bias.kernels.circle import circle_eigenvalue
from implicit_bias.kernels.custom import custom_activation
from implicit_bias.kernels.depth import deep_gram
from implicit_bias.kernels.eigenvalues import SmallestEigenvalue, smallest_eigenvalue
from implicit_bias.kernels.gram import Gram, empirical_gram, gram_matrix, mean_square
from implicit_bias.kernels.infinite import InfiniteNetwork, NetworkKernels
from implicit_bias.kernels.prediction import Prediction, predict
from implicit_bias.kernels.splines import spline

__all__ = [
    "Activation",
    "Gram",
    "InfiniteNetwork",
    "NetworkKernels",
    "Prediction",
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
    "predict",
    "smallest_eigenvalue",
    "spline",
]
