"""Measure gradient flow in closed form against integration and against gradient descent in torch; see --help."""

import argparse
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from common import run, timed_runs
from scipy.integrate import solve_ivp

from implicit_bias import GatedFeatures
from implicit_bias._utils.checks import Array
from implicit_bias.extensions.gated_flow import Moments, gradient_flow, nonlinear_gaussian_process

#: Pixels of the ring.
PIXELS = 40
#: Samples of the small cases.
SAMPLES = 1000
#: Samples of the large cases.
MANY = 12_000
#: Times in units of Kτ/λ, λ the largest eigenvalue.
TIMES = np.array([0.0, 1.0, 10.0, 100.0, 1000.0])
#: Steps of descent up to the last of these times.
STEPS = 20_000


def hyperplanes(X: Array, gates: int) -> Array:
    """Return gates 1(⟨u, x⟩ ≥ 0), shape (n, gates), with u ~ N(0, I)."""
    return (X @ np.random.default_rng(1).normal(size=(X.shape[1], gates)) >= 0).astype(float)


def exclusive(X: Array, gates: int) -> Array:
    """Return gates (n, gates), one of which is open for each sample: that of the largest random projection."""
    chosen = np.argmax(X @ np.random.default_rng(1).normal(size=(X.shape[1], gates)), axis=1)
    return np.asarray(np.eye(gates)[chosen])


def copies(X: Array, gates: int) -> Array:
    """Return gates (n, gates) in pairs of equal columns: `gates`/2 different hyperplane gates."""
    return np.repeat(hyperplanes(X, gates // 2), 2, axis=1)


#: Name, samples, gates, how they are made, and whether it is integrated and descended as well.
CASES: tuple[tuple[str, int, int, Callable[[Array, int], Array], bool], ...] = (
    ("general", SAMPLES, 10, hyperplanes, True),
    ("singular", 300, 10, hyperplanes, True),
    ("exclusive", SAMPLES, 10, exclusive, True),
    ("each gate twice", SAMPLES, 10, copies, True),
    ("general", MANY, 100, hyperplanes, False),
    ("exclusive", MANY, 100, exclusive, False),
    ("each gate twice", MANY, 100, copies, False),
)


def integrated(moments: Moments, w0: Array, times: Array) -> Array:
    """Return the weights (T, k, d) of the flow by DOP853 with the smallest tolerances that it accepts."""
    A, b, K = moments.dense(), moments.b.ravel(), moments.k
    found = solve_ivp(
        lambda _, w: (b - A @ w) / K, (0.0, times[-1]), w0.ravel(), "DOP853", t_eval=times, rtol=1e-12, atol=1e-14
    )
    return np.asarray(found.y.T.reshape(len(times), *w0.shape))


def descended(features: GatedFeatures, y: Array, w0: Array, end: float) -> Array:
    """Return the weights at the time `end` of full-batch gradient descent by autograd, in STEPS steps."""
    dense, target = torch.tensor(features.dense()), torch.tensor(y)
    w = torch.tensor(w0.ravel(), requires_grad=True)
    optimizer = torch.optim.SGD([w], lr=end / STEPS / features.k)
    for _ in range(STEPS):
        optimizer.zero_grad()
        (0.5 * torch.mean((target - dense @ w) ** 2)).backward()
        optimizer.step()
    return np.asarray(w.detach().numpy().reshape(w0.shape))


def measured(name: str, samples: int, gates: int, make: Callable[[Array, int], Array], small: bool) -> dict[str, str]:
    """Return the row of a case: a ring with ξ = (5, 1) and g = 3, from a Gaussian start; references if `small`."""
    X, y = nonlinear_gaussian_process(PIXELS, gain=3.0).sample(samples, seed=1)
    features, w0 = GatedFeatures(X, make(X, gates)), np.random.default_rng(2).normal(size=(gates, PIXELS)) / PIXELS
    gathered = timed_runs(lambda: Moments.from_samples(features, y))
    moments = gathered["found"]
    # The largest eigenvalue, copies among them, sets the time.
    times = TIMES * gates / max(float(spectrum.values[-1]) for spectrum in moments.spectra)
    # The eigendecomposition is kept with the moments, and belongs to the time of the flow.
    flowed = timed_runs(lambda: gradient_flow(Moments.from_samples(features, y), w0, times), 3 if small else 1)
    row = {"gates": name, "samples": str(samples), "K·n": str(gates * PIXELS)}
    row |= {"moments, s": f"{gathered['seconds']:.2f}", "with the flow, s": f"{flowed['seconds']:.2f}"}
    row |= {"DOP853, s": "–", "apart": "–", f"{STEPS} steps, s": "–", "apart ": "–"}
    if small:
        weights = flowed["found"].weights()
        reference = timed_runs(lambda: integrated(moments, w0, times))
        last = timed_runs(lambda: descended(features, y, w0, times[-1]))
        apart = [np.abs(weights - reference["found"]).max(), np.abs(weights[-1] - last["found"]).max()]
        row |= {"DOP853, s": f"{reference['seconds']:.1f}", "apart": f"{apart[0]:.0e}"}
        row |= {f"{STEPS} steps, s": f"{last['seconds']:.0f}", "apart ": f"{apart[1]:.0e}"}
    return row


def report(options: argparse.Namespace) -> Iterator[Any]:
    yield f"Times up to {TIMES[-1]:g} Kτ/λ, λ the largest eigenvalue; 'apart' is the largest difference of weights."
    yield [measured(*row) for row in CASES[: options.cases]]


if __name__ == "__main__":
    run(__doc__, report, f"{torch.get_num_threads()} threads", cases=(len(CASES), "how many of the cases"))
