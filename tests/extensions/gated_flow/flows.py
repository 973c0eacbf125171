"""Features, targets and starts of gradient flows, and the flow by integration."""

import numpy as np
from scipy.integrate import solve_ivp

from implicit_bias import GatedFeatures

TIMES = np.array([0.0, 0.1, 1.0, 7.0, 30.0])


def general(rng):
    """Return features of five overlapping gates with real values, and targets."""
    X = rng.normal(size=(60, 3))
    return GatedFeatures(X, np.maximum(X @ rng.normal(size=(3, 5)), 0.0)), rng.normal(size=60)


def singular(rng):
    """Return features with more weights than samples, and targets."""
    X = rng.normal(size=(10, 4))
    return GatedFeatures(X, (X @ rng.normal(size=(4, 6)) > 0).astype(float)), rng.normal(size=10)


def exclusive(rng):
    """Return features of eight gates, one of which is open at each sample, and a ninth that never is; and targets."""
    X = rng.normal(size=(90, 3))
    return GatedFeatures(X, np.eye(9)[rng.integers(8, size=90)]), rng.normal(size=90)


def redundant(rng):
    """Return features of two hyperplane gates, one three times and the other four times, and targets."""
    X = rng.normal(size=(60, 3))
    return GatedFeatures(X, (X[:, [0, 0, 1, 1, 0, 1, 1]] > 0).astype(float)), rng.normal(size=60)


def mixed(rng):
    """Return features of pairs of coupled gates, some of them twice, on linearly dependent inputs, and targets."""
    X = rng.normal(size=(80, 3))
    side = np.column_stack([X[:, 0] > 0, (X[:, 0] > 0) & (X[:, 1] > 0), X[:, 0] <= 0, (X[:, 0] <= 0) & (X[:, 1] > 0)])
    return GatedFeatures(np.hstack([X, X[:, :1]]), side[:, [0, 1, 2, 3, 1, 3]].astype(float)), rng.normal(size=80)


CASES = [general, singular, exclusive, redundant, mixed]
#: Blocks, the largest eigenproblem, and copies.
STRUCTURE = {general: (1, 15, 0), singular: (1, 24, 0), exclusive: (9, 3, 0), redundant: (1, 6, 5), mixed: (2, 8, 2)}


def made(case, seed=0):
    """Return features, targets (n,), dense Φ (n, kd) and initial weights (k, d) of a case."""
    rng = np.random.default_rng(seed)
    features, y = case(rng)
    return features, y, features.dense(), rng.normal(size=(features.k, features.d))


def integrated(A, b, w0, times, scale):
    """Return w (T, …) at the times of `scale` · dw/dt = b − Aw from w0, by DOP853."""
    found = solve_ivp(
        lambda t, w: (b - A @ w) / scale, (0.0, times[-1]), w0, "DOP853", t_eval=times, rtol=1e-12, atol=1e-13
    )
    return found.y.T
