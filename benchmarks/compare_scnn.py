"""Hold the networks of scnn (PyPI: pyscnn), which trains the penalised form, against the best network; see --help.

scnn minimises ‖f(X) − y‖²/(2n) + β Σ (‖u_h‖ + ‖v_h‖) over the cones of given gates; of losses it has the squared one.
Its network over its least margin is one with margins of 1, so that its norm is no less than the best network's, and no
less than that of the best network behind its gates, both certified here. For β → 0 its problem is to interpolate, f(X)
= y, which asks for more than margins of 1.
"""

import argparse
import subprocess
import tempfile
import time
from functools import partial
from pathlib import Path

import numpy as np
from common import alternately, markdown, surroundings, surroundings_line

from implicit_bias import load_binary, solve
from implicit_bias._utils.checks import Array
from implicit_bias.cli.execution import guarded
from implicit_bias.extensions.best_networks import BestNetwork, best_network, svm_relu
from implicit_bias.extensions.best_networks.relu.network import bound_of, network_of, units_of
from implicit_bias.studies.best.planar import sample

#: Penalties, random gates, and the points of each data set.
PENALTIES, GATES, POINTS, DIGITS = (1e-2, 1e-4), 30, 30, 50
#: Run by the peer's own Python; written to the second file are its units and the signs of their outputs.
SCRIPT = """
import sys, time, numpy as np
from scnn.models import ConvexReLU
from scnn.solvers import AL
from scnn.regularizers import NeuronGL1
from scnn.metrics import Metrics
from scnn.optimize import optimize_model
given = np.load(sys.argv[1])
model = ConvexReLU(given["gates"].T)
begun = time.process_time()
found, _ = optimize_model(model, AL(model), Metrics(), given["X"], given["y"][:, None],
    regularizer=NeuronGL1(float(given["penalty"])), unitize_data=False, dtype="float64")
taken = time.process_time() - begun
np.savez(sys.argv[2], units=found.parameters[0], outputs=found.parameters[1][0], seconds=taken)
"""


def peer(python: str, X: Array, y: Array, gates: Array, penalty: float) -> tuple[float, Array, np.ndarray]:
    """CPU seconds of scnn with gates (k, d), and its network: units (m, d) and which of them are added."""
    with tempfile.TemporaryDirectory() as folder:
        given, found = Path(folder, "given.npz"), Path(folder, "found.npz")
        np.savez(given, X=X, y=y, gates=gates, penalty=penalty)
        command = [python, "-c", SCRIPT, str(given), str(found)]
        environment = {"PATH": "/usr/bin:/bin", "OMP_NUM_THREADS": "1"}
        subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
        with np.load(found) as arrays:
            return float(arrays["seconds"]), np.abs(arrays["outputs"])[:, None] * arrays["units"], arrays["outputs"] > 0


def compared(name: str, X: Array, y: Array, python: str, penalties: list[float]) -> list[dict[str, str]]:
    """The rows of a data set: gates at random, and those of the best network."""
    taken, found = alternately({"best": partial(best_network, X, y)}, 1, time.process_time)
    best: BestNetwork = found["best"]
    assert best.network is not None
    drawn = np.random.default_rng(1).normal(size=(GATES, X.shape[1]))
    rows = []
    for kind, gates in ((f"{GATES} at random", drawn), ("the best's", units_of(best.network)[0])):
        behind = solve(svm_relu(X, y, np.unique(X @ gates.T >= 0, axis=1).T))
        bound = "–" if behind.status.inseparable else f"{behind.objective / best.objective:.3f}"
        row = {"data": name, "best": f"{best.objective:.3f}", "gap": f"{best.gap:.0e}", "CPU s": f"{taken['best']:.1f}"}
        row |= {"gates": kind, "best behind them": bound}
        for penalty in penalties:
            seconds, units, added = peer(python, X, y, gates, penalty)
            ratio = bound_of(network_of(units, added), X, y)[0] / best.objective if units.any() else np.inf
            row |= {f"scnn, β = {penalty:g}": f"{ratio:.3f}", f"CPU s, {penalty:g}": f"{seconds:.1f}"}
        rows.append(row)
    return rows


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("peer", help="a Python in which pyscnn is installed")
    parser.add_argument("--penalties", type=float, nargs="+", default=PENALTIES, help="β (default: %(default)s)")
    options = parser.parse_args()
    print(surroundings_line(surroundings(), "1 thread"))
    task = load_binary("digits", DIGITS, 1, positive=[5], negative=[3])
    cases = {"XOR": sample("xor", POINTS, 1), "3 and 5": (task.X_train, task.y_train)}
    print("\nNorms over least margins, divided by the best network's:\n")
    found = [compared(name, X, y, options.peer, options.penalties) for name, (X, y) in cases.items()]
    print(markdown([row for rows in found for row in rows]))
    return 0


if __name__ == "__main__":
    raise SystemExit(guarded(main))
