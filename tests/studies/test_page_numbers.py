"""Numbers in the prose of pages are those of the committed tables, and pages stay short."""

import re

import numpy as np
import pandas as pd
import pytest

from implicit_bias.studies.gram import lazy
from implicit_bias.studies.gram.sphere import SMOOTH
from implicit_bias.studies.limit.limit import ends, verdicts
from implicit_bias.studies.localization import flips
from implicit_bias.studies.localization.common import LOCAL
from implicit_bias.studies.runner.mean_test import holm
from implicit_bias.studies.scale import GRID, scale
from tests import ROOT

#: Words of a page at most, without code; for reliability, whose tables a script makes, without tables as well.
BUDGETS = {"limit": 1500, "scale": 900, "best": 1500, "classes": 900, "deeper": 700, "benchmarks": 1800}
BUDGETS |= {"localization": 2000, "gram": 2000, "dynamics": 1500, "findings": 1200, "reproduction": 800}
BUDGETS |= {"errata": 1800, "reliability": 300}
NUMBER = r"\d+\.\d+"


def table(name):
    return pd.read_csv(ROOT / "data" / f"{name}.csv")


def page(name):
    return " ".join((ROOT / "docs" / f"{name}.md").read_text().split())


def span(values, form):
    return f"{values.min():{form}} to {values.max():{form}}"


def deeper():
    found = table("deeper/limits")
    ratio = (found.limit / found.best).groupby(found.layers)
    yield f"within {100 * (ratio.max()[2] - 1):.1f} % of the optimum"
    yield f"With three layers they have {span(ratio.get_group(3), '.3f')} times"
    yield f"with four {span(ratio.get_group(4), '.3f')} times"
    yield f"at most {found.tangent.max():.3f} times the least that is tangent"
    assert found.lower_bound.ge(found.best * (1 - 1e-3)).all()
    assert found.best_active[found.layers > 2].eq(2).all()


def best():
    tables = [table(f"best/{name}") for name in ("planar", "images", "pairs")]
    for found, text in zip(tables, ("the best norm on points", "on images", "on pairs"), strict=True):
        found["ratio"] = found.objective / found.best
        yield f"{span(found.ratio[found.method == 'limit'], '.3f')} times {text}"
    every = pd.concat(tables)
    inside, learned = (every[every.method == name] for name in ("LC in cones", "LC"))
    yield f"at most {inside.ratio[inside.units == 64].max():.3f} times the best norm"
    yield f"in {(learned.ratio < 1 - learned.gap).sum()} of {len(learned)} runs"
    yield f"All {(every.method == 'best').sum()} optima are certified"
    yield f"relative gaps of at most {every.gap.max():.0e}"
    ends = every.end[every.method == "limit"]
    yield f"{(ends == 'max_steps').sum()} of {len(ends)} runs reach the limit of steps"
    errors = 100 * tables[1].groupby("method").error.mean()
    yield f"error of {errors.best:.1f} %, the limits {errors.limit:.1f} %, and SVM-LC {errors.LC:.1f} %"


def limit():
    found = ends(table("limit/one_layer/limit"))
    mean = {verdict.claim: verdict.found.partition(" %")[0] for verdict in verdicts(found)}
    limits = found[found.descent == "loss-scaled"]
    fixed, learned = limits[limits.network != "learned-relu"], limits[limits.network == "learned-relu"]
    yield f"all {len(fixed)} descents have at most {fixed.ratio.max():.4f} times"
    yield f"{span(learned.ratio, '.2f')} times the least norm of their own gates"
    gln = 100 * found[found.network == "gln"].groupby("descent").inconsistency.mean()
    yield f"disagree on {gln['sgd']:.2f} % of images after training, disagree on {gln['loss-scaled']:.2f} %"
    apart, fixed, more, *_ = re.findall(NUMBER, mean["GD-ReLU disagrees with SVM-LC more than GD-FReLU with its gates"])
    yield f"SVM-LC on {apart} %; new weights trained with the same fixed gates disagree on {fixed} %"
    yield f"learning the gates adds {more} points"
    for claim, text in (
        ("the limit behind frozen gates has a higher error than that of learned gates", "has {} points more error"),
        ("SVM-RC has a higher error than SVM-LC", "SVM-RC with random gates has {} points more error"),
        ("SVM-Fro has a higher error than SVM-GLN", "SVM-Fro has {} points less error"),
    ):
        yield text.format(re.findall(NUMBER, mean[claim])[2])
    yield f"{(limits.end == 'max_steps').sum()} of {len(limits)} descents end at 20 000 steps"
    (lost,) = set(found[found.descent == "none"].groupby("network").size())
    yield f"({lost} cells each, H = 10 with momentum 0.9)"
    yield f"one gradient, {span(learned.stationarity, '.2f')} for"


def classes():
    found = table("classes/descent")
    ratio = found.groupby("network").ratio
    yield f"within {100 * (ratio.max().own - 1):.2f} % of the optimum"
    yield f"within {100 * (ratio.max().ten - 1):.2f} % of the optimum"
    yield f"{span(ratio.get_group('one'), '.2f')} times this optimum, learned ReLU gates at"
    yield f"{span(ratio.get_group('relu'), '.2f')} times"
    yield f"gaps of at most {found[['gap', 'other_gap']].max().max():.0e}"
    near = found[found.network.isin(("own", "ten"))]
    yield f"at most {100 * near.inconsistency.max():.1f} % of test images"
    yield f"up to {found['rank'].max():.1f} behind each gate"


def at_largest(dataset, *terms):
    """Return the mean of a quantity, or of the first minus the second, at the largest n of a data set."""
    own = table("scale/scale").query("dataset == @dataset")
    values, *others = (scale.quantity(own, term) for term in terms)
    values = (values - others[0] if others else values).dropna()
    return values.xs(values.index.unique("train_size").max(), level="train_size").to_numpy().mean()


def scale_numbers():
    found = table("scale/scale")
    names, place = ("mnist", "fashion-mnist"), list(GRID)
    assert found.groupby(place).ngroups == len(scale.grid(False))
    norm = [at_largest(name, scale.SVM_L2, scale.SVM_GLN) for name in names]
    yield f"{norm[0]:.2f} points of error on MNIST and {norm[1]:.2f} on Fashion-MNIST"
    for pair in ("GD-GLN and SVM-GLN", "GD-ReLU and SVM-LC"):
        apart = [at_largest(name, scale.INCONSISTENCIES[pair][0]) for name in names]
        yield f"{pair} on {apart[0]:.2f} and {apart[1]:.2f} %"
    pairs = (scale.GD_GLN, scale.SVM_GLN), (scale.GD_RELU, scale.SVM_LC)
    svms = [at_largest("mnist", *pair) for pair in pairs]
    yield f"by {svms[0]:.2f} points (SVM-GLN) and {svms[1]:.2f} points (SVM-LC)"
    limits = found[found.descent == "limit"].dropna(subset=["ratio"])
    fixed, learned = (limits[limits.model.isin(models)] for models in (("GD-GLN", "GD-FReLU"), ("GD-ReLU",)))
    reached = fixed[fixed.ratio <= scale.REACHED]
    yield f"{len(reached)} of {len(fixed)} descents reach"
    yield f"none of {len(learned)} reaches"
    assert set(fixed.train_size[fixed.ratio > scale.REACHED]) == {24_000}
    yield f"at ratios up to {fixed.ratio.max():.3f}"
    yield f"All {len(learned)} descents with learned gates end at {span(learned.ratio, '.3f')} times the least norm"
    problems = found[found.model.isin(("SVM-GLN", "SVM-LC"))]
    apart = reached[place].merge(problems, on=place).groupby(["network", "dataset"]).inconsistency.mean()
    yield f"differ on at most {100 * apart.max():.2f} % on average"
    values = [test.p for test in scale.tests(found)]
    yield f"Of {len(values)} intervals, Holm's method leaves {sum(p < 0.05 for p in holm(values))} clear of 0"
    yield f"gaps up to {found.gap[found.status == 'OPTIMAL'].max():.0e}"
    trained = found[found.model.str.startswith("GD") & (found.descent == "sgd") & (found.train_size >= 8000)]
    yield f"({int((trained.train_error == 0).sum())} of {len(trained)})"
    errors = found.query("dataset == 'mnist' and model == 'GD-ReLU' and train_size == 24_000 and units == 50")
    errors = 100 * errors.groupby("descent").error.mean()
    yield f"of GD-ReLU on MNIST from {errors['sgd']:.2f} to {errors['limit']:.2f} %."
    hidden = found[(found.model == "SVM-HL") & (found.descent == "sgd") & (found.train_size >= 8000)]
    assert hidden.status.str.startswith("NOT_SEPARABLE").all()


def localization():
    found = table("localization/gain").query("process == 'NLGP' and activation == 'erf'")
    erf = found.pivot(index="gain", columns="seed", values="ipr")
    falls, rises = (erf.loc[10] < erf.loc[3]).sum(), (erf.loc[100] > erf.loc[10]).sum()
    words = {4: "four", 5: "five"}
    yield f"falls from gain 3 to 10 in {words[falls]} seeds and rises again to 100 in {words[rises]}"
    runs = table("localization/flips").groupby(["seed", "units", "gain"])
    found = pd.DataFrame([flips._shape_and_place(run) for _, run in runs])
    yield f"{100 * found.placed.min():.0f} to 100 % within two pixels at IPRs of {span(found.ipr, '.3f')}"
    ends = table("localization/scales").query("gain == 100").assign(local=lambda units: 100 * (units.ipr > LOCAL))
    found = ends.groupby(["xi0", "seed"]).agg({"ipr": "median", "frequency": "median", "local": "mean"})
    here, there = found.loc[2], found.loc[1]
    yield f"forty ReLU units: {span(here.ipr, '.3f')} at gain 100"
    assert there.frequency.nunique() == 1
    yield f"peak frequency {there.frequency.max():g} against at most {here.frequency.max():g}"
    yield f"but {span(there.local, '.0f')} % of the units are local as well"


def gram():
    found = table("gram/dimension").query("d == 100").groupby("activation").lambda_min.median()
    assert 7 < found.max() / found.min() < 8
    assert "100 dimensions all are within a factor of eight" in page("gram")
    runs = pd.concat([table("gram/speed"), table("gram/lazy")]).query("d == 3")
    ends = runs[runs.step == 5000]
    yield f"keep at least {100 * ends.loss[ends.activation.isin(SMOOTH)].min():.1f} % of their loss after 5000 steps"
    times = pd.DataFrame([lazy.ratios(run) for _, run in table("gram/lazy").groupby("seed")])
    yield f"{span(times['16384'], '.2g')} times slower with 16 384"


def errata():
    key = ["units", "train_size", "momentum", "seed"]
    found = table("paper/cells").query("model == 'gates_only'").set_index(key)
    theirs = pd.read_csv(ROOT / "docs" / "errata" / "gates_only.csv").set_index(key)
    off, apart = 1 - found.error - theirs.accuracy, 1 - found.inconsistency - theirs.agreement
    yield f"{len(theirs)} of 108 cells are filled; the {len(found) - len(theirs)} empty ones"
    assert (found.status == np.where(found.index.isin(theirs.index), "OPTIMAL", "NOT_SEPARABLE_BELOW")).all()
    yield f"{(off.abs().lt(0.001005) & apart.abs().lt(0.005005)).sum()} of {len(theirs)} are reproduced"
    yield f"differ by up to {off.abs().max():.4f}, on average by {off.abs().mean():.4f}"
    moved = theirs.filter(like="changed").assign(own=1 - found.error).dropna()
    assert len(moved) == 3
    yield f"In three cells rounding moves them by up to {np.ptp(moved, axis=1).max():.4f}"


EACH = (best, classes, deeper, errata, gram, limit, localization, scale_numbers)
NUMBERS = {one.__name__.removesuffix("_numbers"): one for one in EACH}


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_in_prose_are_those_of_tables(name):
    text = page(name)
    assert [one for one in NUMBERS[name]() if one not in text] == []


@pytest.mark.parametrize("name", BUDGETS)
def test_page_is_short(name):
    left = r"^```.*?^```$|^    .*?$" + (r"|^\|.*?$" if name == "reliability" else "")
    text = re.sub(left, "", (ROOT / "docs" / f"{name}.md").read_text(), flags=re.S | re.M)
    assert len(text.split()) <= BUDGETS[name]
