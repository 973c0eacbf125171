"""Every figure of the GaLU paper that is done again, by the value of --figure."""

from __future__ import annotations

from collections.abc import Iterable

from implicit_bias.checks import one_of
from implicit_bias.experiments.galu import (
    clusters,
    filters,
    images,
    memorisation,
    norms,
    outputs,
    separable,
    under_parametrised,
)
from implicit_bias.experiments.galu.base import Experiment

FIGURES: dict[str, Experiment] = {
    module.EXPERIMENT.name: module.EXPERIMENT
    for module in (memorisation, under_parametrised, outputs, filters, images, separable, clusters, norms)
}  # fmt: skip


def chosen(figure: str) -> Iterable[Experiment]:
    """The experiments that 'all' or one figure's name stands for.

    >>> from implicit_bias.experiments.galu.figures import chosen
    >>> [experiment.name for experiment in chosen("norms")]
    ['norms']
    """
    return FIGURES.values() if one_of(figure, [*FIGURES, "all"], "figure") == "all" else (FIGURES[figure],)
