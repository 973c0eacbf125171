"""The figures of one source, which one command draws again."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from implicit_bias.experiments.runner.experiment import Experiment
from implicit_bias.ground.checks import one_of


@dataclass(frozen=True)
class Collection:
    """What `implicit-bias reproduce NAME` draws.

    >>> from implicit_bias.experiments.galu.figures import COLLECTION
    >>> COLLECTION.command, COLLECTION.figures["norms"].grid(True)[0]["sigma_y"]
    ('reproduce galu', 0.0)
    """

    name: str
    #: Authors and title.
    source: str
    #: The experiments in the order of the findings, by the value of --figure.
    figures: dict[str, Experiment]

    @property
    def command(self) -> str:
        """The command's words."""
        return f"reproduce {self.name}"

    def chosen(self, figure: str) -> Iterable[Experiment]:
        """The experiments that 'all' or one figure's name stands for.

        >>> from implicit_bias.experiments.galu.figures import COLLECTION
        >>> [experiment.name for experiment in COLLECTION.chosen("norms")]
        ['norms']
        """
        name = one_of(figure, [*self.figures, "all"], "figure")
        return self.figures.values() if name == "all" else (self.figures[name],)
