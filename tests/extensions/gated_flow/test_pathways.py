"""Two trained layers: the whole flow against torch, the race of modes against the whole, and what is conserved."""

import numpy as np
import pytest
import torch

from implicit_bias.extensions.gated_flow import Pathways
from tests.cases import refusals

TIMES = [0.0, 0.5, 2.0, 6.0]
#: Pathways of their own, a first layer that is shared, and two layers that cross.
EDGES = {"own": None, "shared": [(0, 0), (0, 1), (1, 2)], "crossed": [(0, 0), (0, 1), (1, 1)]}


def decoupled(edges):
    """Return `Pathways` of three overlapping gates whose moments share singular vectors, and samples X, Y, G."""
    rng = np.random.default_rng(0)
    Q, P = (np.linalg.qr(rng.normal(size=(size, 3)))[0] for size in (4, 3))
    X, Y, G = [], [], []
    for gates in ([1, 1, 0], [0, 1, 1], [1, 0, 1], [1, 1, 1]):
        scale, goal = rng.uniform(0.5, 2.0, size=(2, 3))
        X.append(np.vstack([np.diag(scale), -np.diag(scale)]) @ P.T)
        Y.append(np.vstack([np.diag(goal), -np.diag(goal)]) @ Q.T)
        G.append(np.tile(np.array(gates, dtype=float), (6, 1)))
    return Pathways.from_samples(*map(np.concatenate, (X, Y, G)), edges=edges), [*map(np.concatenate, (X, Y, G))]


def general(edges, n=40):
    rng = np.random.default_rng(1)
    X, Y, G = rng.normal(size=(n, 3)), rng.normal(size=(n, 2)), (rng.normal(size=(n, 3)) > 0).astype(float)
    return Pathways.from_samples(X, Y, G, edges), [X, Y, G]


def drawn(paths, h=5, scale=0.5):
    (F, S), (_, o, d) = paths.layers, paths.B.shape
    rng = np.random.default_rng(2)
    return scale * rng.normal(size=(F, h, d)), scale * rng.normal(size=(S, o, h))


@pytest.mark.parametrize("edges", EDGES.values(), ids=EDGES)
def test_torch_descends_along_the_flow_of_the_whole_matrices(edges):
    """Descent by autograd on ½⟨‖y − ŷ‖²⟩ follows `network`; half the step halves the distance."""
    paths, samples = general(edges)
    X, Y, G = map(torch.tensor, samples)
    starts = drawn(paths)
    exact = [part[-1] for part in paths.network(*starts, [0.0, 2.0], tau=2.0)]
    away = []
    for steps in (200, 400):
        V, U = (torch.tensor(part, requires_grad=True) for part in starts)
        optimizer = torch.optim.SGD([V, U], lr=1.0 / steps)
        for _ in range(steps):
            optimizer.zero_grad()
            out = sum(G[:, [p]] * (X @ V[i].T @ U[j].T) for p, (i, j) in enumerate(paths.edges))
            (0.5 * ((Y - out) ** 2).sum(dim=1).mean()).backward()
            optimizer.step()
        away.append(max(np.abs(a - b.detach().numpy()).max() for a, b in zip(exact, (V, U), strict=True)))
    assert np.abs(exact[0] - starts[0]).max() > 0.05
    assert away[0] < 0.01
    assert away[1] / away[0] == pytest.approx(0.5, abs=0.1)


@pytest.mark.parametrize("edges", EDGES.values(), ids=EDGES)
def test_the_race_of_modes_is_exact_for_decoupled_starts(edges):
    """U_j V_i of the full flow is Q diag(s_p) Pᵀ at all times, and its loss is that of the race."""
    paths, (X, Y, G) = decoupled(edges)
    assert paths.coupling < 1e-12
    F, S = paths.layers
    rng = np.random.default_rng(3)
    v, u = rng.uniform(0.05, 0.3, size=(F, 3)), rng.uniform(0.05, 0.3, size=(S, 3))
    race = paths.race(v, u, TIMES)
    V, U = paths.network(*paths.start(v, u, width=4), TIMES)
    Q, P = paths.basis
    for p, (i, j) in enumerate(paths.edges):
        expected = np.einsum("om,tm,dm->tod", Q, race.strengths[:, p], P)
        np.testing.assert_allclose(U[:, j] @ V[:, i], expected, atol=1e-8)
    for t, loss in enumerate(race.losses):
        out = sum(G[:, [p]] * (X @ V[t, i].T @ U[t, j].T) for p, (i, j) in enumerate(paths.edges))
        assert np.mean(np.sum((Y - out) ** 2, axis=1)) == pytest.approx(loss, abs=1e-8)
    assert np.abs(race.strengths[-1] - race.strengths[0]).max() > 0.1
    kept = np.sum(race.first**2, axis=1) - np.sum(race.second**2, axis=1)
    np.testing.assert_allclose(kept, np.broadcast_to(kept[0], kept.shape), atol=1e-9)


def test_the_reduction_is_not_exact_where_bases_differ_or_starts_mix():
    paths, _ = general(None)
    assert paths.coupling > 0.1
    v = np.full((3, 2), 0.2)
    race, (V, U) = paths.race(v, v, TIMES), paths.network(*paths.start(v, v, width=3), TIMES)
    Q, P = paths.basis
    away = U[-1, 0] @ V[-1, 0] - np.einsum("om,m,dm->od", Q, race.strengths[-1, 0], P)
    assert np.abs(away).max() > 0.01
    paths, _ = decoupled(None)
    V, U = paths.network(*drawn(paths, scale=0.3), [0.0, 0.5])
    Q, P = paths.basis
    mixed = Q.T @ U[-1, 0] @ V[-1, 0] @ P
    assert np.abs(mixed - np.diag(np.diag(mixed))).max() > 0.01


def test_a_pathway_alone_is_logistic():
    """The strength of a single pathway is s(t) = b/(a + (b/s₀ − a)e^{−2bt/τ})."""
    X = np.diag([1.0, 2.0])
    paths = Pathways.from_samples(X, X @ np.diag([3.0, 0.7]), np.ones((2, 1)))
    s0, tau = np.array([0.01, 0.04]), 0.7
    found = paths.race(np.sqrt(s0)[None], np.sqrt(s0)[None], TIMES, tau=tau).strengths[:, 0]
    a, b = paths.modes[0][0, 0], paths.modes[1][0]
    expected = b / (a + (b / s0 - a) * np.exp(-2 * b * np.array(TIMES)[:, None] / tau))
    np.testing.assert_allclose(found, expected, rtol=1e-7)


def test_pathways_with_the_same_gates_keep_their_ratio_and_the_better_fed_one_wins():
    """Copies keep the ratio of their strengths, and a pathway that is open for fewer samples loses the race."""
    X = np.vstack([np.eye(2), -np.eye(2)])
    gates = np.column_stack([np.ones(4), np.ones(4), [1.0, 1.0, 0.0, 0.0]])
    paths = Pathways.from_samples(X, X, gates)
    v = np.sqrt([[0.01, 0.01], [0.02, 0.02], [0.02, 0.02]])
    s = paths.race(v, v, [0.0, 3.0, 30.0]).strengths
    np.testing.assert_allclose(s[:, 0] / s[:, 1], 0.5, rtol=1e-7)
    assert (s[-1, 1] > 5 * s[-1, 2]).all()


def test_a_layer_that_is_shared_learns_faster():
    """Two exclusive pathways that share a first layer reach half strength earlier than separate ones."""
    X = np.vstack([np.eye(2)] * 2)
    gates = np.repeat(np.eye(2), 2, axis=0)
    own, shared = (Pathways.from_samples(X, X, gates, edges) for edges in (None, [(0, 0), (0, 1)]))
    small = np.full((2, 2), 0.1)
    times = np.linspace(0.0, 30.0, 100)
    half = [
        np.searchsorted(race.strengths[:, 0, 0], 0.5)
        for race in (own.race(small, small, times), shared.race(small[:1], small, times))
    ]
    assert half[1] < half[0]


test_bad_input_is_refused = refusals(
    ({"edges": [(0, 0)]}, "edges must be 2 different pairs"),
    ({"edges": [(0, 0), (0, 0)]}, "edges must be 2 different pairs"),
    ({"edges": [(0, 0), (2, 0)]}, "without gaps"),
    ({"edges": [(0, 0), (-1, 0)]}, "a layer must be"),
    ({"edges": [0, 1]}, "edges must be a list of pairs"),
    ({"edges": [(0, 0, 0), (1, 1, 1)]}, "edges must be a list of pairs"),
    ({"gates": np.ones((3, 2))}, "one row a sample"),
    ({"Y": np.full((4, 2), np.nan)}, "Y holds NaN"),
    call=lambda options: Pathways.from_samples(
        **{"X": np.ones((4, 3)), "Y": np.ones((4, 2)), "gates": np.ones((4, 2))} | options
    ),
)


test_bad_starts_are_refused = refusals(
    (lambda paths: paths.race(np.ones((2, 2)), np.ones((3, 2)), [0.0]), "first must have shape"),
    (lambda paths: paths.race(np.ones((3, 2)), np.full((3, 2), np.nan), [0.0]), "second holds NaN"),
    (lambda paths: paths.start(np.ones((3, 2)), np.ones((3, 2)), width=2, seed=-1), "seed must be"),
    (lambda paths: paths.start(np.ones((3, 2)), np.ones((3, 2)), width=1), "at least the number of modes"),
    call=lambda start: start(general(None)[0]),
)


def test_times_may_repeat():
    paths, _ = general(None)
    start = np.full((3, 2), 0.1), np.full((3, 2), 0.1)
    found, once = paths.race(*start, [0.0, 1.0, 1.0]), paths.race(*start, [0.0, 1.0])
    np.testing.assert_array_equal(found.strengths, once.strengths[[0, 1, 1]])


@pytest.mark.parametrize("size", [1.0, 1000.0])
def test_large_inputs_make_a_stiff_race_and_no_endless_one(size):
    """The race equals the logistic curve for large inputs, up to more than 10⁷ relaxation times."""
    X = 2 * size * np.vstack([np.eye(2), -np.eye(2)])
    paths = Pathways.from_samples(X, X * [3.0, 1.0], np.ones((4, 1)))
    times = np.array([0.0, 0.5 / size**2, 2 / size**2, 20.0])
    (a,), (b,) = paths.modes[0][0], paths.modes[1]
    expected = b / (a + (100 * b - a) * np.exp(-2 * b * times[:, None]))
    found = paths.race([[0.1, 0.1]], [[0.1, 0.1]], times).strengths[:, 0]
    np.testing.assert_allclose(found, expected, atol=1e-8)
