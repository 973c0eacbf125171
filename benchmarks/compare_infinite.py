"""Measure NNGP and tangent kernels of infinite width against neural-tangents; see --help."""

import argparse
import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from common import alternately, load_samples, run, run_peer

from implicit_bias._utils.checks import Array
from implicit_bias.extensions.infinite import InfiniteNetwork
from implicit_bias.extensions.infinite.infinite import NetworkKernels

#: Hidden layers, σ_w² and σ_b².
LAYERS, WEIGHT, BIAS = 3, 2.0, 0.1
ALL = ("relu", "leaky relu", "erf", "gelu", "elu", "selu", "square", "tanh", "sigmoid", "softplus", "swish")
#: What neural-tangents calls those that it has in closed form.
PEER = {"relu": "Relu()", "gelu": "Gelu()", "leaky relu": "LeakyRelu(0.01)"}
PEER |= {"erf": "Erf(b=0.5**0.5)", "square": "Monomial(2)"}
#: Run by the peer's own Python: the second of two calls, for the first one compiles.
SCRIPT = """
import sys, time, numpy as np, jax
jax.config.update("jax_enable_x64", True)
from neural_tangents import stax
given = np.load(sys.argv[1])
w, b = float(given["weight"]) ** 0.5, float(given["bias"]) ** 0.5
inner = [part for _ in range(given["layers"]) for part in (stax.Dense(1, W_std=w, b_std=b), stax.{name})]
kernel = jax.jit(stax.serial(*inner, stax.Dense(1, W_std=w, b_std=b))[2], static_argnums=(2,))
for _ in range(2):
    begun = time.process_time()
    values = np.asarray(kernel(given["X"], None, "ntk"))
    taken = time.process_time() - begun
np.savez(sys.argv[2], values=values, seconds=taken)
"""


def ours(X: Array, name: str) -> NetworkKernels:
    """Return the NNGP and tangent kernels of the network with an activation."""
    return InfiniteNetwork(name, LAYERS, WEIGHT, BIAS).kernels(X)


def activations(X: Array, repeats: int, python: str | None) -> list[dict[str, str]]:
    """Return a row for each activation, with neural-tangents' time if `python` has it, "–" without a closed form."""
    rows = []
    for name in ALL:
        seconds, found = alternately({"ours": partial(ours, X, name)}, repeats, time.process_time)
        ntk = found["ours"].ntk
        size = float(np.linalg.norm(ntk.values))
        row = {"activation": name, "ours, CPU s": f"{seconds['ours']:.2f}", "error bound": f"{ntk.error / size:.0e}"}
        if python is not None:
            row |= {"neural-tangents, CPU s": "–", "apart": "–"}
            if name in PEER:
                given = {"X": X, "weight": WEIGHT, "bias": BIAS, "layers": LAYERS}
                peer = run_peer("neural_tangents", python, SCRIPT.format(name=PEER[name]), **given)
                row["neural-tangents, CPU s"] = f"{peer['seconds']:.2f}"
                row["apart"] = f"{np.linalg.norm(peer['values'] - ntk.values) / size:.0e}"
        rows.append(row)
    return rows


def report(options: argparse.Namespace) -> Iterator[Any]:
    X = load_samples("mnist", 60_000, options.data_root)[0][:, :-1]
    network = f"{LAYERS} hidden layers, σ_w² = {WEIGHT:g}, σ_b² = {BIAS:g}"
    yield f"{options.images} images, {network}, medians of {options.repeats}:"
    yield activations(X[: options.images], options.repeats, options.peer)


if __name__ == "__main__":
    run(
        __doc__,
        report,
        "threads as the environment says",
        images=(1000, "MNIST images"),
        repeats=(3, "runs whose median counts"),
        peer={"help": "a Python in which neural-tangents is installed; else none"},
    )
