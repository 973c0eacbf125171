"""Experiments of one source: the names are available at once, the modules are imported when first needed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from implicit_bias.studies.settings import chosen

if TYPE_CHECKING:
    from implicit_bias.studies.runner.experiment import Experiment


@dataclass(frozen=True)
class Collection:
    """The experiments of one source, which `implicit-bias reproduce NAME` runs and plots."""

    #: Name of its folder here.
    name: str
    #: Authors and title.
    source: str
    #: The values of --figure in the order of the findings. Each is a module of the folder, with "-" in place of "_".
    names: tuple[str, ...]
    #: True if any of the experiments reads image files.
    images: bool = False

    @cached_property
    def figures(self) -> dict[str, Experiment]:
        """Dictionary from the value of --figure to the experiment, whose module is imported here."""
        from implicit_bias.studies.runner.experiment import Experiment

        return {name: Experiment.of(f"{__package__}.{self.name}.{name.replace('-', '_')}") for name in self.names}

    @property
    def command(self) -> str:
        """Words after `implicit-bias` that run the experiments: 'reproduce galu'."""
        return f"reproduce {self.name}"

    def chosen(self, *figures: str) -> list[Experiment]:
        """Return the named experiments, or all for 'all', in the order of `names`; InputError if a name is unknown."""
        return [self.figures[name] for name in chosen(self.figures, figures)]
