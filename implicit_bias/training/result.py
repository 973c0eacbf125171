"""The result of every kind of training."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from implicit_bias._utils.checks import Array


@dataclass(frozen=True, eq=False)
class TrainingResult:
    """Record of a training run of one network or of several.

    Attributes
    ----------
    table : DataFrame
        Measurements, the first before training: the columns `step` and `loss` (`log_loss` of `descend_to_limit`), and
        those that the function describes. Several networks have a row each, numbered in the column `network`.
    config : SGD, Adam, LossScaled, PlainDescent, or the options of an extension
    end : 'max_steps', 'converged', 'max_seconds' or 'interrupted'
        'converged' if the tolerance or target was reached, 'interrupted' by Ctrl-C.
    seconds : float
        Wall-clock time.
    seed : int, optional
        Seed of the batches; None if no batches are drawn.
    networks : tuple
        The networks that were trained, with their latest weights.

    Examples
    --------
    >>> from implicit_bias import SGD, ReLUNetwork, load_binary, train
    >>> task = load_binary("digits", train_size=100)
    >>> result = train(ReLUNetwork(65, 20), task.X_train, task.y_train, SGD(steps=50))
    >>> len(result.table), bool(result.table.loss.iloc[-1] < result.table.loss.iloc[0])
    (51, True)
    >>> result.end, result.interrupted
    ('max_steps', False)
    """

    table: pd.DataFrame = field(repr=False)
    config: Any
    end: str
    seconds: float = field(repr=False)
    seed: int | None = None
    networks: tuple[Any, ...] = field(default=(), repr=False)

    @property
    def interrupted(self) -> bool:
        """True if Ctrl-C ended the training early."""
        return self.end == "interrupted"

    @property
    def losses(self) -> Array:
        """The last loss of every network, shape (R,)."""
        return np.asarray(self.table.loss.iloc[-max(1, len(self.networks)) :], dtype=float)
