"""The paper's grid, its figures and its findings, from tables made up and from our own run."""

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from implicit_bias.experiments.paper.findings import findings

from implicit_bias import InputError
from implicit_bias.experiments.paper.figures import LAYOUTS, paper_figure
from implicit_bias.experiments.paper.plan import FIGURES, chosen, plan
from implicit_bias.experiments.paper.report import load_results, save_results
from implicit_bias.experiments.runner.verdicts import as_markdown

ROOT = Path(__file__).parent.parent
OURS = ROOT / "data" / "paper"


@pytest.fixture(scope="module")
def ours():
    return load_results(OURS)[0]


def cells(study, models, **values):
    """A table with one row a model and seed; `values` are columns, or a function of model and seed."""
    rows = []
    for seed in (1, 2, 3):
        for model in models:
            row = dict(study=study, dataset="mnist", train_size=500, units=10, contexts=2, seed=seed, cutoff="median",
                       momentum=0.0, version="corrected", model=model, status="OPTIMAL", error=0.1, closed=0, gap=1e-8,
                       inconsistency=0.05, expected_inconsistency=0.2)  # fmt: skip
            rows.append(row | {name: v(model, seed) if callable(v) else v for name, v in values.items()})
    return pd.DataFrame(rows)


def test_the_grid_is_the_issues():
    count = {study.name: 0 for study, _ in plan(FIGURES)}
    for study, config in plan(FIGURES):
        count[study.name] += len(config.cells())
        assert config.momentum == (0.0, 0.9)
        assert config.versions == ("corrected", "published")
    assert count == {"compare_gln": 144, "compare_relu": 54, "compare_shallow_gln": 288}


def test_figures_are_chosen_by_name():
    assert chosen("all") == ("2", "3", "4", "5")
    assert chosen("4") == ("4",)
    with pytest.raises(InputError, match="known: 2, 3, 4, 5, all"):
        chosen("6")


def test_a_figure_draws_means_over_seeds_in_percent():
    table = cells("compare_gln", ["GD-GLN", "SVM-GLN"], error=lambda model, seed: 0.01 * seed)
    ax = paper_figure(table, "2").axes[0]
    marks = [line.get_ydata() for line in ax.get_lines() if len(line.get_ydata()) == 1]
    assert any(np.allclose(y, 2.0) for y in marks)
    assert ax.get_ylabel() == "2 contexts\nvalidation error (%)"


def test_inseparable_widths_are_crosses_not_gaps():
    status = lambda model, seed: "OPTIMAL" if model.startswith("GD") else "NOT_SEPARABLE"  # noqa: E731
    error = lambda model, seed: 0.1 if model.startswith("GD") else np.nan  # noqa: E731
    table = cells("compare_relu", ["GD-ReLU", "SVM-LC"], status=status, error=error, inconsistency=np.nan)
    ax = paper_figure(table, "4").axes[0]
    crosses = [line for line in ax.get_lines() if line.get_marker() == "x" and len(line.get_xdata())]
    assert len(crosses) == 1


def test_figures_refuse_what_the_table_lacks():
    table = cells("compare_gln", ["GD-GLN", "SVM-GLN"])
    with pytest.raises(InputError, match="no cells of figure 5"):
        paper_figure(table, "5")
    with pytest.raises(InputError, match="unknown figure"):
        paper_figure(table, "1")


@pytest.mark.parametrize(("l2", "word"), [(0.13, "Yes"), (0.08, "No")])
def test_the_verdict_follows_the_numbers(l2, word):
    errors = lambda model, seed: {"SVM-L2": l2, "SVM-GLN": 0.1}.get(model, 0.12) + 0.001 * seed  # noqa: E731
    found = findings(cells("compare_gln", ["GD-GLN", "SVM-L2", "SVM-GLN"], error=errors))
    assert found[0].answer.startswith(word)
    assert (
        f"{abs(100 * (l2 - 0.1)):.2f} ± 0.00 percentage points {'above' if word == 'Yes' else 'below'}"
        in found[0].answer
    )


def test_missing_cells_are_counted_by_their_reason():
    status = lambda model, seed: "OPTIMAL" if seed == 3 else "NOT_SEPARABLE"  # noqa: E731
    table = cells("compare_relu", ["SVM-LC"], status=status, closed=lambda model, seed: int(seed == 1))
    answer = next(f.answer for f in findings(table) if "missing" in f.question)
    assert "Of 3 margin problems 1 are OPTIMAL" in answer
    assert "2 are proved NOT_SEPARABLE, and 0 are anything else" in answer
    assert "1 of the inseparable ones hold samples whose every gate is closed" in answer


def test_findings_compare_only_what_both_have():
    """Median cutoffs at two sizes, random ones at the easier: unpaired means would favour the random ones."""
    hard = cells("compare_gln", ["SVM-GLN"], error=0.15)
    easy = cells("compare_gln", ["SVM-GLN"], error=0.05, train_size=2000)
    random = cells("compare_gln", ["SVM-GLN"], error=0.08, train_size=2000, cutoff="random")
    found = findings(pd.concat([hard, easy, random]))
    answer = next(f.answer for f in found if "median cutoffs" in f.question)
    assert answer.startswith("Yes: with random cutoffs SVM-GLN's error is 3.00 ± 0.00 percentage points above")
    lost = random.assign(error=np.nan, status="NOT_SEPARABLE")
    assert not any(
        "random ones" in f.question for f in findings(pd.concat([hard, easy, lost])) if "cutoffs" in f.question
    )


@pytest.mark.parametrize(("later", "word"), [(0.04, "Yes"), (0.05, "Not clearly"), (0.06, "No")])
def test_the_verdict_on_momentum(later, word):
    slow = cells("compare_gln", ["SVM-GLN"], inconsistency=0.05)
    fast = cells("compare_gln", ["SVM-GLN"], inconsistency=later, momentum=0.9)
    found = findings(pd.concat([slow, fast]))
    assert next(f.answer for f in found if "momentum" in f.question).startswith(word)


def test_the_published_numbers_are_those_of_mnist():
    table = cells("compare_gln", ["GD-GLN"], version="published")
    assert any("published numbers" in f.question for f in findings(table))
    assert not any("published numbers" in f.question for f in findings(table.assign(dataset="digits")))


@pytest.mark.parametrize("damage", [lambda r: [1], lambda r: r | {"sha256": "0"}, lambda r: {"studies": [1]}])
def test_damaged_results_are_refused(tmp_path, damage):
    save_results(cells("compare_gln", ["GD-GLN"]), {"missing": 0}, tmp_path)
    table, record = load_results(tmp_path)
    assert len(table) == 3
    (tmp_path / "record.json").write_text(json.dumps(damage(record)))
    with pytest.raises(InputError, match="damaged results"):
        load_results(tmp_path)


def test_a_table_cut_short_is_refused(tmp_path):
    save_results(cells("compare_gln", ["GD-GLN"]), {"missing": 0}, tmp_path)
    whole = (tmp_path / "cells.csv").read_bytes()
    (tmp_path / "cells.csv").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match="damaged results"):
        load_results(tmp_path)


def test_every_cell_of_our_run_is_certified(ours):
    """The issue's promise: OPTIMAL with its gap, or NOT_SEPARABLE with its certificate, and none missing."""
    solved = ours[~ours.model.str.startswith("GD-")]
    assert set(solved.status) == {"OPTIMAL", "NOT_SEPARABLE"}
    assert solved[solved.status == "OPTIMAL"].gap.max() <= 1e-6
    assert solved[solved.status == "NOT_SEPARABLE"].farkas_residual.max() <= 1e-13
    keys = ["train_size", "units", "contexts", "seed", "cutoff"]
    for study, config in plan(FIGURES):
        part = ours[(ours.study == study.name) & (ours.cutoff == config.cutoff)]
        assert len(part[keys].drop_duplicates()) == len(config.cells())
        settings = part.groupby([*keys, "momentum", "version"]).size()
        assert len(settings) == 4 * len(config.cells())


def test_the_published_numbers_are_met_by_our_run(ours):
    details = findings(ours)[-1].details
    assert len(details) == 6
    off = (details.ours - details.published).abs()
    assert off[details.quantity == "accuracy"].max() <= 0.001
    assert off[details.quantity == "agreement"].max() <= 0.005


def test_the_page_of_findings_is_made_from_our_run(ours):
    assert as_markdown(findings(ours)) in (ROOT / "docs" / "findings.md").read_text()


@pytest.mark.parametrize("figure", LAYOUTS)
def test_our_run_draws_every_figure(ours, figure):
    drawing = paper_figure(ours, figure)
    titles = {re.sub(r", n = \d+", "", ax.get_title()) for ax in drawing.axes}
    assert {"corrected", "as published"} <= titles
