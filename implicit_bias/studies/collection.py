"""Experiments of one source: their names are available at once, and everything else is loaded when needed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from implicit_bias.studies.settings import chosen

if TYPE_CHECKING:
    from implicit_bias.studies.runner.experiment import Experiment


@dataclass(frozen=True)
class Collection:
    """The experiments of one source, which `implicit-bias reproduce NAME` runs and draws.

    >>> from implicit_bias.studies.galu import COLLECTION
    >>> COLLECTION.command, [experiment.name for experiment in COLLECTION.chosen("norms")]
    ('reproduce galu', ['norms'])
    """

    #: Name of its folder here.
    name: str
    #: Authors and title.
    source: str
    #: The values of --figure in the order of the findings: with underscores, the modules of the folder.
    names: tuple[str, ...]
    #: True if any of them reads image files.
    images: bool = False

    @cached_property
    def figures(self) -> dict[str, Experiment]:
        """The experiments, by the value of --figure."""
        from implicit_bias.studies.runner.experiment import Experiment

        return {name: Experiment.of(f"{__package__}.{self.name}.{name.replace('-', '_')}") for name in self.names}

    @property
    def command(self) -> str:
        """The command's words."""
        return f"reproduce {self.name}"

    def chosen(self, *figures: str) -> list[Experiment]:
        """The experiments that names, or 'all', stand for, in their order."""
        return [self.figures[name] for name in chosen(self.figures, figures)]
