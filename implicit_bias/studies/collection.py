"""Experiments of one source: the names are available at once, the modules are imported when first needed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from implicit_bias._utils.checks import InputError, one_of
from implicit_bias.studies.settings import chosen

if TYPE_CHECKING:
    from implicit_bias.studies.runner.experiment import Experiment


class Option(NamedTuple):
    """An option of a command, which sets a setting."""

    #: Default value; a tuple for a list of values.
    default: Any
    #: Help; if it is empty, the command sets the value in another way.
    text: str
    #: All values, which the shell completes; None if others are possible.
    offered: Sequence[str] | None = None
    #: Function from text to a value, by default the type of the default.
    kind: Callable[[str], Any] | None = None


def settled(options: Mapping[str, Option], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of all options, by default those of the options themselves.

    InputError is raised if an option is unknown, a list is empty or has a value twice, or a value is not among those
    offered.

    >>> settled({"units": Option((10,), "units"), "start": Option("here", "place", ("here", "there"))}, {"units": (5,)})
    {'units': (5,), 'start': 'here'}
    """
    settings = {name: option.default for name, option in options.items()} | dict(given)
    for name, value in settings.items():
        option = options[one_of(name, options, "option")]
        values = value if isinstance(option.default, tuple) else (value,)
        if len(set(values)) < len(values) or not values:
            raise InputError(f"--{name.replace('_', '-')} lists a value twice, or none; give each once")
        if option.offered:
            for one in values:
                one_of(one, option.offered, name.removesuffix("s"))
    return settings


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
    #: Help of the command, by default that of figures of `source`, and further examples (arguments, comment).
    text: str = ""
    examples: tuple[tuple[str, str], ...] = ()
    #: Options of the command by name; those that are given are passed to the `grid` of each experiment.
    options: Mapping[str, Option] = field(default_factory=dict)
    #: True if options only choose which cells of the grid are computed: results are of all stored cells of the grid.
    gathers: bool = False
    #: Words after `implicit-bias` that run the experiments, by default 'reproduce NAME'.
    command: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "command", self.command or f"reproduce {self.name}")

    @cached_property
    def figures(self) -> dict[str, Experiment]:
        """Dictionary from the value of --figure to the experiment, whose module is imported here."""
        from implicit_bias.studies.runner.experiment import Experiment

        every = (Experiment.of(f"{__package__}.{self.name}.{name.replace('-', '_')}") for name in self.names)
        return {one.name: one for one in every}

    @property
    def folder(self) -> str:
        """Folder of results: 'results/galu', 'results/compare_gln'."""
        return f"results/{self.command.removeprefix('reproduce ').replace(' ', '_').replace('-', '_')}"

    def chosen(self, *figures: str) -> list[Experiment]:
        """Return the named experiments, or all for 'all', in the order of `names`; InputError if a name is unknown."""
        return [self.figures[name] for name in chosen(self.figures, figures)]
