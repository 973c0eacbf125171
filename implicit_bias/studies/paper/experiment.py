"""The paper's comparisons as one experiment: cells of three studies in one table, with common figures and verdicts."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial

from implicit_bias._utils.checks import InputError
from implicit_bias.datasets import BinaryTask
from implicit_bias.studies.paper import claims, plan
from implicit_bias.studies.paper.figures import comparison_figures, paper_figures
from implicit_bias.studies.paper.studies import STUDIES, VERSIONS, Config, Study
from implicit_bias.studies.paper.study import COMPARISONS
from implicit_bias.studies.paper.verdicts import verdicts
from implicit_bias.studies.runner.cells import binary_task
from implicit_bias.studies.runner.experiment import Experiment, Rows
from implicit_bias.studies.settings import Settings, product

__all__ = ["EXPERIMENT", "STUDIES", "cells", "comparison", "grid", "reproduction", "verdicts"]
NAME = "cells"
TITLE = "The implicit bias of gated networks, certified"
SOURCE = 'Lippl, Abbott & Chung, "The Implicit Bias of Gradient Descent on Generalized Gated Linear Networks"'
CLAIM = (
    "Trained networks agree with the margin problem of their bias, and its norm generalises better than the true L2 "
    "norm."
)
REVISION = 2
COLUMNS = (
    *("study", "dataset", "train_size", "units", "contexts", "seed", "split", "cutoff"),
    *("momentum", "version", "model", "status"),
    *("train_error", "closed", "error", "inconsistency", "expected_inconsistency", "objective", "gap"),
    *("farkas_residual", "normalised_margin", "iterations", "seconds", "solver"),
)
CLAIMS = {f"{part}.{key}": claim for part, own in claims.CLAIMS.items() for key, claim in own.items()}
COORDINATES = ("study", "train_size", "units", "contexts", "cutoff", "split", "seed")
data = binary_task


def rows(settings: Settings, task: BinaryTask) -> Rows:
    """Return a row for every model, momentum and version, with those of `COLUMNS` that apply to the model."""
    cutoff = settings["cutoff"]
    shown = str(tuple(cutoff) if isinstance(cutoff, list) else cutoff)
    return [row | {"cutoff": shown} for row in COMPARISONS[settings["study"]].rows(settings, task)]


def cost(settings: Settings) -> float:
    return COMPARISONS[settings["study"]].cost(settings)


def cells(study: Study, config: Config) -> list[Settings]:
    """Return a cell for each combination of train_size, units, contexts and seed in `config`; seeds change fastest.

    Raises InputError if the study fixes an option that `config` changes, or if gates cannot have these values.
    """
    for name, reason in study.fixed.items():
        if getattr(config, name) != study.default(name):
            raise InputError(reason)
    options = dict(vars(config))
    lists = {name: options.pop(name) for name in ("train_size", "units", "contexts")} | {"seed": options.pop("seeds")}
    found = [{"study": study.name, "dataset": config.dataset} | cell | options for cell in product(**lists)]
    for cell in found:
        COMPARISONS[study.name].gates(cell).check()
    return found


def grid(
    quick: bool,
    figures: Iterable[str] = tuple(plan.FIGURES),
    dataset: str = plan.PAPER["dataset"],
    versions: tuple[str, ...] = VERSIONS,
) -> list[Settings]:
    """Return the settings of the cells that the given figures show, each part of the grid once.

    The whole grid has n = 500, 1000 and 2000, seeds 1 to 3, momenta 0 and 0.9, and the cutoffs and widths in `plan`.
    Quick: n = 500, one seed, median cutoffs, no momentum for GLNs, and a few widths. The figure 'spreads' has ten other
    seeds (quick: three) and both momenta.

    >>> len(grid(False, ["4"])), len(grid(False, ["5"]))
    (144, 36)
    """
    base = Config(**plan.PAPER | {"dataset": dataset})
    found: list[Settings] = []
    for part in dict.fromkeys(part for figure in figures for part in plan.FIGURES[figure].parts):
        for cutoff in part.cutoffs[:1] if quick else part.cutoffs:
            wanted = tuple(version for version in part.versions if version in versions)
            config = replace(base, cutoff=cutoff, versions=wanted or versions)
            if quick:
                config = replace(config, train_size=(500,), seeds=(1,), momentum=part.momentum)
            lists = part.quick if quick else part.whole
            found += cells(part.study, replace(config, **lists)) if lists["units"] and wanted else []
    return found


draw = partial(paper_figures, numbers=tuple(plan.FIGURES))
EXPERIMENT = Experiment.of(__name__)


def reproduction(
    figures: Sequence[str] = tuple(plan.FIGURES),
    dataset: str = plan.PAPER["dataset"],
    versions: tuple[str, ...] = VERSIONS,
) -> Experiment:
    """Return the experiment restricted to some figures of the paper and of ours, a data set and versions."""
    own_grid = partial(grid, figures=figures, dataset=dataset, versions=versions)
    return replace(EXPERIMENT, grid=own_grid, draw=partial(paper_figures, numbers=figures))


def comparison(study: Study, config: Config | None = None) -> Experiment:
    """Return the experiment of one study with a configuration, by default `study.config()`, plotted in three panels."""
    whole = cells(study, config or study.config())
    return replace(
        EXPERIMENT,
        name="comparison",
        title=study.title,
        grid=lambda quick: [cell for cell in whole if not quick or cell["seed"] == whole[0]["seed"]],
        draw=partial(comparison_figures, study=study),
    )
