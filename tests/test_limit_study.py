"""The limit study as a command: its table, what is stored and resumed, and what is refused."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from implicit_bias.experiments.limit import study
from tests.commands import run

SMALL = ("--units", 5, "--train-size", 40, "--start", "initial", "--tolerance", 0.05, "--max-seconds", 1e6)


def limit(out, *options):
    return run(*SMALL, *options, "--out", out, command="reproduce limit")


def test_the_command(tmp_path):
    names = ["gln", "linear"]
    done = limit(tmp_path, "--network", *names)
    assert done.returncode == 0, done.stderr
    table = pd.read_csv(tmp_path / "limit.csv")
    assert table.network.drop_duplicates().tolist() == names
    assert set(table.descent) == {"plain", "loss-scaled"}
    last = table[table.descent == "loss-scaled"].groupby("network").last()
    assert last.ratio["gln"] <= 1.05
    assert (table.ratio.dropna() >= 1 - 1e-9).all()
    record = json.loads((tmp_path / "limit.json").read_text())
    assert record["end"] == "finished"
    assert [row["end"] for row in record["results"]] == ["converged", "max_steps"] * 2
    assert record["results"][0]["optimum"] > 0
    assert (tmp_path / "limit.png").stat().st_size > 10_000
    assert "ends at the certified optimum" in (tmp_path / "findings.md").read_text()
    again = limit(tmp_path, "--network", *names)
    assert "2 stored earlier" in again.stderr
    pd.testing.assert_frame_equal(pd.read_csv(tmp_path / "limit.csv"), table)


def test_the_command_on_networks_without_a_known_problem(tmp_path):
    names = ["deep-gln", "deep-relu"]
    assert limit(tmp_path, "--network", *names, "--max-seconds", 1e-9).returncode == 0
    table = pd.read_csv(tmp_path / "limit.csv")
    assert table.network.drop_duplicates().tolist() == names
    assert table[["ratio", "optimum"]].isna().all(axis=None)
    assert np.isfinite(table.normalised_margin).all()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--dataset", "cifar"], "unknown data set"),
        (["--network", "gln", "gln"], "twice"),
        (["--network", "linear", "--train-size", "500"], "cannot separate"),
    ],
)
def test_the_command_refuses_bad_input_in_one_sentence(options, words, tmp_path):
    done = limit(tmp_path, *options)
    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.iterdir())


def test_the_command_keeps_what_is_finished_when_a_later_network_is_refused(tmp_path):
    options = ("--network", "gln", "linear", "--train-size", 300, "--tolerance", 1)
    done = limit(tmp_path, *options)
    assert done.returncode == 2
    assert "cannot separate" in done.stderr
    assert "Traceback" not in done.stderr
    assert set(pd.read_csv(tmp_path / "limit.csv").descent) == {"plain", "loss-scaled"}
    assert "cannot separate" in json.loads((tmp_path / "limit.json").read_text())["end"]


def test_ctrl_c_keeps_what_there_is(tmp_path, monkeypatch):
    """Within a descent of the second network, whose rows so far are shown; the same command then begins it again."""
    real, begun = study.descend_to_limit, []

    def interrupted(network, *arguments, **options):
        begun.append(network)
        return replace(real(network, *arguments, **options), **({"end": "interrupted"} if len(begun) == 3 else {}))

    monkeypatch.setattr(study, "descend_to_limit", interrupted)
    done = limit(tmp_path, "--network", "gln", "linear")
    assert done.returncode == 130
    assert "1 of 2 cells are stored" in done.stderr
    table = pd.read_csv(tmp_path / "limit.csv")
    ends = table.groupby(["network", "descent"]).end.last()
    assert ends.to_dict() == {
        ("gln", "loss-scaled"): "converged",
        ("gln", "plain"): "max_steps",
        ("linear", "loss-scaled"): "interrupted",
    }
    assert json.loads((tmp_path / "limit.json").read_text())["end"] == "interrupted"
    assert limit(tmp_path, "--network", "gln", "linear").returncode == 0
    assert len(begun) == 5
    assert set(pd.read_csv(tmp_path / "limit.csv").network) == {"gln", "linear"}


def test_networks_that_are_cut_off_are_told_and_run_again(tmp_path, monkeypatch):
    """Whether by the same command or with more time; those that are finished are not."""
    real, begun, slow = study.descend_to_limit, [], {"linear"}

    def timed(network, *arguments, **options):
        begun.append("linear" if network.readout is None else "gln")
        descent = real(network, *arguments, **options)
        return replace(descent, end="max_seconds") if begun[-1] in slow else descent

    def ends():
        return pd.read_csv(tmp_path / "limit.csv").groupby(["network", "descent"]).end.last().loc["linear"].to_dict()

    monkeypatch.setattr(study, "descend_to_limit", timed)
    for _ in range(2):
        done = limit(tmp_path, "--network", "gln", "linear")
        assert done.returncode == 0
        assert "cut off: 1 of 2 cells are stored" in done.stderr
        assert done.stdout.count("(cut off)") == 2
        assert ends() == {"loss-scaled": "max_seconds", "plain": "max_seconds"}
        record = json.loads((tmp_path / "limit.json").read_text())
        assert (record["end"], record["missing"]) == ("cut off", 1)
        assert "(1 of 2 cells, the others cut off)" in (tmp_path / "findings.md").read_text()
    assert begun == ["gln", "gln", *["linear"] * 4]
    slow.clear()
    for _ in range(2):
        done = limit(tmp_path, "--network", "gln", "linear", "--max-seconds", 1e7)
        assert done.returncode == 0
        assert ends() == {"loss-scaled": "converged", "plain": "max_steps"}
        assert json.loads((tmp_path / "limit.json").read_text())["end"] == "finished"
    assert begun == ["gln", "gln", *["linear"] * 6]
