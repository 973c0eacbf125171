"""The theorems on GaLU: the scripts of their errata, and what is refused."""

import re
import runpy

import numpy as np
import pytest

from implicit_bias import GatedFeatures, InputError, KernelFeatures
from implicit_bias.extensions.galu import (
    a_priori_rate,
    cluster_dimension,
    cluster_samples,
    cluster_width,
    corollary_samples,
    descent_rate,
    descent_target,
    expected_loss,
    expected_test_loss,
    expected_train_loss,
    first_gradient_norm,
    fitted_samples,
    galu_excess,
    gate_kernel,
    gaussian_gradient,
    generalisation_bound,
    generalisation_bound_a_priori,
    initial_gradients,
    landscape,
    linear_clusters,
    memorisation_width,
    moved_gates,
    neighbouring_gates,
    neumann_inverse,
    noisy_clusters,
    orthogonal_inverse,
    parity,
    parity_gradient,
    rademacher_bound,
    rkhs_bound,
    separable,
    slab_probability,
    sphere_width,
)
from tests import ROOT
from tests.cases import unit

# The scripts of the errata


def printed(name, capsys):
    """The numbers in each line of what a script prints."""
    runpy.run_path(str(ROOT / "docs" / "errata" / f"galu_{name}.py"))
    lines = capsys.readouterr().out.splitlines()
    return [[float(number) for number in re.findall(r"\d+\.\d+(?:e-\d+)?", line)] for line in lines]


def test_the_script_on_the_kernel(capsys):
    (sampled,), (ours,), (raw,) = printed("kernel", capsys)
    assert sampled == pytest.approx(ours, abs=2e-4)
    assert abs(raw - sampled) > 0.01


def test_the_script_on_descent(capsys):
    _, first, middle, last = printed("descent", capsys)
    assert first[0] == first[1]
    assert middle[0] > middle[1]
    assert last[0] > 1e5 * last[1]
    assert all(ours <= bound for *_, ours, bound in (first, middle, last))


def test_the_script_on_the_inverse(capsys):
    ours, with_d = zip(*printed("inverse", capsys), strict=True)
    assert not any(ours)
    assert [error > 0.5 for error in with_d] == [False, True, True]


def test_the_script_on_the_losses(capsys):
    (_, fitted), diverged, corollary = printed("loss", capsys)
    assert fitted < 10
    assert diverged[-1] > 9
    assert corollary == [0.5, 0.125, 0.8]


def test_the_script_on_steps_of_proofs(capsys):
    *_, hoeffding, small, large, triangle, lemma_4, lemma_5 = printed("proofs", capsys)
    one_tail, both = hoeffding[1:]
    assert both == pytest.approx(2 * one_tail, abs=1e-3)
    for M, anywhere, in_the_ball, stated in (small, large):
        assert (anywhere > stated) == (M < 0.5**0.5)
        assert in_the_ball < stated
    assert triangle[0] > 1
    assert lemma_4[0] > 0 == lemma_4[1]
    assert lemma_5[3] < lemma_5[1] < lemma_5[2]


# Refusals


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: gate_kernel([[1.0]], [[0.0]]), "row 0 of Z is zero"),
        (lambda: gate_kernel([[1.0]], [[1e70]]), "rows of Z have sizes"),
        (lambda: gate_kernel([[1.0]], [[1.0, 0.0]]), "X has 1 columns and Z has 2"),
        (lambda: memorisation_width([[1.0], [0.0]]), "row 1 of X is zero"),
        (lambda: memorisation_width([[np.nan]]), "NaN"),
        (lambda: memorisation_width([[1.0]], 1.0), "delta must be a number strictly between 0 and 1, not 1.0"),
        (lambda: memorisation_width([[1.0]], True), "delta must be a number"),
        (lambda: memorisation_width([[1.0]], 1e-200), r"strictly between 0 and 1 \(at least 1e-100\)"),
        (lambda: expected_test_loss(10, 2, 1e200), "sigma have sizes"),
        (lambda: generalisation_bound(GatedFeatures([[1.0]]), [0.0], [[1e200]], 1.0), "outputs .* have sizes"),
        (lambda: orthogonal_inverse(10**6), "the inverse would hold"),
        (lambda: a_priori_rate(unit(4, 3), 1), "k = 1 gates are too few for a rate in advance; take more than"),
        (lambda: a_priori_rate(unit(4, 3), 0), "k must be a whole number"),
        (lambda: descent_rate(GatedFeatures([[0.0]])), "all zero"),
        (lambda: descent_rate(GatedFeatures([[1.0]])).steps(0), "share must be"),
        (lambda: descent_target(GatedFeatures([[1.0]]), [1.0], [[np.inf]]), "w0 holds NaN"),
        (lambda: descent_target(GatedFeatures([[1.0]]), [1.0], [1.0]), r"w0 must have shape \(1, 1\)"),
        (lambda: descent_target(GatedFeatures([[1.0]]), [1.0, 2.0], [[1.0]]), "y must have shape"),
        (lambda: expected_test_loss(10, 2, 0), "sigma must be a positive"),
        (lambda: generalisation_bound(GatedFeatures([[2.0]]), [1.0], [[1.0]], 1.0), "length at most 1"),
        (lambda: generalisation_bound(GatedFeatures([[1.0]], [[-2.0]]), [1.0], [[1.0]], 1.0), "gate values"),
        (lambda: generalisation_bound(GatedFeatures([[1.0]]), [2.0], [[1.0]], 1.0), "y reaches 2, beyond label_bound"),
        (lambda: generalisation_bound(GatedFeatures([[1.0]]), [1.0], [[np.nan]], 1.0), "weights hold NaN"),
        (lambda: generalisation_bound(GatedFeatures([[1.0]]), [1.0, 1.0], [[1.0]], 1.0), "2 labels for 1 samples"),
        (lambda: generalisation_bound_a_priori([[1.0]], [1.0], -1.0), "label_bound must be a positive"),
        (lambda: neighbouring_gates(1, 5, 0.1), "d must be a whole number of at least 2"),
        (lambda: neighbouring_gates(3, 5, 1.5), "epsilon must be"),
        (lambda: moved_gates(3, 5, 0.0), "epsilon must be a positive"),
        (lambda: moved_gates(3, 0, 0.1), "k must be"),
        (lambda: galu_excess([[2.0]], [[1.0]], [[1.0]], [1.0]), "length at most 1, not 2"),
        (lambda: galu_excess([[1.0]], [[1.0]], [[1.0], [1.0]], [1.0]), r"one shape \(k, 1\)"),
        (lambda: galu_excess([[1.0]], [[1.0]], [[1.0]], [1.0, 1.0]), "readout must have 1 numbers"),
        (lambda: galu_excess([[1.0]], [[1.0]], [[1.0]], [1.0], lipschitz=0), "lipschitz must be"),
        (lambda: cluster_width([[0.0, 0.0]]), "row 0 of centres is zero"),
        (lambda: cluster_width([[1.0, 0.0], [2.0, 0.0]]), "centres share a direction"),
        (lambda: cluster_samples(0, 3, 0.1), "n must be"),
        (lambda: cluster_dimension(3, 2), "delta must be"),
        (lambda: slab_probability(1, 0.5), "d must be a whole number of at least 2"),
        (lambda: sphere_width([[2.0]]), "row 0 of X has length 2"),
        (lambda: sphere_width([[1.0], [1.0]]), "parallel or more than"),
        (lambda: fitted_samples([[1.0], [0.0]], 5), "row 1 of X is zero"),
        (lambda: fitted_samples([[1.0]], 0), "k must be"),
        (lambda: corollary_samples(10, 2, 0.5, 0.001), "c2 d² must be larger"),
        (lambda: rkhs_bound([[2.0]], [1.0], 1.0), "length at most 1, not 2"),
        (lambda: rkhs_bound([[1.0]], [2.0], 1.0), "labels from −1 to 1, and y reaches 2"),
        (lambda: rkhs_bound([[1.0]], [1.0], 1.0), "which need 1.41421; give a larger M"),
        (lambda: rkhs_bound([[1.0]], [0.0], 1e-80), "more than 1e80 gates"),
        (lambda: rademacher_bound([[1.0]], 1.0, 3), "p must be at most 2"),
        (lambda: rademacher_bound([[1.0]], -1.0, 2), "radius must be"),
        (lambda: expected_train_loss(0, 2), "m must be"),
        (lambda: first_gradient_norm([[1.0]], [2.0], 3), "must hold −1 and"),
        (lambda: landscape(GatedFeatures([[1.0]]), [1.0], [[np.nan]], [1.0]), "weights hold NaN"),
        (lambda: landscape(GatedFeatures([[1.0]]), [1.0], [[1.0]], [1.0, 2.0]), "readout must have 1 numbers"),
        (lambda: linear_clusters(5, [[1.0]], 0.1), "d ≥ 2 inputs"),
        (lambda: linear_clusters(5, np.eye(2), 2.5), "radius of at most 2"),
        (lambda: linear_clusters(5, np.eye(2), 0.1, shares=[1.0, 0.0]), "shares must be 2 positive"),
        (lambda: orthogonal_inverse(0), "n must be"),
        (lambda: neumann_inverse([[1.0]], [[3.0]]), "needs less than 1"),
        (lambda: neumann_inverse([[0.0]], [[3.0]]), "A has no inverse"),
        (lambda: neumann_inverse([[1.0, 2.0]], [[3.0, 1.0]]), "must be square"),
        (lambda: neumann_inverse([[1.0]], [[1.0]], 0), "terms must be"),
        (lambda: initial_gradients([[1.0]], [2.0], [[1.0]]), "must hold −1 and"),
        (lambda: initial_gradients([[1.0]], [1.0], [[1.0, 2.0]]), "directions must have the 1 columns"),
        (lambda: initial_gradients([[1.0]], [1.0], [[1.0]], [1.0, 2.0]), "readout must have 1 numbers"),
        (lambda: initial_gradients([[1.0]], [1.0], [[1.0]], loss="square"), "unknown loss 'square'; known: hinge"),
        (lambda: gaussian_gradient([0.0, 0.0]), "target is all zeros"),
        (lambda: parity_gradient(np.ones(21), 2), "at most 20"),
        (lambda: parity_gradient([1.0, 1.0], 3), "bits must be at most d = 2"),
        (lambda: noisy_clusters(5, 2, 2, -0.1), "sigma_x must be a number of at least 0"),
        (lambda: noisy_clusters(5, 2, 2, sigma_y="a"), "sigma_y must be"),
        (lambda: noisy_clusters(5, 2, 2, sigma_y=0.1, flip=0.1), "not both"),
        (lambda: noisy_clusters(5, 2, 2, flip=2), "flip must be a number from 0 to 1"),
        (lambda: noisy_clusters(10**9, 2, 10**3), "the samples would hold"),
        (lambda: separable(5, 2, 100), "margin must be at most 35"),
        (lambda: parity(5, 2, 3), "bits must be at most d = 2"),
    ],
)
def test_bad_input_is_refused(call, words):
    with pytest.raises(InputError, match=words):
        call()


# Found by tests/fuzz/reliability.py


def test_descent_whose_rate_is_1_up_to_rounding():
    found = descent_rate(GatedFeatures([[1.0, 0.0], [0.0, 5e-9]]))
    assert found.rate == 1.0
    assert found.steps(0.5) == pytest.approx(np.log(2) * 4e16, rel=1e-6)


@pytest.mark.parametrize(
    "call",
    [
        lambda: expected_loss(np.eye(2)),
        lambda: expected_loss(KernelFeatures(np.ones((2, 1, 1)))),
        lambda: descent_rate("features"),
        lambda: descent_rate(GatedFeatures([[1e200]])),
        lambda: descent_target(np.eye(2), [1.0, 1.0], [[1.0, 1.0]]),
        lambda: generalisation_bound(np.eye(2), [1.0, 1.0], [[1.0, 1.0]], 1.0),
        lambda: descent_rate(GatedFeatures(np.eye(2))).steps(10**400),
        lambda: memorisation_width(np.eye(2), 10**400),
        lambda: memorisation_width(np.eye(2)).failure(10**400),
        lambda: a_priori_rate(np.eye(2), 10**400),
        lambda: expected_test_loss(10**400, 2),
        lambda: moved_gates(3, 10**400, 0.1),
        lambda: galu_excess([[1.0]], [[1.0]], [[1e200]], [1.0]),
        lambda: landscape("features", [1.0], [[1.0]], [1.0]),
        lambda: rademacher_bound("features", 1.0, 2),
        lambda: linear_clusters(10**12, np.eye(2), 0.1),
        lambda: neumann_inverse([[1e300]], [[1e300]]),
        lambda: galu_excess([[1.0]], [[1.0]], [[2.0]], [1.0], lipschitz=1e300),
        lambda: landscape(GatedFeatures([[1.0]]), [1.0], [[1e200]], [1.0]),
        lambda: landscape(GatedFeatures([[1.0]]), [1.0], [[1e300]], [1e300]),
        lambda: rkhs_bound([[1.0]], [0.5], 1e200),
        lambda: corollary_samples(5, 3, 1e200, 1e200),
        lambda: noisy_clusters(50, 2, 2, 1e308),
        lambda: noisy_clusters(50, 2, 2, sigma_y=1e308),
        lambda: initial_gradients([[1e200, 1e200]], [1.0], [[1e200, -1e199]]),
        lambda: initial_gradients([[1e-200, 0.0]], [1.0], [[1e-200, 0.0]]),
    ],
)
@pytest.mark.filterwarnings("error")
def test_odd_input_is_refused(call):
    with pytest.raises(InputError):
        call()
