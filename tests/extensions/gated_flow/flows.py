"""Features, targets and starts of gradient flows, and the flow by integration."""

import numpy as np
from scipy.integrate import solve_ivp

from implicit_bias import GatedFeatures

TIMES = np.array([0.0, 0.1, 1.0, 7.0, 30.0])


def general(rng):
    """Five overlapping gates, with real values."""
    X = rng.normal(size=(60, 3))
    return GatedFeatures(X, np.maximum(X @ rng.normal(size=(3, 5)), 0.0)), rng.normal(size=60)


def singular(rng):
    """More weights than samples."""
    X = rng.normal(size=(10, 4))
    return GatedFeatures(X, (X @ rng.normal(size=(4, 6)) > 0).astype(float)), rng.normal(size=10)


def exclusive(rng):
    """Eight gates of which one is open, and one that never is."""
    X = rng.normal(size=(90, 3))
    return GatedFeatures(X, np.eye(9)[rng.integers(8, size=90)]), rng.normal(size=90)


def redundant(rng):
    """Two hyperplane gates, three and four times."""
    X = rng.normal(size=(60, 3))
    return GatedFeatures(X, (X[:, [0, 0, 1, 1, 0, 1, 1]] > 0).astype(float)), rng.normal(size=60)


def mixed(rng):
    """Pairs of gates that are open together, copies of some, on inputs that are linearly dependent."""
    X = rng.normal(size=(80, 3))
    side = np.column_stack([X[:, 0] > 0, (X[:, 0] > 0) & (X[:, 1] > 0), X[:, 0] <= 0, (X[:, 0] <= 0) & (X[:, 1] > 0)])
    return GatedFeatures(np.hstack([X, X[:, :1]]), side[:, [0, 1, 2, 3, 1, 3]].astype(float)), rng.normal(size=80)


CASES = [general, singular, exclusive, redundant, mixed]
#: Blocks, the largest eigenproblem, and copies.
STRUCTURE = {
    general: (1, 15, 0),
    singular: (1, 24, 0),
    exclusive: (9, 3, 0),
    redundant: (1, 6, 5),
    mixed: (2, 8, 2),
}


def made(case, seed=0):
    """Features, targets, dense Φ, and a start."""
    rng = np.random.default_rng(seed)
    features, y = case(rng)
    return features, y, features.dense(), rng.normal(size=(features.k, features.d))


def integrated(A, b, w0, times, scale):
    """The solution of scale · dw/dt = b − Aw by DOP853."""
    found = solve_ivp(
        lambda t, w: (b - A @ w) / scale, (0.0, times[-1]), w0, "DOP853", t_eval=times, rtol=1e-12, atol=1e-13
    )
    return found.y.T
