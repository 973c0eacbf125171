"""Invalid input of the theorems and their data sets raises InputError; `tests/fuzz` draws such input at random."""

import numpy as np
import pytest

from implicit_bias import GatedFeatures, KernelFeatures
from implicit_bias.extensions import galu
from tests.cases import refusals, unit

ONE = GatedFeatures([[1.0]])
pytestmark = pytest.mark.filterwarnings("error")

test_bad_input_refused = refusals(
    (lambda: galu.gate_kernel([[1.0]], [[0.0]]), "row 0 of Z is zero"),
    (lambda: galu.gate_kernel([[1.0]], [[1e70]]), "rows of Z have sizes"),
    (lambda: galu.gate_kernel([[1.0]], [[1.0, 0.0]]), "X has 1 columns and Z has 2"),
    (lambda: galu.memorisation_width([[1.0]], 1e-200), r"strictly between 0 and 1 \(at least 1e-100\)"),
    (lambda: galu.expected_test_loss(10, 2, 1e200), "sigma have sizes"),
    (lambda: galu.generalisation_bound(ONE, [0.0], [[1e200]], 1.0), "outputs .* have sizes"),
    (lambda: galu.generalisation_bound(GatedFeatures([[2.0]]), [1.0], [[1.0]], 1.0), "length at most 1, not 2"),
    (lambda: galu.generalisation_bound(GatedFeatures([[1.0]], [[-2.0]]), [1.0], [[1.0]], 1.0), "gate values"),
    (lambda: galu.generalisation_bound(ONE, [2.0], [[1.0]], 1.0), "y reaches 2, beyond label_bound"),
    (lambda: galu.generalisation_bound(ONE, [1.0], [[np.nan]], 1.0), "weights must hold finite numbers"),
    (lambda: galu.orthogonal_inverse(10**6), "the inverse would hold"),
    (lambda: galu.a_priori_rate(unit(4, 3), 1), "k = 1 gates are too few for a rate in advance; take more than"),
    (lambda: galu.descent_rate(GatedFeatures([[0.0]])), "all zero"),
    (lambda: galu.descent_target(ONE, [1.0], [[np.inf]]), "w0 must hold finite numbers"),
    (lambda: galu.galu_excess([[1.0]], [[1.0]], [[1.0], [1.0]], [1.0]), r"one shape \(k, 1\)"),
    (lambda: galu.galu_excess([[1.0]], [[1.0]], [[1.0]], [1.0, 1.0]), "readout must have 1 numbers"),
    (lambda: galu.cluster_width([[1.0, 0.0], [2.0, 0.0]]), "centres share a direction"),
    (lambda: galu.slab_probability(1, 0.5), "d must be a whole number of at least 2"),
    (lambda: galu.sphere_width([[2.0]]), "row 0 of X has length 2"),
    (lambda: galu.sphere_width([[1.0], [1.0]]), "parallel or more than"),
    (lambda: galu.fitted_samples([[1.0], [0.0]], 5), "row 1 of X is zero"),
    (lambda: galu.corollary_samples(10, 2, 0.5, 0.001), "c2 d² must be larger"),
    (lambda: galu.rkhs_bound([[1.0]], [2.0], 1.0), "labels from −1 to 1, and y reaches 2"),
    (lambda: galu.rkhs_bound([[1.0]], [1.0], 1.0), "which need 1.41421; give a larger M"),
    (lambda: galu.rkhs_bound([[1.0]], [0.0], 1e-80), "more than 1e80 gates"),
    (lambda: galu.rademacher_bound([[1.0]], 1.0, 3), "p must be at most 2"),
    (lambda: galu.landscape(ONE, [1.0], [[np.nan]], [1.0]), "weights must hold finite numbers"),
    (lambda: galu.landscape(ONE, [1.0], [[1.0]], [1.0, 2.0]), "readout must have 1 numbers"),
    (lambda: galu.linear_clusters(5, [[1.0]], 0.1), "d ≥ 2 inputs"),
    (lambda: galu.linear_clusters(5, np.eye(2), 0.1, shares=[1.0, 0.0]), "shares must be 2 positive"),
    (lambda: galu.neumann_inverse([[1.0]], [[3.0]]), "needs less than 1"),
    (lambda: galu.neumann_inverse([[0.0]], [[3.0]]), "A has no inverse"),
    (lambda: galu.neumann_inverse([[1.0, 2.0]], [[3.0, 1.0]]), "must be square"),
    (lambda: galu.initial_gradients([[1.0]], [1.0], [[1.0, 2.0]]), "directions must have the 1 columns"),
    (lambda: galu.initial_gradients([[1.0]], [1.0], [[1.0]], [1.0, 2.0]), "readout must have 1 numbers"),
    (lambda: galu.gaussian_gradient([0.0, 0.0]), "target is all zeros"),
    (lambda: galu.parity_gradient(np.ones(21), 2), "at most 20"),
    (lambda: galu.parity_gradient([1.0, 1.0], 3), "bits must be at most d = 2"),
    (lambda: galu.noisy_clusters(5, 2, 2, sigma_y=0.1, flip=0.1), "not both"),
    (lambda: galu.noisy_clusters(10**9, 2, 10**3), "the samples would hold"),
    (lambda: galu.separable(5, 2, 100), "margin must be at most 35"),
    (lambda: galu.parity(5, 2, 3), "bits must be at most d = 2"),
    (lambda: galu.expected_loss(KernelFeatures(np.ones((2, 1, 1)))), "must be GatedFeatures, not KernelFeatures"),
    (lambda: galu.descent_rate(GatedFeatures([[1e200]])), "the features have sizes"),
    (lambda: galu.descent_rate(GatedFeatures(np.eye(2))).steps(10**400), "share must be a number strictly between"),
    (lambda: galu.memorisation_width(np.eye(2)).failure(10**400), "k must be at most 10"),
    (lambda: galu.galu_excess([[1.0]], [[1.0]], [[1e200]], [1.0]), "readout have sizes"),
    (lambda: galu.galu_excess([[1.0]], [[1.0]], [[2.0]], [1.0], lipschitz=1e300), "lipschitz have sizes"),
    (lambda: galu.neumann_inverse([[1e300]], [[1e300]]), "A and B have sizes"),
    (lambda: galu.landscape(ONE, [1.0], [[1e300]], [1e300]), "loss, gradient or curvature overflow"),
    (lambda: galu.rkhs_bound([[1.0]], [0.5], 1e200), "radius have sizes"),
    (lambda: galu.corollary_samples(5, 3, 1e200, 1e200), "c1 .* must be at most 1"),
    (lambda: galu.noisy_clusters(50, 2, 2, 1e308), "sigma_y have sizes"),
    (lambda: galu.initial_gradients([[1e-200, 0.0]], [1.0], [[1e-200, 0.0]]), "X have sizes"),
)
