"""Measure a step of `train_together`, its gradients written out, against autograd on the same stack; see --help."""

import argparse
import statistics
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from common import run, timed

from implicit_bias import Adam, ReLUNetwork
from implicit_bias.extensions.galu import GaLU0Network, GaLUNetwork, train_together
from implicit_bias.extensions.galu import training as stacked
from implicit_bias.extensions.galu.stack import AutogradGradients, gradients_of
from implicit_bias.networks import LayeredNetwork

#: Of the GaLU study: samples, inputs, outputs, units of the hidden layers, networks, loss, and steps that are measured.
STACKS = {
    "memorisation, m = 1024": (1024, 32, 1, [32], 20, "squared", 400),
    "vector outputs, d′ = 8": (1024, 32, 8, [147], 6, "squared", 200),
    "parity, k = 128": (10_000, 100, 1, [128], 3, "hinge", 300),
    "pixels, k = 64": (4000, 785, 10, [64], 3, "logistic", 100),
    "two layers, k = 96": (10_000, 65, 10, [96, 96], 4, "logistic", 100),
}
GRADIENTS: dict[str, Any] = {"written": gradients_of, "autograd": AutogradGradients}


def milliseconds(networks: list[LayeredNetwork], data: tuple[Any, Any], loss: str, steps: int) -> float:
    """CPU time of a step: that of a training, less a training's without any."""
    spent = [
        timed(partial(train_together, networks, *data, Adam(steps=count, loss=loss), every=max(count, 1)))[0]
        for count in (steps, 0)
    ]
    return 1e3 * (spent[0] - spent[1]) / steps


def report(options: argparse.Namespace) -> Iterator[Any]:
    rows = []
    for name, (m, d, q, units, count, loss, steps) in list(STACKS.items())[: options.stacks]:
        rng = np.random.default_rng(0)
        X = rng.normal(size=(m, d))
        signs, classes = rng.choice([-1.0, 1.0], size=m), rng.integers(0, q, size=m)
        data = X, rng.normal(size=(m, q)) if loss == "squared" else signs if q == 1 else classes
        for kind in (GaLU0Network if len(units) > 1 else GaLUNetwork, ReLUNetwork):
            networks: list[LayeredNetwork] = [kind(d, units, outputs=q, seed=seed) for seed in range(count)]
            found: dict[str, list[float]] = {way: [] for way in GRADIENTS}
            for _ in range(options.repeats):
                for way, gradients in GRADIENTS.items():
                    vars(stacked)["gradients_of"] = gradients
                    found[way].append(milliseconds(networks, data, loss, steps))
            medians = {way: statistics.median(times) for way, times in found.items()}
            row = {"stack": name, "networks": f"{count} {kind.__name__.removesuffix('Network')}"}
            row |= {f"{way}, ms": f"{value:.2f}" for way, value in medians.items()}
            rows.append(row | {"times": f"{medians['autograd'] / medians['written']:.1f}"})
    yield f"CPU time of a step with batches of 128, medians of {options.repeats} in alternation:"
    yield rows


if __name__ == "__main__":
    run(__doc__, report, repeats=(5, "runs of each"), stacks=(len(STACKS), "how many of the stacks"))
