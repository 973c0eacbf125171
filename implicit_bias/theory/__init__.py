"""The theory of GaLU layers as functions, after Fiat, Malach & Shalev-Shwartz; the docs have the proofs.

And how a gated linear network's predictors are tied, after Lippl, Abbott & Chung, and how large the margins of
deep ones can be.
"""

from implicit_bias.theory.clusters import (
    ClusterWidth,
    cluster_dimension,
    cluster_samples,
    cluster_width,
    gate_correlations,
    slab_probability,
)
from implicit_bias.theory.competition import GaLUExcess, galu_excess
from implicit_bias.theory.depth import MarginBound, margin_bound
from implicit_bias.theory.descent import DescentRate, a_priori_rate, descent_rate, descent_target
from implicit_bias.theory.generalisation import GeneralisationBound, generalisation_bound, generalisation_bound_a_priori
from implicit_bias.theory.gradients import InitialGradient, gaussian_gradient, initial_gradients, parity_gradient
from implicit_bias.theory.inverses import NeumannInverse, neumann_inverse, orthogonal_inverse
from implicit_bias.theory.kernel import gate_kernel
from implicit_bias.theory.landscape import Landscape, landscape
from implicit_bias.theory.linear import expected_test_loss, expected_train_loss, rademacher_bound
from implicit_bias.theory.memorisation import ExpectedLoss, MemorisationWidth, expected_loss, memorisation_width
from implicit_bias.theory.predictors import free_contexts, global_predictors, weights_of_predictors
from implicit_bias.theory.rkhs import RKHSBound, rkhs_bound
from implicit_bias.theory.sphere import FittedSamples, SphereWidth, corollary_samples, fitted_samples, sphere_width
from implicit_bias.theory.stability import MovedGates, moved_gates, neighbouring_gates
from implicit_bias.theory.start import FirstGradientNorm, first_gradient_norm

__all__ = [
    "ClusterWidth",
    "DescentRate",
    "ExpectedLoss",
    "FirstGradientNorm",
    "FittedSamples",
    "GaLUExcess",
    "GeneralisationBound",
    "InitialGradient",
    "Landscape",
    "MarginBound",
    "MemorisationWidth",
    "MovedGates",
    "NeumannInverse",
    "RKHSBound",
    "SphereWidth",
    "a_priori_rate",
    "cluster_dimension",
    "cluster_samples",
    "cluster_width",
    "corollary_samples",
    "descent_rate",
    "descent_target",
    "expected_loss",
    "expected_test_loss",
    "expected_train_loss",
    "first_gradient_norm",
    "fitted_samples",
    "free_contexts",
    "galu_excess",
    "gate_correlations",
    "gate_kernel",
    "gaussian_gradient",
    "generalisation_bound",
    "generalisation_bound_a_priori",
    "global_predictors",
    "initial_gradients",
    "landscape",
    "margin_bound",
    "memorisation_width",
    "moved_gates",
    "neighbouring_gates",
    "neumann_inverse",
    "orthogonal_inverse",
    "parity_gradient",
    "rademacher_bound",
    "rkhs_bound",
    "slab_probability",
    "sphere_width",
    "weights_of_predictors",
]
