"""Compare the networks of scnn (PyPI: pyscnn), which trains the penalised form, with the best network; see --help.

scnn minimises ‖f(X) − y‖²/(2n) + β Σ (‖u_h‖ + ‖v_h‖) over the cones of given gates; of losses it has the squared one.
Its network over its least margin is one with margins of 1, so that its norm is no less than the best network's, and no
less than that of the best network behind its gates, both certified here. For β → 0 its problem is to interpolate, f(X)
= y, which asks for more than margins of 1.
"""

import argparse
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from common import run, run_peer, timed

from implicit_bias import load_binary, solve
from implicit_bias._utils.checks import Array
from implicit_bias.extensions.best_networks import best_network, svm_relu
from implicit_bias.extensions.best_networks.relu.network import bound_of, network_of, units_of
from implicit_bias.studies.best.planar import sample

#: Random gates.
GATES = 30
#: Points of XOR.
POINTS = 30
#: Images of the digits 3 and 5.
DIGITS = 50
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


def compared(name: str, X: Array, y: Array, python: str, penalties: list[float]) -> list[dict[str, str]]:
    """Return two rows of norms divided by the best network's: with random gates, and with the best network's gates."""
    taken, best = timed(partial(best_network, X, y))
    assert best.network is not None
    drawn = np.random.default_rng(1).normal(size=(GATES, X.shape[1]))
    rows = []
    for kind, gates in ((f"{GATES} at random", drawn), ("the best's", units_of(best.network)[0])):
        behind = solve(svm_relu(X, y, np.unique(X @ gates.T >= 0, axis=1).T))
        bound = "–" if behind.status.inseparable else f"{behind.objective / best.objective:.3f}"
        row = {"data": name, "best": f"{best.objective:.3f}", "gap": f"{best.gap:.0e}", "CPU s": f"{taken:.1f}"}
        row |= {"gates": kind, "best behind them": bound}
        for penalty in penalties:
            peer = run_peer("scnn", python, SCRIPT, X=X, y=y, gates=gates, penalty=penalty)
            units, added = np.abs(peer["outputs"])[:, None] * peer["units"], peer["outputs"] > 0
            ratio = bound_of(network_of(units, added), X, y)[0] / best.objective if units.any() else np.inf
            row |= {f"scnn, β = {penalty:g}": f"{ratio:.3f}", f"CPU s, {penalty:g}": f"{peer['seconds']:.1f}"}
        rows.append(row)
    return rows


def report(options: argparse.Namespace) -> Iterator[Any]:
    task = load_binary("digits", DIGITS, 1, positive=[5], negative=[3])
    cases = {"XOR": sample("xor", POINTS, 1), "3 and 5": (task.X_train, task.y_train)}
    yield "Norms over least margins, divided by the best network's:"
    yield [row for name, data in cases.items() for row in compared(name, *data, options.peer, options.penalties)]


if __name__ == "__main__":
    peer = {"positional": True, "help": "a Python in which pyscnn is installed"}
    run(__doc__, report, peer=peer, penalties=([1e-2, 1e-4], "β"))
