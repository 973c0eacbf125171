"""Certified max-margin classifiers with scikit-learn's contract, and gated least squares.

The mathematics is that of the formulations and of `regression`. Several classes are one problem per class, this class
against the rest, or one problem of all.
"""

from implicit_bias.estimators.base import MarginClassifier, NotSeparableError
from implicit_bias.estimators.kernels import MultipleKernelClassifier, PrecomputedKernel
from implicit_bias.estimators.networks import GatedReLUClassifier, GLNClassifier, HiddenLayerClassifier
from implicit_bias.estimators.one_class import OneClassMargin
from implicit_bias.estimators.prices import MarginClassifierCV

__all__ = [
    "GLNClassifier",
    "GatedReLUClassifier",
    "HiddenLayerClassifier",
    "MarginClassifier",
    "MarginClassifierCV",
    "MultipleKernelClassifier",
    "NotSeparableError",
    "OneClassMargin",
    "PrecomputedKernel",
]
