"""The bound on the margins of deep gated networks: valid, tight where it can be, and for one layer the optimum."""

import itertools
from fractions import Fraction

import cvxpy as cp
import numpy as np
import pytest
import torch

import implicit_bias as ib
from implicit_bias.extensions.best_networks import margin_bound
from implicit_bias.extensions.best_networks.depth import _gates
from implicit_bias.extensions.galu import GaLUNetwork
from tests.cases import assert_refused, inputs, random
from tests.fuzz.exact_layers import semidefinite

X = inputs(n=12, d=4)
Y = np.where(X[:, 0] > 0, 1.0, -1.0)


def gln(*layers):
    gates = [ib.HyperplaneGates(units, contexts, seed=s).fit(X) for s, (units, contexts) in enumerate(layers)]
    network = ib.GatedLinearNetwork(gates).double()
    network.readout.bias.data.zero_()
    return network


DEEP = {
    "gln": lambda: gln((2, 2), (2, 2)),
    "four contexts": lambda: gln((2, 2), (2, 4)),
    "three gated layers": lambda: gln((2, 2), (2, 2), (2, 2)),
    "relu": lambda: ib.ReLUNetwork(4, [8, 6], seed=2).double(),
    "frozen relu": lambda: ib.FrozenReLUNetwork(4, [8, 6], seed=2).double(),
}
every_network = pytest.mark.parametrize("name", DEEP)


def paths(network, X):
    """Return the gates of all paths, shape (n, paths, outer contexts, contexts)."""
    outer, first = _gates(network, X)
    return np.einsum("nje,nhc->njhec", outer, first).reshape(len(X), -1, outer.shape[2], first.shape[2])


@pytest.mark.parametrize("contexts", [2, 4])
def test_of_one_layer_it_is_the_margin_problem_s_optimum(contexts):
    network = gln((3, contexts))
    bound = margin_bound(network, X, Y, tol=1e-6)
    known = ib.solve(ib.svm_gln(X, Y, network.gates()))
    assert bound.lower_bound == pytest.approx(known.objective, rel=1e-5)
    assert bound.objective == pytest.approx(known.objective, rel=1e-5)
    relu = ib.FrozenReLUNetwork(4, 6)
    known = ib.solve(ib.svm_lc(X, Y, relu))
    assert margin_bound(relu, X, Y, tol=1e-6).lower_bound == pytest.approx(known.objective, rel=1e-5)


@every_network
def test_no_weights_have_larger_margins(name):
    """Σ_i λ_i y_i f(x_i) ≤ (‖w‖²/L)^{L/2} for random weights and for limits, one of which has a ratio below 2."""
    network = DEEP[name]()
    bound = margin_bound(network, X, Y, tol=1e-3)
    assert bound.dual.sum() == pytest.approx(bound.lower_bound, rel=1e-9)
    assert 0 <= bound.objective / bound.lower_bound - 1 <= 2e-3
    frozen = network.freeze() if isinstance(network, ib.ReLUNetwork) else network
    best = np.inf
    for seed in range(2):
        generator = torch.Generator().manual_seed(seed)
        for weight in frozen.parameters():
            weight.data = torch.randn(weight.shape, generator=generator, dtype=torch.float64)
        if isinstance(frozen, ib.GatedLinearNetwork):
            frozen.readout.bias.data.zero_()
        margins = Y * frozen.decision_function(X)
        size = (frozen.norm() ** 2 / bound.degree) ** (bound.degree / 2)
        assert bound.dual @ margins <= size
        ib.descend_to_limit(frozen, X, Y, ib.LossScaled(tolerance=0.02, max_steps=1500))
        best = min(best, bound.ratio(frozen, X, Y))
    assert 1 <= best < 2


@pytest.mark.parametrize(("name", "scale"), [(name, (1.0, 1e-9)[i % 2]) for i, name in enumerate(DEEP)])
def test_it_holds_in_rational_arithmetic(name, scale):
    """(Σλ)² I − B² G_pG_pᵀ ⪰ 0 for every path p, exactly: no ‖G_p‖ exceeds Σλ/B."""
    network = DEEP[name]()
    bound = margin_bound(network, scale * X, Y, tol=1e-3)
    dual, samples = np.vectorize(Fraction)(bound.dual * Y), np.vectorize(Fraction)(scale * X)
    limit, gates = (sum(abs(dual)) / Fraction(bound.lower_bound)) ** 2, paths(network, scale * X).astype(int)
    for p in range(gates.shape[1]):
        G = sum(dual[i] * np.einsum("ec,d->ecd", gates[i, p], samples[i]) for i in range(len(X)))
        G = G.reshape(len(G), -1)
        assert semidefinite(limit * np.eye(len(G), dtype=int) - G @ G.T)


@pytest.mark.parametrize("name", ["gln", "four contexts", "frozen relu"])
def test_for_two_gated_layers_weights_cannot_prove_more(name):
    """One path with the singular vectors of its G_p attains Σ_i λ_i y_i f(x_i) = max_p ‖G_p‖ (‖w‖²/L)^{L/2}."""
    network = DEEP[name]()
    bound = margin_bound(network, X, Y)
    G = np.einsum("n,njec,nd->jecd", bound.dual * Y, paths(network, X), X)
    G = G.reshape(*G.shape[:2], -1)
    values = np.linalg.svd(G)[1][:, 0]
    assert values.max() == pytest.approx(1.0, rel=1e-9)
    best = int(values.argmax())
    left, _, right = np.linalg.svd(G[best])
    if isinstance(network, ib.GatedLinearNetwork):
        (units, contexts), (_, outer) = network.shape
        first, second, readout = network.hidden_weights[0], network.hidden_weights[1], network.readout.weight
    else:
        (units, _), contexts, outer = network.units, 1, 1
        first, second, readout = network.layers
    j, h = divmod(best, units)
    with torch.no_grad():
        for weight in (first, second, readout):
            weight.zero_()
        first[h * contexts : (h + 1) * contexts] = torch.as_tensor(right[0].reshape(contexts, -1))
        second[j * outer : (j + 1) * outer, h] = torch.as_tensor(left[:, 0])
        readout[0, j] = 1.0
    assert network.norm() ** 2 == pytest.approx(3.0)
    assert bound.dual @ (Y * network.decision_function(X)) == pytest.approx(1.0, rel=1e-9)


@every_network
def test_the_relaxed_problem_is_that_of_nuclear_norms(name):
    network = DEEP[name]()
    gates = paths(network, X)
    count, outer, contexts = gates.shape[1:]
    blocks = [cp.Variable((outer, contexts * 4)) for _ in range(count)]
    features = np.einsum("njec,nd->njecd", gates, X).reshape(len(X), count, -1)
    outputs = sum(features[:, j] @ cp.vec(block, order="C") for j, block in enumerate(blocks))
    objective = cp.Minimize(sum(cp.normNuc(block) for block in blocks))
    value = cp.Problem(objective, [cp.multiply(Y, outputs) >= 1]).solve(solver="CLARABEL")
    bound = margin_bound(network, X, Y, tol=1e-4)
    assert bound.lower_bound <= value * (1 + 1e-6)
    assert bound.objective == pytest.approx(value, rel=2e-4)
    assert (Y * bound.decision_function(network, X)).min() == pytest.approx(1.0, rel=1e-6)
    nuclear = np.linalg.norm(bound.weights.reshape(count, outer, -1), "nuc", axis=(1, 2)).sum()
    assert nuclear <= bound.objective * (1 + 1e-6)


def test_outputs_are_sums_over_paths():
    """Outputs are f_w = Σ_p ⟨ζ_p, g_p ⊗ x⟩ with the outer products ζ_p of the layers' weights."""
    network = gln((2, 2), (3, 2))
    first, second = (w.detach().numpy() for w in network.hidden_weights)
    readout = network.readout.weight.detach().numpy()[0]
    zeta = np.einsum("j,jeh,hcd->jhecd", readout, second.reshape(3, 2, 2), first.reshape(2, 2, 4))
    outputs = np.einsum("njec,jecd,nd->n", paths(network, X), zeta.reshape(-1, 2, 2, 4), X)
    np.testing.assert_allclose(outputs, network.decision_function(X), rtol=1e-9, atol=1e-12)
    assert len(list(itertools.product(range(3), range(2)))) == paths(network, X).shape[1]


def test_samples_that_cannot_be_separated_have_no_bound():
    assert margin_bound(gln((2, 2), (2, 2)), np.vstack([X, X]), np.r_[Y, -Y]) is None


def test_bad_input():
    assert_refused(lambda: margin_bound(GaLUNetwork(4, [2, 2]), X, Y), "GLN or a ReLU network")
    assert_refused(lambda: margin_bound(gln((2, 2), (2, 2)), X, Y, tol=0), "tol")
    biased = gln((2, 2), (2, 2))
    bound = margin_bound(biased, X, Y)
    biased.readout.bias.data.fill_(1.0)
    assert_refused(lambda: bound.ratio(biased, X, Y), "readout bias")
    assert bound.decision_function(biased, random(5, 4)).shape == (5,)
