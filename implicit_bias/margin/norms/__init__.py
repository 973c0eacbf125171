"""Regularisers: each class owns its value, its dual norm and its CVXPY expression."""

from implicit_bias.margin.norms.base import GroupForm, Norm
from implicit_bias.margin.norms.expression import ExpressionNorm
from implicit_bias.margin.norms.group import Frobenius, GroupLasso
from implicit_bias.margin.norms.nuclear import NuclearNorm
from implicit_bias.margin.norms.predictors import PredictorL2

__all__ = ["ExpressionNorm", "Frobenius", "GroupForm", "GroupLasso", "Norm", "NuclearNorm", "PredictorL2"]
