"""Displays of solutions, models and classifiers in notebooks, and plots on matplotlib's axes."""

import matplotlib as mpl
import numpy as np
import pytest
from sklearn.datasets import load_iris

import implicit_bias as ib

mpl.use("agg")
import matplotlib.pyplot as plt

from tests.cases import assert_refused


@pytest.fixture(scope="module")
def problem():
    task = ib.load_binary("digits", train_size=100)
    return ib.svm_gln(task.X_train, task.y_train, ib.HyperplaneGates(20, 2, seed=1).fit(task.X_pool), C=0.02)


@pytest.fixture(scope="module")
def solution(problem):
    return ib.solve(problem)


@pytest.fixture
def ax():
    figure, ax = plt.subplots()
    yield ax
    plt.close(figure)


def test_a_notebook_shows_bounds_active_groups_and_support_vectors(problem, solution):
    norms = np.linalg.norm(solution.weights.reshape(20, -1), axis=1)
    used = f"{(norms > 1e-5 * norms.max()).sum()} of 20"
    shown = ib.MarginModel([problem], [solution], classes=["<a>", "b"])._repr_html_()
    for text in ("OPTIMAL", f"{solution.objective:.9g}", f"{solution.lower_bound:.9g}", "active groups", used,
                 f"{len(solution.support)} of 100", "NATIVE"):  # fmt: skip
        assert text in shown
    assert "active gates" in solution._repr_html_()
    assert "<th>class</th>" in shown
    assert "<th>class</th>" not in solution._repr_html_()


def test_texts_are_escaped(problem, solution):
    assert "<script>" not in ib.MarginModel([problem], [solution], classes=["a", "<script>"])._repr_html_()


def test_what_is_proved_is_shown_where_nothing_separates(ax):
    found = ib.solve(ib.svm_shallow([[1.0], [1.0]], [1, -1], ib.ConstantGate()))
    assert "NOT_SEPARABLE" in found._repr_html_()
    assert "none" in found._repr_html_()
    for draw in (found.plot_margins, found.plot_gates):
        with pytest.raises(ib.InputError, match="nothing to plot"):
            draw(ax)


def test_a_classifier_shows_a_row_per_class_once_it_is_fitted():
    X, y = load_iris(return_X_y=True)
    model = ib.GLNClassifier(units=3, random_state=1)
    bundle = model._repr_mimebundle_()["text/html"]
    assert "support vectors" not in bundle
    model.fit(X, y)
    fitted = model._repr_mimebundle_()["text/html"]
    for found in model.certificate_:
        assert f"{found.objective:.9g}" in fitted
    assert "of 3</td>" in fitted


def test_margins_are_drawn_on_the_axes_given(solution, ax):
    assert solution.plot_margins(ax) is ax
    heights = sum(patch.get_height() for patch in ax.containers[0])
    assert heights == len(solution.support)
    tops = ax.containers[1]
    assert sum(patch.get_height() for patch in tops) == 100 - len(solution.support)
    assert ax.get_legend().get_texts()[0].get_text() == f"support vectors ({len(solution.support)})"


def test_gates_are_drawn_by_size(solution, ax):
    assert solution.plot_gates(ax) is ax
    heights = [patch.get_height() for patch in ax.containers[0]]
    assert heights == sorted(np.linalg.norm(solution.weights, axis=1), reverse=True)
    assert ax.get_title() == f"{solution.active.sum()} of 40 gates have weights"


def test_new_axes_without_any_and_a_sentence_for_what_is_none(solution):
    drawn = solution.plot_margins()
    assert drawn is not solution.plot_margins()
    assert_refused(lambda: solution.plot_gates("here"), "ax must be matplotlib axes")
    plt.close("all")
