"""What the search for the best chains returns, and what it may begin with."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from implicit_bias._utils.checks import Array, InputError, as_floats, shown

if TYPE_CHECKING:
    from implicit_bias.extensions.best_networks.chains.network import ChainNetwork


@dataclass(frozen=True, eq=False)
class BestChains:
    """Chains of L layers, and what is proved of all others (`best_chains`).

    Attributes
    ----------
    network : ChainNetwork or None
        Float64, balanced, margins of at least 1 but for rounding; None if nothing separates.
    weights : array, shape (k, d)
        Its effective weights ζ; NaN if nothing separates.
    objective : float
        F(ζ) = ‖w‖²/L of `network`, over the power 2/L of its least margin, rounded up: an upper bound of the optimum.
    lower_bound : float
        No chains behind these gates have less; rounded down, infinity if it is proved that nothing separates.
    gap : float
        (objective − lower_bound)/objective.
    convex_bound : float
        The lower bound from the convex problem alone, (min Σ_b s_b)^{2/L}.
    end : 'certified', 'max_nodes', 'max_seconds', 'not separated' or 'interrupted'
        Why the search ended: the gap is within `tol`; a limit; nothing was found that separates.
    table : DataFrame
        A row for each convex problem: solve, seconds, start (from 0 on, `start` last; −1 for boxes and reweighting
        from what they found), objective of the weights that it gave, best (so far) and lower_bound.

    >>> from implicit_bias import ConstantGate
    >>> from implicit_bias.extensions.best_networks import best_chains
    >>> best = best_chains([[2.0, 1.0], [-2.0, 1.0]], [1, -1], ConstantGate(), layers=4)
    >>> best.end, round(best.objective, 6), best.gap < 1e-3
    ('certified', 0.707107, True)
    """

    network: ChainNetwork | None
    weights: Array = field(repr=False)
    objective: float
    lower_bound: float
    gap: float
    convex_bound: float
    end: str
    table: pd.DataFrame = field(repr=False)

    def __repr__(self) -> str:
        return f"BestChains({self.end}, objective={self.objective:.9g}, gap={self.gap:.1e}, {len(self.table)} solves)"


def starting_weights(start: Any, shape: tuple[int, int]) -> Array | None:
    """ζ (k, d) to start from, or None."""
    from implicit_bias.extensions.best_networks.chains.network import ChainNetwork
    from implicit_bias.networks import GatedNetwork

    if start is None or (isinstance(start, BestChains) and start.network is None):
        return None
    if isinstance(start, GatedNetwork) and not isinstance(start, ChainNetwork):
        raise InputError(f"start must be a ChainNetwork, an earlier answer, or weights (k, d), not {shown(start)}")
    weights = start.weights if isinstance(start, BestChains) else start
    weights = weights.effective_weights() if isinstance(weights, ChainNetwork) else as_floats(weights, "start", 2)
    if weights.shape != shape or not weights.any():
        raise InputError(f"start must have weights of shape {shape} that are not all 0")
    return np.asarray(weights)
