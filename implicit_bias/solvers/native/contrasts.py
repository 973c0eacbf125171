"""Fewer columns of gate values with the same group kernels."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from implicit_bias._utils.checks import Array

#: Columns of a group up to which it is turned into contrasts.
MOST_CONTEXTS = 64


@dataclass(frozen=True)
class Contrasts:
    """Columns G' = GL, `turn` being L (k̂, k'), and `share`, S (k', H), with Σ_{j∈h} g_j g_jᵀ = Σ_j S_jh g'_j g'_jᵀ."""

    turn: sp.csr_array
    share: sp.coo_array

    def of(self, G: Array) -> Array:
        """GL, shape (n, k')."""
        return np.ascontiguousarray(G @ self.turn)


def contrasts(parts: Callable[[], Iterable[Array]], groups: np.ndarray) -> Contrasts:
    """Those of gate values (n, k̂) that `parts()` gives some rows at a time, as often as it is called.

    A group whose gate values have the same sum in every sample (one-hot contexts, an always-on gate) is turned by
    Helmert's orthogonal matrix into that constant and c − 1 contrasts; all groups then share one constant column.
    Columns that are zero in every sample are left out. Groups of more than MOST_CONTEXTS columns stay as they are: one
    column fewer is not worth the turn.
    """
    index = np.unique(groups, return_inverse=True)[1]
    sizes = np.bincount(index)
    H, k = len(sizes), len(index)
    members = np.split(np.argsort(index, kind="stable"), np.cumsum(sizes)[:-1])
    total = sp.csr_array((np.ones(k), (np.arange(k), index)), shape=(k, H))
    low, high = np.full(H, np.inf), np.full(H, -np.inf)
    for part in parts():
        sums = part @ total
        low, high = np.minimum(low, sums.min(axis=0)), np.maximum(high, sums.max(axis=0))
    constant = np.where((low == high) & (low != 0) & (sizes <= MOST_CONTEXTS), low, 0.0)
    turn, owners = _turn(members, constant)
    used = np.zeros(turn.shape[1], dtype=bool)
    for part in parts():
        used |= (part @ turn).any(axis=0)
    # The constant column counts in every group that it is of.
    own, first = np.arange(len(owners)), turn.shape[1] - len(owners)
    places = np.concatenate([np.zeros(first * H, dtype=np.int64), own + first]), np.append(np.arange(first * H), owners)
    values = np.concatenate([(constant**2 / sizes)[: first * H], np.ones(len(owners))])
    share = sp.csr_array((values, places), shape=(turn.shape[1], H))
    return Contrasts(sp.csr_array(turn[:, used]), sp.coo_array(share[used]))


def _turn(members: list[np.ndarray], constant: Array) -> tuple[sp.csc_array, np.ndarray]:
    """L (k̂, k'), the column that is 1 first if there is one, and the group of each other column.

    `members` are the columns of each group, `constant` (H,) their sum where it is the same in every sample, else 0.
    """
    first = np.flatnonzero(constant)[:1]
    rows = [members[h] for h in first]
    columns = [0 * own for own in rows]
    values = [np.full(len(own), 1 / constant[h]) for h, own in zip(first, rows, strict=True)]
    owners: list[int] = []
    for h, own in enumerate(members):
        c = len(own)
        block = np.eye(c) if constant[h] == 0 else scipy.linalg.helmert(c).T if c > 1 else np.zeros((1, 0))
        i, j = np.nonzero(block)
        rows.append(own[i])
        columns.append(j + len(first) + len(owners))
        values.append(block[i, j])
        owners += [h] * block.shape[1]
    places = np.concatenate(rows), np.concatenate(columns)
    shape = sum(map(len, members)), len(first) + len(owners)
    return sp.csc_array((np.concatenate(values), places), shape=shape), np.array(owners, dtype=np.int64)
