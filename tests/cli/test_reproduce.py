"""`implicit-bias reproduce`: findings as JSON."""

from tests import ROOT
from tests.cli.commands import answer


def test_findings_as_json(tmp_path, monkeypatch, unpainted):
    monkeypatch.chdir(tmp_path)
    code, document = answer("reproduce", "galu", "--redraw", ROOT / "data" / "galu", "--figure", "norms")
    assert code == 0
    assert document["findings"]["norms"]["verdicts"][0].keys() == {"claim", "found", "threshold", "outcome"}
    assert "results/galu-redrawn/findings.md" in document["files"]


def test_the_limit_as_json(tmp_path, monkeypatch, unpainted):
    monkeypatch.chdir(tmp_path)
    options = ("--network", "gln", "--units", 3, "--train-size", 40, "--start", "initial", "--tolerance", 0.5)
    code, document = answer("reproduce", "limit", *options)
    assert code == 0
    assert document["record"]["end"] == "finished"
    assert "results/limit/limit.csv" in document["files"]
