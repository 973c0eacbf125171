"""Norms of weights: each class defines its value, its dual norm and its CVXPY expression."""

from implicit_bias.norms.base import GroupForm, Norm, PolyhedralForm, SpectralForm
from implicit_bias.norms.expression import ExpressionNorm
from implicit_bias.norms.group import Frobenius, GroupLasso
from implicit_bias.norms.nuclear import NuclearNorm
from implicit_bias.norms.predictors import PredictorL2, free_contexts, global_predictors, weights_of_predictors
from implicit_bias.norms.two_layers import TwoLayerNorm

__all__ = [
    "ExpressionNorm",
    "Frobenius",
    "GroupForm",
    "GroupLasso",
    "Norm",
    "NuclearNorm",
    "PolyhedralForm",
    "PredictorL2",
    "SpectralForm",
    "TwoLayerNorm",
    "free_contexts",
    "global_predictors",
    "weights_of_predictors",
]
