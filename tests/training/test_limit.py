"""Descent to the limit: its objective, its certified end, and how it ends."""

import math
from dataclasses import replace
from itertools import cycle

import numpy as np
import pandas as pd
import pytest
import torch

import implicit_bias as ib
from implicit_bias.extensions.galu import GaLU0Network, GaLUNetwork
from implicit_bias.metrics import alignment, inconsistency, optimality_ratio
from implicit_bias.networks import GatedNetwork
from implicit_bias.training.homogeneous import MarginFunction
from implicit_bias.training.iterations import LossScaled, PlainDescent, ScaledIteration
from implicit_bias.training.limit import descend_to_limit
from implicit_bias.training.losses import log_sum_exp
from implicit_bias.training.one_layer import SpanFunction, WeightFunction, values_at
from implicit_bias.training.result import TrainingResult
from implicit_bias.training.stationarity import stationarity
from implicit_bias.training.steepest import ProjectedDescent, SteepestDescent
from tests.cases import assert_refused, interrupt, refusals
from tests.training.reference import X, Y, gln, torch_training


def linear(d=X):
    return gln(d, 1, 1, readout=False)


NETWORKS = {
    "gln": gln,
    "deep gln": lambda: ib.GatedLinearNetwork([ib.HyperplaneGates(4, 2, seed=s).fit(X) for s in (1, 2)]),
    "many contexts": lambda: gln(units=2, contexts=32),
    "linear": linear,
    "relu": lambda: ib.ReLUNetwork(12, 8),
    "frozen": lambda: ib.FrozenReLUNetwork(12, 8),
    "deep relu": lambda: ib.ReLUNetwork(12, [8, 6]),
}


def glns():
    return ib.ParallelNetwork([gln(seed=seed) for seed in range(3)])


#: Networks of three outputs.
CLASSES = {
    "gln": lambda: gln(outputs=3),
    "four contexts": lambda: gln(units=3, contexts=4, outputs=3),
    "relu": lambda: ib.ReLUNetwork(12, 8, outputs=3),
    "frozen": lambda: ib.FrozenReLUNetwork(12, 8, outputs=3),
    "soft gates": lambda: GaLU0Network(12, 4, sharpness=2.0, outputs=3),
    "parallel glns": glns,
    "parallel relus": lambda: ib.ParallelNetwork([ib.ReLUNetwork(12, units, seed=units) for units in (3, 4, 5)]),
}
PARALLEL = ("parallel glns", "parallel relus")
LABELS = X[:, :3].argmax(axis=1)


@pytest.fixture(params=NETWORKS)
def network(request):
    return NETWORKS[request.param]()


def problem_of(network, x=X, y=Y):
    is_gln = isinstance(network, ib.GatedLinearNetwork)
    return ib.svm_gln(x, y, network.gates()) if is_gln else ib.svm_lc(x, y, network)


def ratio_of(network, problem, bound):
    return optimality_ratio(problem, network.effective_weights(), bound)


def flat(network):
    return torch.cat([p.detach().flatten() for p in network.parameters()])


def test_log_sum_exp_is_stable():
    margins = torch.tensor([1e4, 1e4 + 1, -1e4, 1e300], dtype=torch.float64, requires_grad=True)
    value = log_sum_exp(margins)
    value.backward()
    assert value.item() == 1e4
    torch.testing.assert_close(margins.grad, torch.tensor([0.0, 0.0, -1.0, 0.0]).double())
    assert float(log_sum_exp(torch.full((60,), 1e4))) == pytest.approx(math.log(60) - 1e4)


@pytest.mark.parametrize(("name", "scale"), list(zip(NETWORKS, cycle((1.0, 40.0)), strict=False)))
def test_gradient_is_that_of_the_mean_under_the_softmax(name, scale):
    """∇ log Σ e^{−q_i} = −Σ p_i ∇q_i with p = softmax(−q), for margins of any size and inputs rotated to their rank."""
    network = NETWORKS[name]().double()
    with torch.no_grad():
        for p in network.parameters():
            p *= scale
    samples = MarginFunction(network, X, Y)
    _, gradient, margins = samples.gradient(samples.start, 1.0)
    np.testing.assert_allclose(margins, Y * network.decision_function(X), rtol=1e-9, atol=1e-9 * scale**2)
    weights = torch.exp(-margins - log_sum_exp(margins))
    assert float(weights.sum()) == pytest.approx(1.0, rel=1e-6)
    _, expected, _ = samples.gradient(samples.start, 1.0, lambda q: -(weights * q).sum())
    torch.testing.assert_close(gradient, expected, rtol=1e-8, atol=1e-10 * float(gradient.norm()))
    assert gradient.isfinite().all()


def test_rotated_inputs_give_the_weights_back(network):
    network.double()
    wide = np.hstack([X[:5], X[:5]])[:, : X.shape[1]]
    samples = MarginFunction(network, wide, Y[:5])
    before = flat(network)
    samples.write(samples.start)
    torch.testing.assert_close(flat(network), before, rtol=1e-12, atol=1e-13)
    samples.write(2 * samples.start)
    got = Y[:5] * network.decision_function(wide)
    np.testing.assert_allclose(got, samples.margins(2 * samples.start), atol=1e-9)


ONE_LAYER = {
    "gln": gln,
    "four contexts": lambda: gln(units=3, contexts=4),
    "relu": lambda: ib.ReLUNetwork(12, 8),
    "frozen": lambda: ib.FrozenReLUNetwork(12, 8),
    "galu": lambda: GaLUNetwork(12, 4),
    "soft gates": lambda: GaLU0Network(12, 4, sharpness=2.0),
}


KINDS = [*((ONE_LAYER, Y, kind) for kind in ONE_LAYER)]
KINDS += [(CLASSES, LABELS, kind) for kind in ("gln", "relu", *PARALLEL)]


@pytest.mark.parametrize(
    ("kinds", "y", "kind", "samples"),
    [(*kind, n) for kind, n in zip(KINDS, cycle((20, 60, 60)), strict=False)] + [(ONE_LAYER, Y, "gln", 60)],
)
def test_steps_of_one_layer_are_those_of_autograd(kinds, y, kind, samples):
    """Steps in the span or on the weights, with samples of large margins left out, follow the path of autograd."""
    network = kinds[kind]().double()
    if "relu" in kind:
        # Large from the start: with gates that learn, the norm grows late.
        for p in network.parameters():
            p.data *= 5
    function = MarginFunction(network, X[:samples], y[:samples])
    quick, plain = LossScaled().stepper(function), ScaledIteration(function, LossScaled())
    assert isinstance(quick.function, SpanFunction if samples < 2 * 12 else WeightFunction)
    fewest = samples
    for _ in range(400):
        for one in (quick, plain):
            one.step()
        fewest = min(fewest, len(quick.function.selected_y))
        assert quick.radius == pytest.approx(plain.radius, rel=1e-9)
        torch.testing.assert_close(quick.weights, plain.weights, rtol=0, atol=1e-6 * plain.radius)
    # Three outputs of few samples, or with gates that learn, have small margins all along.
    assert fewest < samples or (y is LABELS and (samples == 20 or "relu" in kind))


@pytest.mark.parametrize(("kind", "samples"), [("gln", 20), ("frozen", 60), ("relu", 60)])
def test_products_of_single_precision_keep_the_values_of_the_weights(kind, samples):
    way = SpanFunction if samples < 2 * 12 else WeightFunction
    function, off = way(MarginFunction(ONE_LAYER[kind](), X[:samples], Y[:samples]), single_from=samples), []
    stepper = ScaledIteration(function, LossScaled())
    assert function.precision is np.float32
    for _ in range(300):
        stepper.step()
        values, _ = function._split(stepper.u)
        expected = values_at(function.selected_X, function.selected_gates, function._explicit(stepper.u)[0])
        off.append(abs(values - expected).max() / abs(expected).max())
    assert 1e-12 < max(off) < 1e-5


@pytest.mark.parametrize("kind", ["gln", "frozen"])
def test_products_of_single_precision_lead_to_the_same_limit(kind):
    """Descent in single precision reaches 0.99 of the certified normalised margin."""
    network = ONE_LAYER[kind]()
    problem = problem_of(network)
    best = ib.solve(problem)
    config = LossScaled(tolerance=0.01, margin=0.99 * 0.5 / best.objective)
    function = MarginFunction(network, X, Y)
    stepper = ScaledIteration(WeightFunction(function, single_from=len(Y)), config)
    assert any(stepper.step() for _ in range(20_000))
    function.write(stepper.weights)
    assert 1 <= ratio_of(network, problem, best.lower_bound) <= 1 / 0.99 + 1e-6


@pytest.mark.parametrize("way", [SpanFunction, WeightFunction])
def test_a_step_out_of_the_ball_sees_all_samples(way):
    function = MarginFunction(gln(), X, Y)
    layer = way(function)
    parts, readout = layer._turned(function.start.numpy() / float(function.start.norm()))
    unit, _ = layer._rebase(np.arange(5), np.stack([parts, parts]), np.stack([readout, readout]))
    few = layer.loss(unit, 3.0)
    layer.ball = 1e-9
    assert layer.loss(-1.0 * unit, 3.0) == pytest.approx(function.loss(-layer.flat(unit), 3.0), rel=1e-12)
    assert few != pytest.approx(function.loss(layer.flat(unit), 3.0), rel=1e-3)


#: Far from the origin, as images are, and of directions whose sizes are far apart.
SKEWED = np.hstack([5.0 + X[:, :-1] * np.geomspace(1.0, 0.01, X.shape[1] - 1), np.ones((len(X), 1))])
FIXED = [(ONE_LAYER, Y, kind) for kind in ("gln", "four contexts", "frozen", "galu", "soft gates")]
FIXED += [(CLASSES, LABELS, kind) for kind in ("gln", "parallel glns")]


@pytest.mark.parametrize(("kinds", "y", "kind"), FIXED)
def test_preconditioned_steps_go_downhill_on_the_sphere(kinds, y, kind):
    """Every direction is tangent to the sphere, has ⟨direction, ∇F_R⟩ > 0, and its values are those of its weights."""
    function = MarginFunction(kinds[kind](), SKEWED, y)
    layer = WeightFunction(function, preconditioned=True)
    stepper = LossScaled(preconditioned=True).stepper(function)
    for _ in range(30):
        stepper.step()
        u, radius = stepper.u, stepper.radius
        _, gradient, _ = layer.gradient(u, radius)
        radial = layer.dot(gradient, u)
        tangent = layer.tangent(gradient, radial, u)
        direction = layer.direction(tangent, radial, u, radius)
        assert abs(layer.dot(direction, u)) <= 1e-12 * layer.dot(direction, direction) ** 0.5
        assert layer.dot(direction, tangent) > 0
        values, _ = layer._split(direction)
        expected = values_at(function.inputs.numpy(), layer.gates, layer._parts(direction))
        np.testing.assert_allclose(values, expected, atol=1e-9 * abs(expected).max())


@pytest.mark.parametrize("start", ["readout", "hidden"])
def test_preconditioned_descent_leaves_a_start_of_no_outputs(start):
    """Descent converges from outputs of 0, where ⟨∇F_R, u⟩ and one layer's gradient vanish."""
    network = gln()
    (network.readout.weight if start == "readout" else network.hidden_weights[0]).data.zero_()
    descent = descend_to_limit(network, X, Y, LossScaled(tolerance=0.01, max_steps=20_000, preconditioned=True))
    assert descent.end == "converged"
    assert np.isfinite(network.effective_weights()).all()


@pytest.mark.parametrize("scale", [1e-14, 1e14, 1e30, 1e99, np.geomspace(1e99, 1e-99, X.shape[1])])
def test_preconditioned_steps_of_inputs_of_any_size_are_numbers(scale):
    """Weights and losses are finite for inputs of any size, also where the curvature has rank one."""
    network = gln(scale * X)
    table = descend_to_limit(network, scale * X, Y, LossScaled(max_steps=300, preconditioned=True)).table
    assert np.isfinite(network.effective_weights()).all()
    assert np.isfinite(table.log_loss).all()
    assert table.log_loss.iloc[-1] <= table.log_loss.iloc[0]


@pytest.mark.parametrize("kind", ["gln", "four contexts", "frozen"])
def test_preconditioned_descent_ends_at_the_certified_optimum(kind):
    makers = {"gln": gln, "four contexts": lambda d: gln(d, 3, 4), "frozen": lambda d: ib.FrozenReLUNetwork(12, 8)}
    network = makers[kind](SKEWED)
    problem = problem_of(network, SKEWED)
    config = LossScaled(tolerance=0.01, max_steps=20_000, preconditioned=True)
    assert descend_to_limit(network, SKEWED, Y, config).end == "converged"
    assert 1 - 1e-9 <= ratio_of(network, problem, ib.solve(problem).lower_bound) <= 1.01


@pytest.mark.parametrize("kind", ["gln", "frozen"])
def test_preconditioned_descent_takes_half_the_steps_on_digits_and_ends_there(kind):
    task, weights, steps = ib.load_binary("digits", train_size=200), [], []
    for preconditioned in (True, False):
        network = gln(task.X_pool) if kind == "gln" else ib.FrozenReLUNetwork(task.X_train.shape[1], 8)
        config = LossScaled(tolerance=0.01, max_steps=20_000, preconditioned=preconditioned)
        descent = descend_to_limit(network, task.X_train, task.y_train, config)
        weights.append(network.effective_weights())
        steps.append(descent.table.step.iloc[-1])
    assert steps[0] <= steps[1] / 2
    assert alignment(*weights) >= 0.999


def test_linear_descent_ends_at_the_certified_svm(digits):
    problem = ib.svm_shallow(digits.X_train, digits.y_train, ib.ConstantGate())
    solution, network = ib.solve(problem), linear(digits.X_pool)
    descent = descend_to_limit(network, digits.X_train, digits.y_train)
    W = network.effective_weights()
    assert descent.end == "converged"
    assert 1 - 1e-9 <= ratio_of(network, problem, solution.lower_bound) <= 1.002
    assert alignment(W, solution.weights) >= 0.9999
    assert inconsistency(digits.X_val @ W[0], digits.X_val @ solution.weights[0]) <= 0.003


@pytest.mark.parametrize(("kind", "momentum"), [("gln", True), ("gln", False), ("frozen relu", True)])
def test_two_layers_fall_to_the_certified_optimum_from_above(digits, kind, momentum):
    network = gln(digits.X_pool)
    if kind != "gln":
        learned = ib.ReLUNetwork(65, 20, seed=1)
        ib.train(learned, digits.X_train, digits.y_train)
        network = learned.freeze()
    problem = problem_of(network, digits.X_train, digits.y_train)
    bound = ib.solve(problem).lower_bound
    config = LossScaled(momentum=momentum, max_steps=20_000 if momentum else 1500)
    measure = lambda network: {"ratio": ratio_of(network, problem, bound)}  # noqa: E731
    table = descend_to_limit(network, digits.X_train, digits.y_train, config, measure=measure).table
    assert (table.ratio >= 1 - 1e-9).all()
    assert (0.5 / bound * (1 + 1e-9) >= table.normalised_margin).all()
    finite = table.ratio[np.isfinite(table.ratio)]
    assert finite.iloc[-1] < 0.8 * finite.iloc[0]
    if momentum:
        assert finite.iloc[-1] <= 1.005


@pytest.mark.parametrize(("kind", "percent"), [("gln", 0.2), ("frozen", 5.0)])
def test_a_margin_asked_for_is_had_at_the_end_of_the_same_path(kind, percent):
    """A requested margin is attained, on the path that descent without it takes, earlier or later than its end."""
    coarse, exact = NETWORKS[kind]().double(), NETWORKS[kind]().double()
    problem = problem_of(exact)
    bound = ib.solve(problem).lower_bound
    before = descend_to_limit(coarse, X, Y, LossScaled(tolerance=0.05)).table
    asked = LossScaled(tolerance=0.05, margin=0.5 / bound / (1 + percent / 100), max_steps=20_000)
    descent = descend_to_limit(exact, X, Y, asked)
    after = descent.table
    assert descent.end == "converged"
    assert after.normalised_margin.iloc[-1] >= asked.margin
    assert ratio_of(exact, problem, bound) <= 1 + percent / 100
    enough = before.normalised_margin.iloc[-1] >= asked.margin
    assert enough == (percent == 5.0)
    same = before if enough else before.iloc[:-1]
    pd.testing.assert_frame_equal(same.drop(columns="seconds"), after.iloc[: len(same)].drop(columns="seconds"))


@pytest.mark.parametrize("kind", CLASSES)
def test_margins_of_classes_are_those_of_the_outputs(kind):
    """Margins are f_y − f_c over all c ≠ y, and plain descent lowers their loss, which gives the cross-entropy."""
    network = CLASSES[kind]().double()
    function = MarginFunction(network, X, LABELS)
    outputs = network.decision_function(X)
    own = outputs[np.arange(60), LABELS]
    expected = [own[i] - outputs[i, c] for i in range(60) for c in range(3) if c != LABELS[i]]
    np.testing.assert_allclose(function.margins(function.start), expected, rtol=1e-9, atol=1e-12)

    def cross_entropy(margins):
        return torch.log1p(torch.exp(-margins.view(60, 2)).sum(1)).mean()

    wanted = torch.nn.functional.cross_entropy(torch.as_tensor(outputs), torch.as_tensor(LABELS))
    assert float(cross_entropy(function.margins(function.start))) == pytest.approx(float(wanted), rel=1e-12)
    plain = descend_to_limit(network, X, LABELS, PlainDescent(lr=0.05, max_steps=3)).table
    assert plain.log_loss.is_monotonic_decreasing


@pytest.mark.parametrize("kind", ["own", "shared", "frozen"])
def test_several_outputs_fall_to_the_certified_optimum_from_above(kind):
    """½‖w‖² over the least margin is at least the certified bound, and at the end within 1 % of it."""
    gates = ib.HyperplaneGates(4, 2, seed=1).fit(X)
    if kind == "own":
        network = glns()
    elif kind == "frozen":
        network = ib.ReLUNetwork(12, 8, seed=1).freeze()
        gates = network.gates()
        # Three units behind each gate, as many as outputs.
        network = ib.FrozenReLUNetwork(12, 24, outputs=3)
        network.filters()[0].copy_(torch.as_tensor(np.tile(gates.directions_, (3, 1))))
    else:
        directions, cutoffs = np.tile(gates.directions_, (3, 1)), np.tile(gates.cutoffs_, 3)
        copies = ib.HyperplaneGates(12, 2).restore(n_features_in_=12, directions_=directions, cutoffs_=cutoffs)
        network = ib.GatedLinearNetwork(copies, outputs=3)
    bound = ib.solve(ib.svm_classes(X, LABELS, gates, shared=kind != "own"), tol=1e-6).lower_bound
    descent = descend_to_limit(network, X, LABELS, LossScaled(tolerance=3e-3, max_steps=20_000))
    norms = 0.5 / descent.table.normalised_margin[descent.table.normalised_margin > 0]
    assert descent.end == "converged"
    assert (norms >= bound * (1 - 1e-9)).all()
    assert norms.iloc[-1] <= 1.01 * bound


def test_the_limit_of_small_inputs_is_stationary():
    """Descent on inputs of size 1e-10 converges to a stationary point, although products of spans may round below 0."""
    rows = np.column_stack([np.random.default_rng(0).normal(size=(20, 3)), np.ones(20)])
    small, y = 1e-10 * rows, np.sign(rows[:, 0])
    network = ib.GatedLinearNetwork(ib.HyperplaneGates(2, 2).fit(small)).double()
    assert descend_to_limit(network, small, y, LossScaled(tolerance=0.05)).end == "converged"
    assert stationarity(network, small, y).residual <= 0.1


def test_a_separable_limit_is_stationary_for_every_network(network):
    descent = descend_to_limit(network, X, Y, LossScaled(max_steps=1200))
    before = flat(network)
    result = stationarity(network, X, Y)
    torch.testing.assert_close(flat(network), before, rtol=0, atol=0)
    assert (result.dual >= 0).all()
    assert (result.dual > 0).sum() <= result.support
    assert result.degree == pytest.approx(network.degree)
    assert result.margin == pytest.approx(descent.table.normalised_margin.iloc[-1], rel=1e-9)
    if not isinstance(network, ib.ReLUNetwork):
        assert result.residual <= 0.1


class TwoDegrees(GatedNetwork):
    """Network f(x) = ⟨w, x⟩ if the last input is 1, and ⟨w∘w, x⟩ if not: that of erratum 7."""

    degree = 1

    def __init__(self, w, degree=1):
        super().__init__(inputs=3)
        self.w, self.degree = torch.nn.Parameter(torch.tensor(w, dtype=torch.float64)), degree

    def forward(self, X, contexts=None):
        weights = torch.where(X[:, 2:] == 1, self.w, self.w**2)
        return (weights * X[:, :2]).sum(1)


@pytest.mark.parametrize("start", [[2.0, 1.0], [3.0, 0.5], [1.0, 4.0]])
def test_of_two_degrees_the_lowest_decides_the_limit(start):
    """Erratum 7: the limit is (1, 1)/√2, not the stationary point (2, 0) of eq. 6 on this side of u = 0."""
    x, y, network = [[1.0, 1.0, 1.0], [-0.25, 0.0, 0.0]], [1, -1], TwoDegrees(start)
    descent = descend_to_limit(network, x, y, LossScaled(tolerance=1e-4))
    assert descent.end == "converged"
    w = network.w.detach() / network.w.detach().norm()
    torch.testing.assert_close(w, torch.full((2,), 0.5**0.5).double(), rtol=1e-2, atol=0)
    assert stationarity(network, x, y, support="lowest").residual < 0.05
    assert_refused(lambda: descend_to_limit(TwoDegrees(start, degree=2), x, y), "not homogeneous of degree 2")


def test_of_two_degrees_a_margin_that_vanishes_holds_the_direction_back():
    """From u < 0, the margin u²/4 of the second sample keeps the sign of u: the direction tends to (0, 1)."""
    network = TwoDegrees([-2.0, 3.0])
    descend_to_limit(network, [[1.0, 1.0, 1.0], [-0.25, 0.0, 0.0]], [1, -1], LossScaled(tolerance=1e-3))
    u, v = (network.w.detach() / network.w.detach().norm()).tolist()
    assert -0.1 < u < 0 < v


def test_learned_gates_are_followed_across_kinks():
    """The descent with learned gates crosses kinks and ends within 30 % of the optimum behind its own gates."""
    network = ib.ReLUNetwork(12, 8)
    descent = descend_to_limit(network, X, Y, LossScaled(tolerance=0.02, max_steps=20_000))
    assert descent.end == "converged"
    problem = problem_of(network)
    assert 1 <= ratio_of(network, problem, ib.solve(problem).lower_bound) < 1.3


def test_plain_descent_is_torchs_on_all_samples():
    network, twin = gln().double(), gln().double()
    twin.readout.bias.requires_grad_(False).zero_()
    descent = descend_to_limit(network, X, Y, PlainDescent(lr=0.1, max_steps=20))
    torch_training(twin, X, Y, ib.SGD(steps=20, batch_size=60, lr=0.1, lr_factor=1.0))
    torch.testing.assert_close(flat(network), flat(twin), rtol=1e-9, atol=1e-11)
    assert descent.end == "max_steps"
    assert descent.table.step.iloc[-1] == 20


def test_plain_descent_says_that_it_diverged_before_it_is_measured():
    def measure(network):
        return {"inconsistency": inconsistency(network.decision_function(X), Y)}

    with pytest.raises(ib.InputError, match=r"plain descent diverged; use a smaller lr than 1e\+09"):
        descend_to_limit(gln(), X, Y, PlainDescent(lr=1e9), measure=measure)


every_way = pytest.mark.parametrize(
    "config", [LossScaled(1e-9), SteepestDescent("sign", tolerance=1e-12), ProjectedDescent("muon", 1e-12)]
)


@every_way
def test_ends_early_and_keeps_what_it_has(config):
    network, stop = gln(), interrupt(lambda step, seconds: step >= 100)
    descent = descend_to_limit(network, X, Y, config, progress=stop)
    assert isinstance(descent, TrainingResult)
    assert descent.end == "interrupted"
    assert descent.table.step.iloc[-1] == 100
    assert descent.table.margin.iloc[-1] == pytest.approx((Y * network.decision_function(X)).min(), rel=1e-9)
    assert descent.table.margin.iloc[-1] > descent.table.margin.iloc[0]
    brief = descend_to_limit(gln(), X, Y, replace(config, max_seconds=1e-9))
    assert brief.end == "max_seconds"
    assert brief.table.step.tolist() == [0, 1]


@every_way
def test_samples_that_cannot_be_separated_do_not_break_it(config):
    labels, doubled = np.repeat([1.0, -1.0], 30), np.vstack([X[:30], X[:30]])
    descent = descend_to_limit(gln(), doubled, labels, replace(config, max_steps=300))
    assert descent.end == "max_steps"
    assert (descent.table.margin <= 1e-9).all()
    # Bounds of the optimum and of the smoothing's cost need a positive margin.
    assert np.isinf(descent.table[[name for name in descent.table if name in ("ratio", "smoothing")]]).all(axis=None)
    assert np.isfinite(descent.table.drop(columns=["ratio", "smoothing"], errors="ignore")).all(axis=None)


def zeroed():
    network = gln()
    for p in network.parameters():
        p.data.zero_()
    return network


test_bad_input = refusals(
    (lambda: descend_to_limit("network", X, Y), "takes a GatedNetwork"),
    (lambda: descend_to_limit(gln(), X, Y, 3), "LossScaled"),
    (lambda: descend_to_limit(gln(), X, Y[:-1]), "59 labels for 60"),
    (lambda: descend_to_limit(gln(), X[:, :5], Y), "5 columns"),
    (lambda: descend_to_limit(zeroed(), X, Y), "all zero"),
    (lambda: descend_to_limit(gln(), X, Y, PlainDescent(lr=1e200)), "smaller lr"),
    *(
        (lambda kind=kind: descend_to_limit(NETWORKS[kind](), X, Y, LossScaled(preconditioned=True)), "fixed gates")
        for kind in ("relu", "deep gln", "deep relu", "linear")
    ),
    (lambda: LossScaled(tolerance=0), "tolerance"),
    (lambda: LossScaled(stationarity=1), "below 1"),
    (lambda: LossScaled(growth=1.0), "above 1"),
    (lambda: LossScaled(max_steps=0), "max_steps"),
    (lambda: LossScaled(margin=-1.0), "margin"),
    (lambda: LossScaled(max_seconds=math.nan), "max_seconds"),
    (lambda: PlainDescent(lr=-1), "lr"),
    (lambda: stationarity(gln(), X, Y), "does not separate"),
    (lambda: stationarity(zeroed(), X, Y), "norm 0"),
    (lambda: descend_to_limit(GaLUNetwork(12, 4, outputs=2), X, Y), "a class from 0 to 1"),
    (lambda: descend_to_limit(glns(), X, Y), "a class from 0 to 2"),
    (lambda: descend_to_limit(glns(), X, LABELS[1:]), "a class from 0 to 2"),
    (lambda: descend_to_limit(GaLUNetwork(12, [4, 4], sharpness=1.0), X, Y), "not homogeneous of degree 3"),
    (lambda: stationarity("network", X, Y), "torch module"),
    (lambda: stationarity(torch.nn.Linear(12, 2), X, Y), "a class from 0 to 1"),
    (lambda: stationarity(with_biases(), X, Y), "not homogeneous"),
    (lambda: stationarity(gln(), X, Y, tolerance=-1), "tolerance"),
)


def with_biases():
    network = torch.nn.Sequential(torch.nn.Linear(12, 1), torch.nn.Linear(1, 1), torch.nn.Flatten(0)).double()
    for parameter, value in zip(network.parameters(), (np.eye(1, 12), [1e-3], [[1.0]], [1e-3]), strict=True):
        parameter.data = torch.as_tensor(value, dtype=torch.float64)
    return network
