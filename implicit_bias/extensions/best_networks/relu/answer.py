"""What the search for the best ReLU network returns, and what it may begin with."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from implicit_bias._utils.checks import Array, InputError, shown

if TYPE_CHECKING:
    from implicit_bias.networks import ReLUNetwork


@dataclass(frozen=True, eq=False)
class BestNetwork:
    """A two-layer ReLU network, and what is proved of all others (`best_network`).

    Attributes
    ----------
    network : ReLUNetwork or None
        Float64, margins of at least 1 but for rounding; None if none was found that separates. Of a soft margin the
        network of least cost, None if it is the one without units.
    objective : float
        Σ_j |a_j|‖w_j‖ over the least margin, of `network` as it stands, rounded up: an upper bound of the optimum. Of a
        soft margin Σ_j |a_j|‖w_j‖ and the price of its slack.
    lower_bound : float
        Σ_i λ_i over a bound of every unit's pull, rounded down: no network of any width has less.
    gap : float
        (objective − lower_bound)/objective.
    margins : array, shape (n,)
        y_i f(x_i).
    dual : array, shape (n,)
        λ, scaled so that no unit pulls more than 1, and of a soft margin no λ_i is above C.
    complete : bool
        Whether the lower bound is as large as its λ allows: every subset was followed to its end.
    end : 'certified', 'no pattern', 'max_rounds', 'max_seconds', 'not separated' or 'interrupted'
        Why the search ended: the gap is within `tol`; nothing was found that pulls more; a limit; no network up to the
        lower bound separates, which then is out of scale.
    table : DataFrame
        A row for each round: round, seconds, patterns, objective, lower_bound, pull (the most found under its λ).

    >>> from implicit_bias.extensions.best_networks import best_network
    >>> best = best_network([[-1.0, 1.0], [0.0, 1.0], [1.0, 1.0]], [1, -1, 1])
    >>> best.end, round(best.objective, 4), best.gap < 1e-6
    ('certified', 5.0, True)
    """

    network: ReLUNetwork | None
    objective: float
    lower_bound: float
    gap: float
    margins: Array
    dual: Array
    complete: bool
    end: str
    table: pd.DataFrame = field(repr=False)

    def __repr__(self) -> str:
        units = "no network" if self.network is None else f"{self.network.units[0]} units"
        return f"BestNetwork({self.end}, objective={self.objective:.9g}, gap={self.gap:.1e}, {units})"


def starting_units(start: Any, d: int) -> Array:
    """The hidden weights of a network to start from, shape (H, d)."""
    from implicit_bias.networks import ReLUNetwork

    network = start.network if isinstance(start, BestNetwork) else start
    if network is None:
        return np.zeros((0, d))
    if not isinstance(network, ReLUNetwork) or len(network.units) != 1 or network.inputs != d:
        raise InputError(f"start must be a ReLUNetwork of one hidden layer with {d} inputs, not {shown(start)}")
    return network.layers[0].detach().cpu().double().numpy()
