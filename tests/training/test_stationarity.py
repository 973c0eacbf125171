"""The residual of Theorem 3.1, of gated networks and of any homogeneous module."""

import numpy as np
import pytest
import scipy.optimize
import torch

from implicit_bias import SGD, solve, svm_gln, train
from implicit_bias.training.stationarity import stationarity
from tests.cases import assert_refused, refusals
from tests.training.reference import X, Y, gln


def balanced(network, problem, W):
    """Set the weights of a two-layer GLN to ζ = W with |w2_h| = ‖w1_h‖, where ½‖w‖² = Σ_h ‖ζ_h‖."""
    units, contexts = network.shape[0]
    blocks = torch.as_tensor(W).reshape(units, contexts, -1)
    roots = blocks.flatten(1).norm(dim=1).sqrt()
    network.double()
    with torch.no_grad():
        safe = torch.where(roots > 0, roots, 1.0)
        network.hidden_weights[0].copy_((blocks / safe[:, None, None]).flatten(0, 1))
        network.readout.weight.copy_(roots[None])
        network.readout.bias.zero_()


def test_stationarity_at_the_balanced_solution_and_elsewhere():
    network = gln()
    problem = svm_gln(X, Y, network.gates())
    solution = solve(problem, tol=1e-8)
    balanced(network, problem, solution.weights)
    np.testing.assert_allclose(Y * network.decision_function(X), problem.margins(solution.weights), atol=1e-9)
    exact = stationarity(network, X, Y, tolerance=1e-3)
    assert exact.residual <= 1e-3
    with torch.no_grad():
        network.readout.weight *= 4
    assert stationarity(network, X, Y, tolerance=1e-3).residual >= 0.1
    trained = gln()
    train(trained.double(), X, Y, SGD(steps=1600))
    with torch.no_grad():
        trained.readout.bias.zero_()
    assert stationarity(trained, X, Y).residual >= 0.3


def test_stationarity_takes_any_homogeneous_module():
    class Cubic(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.w = torch.nn.Parameter(torch.tensor([1.0, 0.0]))

        def forward(self, x):
            return (x @ self.w) ** 3

    result = stationarity(Cubic(), [[1.0, 3.0], [-1.0, 3.0], [2.0, 0.0]], [1, -1, 1])
    assert result.degree == pytest.approx(3)
    assert result.residual <= 1e-9
    assert result.support == 2


class Wide(torch.nn.Module):
    """Homogeneous module with an unused parameter and outputs of shape (n, 1)."""

    def __init__(self):
        super().__init__()
        self.used = torch.nn.Parameter(torch.tensor([[1.0, 0.0]]))
        self.unused = torch.nn.Parameter(torch.zeros(3))

    def forward(self, X):
        return X @ self.used.T


def test_stationarity_of_any_module():
    assert stationarity(Wide(), [[1.0, 3.0], [-1.0, 3.0]], [1, -1]).residual < 1e-12
    assert_refused(lambda: stationarity(Wide(), [[1.0, 3.0, 2.0], [-1.0, 3.0, 2.0]], [1, -1]), "take float64 inputs")
    broken = Wide()
    broken.used.data[0, 0] = float("nan")
    assert_refused(lambda: stationarity(broken, [[1.0, 3.0], [-1.0, 3.0]], [1, -1]), "norm nan")


class Depths(torch.nn.Module):
    """Network f_w(x; γ) = ⟨P_γ(w), x⟩; P_γ(w) is the product of the first γ rows of w, and γ the last input."""

    def __init__(self, w):
        super().__init__()
        self.w = torch.nn.Parameter(torch.tensor(w))

    def forward(self, X):
        predictors = self.w.cumprod(dim=0)[X[:, -1].long() - 1]
        return (predictors * X[:, :-1]).sum(dim=1)


def depths(seed, n=8):
    """Return a random `Depths` network, and samples of three degrees and both labels that it separates."""
    rng = np.random.default_rng(seed)
    network = Depths(rng.normal(size=(3, 2)))
    X = np.column_stack([rng.normal(size=(n, 2)), rng.permutation(n) % 3 + 1])
    y = np.where(np.arange(n) % 2, 1.0, -1.0)
    X[:, :2] *= (y * np.sign(network(torch.tensor(X)).detach().numpy()))[:, None]
    return network, X, y


def brute(network, X, y, chosen):
    """Return the residual by central differences and non-negative least squares over the samples `chosen`."""
    w = network.w.detach().numpy()
    unit, step = w / np.linalg.norm(w), 1e-6
    A = np.empty((len(X), w.size))
    for j in range(w.size):
        move = step * np.eye(w.size)[j].reshape(w.shape)
        up, down = (Depths(unit + way * move)(torch.tensor(X)).detach().numpy() for way in (1, -1))
        A[:, j] = y * (up - down) / (2 * step)
    return scipy.optimize.nnls(A[chosen].T, unit.ravel())[1]


@pytest.mark.parametrize("seed", range(20))
def test_the_support_of_contexts_of_different_degree(seed):
    network, X, y = depths(seed)
    w = network.w.detach().numpy()
    nu, q = X[:, -1], y * Depths(w / np.linalg.norm(w))(torch.tensor(X)).detach().numpy()
    # Eq. 27: the least scale at which all margins are 1 or more.
    scale = scipy.optimize.brentq(lambda c: (c**nu * q).min() - 1, 1e-3, 1e6, xtol=1e-12)
    supports = {
        "tight": scale**nu * q <= 1 + 1e-6,
        "lowest": (nu == 1) & (q <= q[nu == 1].min() * (1 + 1e-6)),
        tuple(nu): np.any([(nu == g) & (q <= q[nu == g].min() * (1 + 1e-6)) for g in (1, 2, 3)], axis=0),
    }
    for support, chosen in supports.items():
        found = stationarity(network, X, y, 1e-9, support=support)
        assert found.support == chosen.sum()
        assert not found.dual[~chosen].any()
        assert found.residual == pytest.approx(brute(network, X, y, chosen), abs=1e-8)
        np.testing.assert_allclose(found.degrees, nu)
    assert found.degree == 1


def test_every_sample_its_own_context_demands_least():
    network, X, y = depths(3)
    every = stationarity(network, X, y, support=np.arange(len(X))).residual
    assert every <= min(stationarity(network, X, y, support=s).residual for s in ("tight", "lowest", X[:, -1]))


def test_one_degree_has_one_support():
    network = gln()
    with torch.no_grad():
        network.readout.bias.zero_()
    y = np.sign(network.decision_function(X))
    tight, lowest = (stationarity(network, X, y, support=support) for support in ("tight", "lowest"))
    assert tight.residual == lowest.residual
    np.testing.assert_array_equal(tight.dual, lowest.dual)


test_supports_that_are_refused = refusals(
    ("all", "unknown support 'all'"),
    ([1, 2], "2 contexts for 8 samples"),
    ([0] * 8, "context 0 have several degrees"),
    ([float("nan")] * 8, "support, the contexts,"),
    call=lambda support: stationarity(*depths(0), support=support),
)


def test_outputs_that_no_scale_moves_have_no_tight_constraints():
    class Level(Depths):
        def forward(self, X):
            return super().forward(X) / torch.where(X[:, -1] == 1, self.w.norm(), 1.0)

    network, X, y = depths(0)
    assert_refused(lambda: stationarity(Level(network.w.detach().numpy()), X, y), "do not grow")
