"""Certified max-margin classifiers with scikit-learn's interface.

The classifiers solve the problems of `implicit_bias.margin`. More than two classes are one problem per class, this
class against the rest, or one joint problem.
"""

from implicit_bias.estimators.base import MarginClassifier, NotSeparableError
from implicit_bias.estimators.cross_validation import MarginClassifierCV
from implicit_bias.estimators.interactions import InteractionClassifier
from implicit_bias.estimators.kernels import MultipleKernelClassifier, PrecomputedKernel
from implicit_bias.estimators.networks import GatedReLUClassifier, GLNClassifier, HiddenLayerClassifier
from implicit_bias.estimators.one_class import OneClassMargin

__all__ = [
    "GLNClassifier",
    "GatedReLUClassifier",
    "HiddenLayerClassifier",
    "InteractionClassifier",
    "MarginClassifier",
    "MarginClassifierCV",
    "MultipleKernelClassifier",
    "NotSeparableError",
    "OneClassMargin",
    "PrecomputedKernel",
]
