"""The paper's comparisons as one experiment: cells of three studies in one table, drawn and judged together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache, partial

from implicit_bias.datasets import BinaryTask, load_binary
from implicit_bias.experiments.paper import gln, relu, shallow_gln
from implicit_bias.experiments.paper.figures import paper_figures
from implicit_bias.experiments.paper.plan import chosen, grid
from implicit_bias.experiments.paper.plots import comparison_figures
from implicit_bias.experiments.paper.study import COLUMNS, Study
from implicit_bias.experiments.paper.verdicts import verdicts
from implicit_bias.experiments.runner.experiment import Experiment, Rows, Settings

#: The published seed of the split into training and validation samples.
SPLIT_SEED = 1
STUDIES = {study.name: study for study in (gln.STUDY, relu.STUDY, shallow_gln.STUDY)}


def data(settings: Settings, root: str | None) -> BinaryTask:
    """The task of a cell, as published."""
    return _task(settings["dataset"], settings["train_size"], root)


@lru_cache(maxsize=1)
def _task(dataset: str, train_size: int, root: str | None) -> BinaryTask:
    return load_binary(dataset, train_size, SPLIT_SEED, root)


def rows(settings: Settings, task: BinaryTask) -> Rows:
    """A row (`study.COLUMNS`) for every model, momentum and version."""
    cutoff = settings["cutoff"]
    shown = str(tuple(cutoff) if isinstance(cutoff, list) else cutoff)
    return [row | {"cutoff": shown} for row in STUDIES[settings["study"]].rows(settings, task)]


def cost(settings: Settings) -> float:
    """As the cell's study says."""
    return STUDIES[settings["study"]].cost(settings)


EXPERIMENT = Experiment(
    name="cells",
    title="The implicit bias of gated networks, certified",
    source='Lippl, Abbott & Chung, "The Implicit Bias of Gradient Descent on Generalized Gated Linear Networks"',
    claim="Trained networks agree with the margin problem of their bias, and its norm generalises better than the true "
    "L2 norm.",
    grid=lambda quick: grid(chosen("all"), quick=quick),
    rows=rows,
    cost=cost,
    draw=partial(paper_figures, numbers=chosen("all")),
    verdicts=verdicts,
    data=data,
    columns=COLUMNS,
    coordinates=("study", "train_size", "units", "contexts", "cutoff", "seed"),
)


def reproduction(figures: Sequence[str]) -> Experiment:
    """The experiment with some of the paper's figures.

    >>> from implicit_bias.experiments.paper.experiment import reproduction
    >>> len(reproduction(["2"]).grid(True))
    2
    """
    return replace(
        EXPERIMENT,
        grid=lambda quick: grid(figures, quick=quick),
        draw=partial(paper_figures, numbers=tuple(figures)),
    )


def comparison(study: Study) -> Experiment:
    """The experiment of one study alone, drawn in three panels.

    >>> from implicit_bias.experiments.paper.experiment import comparison
    >>> from implicit_bias.experiments.paper.gln import STUDY
    >>> comparison(STUDY).grid(True)[0]["contexts"]
    2
    """
    return replace(
        EXPERIMENT,
        name="comparison",
        title=study.title,
        grid=lambda quick: study.cells(replace(study.defaults, seeds=(1,)) if quick else study.defaults),
        draw=partial(comparison_figures, study),
    )
