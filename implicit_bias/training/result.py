"""Loop and result of all training functions."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from implicit_bias._utils.checks import Array
from implicit_bias._utils.limits import Deadline, Interruptible


@dataclass(frozen=True, eq=False)
class TrainingResult:
    """Record of a training run of one network or of several.

    Attributes
    ----------
    table : DataFrame
        Measurements, the first before training: the columns `step` and `loss` (`log_loss` of `descend_to_limit`), and
        those that the function describes. Several networks have a row each, numbered in the column `network`.
    config : an optimiser of `train`, a descent of `descend_to_limit`, or the options of an extension
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
        """Last loss of every network, shape (R,)."""
        return np.asarray(self.table.loss.iloc[-max(1, len(self.networks)) :], dtype=float)


def drive(
    steps: Iterable[bool | None],
    record: Callable[[int], bool | None],
    due: Callable[[int, int], bool],
    deadline: Deadline,
    *,
    show: Callable[[int], None] | None = None,
) -> str:
    """Make steps until they converge, are exhausted, or the deadline passes; return the `end` of `TrainingResult`.

    Taking the next item of `steps` makes a step. `record`(step) is called before the first one, if `due`(step, last
    recorded step) is True, and at the end. An item or a record is True if training has converged. `show`(step) is
    called after the first record, and after each that was due. A KeyboardInterrupt in them ends the training.

    >>> rows = []
    >>> drive([None] * 5, rows.append, lambda step, recorded: step % 2 == 0, Deadline()), rows
    ('max_steps', [0, 2, 4, 5])
    """
    step = recorded = 0
    end = "max_steps"
    record(0)
    with deadline, Interruptible() as run:
        if show is not None:
            show(0)
        for step, converged in enumerate(steps, 1):
            if due(step, recorded):
                recorded = step
                converged = record(step) or converged
                if show is not None:
                    show(step)
            if converged or deadline.passed():
                end = "converged" if converged else deadline.reason
                break
    if recorded < step:
        record(step)
    return "interrupted" if run.interrupted or deadline.interrupted else end
