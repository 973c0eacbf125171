"""The paper's comparisons as one experiment: cells of three studies in one table, drawn and judged together."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from implicit_bias.datasets import BinaryTask
from implicit_bias.studies.paper.figures import comparison_figures, paper_figures
from implicit_bias.studies.paper.plan import FIGURES, PAPER, grid
from implicit_bias.studies.paper.studies import STUDIES, VERSIONS, Config, Study
from implicit_bias.studies.paper.study import COLUMNS
from implicit_bias.studies.paper.verdicts import verdicts
from implicit_bias.studies.runner.cells import binary_task
from implicit_bias.studies.runner.experiment import Experiment, Rows, Settings


def rows(settings: Settings, task: BinaryTask) -> Rows:
    """A row (`study.COLUMNS`) for every model, momentum and version."""
    cutoff = settings["cutoff"]
    shown = str(tuple(cutoff) if isinstance(cutoff, list) else cutoff)
    return [row | {"cutoff": shown} for row in STUDIES[settings["study"]].module.rows(settings, task)]


def reproduction(
    figures: Sequence[str] = tuple(FIGURES), dataset: str = PAPER["dataset"], versions: tuple[str, ...] = VERSIONS
) -> Experiment:
    """The experiment with some of the paper's figures, and of ours.

    >>> len(reproduction(["4"]).grid(True))
    2
    """
    return Experiment(
        name="cells",
        title="The implicit bias of gated networks, certified",
        source='Lippl, Abbott & Chung, "The Implicit Bias of Gradient Descent on Generalized Gated Linear Networks"',
        claim="Trained networks agree with the margin problem of their bias, and its norm generalises better than the "
        "true L2 norm.",
        grid=lambda quick: grid(figures, quick=quick, dataset=dataset, versions=versions),
        rows=rows,
        cost=lambda settings: STUDIES[settings["study"]].module.cost(settings),
        draw=partial(paper_figures, numbers=figures),
        verdicts=verdicts,
        data=binary_task,
        revision=2,
        columns=COLUMNS,
        coordinates=("study", "train_size", "units", "contexts", "cutoff", "split", "seed"),
    )


EXPERIMENT = reproduction()


def comparison(study: Study, config: Config | None = None) -> Experiment:
    """The experiment of one study alone, of its defaults or another configuration, drawn in three panels.

    >>> comparison(STUDIES["compare_gln"]).grid(True)[0]["contexts"]
    2
    """
    asked = config or study.config()
    return replace(
        EXPERIMENT,
        name="comparison",
        title=study.title,
        grid=lambda quick: study.cells(replace(asked, seeds=asked.seeds[:1]) if quick else asked),
        draw=partial(comparison_figures, study=study),
    )
