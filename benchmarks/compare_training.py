"""Measure a step of `train_together`, its gradients written out, against autograd on the same stack; see --help."""

import statistics
import time
from typing import Any

import numpy as np
from common import markdown, repeats_of, surroundings, surroundings_line

from implicit_bias import Adam, ReLUNetwork
from implicit_bias.cli.execution import guarded
from implicit_bias.extensions.galu import GaLU0Network, GaLUNetwork, train_together
from implicit_bias.extensions.galu import training as stacked
from implicit_bias.extensions.galu.training import AutogradGradients, gradients_of
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
    spent = []
    for count in (steps, 0):
        begin = time.process_time()
        train_together(networks, *data, Adam(steps=count, loss=loss), every=max(count, 1))
        spent.append(time.process_time() - begin)
    return 1e3 * (spent[0] - spent[1]) / steps


def main() -> int:
    """Print the table."""
    repeats, rows = repeats_of(__doc__, 5), []
    for name, (m, d, q, units, count, loss, steps) in STACKS.items():
        rng = np.random.default_rng(0)
        X = rng.normal(size=(m, d))
        signs, classes = rng.choice([-1.0, 1.0], size=m), rng.integers(0, q, size=m)
        data = X, rng.normal(size=(m, q)) if loss == "squared" else signs if q == 1 else classes
        for kind in (GaLU0Network if len(units) > 1 else GaLUNetwork, ReLUNetwork):
            networks: list[LayeredNetwork] = [kind(d, units, outputs=q, seed=seed) for seed in range(count)]
            found: dict[str, list[float]] = {way: [] for way in GRADIENTS}
            for _ in range(repeats):
                for way, gradients in GRADIENTS.items():
                    vars(stacked)["gradients_of"] = gradients
                    found[way].append(milliseconds(networks, data, loss, steps))
            medians = {way: statistics.median(times) for way, times in found.items()}
            row = {"stack": name, "networks": f"{count} {kind.__name__.removesuffix('Network')}"}
            row |= {f"{way}, ms": f"{value:.2f}" for way, value in medians.items()}
            rows.append(row | {"times": f"{medians['autograd'] / medians['written']:.1f}"})
    print(surroundings_line(surroundings(), "one thread"))
    print(f"\nCPU time of a step with batches of 128, medians of {repeats} in alternation:\n\n{markdown(rows)}")
    return 0


if __name__ == "__main__":
    raise SystemExit(guarded(main))
