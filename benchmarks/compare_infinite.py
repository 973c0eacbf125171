"""Measure NNGP and tangent kernels of infinite width against plain NumPy and neural-tangents; see --help."""

import argparse
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import numpy as np
from common import alternately, load_samples, markdown, surroundings, surroundings_line

from implicit_bias._utils.checks import Array
from implicit_bias.cli.execution import guarded
from implicit_bias.extensions.infinite import InfiniteNetwork
from implicit_bias.extensions.infinite.infinite import NetworkKernels

#: Hidden layers, σ_w² and σ_b².
LAYERS, WEIGHT, BIAS = 3, 2.0, 0.1
#: Images of the table of activations.
FEW = 1000
ALL = ("relu", "leaky relu", "erf", "gelu", "elu", "selu", "square", "tanh", "sigmoid", "softplus", "swish")
#: What neural-tangents calls those that it has in closed form.
PEER = {"relu": "Relu()", "gelu": "Gelu()", "leaky relu": "LeakyRelu(0.01)"}
PEER |= {"erf": "Erf(b=0.5**0.5)", "square": "Monomial(2)"}
#: Run by the peer's own Python: the second of two calls, for the first one compiles.
SCRIPT = """
import sys, time, numpy as np, jax
jax.config.update("jax_enable_x64", True)
from neural_tangents import stax
X, w, b = np.load(sys.argv[1]), {weight} ** 0.5, {bias} ** 0.5
inner = [part for _ in range({layers}) for part in (stax.Dense(1, W_std=w, b_std=b), stax.{name})]
kernel = jax.jit(stax.serial(*inner, stax.Dense(1, W_std=w, b_std=b))[2], static_argnums=(2,))
for _ in range(2):
    begun = time.process_time()
    values = np.asarray(kernel(X, None, "ntk"))
    taken = time.process_time() - begun
np.save(sys.argv[2], values)
print(taken)
"""


def plain(X: Array) -> Array:
    """The tangent kernel of ReLU, the arc-cosine formulas written down."""
    K = X @ X.T * (WEIGHT / X.shape[1]) + BIAS
    tangent = K.copy()
    for _ in range(LAYERS):
        lengths = np.sqrt(np.diag(K))
        size = np.outer(lengths, lengths)
        cosines = np.clip(K / size, -1, 1)
        angles = np.arccos(cosines)
        tangent *= WEIGHT * (np.pi - angles) / (2 * np.pi)
        K = BIAS + WEIGHT * size * (np.sqrt(1 - cosines**2) + (np.pi - angles) * cosines) / (2 * np.pi)
        tangent += K
    return np.asarray(tangent)


def ours(X: Array, name: str) -> NetworkKernels:
    """Both kernels of all images."""
    return InfiniteNetwork(name, LAYERS, WEIGHT, BIAS).kernels(X)


def peer(python: str, X: Array, name: str) -> tuple[float, Array]:
    """CPU seconds and tangent kernel of neural-tangents, by a Python that has it."""
    with tempfile.TemporaryDirectory() as folder:
        points, values = Path(folder, "points.npy"), Path(folder, "values.npy")
        np.save(points, X)
        code = SCRIPT.format(weight=WEIGHT, bias=BIAS, layers=LAYERS, name=PEER[name])
        command = [python, "-c", code, str(points), str(values)]
        done = subprocess.run(command, capture_output=True, text=True, check=True, env={"PATH": "/usr/bin:/bin"})
        return float(done.stdout.split()[-1]), np.load(values)


def largest(X: Array, repeats: int) -> list[dict[str, str]]:
    """Ours and plain NumPy, ReLU."""
    seconds, found = alternately(
        {"plain": partial(plain, X), "ours": partial(ours, X, "relu")}, repeats, time.process_time
    )
    ntk = found["ours"].ntk
    norm = float(np.linalg.norm(ntk.values))
    apart = float(np.linalg.norm(ntk.values - found["plain"])) / norm
    row = {"images": str(len(X))} | {f"{way}, CPU s": f"{taken:.2f}" for way, taken in seconds.items()}
    row |= {"ours over plain": f"{seconds['ours'] / seconds['plain']:.2f}", "error bound": f"{ntk.error / norm:.0e}"}
    return [row | {"apart": f"{apart:.0e}"}]


def activations(X: Array, repeats: int, python: str | None) -> list[dict[str, str]]:
    """All activations, with the peer where it has a closed form."""
    rows = []
    for name in ALL:
        seconds, found = alternately({"ours": partial(ours, X, name)}, repeats, time.process_time)
        ntk = found["ours"].ntk
        size = float(np.linalg.norm(ntk.values))
        row = {"activation": name, "ours, CPU s": f"{seconds['ours']:.2f}", "error bound": f"{ntk.error / size:.0e}"}
        if python is not None:
            taken, values = peer(python, X, name) if name in PEER else (None, None)
            row["neural-tangents, CPU s"] = "–" if taken is None else f"{taken:.2f}"
            row["apart"] = "–" if values is None else f"{np.linalg.norm(values - ntk.values) / size:.0e}"
        rows.append(row)
    return rows


def main() -> int:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, default=5000, help="MNIST images of the first table (default: 5000)")
    parser.add_argument("--repeats", type=int, default=3, help="runs whose median counts (default: 3)")
    parser.add_argument("--root", default=None, help="folder of MNIST; else IMPLICIT_BIAS_DATA")
    parser.add_argument("--peer", default=None, help="a Python in which neural-tangents is installed; else none")
    options = parser.parse_args(sys.argv[1:])
    X = load_samples("mnist", 60_000, options.root)[0][:, :-1]
    print(surroundings_line(surroundings(), "threads as the environment says"))
    network = f"{LAYERS} hidden layers, σ_w² = {WEIGHT:g}, σ_b² = {BIAS:g}"
    print(f"\nReLU, {network}, medians of {options.repeats}:\n")
    print(markdown(largest(X[: options.images], options.repeats)))
    print(f"\n{FEW} images, {network}, medians of {options.repeats}:\n")
    print(markdown(activations(X[:FEW], options.repeats, options.peer)))
    return 0


if __name__ == "__main__":
    raise SystemExit(guarded(main))
