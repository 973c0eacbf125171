import numpy as np
import pytest

from implicit_bias import GatedFeatures, MarginProblem, Status, TwoLayerNorm, margin_path, solve
from implicit_bias.solvers.native.polyhedral import PolyhedralProgram
from tests.cases import assert_refused
from tests.solvers.native.shapes import SumNorm, teacher

NORMS = {
    "entries, l_inf": TwoLayerNorm([0, 1, 2, 0, 1, 2], "entries", "l_inf", [1, 2, 3]),
    "entries, l1": TwoLayerNorm([0, 1, 2, 0, 1, 2], "entries", "l1"),
    "l1, l_inf": TwoLayerNorm(range(6), "l1", "l_inf"),
    "own": SumNorm([1.0, 2.0, 0.5]),
}


@pytest.mark.parametrize("norm", NORMS)
def test_many_gates_and_few_samples(norm):
    """Gates that no sample opens, and samples with few open gates, leave columns and rows of zeros."""
    features, y = teacher(12, 6, 30, 2)
    values = features.gate_values.copy()
    values[:, 5] = 0.0
    values[0] = np.eye(6)[1]
    case = MarginProblem(GatedFeatures(features.X, values), y, NORMS[norm])
    found = solve(case, tol=1e-8)
    assert found.objective == pytest.approx(solve(case, "CLARABEL", tol=1e-8).objective, rel=2e-8)


@pytest.mark.parametrize("C", [np.inf, 0.1])
@pytest.mark.parametrize("norm", NORMS)
def test_the_start_is_an_interior_point_of_all_equations(norm, C):
    """z⁺ − z⁻ = Φᵀ(λ∘y) in a box; in a simplex z⁻ − z⁺ is twice that, and slacks of weights are equal."""
    case = MarginProblem(*teacher(12, 6, 3, 2), NORMS[norm], C)
    program = PolyhedralProgram(case, case.norm.polyhedral_form(6))
    at = program.start()
    (x, other), (z, last) = (parts[1 if program.hard else 2 :][:2] for parts in (at.x, at.z))
    assert all((part > 0).all() for part in (*at.x, *at.z))
    np.testing.assert_allclose(z - last, (-2 if program.sums else 1) * program.problem.adjoint(at.z[0]), atol=1e-15)
    np.testing.assert_array_equal(x, other)


def test_a_path_over_costs_of_slack():
    features, y = teacher(40, 6, 4, 4, 0.1)
    for one in margin_path(MarginProblem(features, y, NORMS["entries, l_inf"]), [1e-3, 1e-2, 1e-1]):
        assert one.status is Status.OPTIMAL


def test_a_wrong_form_is_refused():
    features, y = teacher(10, 4, 3, 5)
    assert_refused(lambda: MarginProblem(features, y, SumNorm([1.0, 1.0], factor=2.0)), r"polyhedral_form.*correct one")


def test_devices_are_refused():
    features, y = teacher(10, 6, 3, 5)
    assert_refused(lambda: solve(MarginProblem(features, y, NORMS["l1, l_inf"]), "NATIVE", device="cpu:0"), "cpu' only")
