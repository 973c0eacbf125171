import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from implicit_bias import metrics
from implicit_bias.studies.paper.summary import summarise
from tests.cases import problem, refusals


def test_expected_inconsistency_is_that_of_independent_errors():
    rng = np.random.default_rng(0)
    y = np.where(rng.random(200_000) > 0.5, 1.0, -1.0)
    models = [np.where(rng.random(len(y)) < e, -y, y) for e in (0.1, 0.3)]
    expected = metrics.expected_inconsistency(*(metrics.error(m, y) for m in models))
    assert metrics.inconsistency(*models) == pytest.approx(expected, abs=5e-3)


@given(a=st.floats(0, 1), b=st.floats(0, 1))
def test_expected_inconsistency_is_a_symmetric_probability(a, b):
    assert 0 <= metrics.expected_inconsistency(a, b) <= 1
    assert metrics.expected_inconsistency(a, b) == pytest.approx(metrics.expected_inconsistency(b, a))


def test_alignment():
    W = np.random.default_rng(0).normal(size=(3, 4))
    assert metrics.alignment(W, -2 * W) == pytest.approx(-1)


def test_summary_over_seeds():
    table = pd.DataFrame(
        {"model": ["A", "A", "B"], "status": ["OPTIMAL", "NOT_SEPARABLE", "OPTIMAL"], "error": [0.2, np.nan, 0.5]}
    )
    rows = summarise(table, by=["model"]).set_index("model")
    assert rows.loc["A", ["seeds", "certified"]].tolist() == [2, 1]
    assert rows.loc["A", "error_mean"] == 0.2
    assert np.isnan(rows.loc["B", "error_std"])


test_bad_input = refusals(
    (lambda: metrics.predictions([np.nan]), "NaN"),
    (lambda: metrics.error([1.0, 2.0], [1.0]), "1 labels for 2"),
    (lambda: metrics.inconsistency([1.0], [1.0, 2.0]), "scores of the same samples"),
    (lambda: metrics.alignment([[1.0]], [[1.0, 2.0]]), "give weights of one shape"),
    (lambda: metrics.alignment([[0.0]], [[1.0]]), "no direction"),
    (lambda: metrics.normalised_margin(problem("constant", "frobenius"), np.zeros((1, 12))), "norm 0"),
)
