"""The limit study as a command: its table, what is stored and resumed, and what is refused."""

import json
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import pytest

from implicit_bias import SGD, ReLUNetwork, load_binary
from implicit_bias.studies.limit import limit as study
from implicit_bias.studies.limit import networks
from implicit_bias.studies.limit.limit import ends, verdicts
from implicit_bias.studies.limit.references import Measurer
from tests.cli.commands import run

SMALL = ("--units=5", "--train-size=40", "--start=initial", "--tolerance=0.05", "--max-seconds=1e6", "--max-steps=1200")


def limit(out, *options):
    return run(*SMALL, "--jobs=1", *options, "--out", out, command="reproduce limit")


def test_the_command(tmp_path, unpainted):
    names = ["gln", "linear"]
    done = limit(tmp_path, "--network", *names)
    assert done.returncode == 0, done.stderr
    table = pd.read_csv(tmp_path / "limit.csv")
    assert table.network.drop_duplicates().tolist() == names
    assert set(table.descent) == {"plain", "loss-scaled"}
    last = table[table.descent == "loss-scaled"].groupby("network").last()
    assert last.ratio["gln"] <= 1.05
    assert (table.ratio.dropna() >= 1 - 1e-9).all()
    record = json.loads((tmp_path / "record.json").read_text())
    assert record["end"] == "finished"
    assert ends(table).end.tolist() == ["converged", "max_steps"] * 2
    assert table.optimum[0] > 0
    assert "ends at the certified optimum" in (tmp_path / "findings.md").read_text()
    again = limit(tmp_path, "--network", *names)
    assert "2 stored earlier" in again.stderr
    pd.testing.assert_frame_equal(pd.read_csv(tmp_path / "limit.csv"), table)


def test_deep_networks_are_held_against_a_certified_bound(tmp_path, monkeypatch, unpainted):
    """Ratios to the bound are at least 1; fixed gates have one bound for all starts, learned gates one per end."""
    for module in (study, networks):
        monkeypatch.setattr(module, "SGD", partial(SGD, steps=800))
    names = ["deep-gln", "deep-relu", "deep-frozen-relu"]
    options = ("--network", *names, "--draws", 2, "--descents", "loss-scaled", "--start", "trained", "--units", 3)
    done = limit(tmp_path, *options, "--max-steps", 100)
    assert done.returncode == 0, done.stderr
    assert "the best start of deep-gln has at least half of the largest margin" in done.stdout
    table = pd.read_csv(tmp_path / "limit.csv").set_index("network")
    assert table.index.drop_duplicates().tolist() == names
    for name in names:
        known = table.loc[name].dropna(subset="ratio")
        assert (known.ratio >= 1).all()
        assert known.groupby("draw").end.last().index.tolist() == [0, 1]
        assert known.optimum.nunique() == (2 if name == "deep-relu" else 1)
    assert table.loc["deep-relu"].ratio.notna().sum() == 2


def test_what_is_finite_time_and_what_is_gates(tmp_path, monkeypatch, unpainted):
    """`relu` and `learned-relu` share their training, rows follow the path, and contrasts over seeds are reported."""
    for module in (study, networks):
        monkeypatch.setattr(module, "SGD", partial(SGD, steps=800))
    names = ["learned-relu", "relu", "random-relu", "retrained-relu"]
    options = ("--seeds", 1, 2, "--units", 8, "--descents", "sgd", "loss-scaled", "--start", "trained")
    done = limit(tmp_path, "--network", *names, *options, "--max-steps", 100)
    assert done.returncode == 0, done.stderr
    table = pd.read_csv(tmp_path / "limit.csv")
    assert table.error.dropna().between(0, 1).all()
    last = ends(table).set_index(["network", "seed", "descent"])
    for seed in (1, 2):
        trained = [last.loc[name, seed, "sgd"] for name in ("learned-relu", "relu")]
        np.testing.assert_array_equal(*(row[["error", "norm", "optimum"]].astype(float) for row in trained))
    way = table[(table.network == "learned-relu") & (table.seed == 1) & (table.descent == "sgd")]
    assert way.step.tolist() == [0, *(2**k for k in range(10)), 800]
    frozen = table[(table.network == "random-relu") & (table.seed == 1)]
    assert frozen.optimum.nunique() == 1
    assert way.optimum.nunique() > 1
    page = (tmp_path / "findings.md").read_text()
    assert "the limit behind frozen gates has a higher error than that of learned gates" in page
    assert "2 seeds of one split" in page
    assert (tmp_path / "limit_ends.png").is_file()


def test_many_gates_that_learn_have_a_reference_at_the_ends_only():
    """Many learned gates have a reference in the last row only, that of the same gates frozen."""
    task, network = load_binary("digits", train_size=40), ReLUNetwork(65, 10)
    followed, measure = Measurer(task)(network), Measurer(task, followed_up_to=40**2 * 10 - 1)
    on_the_way, last = measure(network), measure(network, last=True)
    assert np.isnan([on_the_way["optimum"], on_the_way["ratio"]]).all()
    assert on_the_way["error"] == last["error"]
    assert last == pytest.approx(followed, nan_ok=True, rel=1e-9)
    frozen = Measurer(task)
    assert frozen(network.freeze())["optimum"] == last["optimum"]
    assert frozen.margin(network.freeze(), 0.25) == pytest.approx(0.4 / last["optimum"], rel=1e-5)
    assert measure.margin(network, 0.25) == 0


def last_rows(differences, momentum=0.0, train_size=9):
    """Return last rows of GLNs, one per seed, whose errors exceed those at the limit by `differences` points."""
    place = {"network": "gln", "train_size": train_size, "units": 3, "momentum": momentum, "draw": 0, "ratio": np.nan}
    return pd.DataFrame(
        place | {"seed": seed, "descent": name, "error": 0.1 + by, "svm_error": 0.1, "inconsistency": 0.0}
        for seed, difference in enumerate(differences)
        for name, by in (("sgd", difference / 100), ("loss-scaled", 0.0))
    )


def test_contrasts_are_decided_by_student_s_test_over_seeds():
    (clear,) = verdicts(last_rows([1.0, 1.2, 0.8, 1.1, 0.9]))
    assert clear.holds is True
    assert "11.00 − 10.00 = 1.00 [0.80, 1.20] %; 5 seeds" in clear.found
    assert verdicts(last_rows([-1.0, -1.2, -0.8, -1.1, -0.9]))[0].holds is False
    assert verdicts(last_rows([1.0, 1.2, -2.8, 1.1, 0.9]))[0].holds is None
    assert verdicts(last_rows([1.0])) == []


def test_contrasts_of_several_sizes_and_momenta():
    """Momenta at which a seed is missing are excluded, and sizes have equal weights in the verdict."""
    seeds = [1.0, 1.2, 0.8, 1.1, 0.9]
    last = pd.concat([last_rows(seeds), last_rows(seeds[:4], 0.9), *(last_rows([3.0] * 5, m, 99) for m in (0.0, 0.9))])
    last.loc[(last.momentum == 0.9) & (last.train_size == 99) & (last.descent == "sgd"), "error"] += 0.02
    (verdict,) = verdicts(last)
    assert "= 3.00 [" in verdict.found
    # A seed that lacks a network takes part in no contrast of it.
    lacking = last_rows(seeds[:2])
    lacking.loc[lacking.seed == 1, "network"] = "relu"
    assert verdicts(lacking) == []


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--dataset", "cifar"], "unknown data set"),
        (["--network", "gln", "gln"], "twice"),
        (["--seeds", "1", "1"], "twice"),
        (["--draws", "0"], "draws"),
        (["--momentum", "1"], "momentum"),
        (["--tolerance", "0"], "tolerance"),
        (["--tolerance", "1"], "tolerance must be a number strictly between 0 and 1"),
        (["--draws", "2", "--network", "gln", "deep-gln"], "--draws 2 is for deep networks; leave out --network gln"),
        (["--redraw", "data/limit/deep"], "--redraw computes nothing"),
        (["--descents", "sgd"], "--start initial leaves the training out"),
    ],
)
def test_the_command_refuses_bad_input_in_one_sentence(options, words, tmp_path):
    done = limit(tmp_path, *options)
    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.glob("*.csv"))


def test_gates_that_cannot_separate_the_samples_are_an_answer(tmp_path, unpainted):
    done = limit(tmp_path, "--network", "gln", "linear", "--train-size", 300, "--tolerance", 0.9)
    assert done.returncode == 0
    assert "linear" in done.stdout
    assert "cannot separate the samples" in done.stdout
    table = pd.read_csv(tmp_path / "limit.csv").set_index("network")
    assert table.loc[["linear"]].end.tolist() == ["not separable"]
    assert set(table.loc["gln"].descent) == {"plain", "loss-scaled"}


@pytest.mark.parametrize(("end", "told"), [("interrupted", "interrupted"), ("max_seconds", "cut off")])
def test_a_network_that_is_not_finished_is_told_and_run_again(end, told, tmp_path, monkeypatch, unpainted):
    """After Ctrl-C or a limit, rows so far are written, and the same command computes the network again."""
    real, begun, ended_early = study.driven, [], ["linear"]

    def driven(network, *arguments, **options):
        begun.append("linear" if network.readout is None else "gln")
        descent = real(network, *arguments, **options)
        return replace(descent, end=end) if begun[-1] in ended_early else descent

    def ends_of(network):
        return pd.read_csv(tmp_path / "limit.csv").groupby(["network", "descent"]).end.last().loc[network].to_dict()

    monkeypatch.setattr(study, "driven", driven)
    finished = {"loss-scaled": "converged", "plain": "max_steps"}
    descents = ["loss-scaled"] if end == "interrupted" else [*finished]
    loose = ("--network", "gln", "linear", "--tolerance", 0.5)
    done = limit(tmp_path, *loose)
    assert done.returncode == 130
    assert f"{told}: 1 of 2 cells are stored" in done.stderr
    assert done.stdout.count(f"({told})") == len(descents)
    assert (ends_of("gln"), ends_of("linear")) == (finished, dict.fromkeys(descents, end))
    record = json.loads((tmp_path / "record.json").read_text())
    assert (record["end"], record["missing"]) == (told, 1)
    others = ", the others cut off" if end == "max_seconds" else ""
    assert f"(1 of 2 cells{others})" in (tmp_path / "findings.md").read_text()
    assert begun == ["gln", "gln", *["linear"] * len(descents)]
    ended_early.clear()
    assert limit(tmp_path, *loose).returncode == 0
    assert (ends_of("gln"), ends_of("linear")) == (finished, finished)
    assert json.loads((tmp_path / "record.json").read_text())["end"] == "finished"
    assert begun[2 + len(descents) :] == ["linear"] * 2
