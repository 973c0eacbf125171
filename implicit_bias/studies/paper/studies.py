"""Options of the paper's comparisons, their defaults, and the three studies.

The module imports nothing that computes them, so that the help of the commands is printed at once.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from implicit_bias._utils.checks import InputError, as_count, one_of

if TYPE_CHECKING:
    from implicit_bias.gates.hyperplanes import Cutoff

#: The comparison without and with the published faults.
VERSIONS = ("corrected", "published")
#: Splits of the data: as published, by seed 1, or by the seed of the cell.
SPLITS = ("published", "own")
#: Every published fault, by the name that `Config.faults` and the functions of `published` take.
FAULTS = ("column-major groups", "equation 23", "lost cutoffs", "always-on gate", "one draw", "training")


@dataclass(frozen=True)
class Config:
    """Configuration of a comparison: every combination of the lists is a cell.

    `versions` contains 'corrected', 'published' or both; the published version has the `faults` (a part of `FAULTS`).
    The seed of a cell determines gates, initial weights and batches. If `split` is 'own', the seed also determines the
    split of the data; otherwise the split is the published one. Raises InputError if a value is out of range.
    """

    dataset: str = "digits"
    train_size: tuple[int, ...] = (500,)
    units: tuple[int, ...] = (10,)
    contexts: tuple[int, ...] = (2,)
    seeds: tuple[int, ...] = (1, 2, 3)
    momentum: tuple[float, ...] = (0.0,)
    cutoff: Cutoff = "median"
    split: str = "published"
    versions: tuple[str, ...] = ("corrected",)
    faults: tuple[str, ...] = FAULTS
    solver: str | None = None
    tol: float = 1e-6
    steps: int = 3200

    def __post_init__(self) -> None:
        # These imports take seconds, and help does not need them.
        from implicit_bias.datasets import dataset_names
        from implicit_bias.solvers import solver_names
        from implicit_bias.solvers.base import as_tolerance
        from implicit_bias.training.optimisers import SGD

        counts = ("train_size", "units", "contexts", "seeds")
        for name in (*counts, "momentum", "versions", "faults"):
            values = getattr(self, name)
            if isinstance(values, str) or not isinstance(values, Iterable):
                raise InputError(f"{name} must list its values, as in {name}=({values!r},)")
            values = tuple(as_count(v, name, least=int(name != "seeds")) if name in counts else v for v in values)
            object.__setattr__(self, name, values)
            if not values and name != "faults":
                raise InputError(f"{name} is empty; give at least one value")
            if len(set(values)) < len(values) and name != "faults":
                raise InputError(f"{name} lists a value twice; give each once")
        one_of(self.dataset, dataset_names(), "data set")
        for momentum in self.momentum:
            SGD(steps=self.steps, momentum=momentum)
        if self.solver is not None:
            one_of(self.solver, solver_names(), "solver")
        for version in self.versions:
            one_of(version, VERSIONS, "version")
        one_of(self.split, SPLITS, "split")
        for fault in self.faults:
            one_of(fault, FAULTS, "fault")
        as_tolerance(self.tol)


@dataclass(frozen=True)
class Study:
    """A comparison of the model that gradient descent trains with margin problems: name, defaults and limits."""

    #: Words of the command, joined by underscores.
    name: str
    title: str
    #: Options of the command, as an example in its help.
    example: str
    #: Name of the trained model.
    reference: str
    #: Defaults that differ from those of `Config`.
    defaults: dict[str, Any]
    #: Options that must have their default values, with the reason.
    fixed: dict[str, str] = field(default_factory=dict)

    def default(self, name: str) -> Any:
        """Return the default of the option `name` in this study."""
        return self.defaults.get(name, getattr(Config, name))

    def config(self, **options: Any) -> Config:
        """Return a configuration with the given options, and the defaults of this study for all others."""
        return Config(**self.defaults | options)


STUDIES = {
    study.name: study
    for study in (
        Study(
            name="compare_gln",
            title="Gated linear networks: gradient descent and the margin problems",
            example="--dataset mnist --units 10 20 --seeds 1",
            reference="GD-GLN",
            defaults={"units": (5, 10)},
        ),
        Study(
            name="compare_relu",
            title="ReLU networks: gradient descent and the margin problems",
            example="--units 10 20 --momentum 0 0.9",
            reference="GD-ReLU",
            defaults={"units": (10, 20)},
            fixed={"contexts": "a ReLU unit has two contexts, open and closed; leave contexts at 2"},
        ),
        Study(
            name="compare_shallow_gln",
            title="Shallow gated linear networks: gradient descent and the margin problem",
            example="--contexts 1 2 4 8 16",
            reference="GD-shallow",
            defaults={"units": (1,), "contexts": (1, 2, 4, 8, 16)},
            fixed={"units": "a shallow GLN has one unit; vary its contexts instead, and leave units at 1"},
        ),
    )
}
