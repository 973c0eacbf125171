"""Descents in the norms of two layers, and their limits against the certified optima of `svm_of_optimiser`."""

import copy

import numpy as np
import pytest
import torch
from torch import nn

import implicit_bias as ib
from implicit_bias.margin.formulations import OPTIMISERS
from implicit_bias.metrics import optimality_ratio
from implicit_bias.networks import TorchNetwork
from implicit_bias.training.homogeneous import MarginFunction
from implicit_bias.training.steepest import ProjectedDescent, SteepestDescent, TwoLayerMargins
from tests.cases import assert_refused, refusals
from tests.training.reference import X, Y, gln

GATES = gln().gates()
#: Ratios to the certified optimum below which 2000 steps of steepest descent end.
REACHED = {"gd": 1.1, "sign": 1.33, "adam": 1.36, "muon": 1.22, "muon-sign": 1.15}


def optimum(optimiser, **options):
    return ib.solve(ib.svm_of_optimiser(X, Y, GATES, optimiser, **options), tol=1e-7).lower_bound


@pytest.mark.parametrize("optimiser", [*OPTIMISERS, ("rows", "l_inf"), ("l1", "l_inf")])
def test_gradients_are_those_of_autograd(optimiser):
    """Σ λ_i ∇q_i and max_i N*(∇q_i) agree with autograd, for units with several contexts."""
    config = SteepestDescent(optimiser)
    function = MarginFunction(gln(contexts=4), X, Y, rotated=config.rotation_invariant)
    margins = TwoLayerMargins(function, config)
    q, *values = margins.evaluate(margins.start)
    np.testing.assert_allclose(q, function.margins(function.start), rtol=1e-9)
    rows = torch.func.jacrev(lambda w: margins.evaluate((w[:-4].view(4, -1), w[-4:, None]))[0])(
        torch.cat([each.flatten() for each in margins.start])
    )
    each = [margins.dual((row[:-4].view(4, -1), row[-4:, None])) for row in rows]
    assert margins.largest_gradient(margins.start, *values) == pytest.approx(max(each), rel=1e-6)
    shares = torch.softmax(-q, 0)
    found = torch.cat([part.flatten() for part in margins.gradient(shares, margins.start, *values)])
    torch.testing.assert_close(found, shares @ rows)


@pytest.mark.parametrize("optimiser", OPTIMISERS)
def test_steepest_descent_moves_no_margin_by_more_than_its_step(optimiser):
    """Margins change by at most s to first order, and the certified ratio falls towards 1 from above."""
    config = SteepestDescent(optimiser, step=0.3, max_steps=2000)
    network, seen = gln(), []
    problem = ib.svm_of_optimiser(X, Y, GATES, optimiser)
    bound = optimum(optimiser)
    table = ib.descend_to_limit(network, X, Y, config).table
    own = 1 / (table.normalised_margin * bound)
    positive = table.margin > 0
    assert (own[positive] >= 1 - 1e-6).all()
    assert (table.ratio >= own * (1 - 1e-6))[positive].all()
    assert own.iloc[-1] < REACHED[optimiser]
    assert table.residual.iloc[-1] < 0.1 * table.residual.iloc[0]
    assert 1 - 1e-6 <= optimality_ratio(problem, network.effective_weights(), bound) <= own.iloc[-1] * (1 + 1e-9)
    network = gln()
    limited = SteepestDescent(optimiser, step=0.01, momentum=0.0, max_steps=1)
    if optimiser != "adam":
        for _ in range(5):
            seen.append(Y * network.decision_function(X))
            ib.descend_to_limit(network, X, Y, limited)
            seen[-1] = np.abs(Y * network.decision_function(X) - seen[-1]).max()
        # The bilinear part of a step is of second order; the readout's bias is set to 0 in the first step.
        assert max(seen[1:]) <= 0.011
        assert max(seen[1:]) > 0.001


def test_weights_grow_like_the_root_of_time_with_two_layers_and_like_time_with_one():
    """Steps that move margins by s: N(θ) ∝ t^{1/L}, so that the rate is ∝ t^{−(L−1)/L}."""
    linear = nn.Linear(12, 3, bias=False).double()
    linear.weight.data.zero_()[0, 0] = 1e-3
    classes = np.digitize(X[:, 0], [-0.5, 0.5])
    for make, y, growth in ((gln, Y, 2.0), (lambda: TorchNetwork(copy.deepcopy(linear), 12), classes, 4.0)):
        ends = [
            ib.descend_to_limit(make(), X, y, SteepestDescent("muon", max_steps=steps)).table.norm.iloc[-1]
            for steps in (500, 2000)
        ]
        assert ends[1] / ends[0] == pytest.approx(growth, rel=0.05)


@pytest.mark.parametrize("optimiser", [*OPTIMISERS, ("rows", "l_inf"), ("entries", "l2")])
def test_projected_descent_reaches_the_certified_optimum(optimiser):
    network = gln()
    result = ib.descend_to_limit(network, X, Y, ProjectedDescent(optimiser, tolerance=5e-3, max_steps=20_000))
    own = 1 / (result.table.normalised_margin.iloc[-1] * optimum(optimiser))
    assert result.end == "converged"
    assert 1 - 1e-6 <= own <= result.table.ratio.iloc[-1] <= 1.005
    assert result.table.residual.iloc[-1] < 0.005
    last = result.table.iloc[-1]
    assert last.margin == pytest.approx((Y * network.decision_function(X)).min(), rel=1e-9)
    assert last["norm"] ** 2 * last.normalised_margin == pytest.approx(last.margin, rel=1e-9)


@pytest.mark.parametrize(
    ("optimiser", "norm"),
    [("gd", "frobenius"), ("sign", "entries"), ("muon", "spectral"), (("l1", "l_inf"), "l1")],
)
def test_linear_networks_of_several_classes_reach_the_certified_optimum(optimiser, norm):
    """No margin moves by more than s, and both descents approach the optimum in the norm of W, for large inputs."""
    inputs, classes = 1e3 * X[:30], np.digitize(X[:30, 0], [-0.5, 0.5])
    bound = ib.solve(ib.svm_classes(inputs, classes, ib.ConstantGate(), norm=norm), tol=1e-7).lower_bound
    module = nn.Linear(12, 3, bias=False).double()
    module.weight.data = torch.as_tensor(1e-4 * np.random.default_rng(0).normal(size=(3, 12)))
    network = TorchNetwork(module, 12)
    before = network.decision_function(inputs)
    ib.descend_to_limit(network, inputs, classes, SteepestDescent(optimiser, step=0.3, momentum=0.0, max_steps=1))
    moved = network.decision_function(inputs) - before
    changes = np.abs(moved[np.arange(30), classes][:, None] - moved)
    assert 0.03 < changes.max() <= 0.3 * (1 + 1e-9)
    for config, most in (
        (SteepestDescent(optimiser, step=0.3, max_steps=2000), 1.2),
        (ProjectedDescent(optimiser, 5e-3), 1.005),
    ):
        table = ib.descend_to_limit(network, inputs, classes, config).table
        own = 1 / (table.normalised_margin.iloc[-1] * bound)
        assert 1 - 1e-6 <= own <= table.ratio.iloc[-1] * (1 + 1e-9)
        assert own <= most
    scores = network.decision_function(inputs)
    least = np.partition(scores[np.arange(30), classes][:, None] - scores, 1, axis=1)[:, 1].min()
    assert table.margin.iloc[-1] == pytest.approx(least, rel=1e-9)
    if norm == "frobenius":
        found = ib.stationarity(network, inputs, classes)
        assert [found.margin * bound, found.dual.sum() / bound, found.residual] == pytest.approx([1, 1, 0], abs=0.03)


@pytest.mark.parametrize(
    ("optimiser", "changes"), [("gd", False), ("muon", False), ("sign", True), ("muon-sign", True)]
)
def test_duplicated_units_change_what_max_norms_of_the_readout_learn(optimiser, changes):
    """Four copies of a unit: the limit solves the problem with multiplicities, which GD and Muon do not see."""
    copies = [0, 1, 2, 3, 3, 3, 3]
    planes = GATES.directions_[copies], GATES.cutoffs_[copies]
    network = ib.GatedLinearNetwork(
        ib.HyperplaneGates(7, 2).restore(n_features_in_=12, directions_=planes[0], cutoffs_=planes[1])
    )
    result = ib.descend_to_limit(network, X, Y, ProjectedDescent(optimiser, tolerance=5e-3, max_steps=20_000))
    each = network.effective_weights().reshape(7, 2, -1)
    W = np.concatenate([each[np.equal(copies, unit)].sum(0) for unit in range(4)])
    once, often = (ib.svm_of_optimiser(X, Y, GATES, optimiser, multiplicities=m) for m in (1, [1, 1, 1, 4]))
    bounds = [ib.solve(problem, tol=1e-7).lower_bound for problem in (once, often)]
    assert result.end == "converged"
    assert 1 - 1e-6 <= optimality_ratio(often, W, bounds[1]) <= 1.005
    assert (optimality_ratio(once, W, bounds[0]) > 1.05) == changes


def test_weights_outside_the_span_of_the_inputs_count():
    """With fewer samples than inputs, the norm is that of all weights."""
    network = gln()
    row = ib.descend_to_limit(network, X[:6], Y[:6], SteepestDescent("muon", max_steps=3)).table.iloc[-1]
    hidden = network.hidden_weights[0].detach().numpy().reshape(4, -1)
    v = network.readout.weight.detach().numpy()
    assert row["norm"] == pytest.approx(max(np.linalg.norm(hidden, 2), np.linalg.norm(v)), rel=1e-9)
    assert isinstance(ib.svm_of_optimiser(X, Y, GATES, "muon").norm, ib.TwoLayerNorm)


class StraightThrough(nn.Module):
    """ReLU with the gradient of the identity."""

    def forward(self, X):
        return X + (X.relu() - X).detach()


def test_learned_gates_descend_without_a_theorem():
    layers = nn.Linear(12, 8, bias=False), nn.ReLU(), nn.Linear(8, 1, bias=False)
    network = TorchNetwork(nn.Sequential(*layers), 12)
    table = ib.descend_to_limit(network, X, Y, SteepestDescent("muon", step=0.3, max_steps=500)).table
    assert table.margin.iloc[-1] > 0 > table.margin.iloc[0]
    assert TorchNetwork(nn.Sequential(layers[0], nn.LeakyReLU(), layers[2]), 12).one_layer(X) is None
    assert TorchNetwork(nn.Sequential(layers[0], StraightThrough(), layers[2]), 12).one_layer(X) is None
    frozen, before = TorchNetwork(nn.Sequential(*layers), 12), layers[2].weight.detach().clone()
    assert frozen.one_layer(X) is not None
    layers[2].weight.requires_grad_(False)
    ib.train(frozen, X, Y, ib.SGD(20, len(X)))
    assert torch.equal(layers[2].weight, before)


def test_units_that_are_closed_for_all_samples_stay_where_they_are():
    network = ib.ReLUNetwork(12, 3)
    network.layers[0].data = -network.layers[0].data.abs()
    before = network.effective_weights()
    table = ib.descend_to_limit(network, abs(X), Y, SteepestDescent("sign", max_steps=5)).table
    assert table.step.iloc[-1] == 5
    assert network.effective_weights() == pytest.approx(before)
    assert_refused(lambda: ib.descend_to_limit(network.freeze(), abs(X), Y, ProjectedDescent("muon")), "gates are 0")


test_bad_input = refusals(
    (lambda: SteepestDescent("lamb"), "unknown optimiser"),
    (lambda: SteepestDescent(("l1", "l2")), "not convex"),
    (lambda: SteepestDescent("sign", decay=-0.25), "above the rate 1/√t"),
    (lambda: SteepestDescent("sign", momentum=1.0), "momentum"),
    (lambda: SteepestDescent("sign", step=0), "step"),
    (lambda: ProjectedDescent("muon", tolerance=0), "tolerance"),
    (lambda: ib.descend_to_limit(ib.ReLUNetwork(12, 3), X, Y, ProjectedDescent("muon")), "fixed gates"),
    (lambda: ib.descend_to_limit(ib.ReLUNetwork(12, [3, 3]), X, Y, SteepestDescent("muon")), "two trained"),
    (lambda: ib.descend_to_limit(ib.ReLUNetwork(12, 3, outputs=3), X, Y > 0, SteepestDescent("gd")), "one linear"),
)
