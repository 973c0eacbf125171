"""The theory of GaLU layers as functions, after Fiat, Malach & Shalev-Shwartz; the docs have the proofs.

And how a gated linear network's predictors are tied, after Lippl, Abbott & Chung, and how large the margins of
deep ones can be.
"""

from implicit_bias.theory.clusters import (
    ClusterBounds,
    NeumannInverse,
    cluster_bounds,
    gate_correlations,
    incoherent_dimension,
    neumann_inverse,
    orthogonal_inverse,
)
from implicit_bias.theory.depth import MarginBound, margin_bound
from implicit_bias.theory.descent import DescentRate, a_priori_rate, descent_rate, descent_target
from implicit_bias.theory.generalisation import GeneralisationBound, generalisation_bound, generalisation_bound_a_priori
from implicit_bias.theory.gradients import InitialGradient, gaussian_gradient, initial_gradients, parity_gradient
from implicit_bias.theory.kernel import gate_kernel
from implicit_bias.theory.memorisation import (
    ExpectedLoss,
    MemorisationWidth,
    expected_loss,
    expected_test_loss,
    memorisation_width,
)
from implicit_bias.theory.predictors import free_contexts, global_predictors, weights_of_predictors
from implicit_bias.theory.stability import GateStability, gate_stability

__all__ = [
    "ClusterBounds",
    "DescentRate",
    "ExpectedLoss",
    "GateStability",
    "GeneralisationBound",
    "InitialGradient",
    "MarginBound",
    "MemorisationWidth",
    "NeumannInverse",
    "a_priori_rate",
    "cluster_bounds",
    "descent_rate",
    "descent_target",
    "expected_loss",
    "expected_test_loss",
    "free_contexts",
    "gate_correlations",
    "gate_kernel",
    "gate_stability",
    "gaussian_gradient",
    "generalisation_bound",
    "generalisation_bound_a_priori",
    "global_predictors",
    "incoherent_dimension",
    "initial_gradients",
    "margin_bound",
    "memorisation_width",
    "neumann_inverse",
    "orthogonal_inverse",
    "parity_gradient",
    "weights_of_predictors",
]
