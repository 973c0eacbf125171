"""The scripts of the errata print what the page states."""

import re
import runpy

import pytest

from tests import ROOT


def printed(name, capsys):
    """Return the decimal numbers in each line that a script of the errata prints."""
    runpy.run_path(str(ROOT / "docs" / "errata" / f"galu_{name}.py"))
    lines = capsys.readouterr().out.splitlines()
    return [[float(number) for number in re.findall(r"\d+\.\d+(?:e-\d+)?", line)] for line in lines]


def test_script_on_kernel(capsys):
    (sampled,), (ours,), (raw,) = printed("kernel", capsys)
    assert sampled == pytest.approx(ours, abs=2e-4)
    assert abs(raw - sampled) > 0.01


def test_script_on_descent(capsys):
    _, first, middle, last = printed("descent", capsys)
    assert first[0] == first[1]
    assert middle[0] > middle[1]
    assert last[0] > 1e5 * last[1]
    assert all(ours <= bound for *_, ours, bound in (first, middle, last))


def test_script_on_inverse(capsys):
    ours, with_d = zip(*printed("inverse", capsys), strict=True)
    assert not any(ours)
    assert [error > 0.5 for error in with_d] == [False, True, True]


def test_script_on_losses(capsys):
    (_, fitted), diverged, corollary = printed("loss", capsys)
    assert fitted < 10
    assert diverged[-1] > 9
    assert corollary == [0.5, 0.125, 0.8]


def test_script_on_proofs(capsys):
    *_, hoeffding, small, large, triangle, lemma_4, lemma_5 = printed("proofs", capsys)
    one_tail, both = hoeffding[1:]
    assert both == pytest.approx(2 * one_tail, abs=1e-3)
    for M, anywhere, in_the_ball, stated in (small, large):
        assert (anywhere > stated) == (M < 0.5**0.5)
        assert in_the_ball < stated
    assert triangle[0] > 1
    assert lemma_4[0] > 0 == lemma_4[1]
    assert lemma_5[3] < lemma_5[1] < lemma_5[2]
