"""Cases about chains of layers and the best of them."""

from typing import Any

import numpy as np

import implicit_bias as ib
from implicit_bias import HyperplaneGates
from implicit_bias.extensions.best_networks import BestChains, ChainNetwork, best_chains
from tests.fuzz import problems
from tests.fuzz.draw import Draw, expect
from tests.fuzz.networks import NETWORK
from tests.fuzz.strategies import count, number
from tests.fuzz.table import arguments, entry, row


def _shape(draw: Draw) -> dict[str, Any]:
    """Gates fitted or not, and how many layers there are and are gated."""
    X, _ = problems.clean_task(draw)
    bad = [HyperplaneGates(2, 2), None, X, [problems.fitted_gates(draw, X)]]
    gated = draw.either(draw.pick([None, 1, 2]), [0, -1, 7, 1.5, "one"])
    shape = {"layers": draw.either(draw.pick([2, 3, 4]), [1, 0, -2, 2.5, "three", True]), "gated": gated}
    return {"gates": draw.either(problems.fitted_gates(draw, X), bad), "scale": number(1.0, 0.1)(draw)} | shape


# Half precision knows few scales.
row(ChainNetwork, _shape, **NETWORK, may=lambda c: not 1e-3 <= getattr(c, "scale", 1.0) <= 1e3)


@entry(best_chains, share=1)
def _best(draw: Draw) -> None:
    """Bounds in order, and margins as promised, whatever the samples are."""
    X, y = problems.samples(draw, scaled=False) if draw.chance(0.5) else problems.clean_task(draw)
    if len(X) < 6 or len(set(y[:6].tolist())) < 2:
        X, y = problems.clean_task(draw)
    X, y = X[:6, :3], y[:6]
    fitted = HyperplaneGates(draw.whole(1, 2), 2, draw.whole(0, 9), "random").fit(X)
    given = {
        "X": draw.array(X, rounded=False),
        "y": draw.either(y, [y[:5], 0 * y, None, "y"]),
        "gates": draw.either(fitted, [None, "gates", X]),
        "layers": draw.either(draw.pick([2, 3]), [1, 0, 2.5, "three"]),
        "gated": draw.either(None, [0, 9, "one"]),
        "start": draw.either(None, ["network", np.ones((1, 1)), ib.ReLUNetwork(40, 2)]),
        "starts": count(1, 2, cap=3)(draw),
        "nodes": count(0, 3, least=0, cap=10)(draw),
        "tol": number(0.01, 0.1, high=1.0)(draw),
        "max_seconds": number(10.0, None)(draw),
        "progress": draw.either(None, [3, "print"]),
    }
    given |= arguments(best_chains, draw, but=list(given))
    found = draw.call(best_chains, **given)
    expect(0 <= found.lower_bound <= found.objective, "bounds out of order")


@entry(BestChains, share=1)
def _record(draw: Draw) -> None:
    """A record, which is taken as it is."""
    X, y = problems.clean_task(draw)
    found = best_chains(X, y, problems.fitted_gates(draw, X), starts=1, nodes=0)
    again = draw.call(BestChains, **vars(found))
    expect(repr(again) == repr(found), "another text")
