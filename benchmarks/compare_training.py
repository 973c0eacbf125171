"""Measure a step of `train` of several networks, gradients written out, against autograd; see --help."""

import argparse
import statistics
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from common import run, timed

from implicit_bias import Adam, ReLUNetwork
from implicit_bias._utils.threads import one_thread
from implicit_bias.extensions.galu import GaLU0Network, GaLUNetwork
from implicit_bias.training.stack import Stack, WrittenStack

#: Of the GaLU study: samples, inputs, outputs, units of the hidden layers, networks, loss, and steps that are measured.
STACKS = {
    "memorisation, m = 1024": (1024, 32, 1, [32], 20, "squared", 400),
    "vector outputs, d′ = 8": (1024, 32, 8, [147], 6, "squared", 200),
    "parity, k = 128": (10_000, 100, 1, [128], 3, "hinge", 300),
    "pixels, k = 64": (4000, 785, 10, [64], 3, "logistic", 100),
    "two layers, k = 96": (10_000, 65, 10, [96, 96], 4, "logistic", 100),
}
WAYS = {"written": WrittenStack, "autograd": Stack}


def milliseconds(stack: Stack, config: Adam) -> float:
    """Train the stack in place; return the mean CPU milliseconds of a step, in one thread, without the shuffling."""
    generator, n = torch.Generator().manual_seed(1), stack.X.shape[-2]
    batches = [batch for _ in range(config.epochs(n)) for batch in config.shuffled(n, generator)][: config.count(n)]

    def steps() -> None:
        for batch in batches:
            stack.step(batch, config.lr)

    with one_thread():
        return 1e3 * timed(steps)[0] / len(batches)


def report(options: argparse.Namespace) -> Iterator[Any]:
    rows = []
    for name, (m, d, q, units, count, loss, steps) in list(STACKS.items())[: options.stacks]:
        rng = np.random.default_rng(0)
        X = rng.normal(size=(m, d))
        signs, classes = rng.choice([-1.0, 1.0], size=m), rng.integers(0, q, size=m)
        y: Any = rng.normal(size=(m, q)) if loss == "squared" else signs if q == 1 else classes
        for kind in (GaLU0Network if len(units) > 1 else GaLUNetwork, ReLUNetwork):
            networks = [kind(d, units, outputs=q, seed=seed) for seed in range(count)]
            config, found = Adam(steps=steps, loss=loss), dict[str, list[float]]()
            for _ in range(options.repeats):
                for way, cls in WAYS.items():
                    found.setdefault(way, []).append(milliseconds(cls(networks, X, y, config), config))
            medians = {way: statistics.median(times) for way, times in found.items()}
            row = {"stack": name, "networks": f"{count} {kind.__name__.removesuffix('Network')}"}
            row |= {f"{way}, ms": f"{value:.2f}" for way, value in medians.items()}
            rows.append(row | {"times": f"{medians['autograd'] / medians['written']:.1f}"})
    yield f"CPU time of a step with batches of 128, medians of {options.repeats} in alternation:"
    yield rows


if __name__ == "__main__":
    run(__doc__, report, repeats=(5, "runs of each"), stacks=(len(STACKS), "how many of the stacks"))
