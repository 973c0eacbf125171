"""The study of Gram matrices: tiny cells, drawings, findings of tables made up for each verdict; its page."""

import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from matplotlib.figure import Figure

from implicit_bias.experiments.gram import antipodal, circle, depth, dimension, rank, speed, width
from implicit_bias.experiments.gram.figures import COLLECTION
from implicit_bias.experiments.gram.sphere import least, number, quartiles, style, unit_points
from implicit_bias.experiments.runner.results import load
from implicit_bias.kernels import activation, gram_matrix, mean_square
from implicit_bias.kernels.depth import layer_map
from implicit_bias.kernels.gram import pair_mean

TINY = {"n": 12, "d": 5, "activation": "relu", "draws": 2, "seed": 3}
TASK = {"d": 3, "rate": "own", "steps": 20, "n": 10, "units": 16, "seed": 1}
CELLS = [
    (dimension, TINY | {"digits": None}),
    (dimension, TINY | {"d": 2, "activation": "erf", "digits": 40}),
    (circle, {"activation": "erf", "n": 7, "digits": 5, "seed": 0}),
    (rank, {"degree": 2, "d": 2, "most": 6, "step": 2, "seed": 1}),
    (antipodal, TINY | {"activation": "tanh"}),
    (depth, TINY | {"layers": 3}),
    (width, TINY | {"width": 50}),
    (speed, TASK | {"activation": "relu", "data": "sphere", "labels": "random"}),
    (speed, TASK | {"activation": "tanh", "data": "digits", "labels": "real", "rate": "common"}),
]


def name(value):
    return value.__name__.rpartition(".")[2] if hasattr(value, "__name__") else value.get("activation", "")


def tabulated(tmp_path, cells):
    """As the results' folder does it: through a file."""
    pd.DataFrame([settings | row for settings, rows in cells for row in rows]).to_csv(tmp_path / "t.csv", index=False)
    return pd.read_csv(tmp_path / "t.csv")


@pytest.mark.parametrize(("module", "settings"), CELLS, ids=name)
def test_a_tiny_cell_is_computed_drawn_and_told(module, settings, tmp_path):
    rows = module.rows(settings)
    assert rows == module.rows(settings)
    table = tabulated(tmp_path, [(settings, rows)])
    assert isinstance(module.draw(table), Figure)
    assert module.finding(table).split(":")[0] in ("Undecided", "Yes")
    assert module.EXPERIMENT.cost(settings) > 0


def test_draws_are_those_of_their_seed_and_uniform_on_the_sphere():
    X = unit_points(4000, 3, 5, 0)
    assert np.allclose(np.linalg.norm(X, axis=1), 1)
    assert np.abs(X.T @ X / len(X) - np.eye(3) / 3).max() < 0.02
    assert not np.array_equal(X, unit_points(4000, 3, 5, 1))
    assert np.array_equal(X[:3], unit_points(3, 3, 5, 0))


def test_smallest_eigenvalues_have_certified_errors_in_either_arithmetic():
    X = unit_points(12, 3, 1, 0)
    coarse, fine = least(X, "erf"), least(X, "erf", 40)
    assert fine["error"] < 1e-30
    assert abs(coarse["least"] - fine["least"]) <= coarse["error"] + fine["error"]
    relu = least(X, "relu")
    assert relu["least"] == pytest.approx(2 * np.linalg.eigvalsh(gram_matrix(X, "relu").values)[0], rel=1e-9)


def test_a_hidden_median_is_a_bound_and_no_median():
    draws = pd.DataFrame({"activation": "tanh", "d": 2, "least": [1e-15, -1e-15, 2e-15], "error": 1e-12})
    found = quartiles(draws, "d").loc[("tanh", 2)]
    assert found[["middle", "low", "high"]].isna().all()
    assert found.bound == pytest.approx(1e-12, rel=0.01)


@pytest.mark.parametrize(
    ("low", "high", "word"),
    [((0.1, 1e-6), (0.4, 0.1), "Yes"), ((0.1, 0.05), (0.4, 0.1), "Partly"), ((0.1, 0.05), (0.4, 0.01), "No")],
)
def test_findings_of_the_dimension(low, high, word):
    rows = [
        {"n": 9, "d": d, "activation": sigma, "least": value, "error": 1e-12}
        for d, values in ((2, low), (50, high))
        for sigma, value in zip(("relu", "tanh"), values, strict=True)
    ]
    assert dimension.finding(pd.DataFrame(rows)).startswith(f"{word}: for 9 points in 2 dimensions")
    assert dimension.finding(pd.DataFrame(rows[:2])).startswith("Undecided: ")


@pytest.mark.parametrize(("relu", "erf", "word"), [(0.5, 1e-9, "Yes"), (0.7, 1e-9, "Partly"), (0.7, 0.1, "No")])
def test_findings_of_the_circle(relu, erf, word):
    rows = [{"activation": "relu", "n": n, "least": relu / n, "error": 0.0} for n in (10, 20)]
    rows += [{"activation": "erf", "n": n, "least": erf ** (n / 20), "error": 0.0} for n in (10, 20)]
    text = circle.finding(pd.DataFrame(rows))
    assert text.startswith(f"{word}: ReLU's λ_min n is {relu / 2:.4f} at n = 20")
    assert "−1.00 (relu)" in text


def test_the_rank_of_polynomials_is_the_number_of_monomials():
    for degree, d in ((2, 3), (3, 3), (4, 2)):
        most = rank.ceiling(degree, d)
        table = pd.DataFrame(
            {"degree": degree, "d": d} | row
            for row in rank.rows({"degree": degree, "d": d, "most": most + 2, "step": most + 2, "seed": 1})
        )
        assert rank.ranks(table)["rank"].tolist() == [most]
        assert rank.finding(table).startswith("Yes: at 1 of 1 sizes")
        assert rank.finding(table.assign(eigenvalue=1.0)).startswith("Undecided: ")


def test_findings_of_ranks_that_differ():
    table = pd.DataFrame({"degree": 2, "d": 2, "n": 4, "index": range(1, 5), "error": 1e-12})
    assert rank.finding(table.assign(eigenvalue=[1, 0.5, 1e-15, 1e-15])).startswith("Partly: at 0 of 1")
    assert rank.finding(table.assign(eigenvalue=[1, 0.5, 0.1, 1e-15])).startswith("Yes: at 1 of 1")


def paired(**least):
    rows = [
        {"activation": sigma, "pair": pair, "least": value, "error": 1e-12}
        for sigma, values in least.items()
        for pair, value in zip((False, True), values, strict=True)
    ]
    return pd.DataFrame(rows)


@pytest.mark.parametrize(("tanh", "relu", "word"), [(1e-14, 0.1, "Yes"), (1e-14, 1e-14, "Partly"), (0.01, 0.1, "No")])
def test_findings_of_antipodal_pairs(tanh, relu, word):
    table = paired(tanh=(0.2, tanh), relu=(0.2, relu), swish=(0.2, 0.1))
    assert antipodal.finding(table).startswith(f"{word}: ")
    assert antipodal.finding(table[table.activation == "tanh"]).startswith("Undecided: ")
    assert isinstance(antipodal.draw(table), Figure)


@pytest.mark.parametrize(("tanh", "swish", "word"), [(2, 3, "Yes"), (2, 0.5, "Partly"), (0.5, 0.5, "No")])
def test_findings_of_depth(tanh, swish, word):
    rows = [
        {"d": 3, "activation": sigma, "layers": layers, "least": value, "error": 1e-12}
        for sigma, last in (("tanh", tanh), ("swish", swish), ("relu", 1.0))
        for layers, value in ((1, 0.01), (8, 0.01 * last))
    ]
    text = depth.finding(pd.DataFrame(rows))
    assert text.startswith(f"{word}: in 3 dimensions the median of λ_min/E[σ'²] of tanh is 0.010 (L = 1)")
    assert f"relu 1, swish {swish:g}" in text


def test_depth_that_hides_an_eigenvalue_is_no_growth():
    rows = [
        {"d": 3, "activation": sigma, "layers": layers, "least": value, "error": 1e-12}
        for sigma, last in (("tanh", 0.1), ("sigmoid", 1e-13))
        for layers, value in ((1, 0.01), (8, last))
    ]
    text = depth.finding(pd.DataFrame(rows))
    assert text.startswith("Partly: ")
    assert text.endswith("; sigmoid: below 1.1e-12 at L = 8.")


def test_layers_pull_near_points_apart_but_those_of_softplus_and_sigmoid():
    for sigma in depth.ACTIVATIONS:
        kernel = pair_mean(activation(sigma), np.ones(1), 1.0, 1e-11, 3)
        factor = layer_map(activation(sigma), kernel.entries)[1]
        known = {"softplus": 0.32, "sigmoid": 0.15, "relu": 1.0, "tanh": 1.18}
        assert round(factor, 2) == known.get(sigma, round(factor, 2))
        assert (factor < 0.999) == (sigma in ("softplus", "sigmoid"))


@pytest.mark.parametrize(
    ("power", "spread", "word"),
    [(-0.5, -0.5, "Yes"), (-0.5, -0.1, "Partly"), (-0.2, -0.5, "Partly"), (-0.2, 0.0, "No")],
)
def test_findings_of_the_width(power, spread, word):
    widths = np.repeat([100, 1000, 10_000], 2)
    sampled = 0.1 + widths**spread * np.tile([0.01, -0.01], 3)
    table = pd.DataFrame(
        {"activation": "relu", "width": widths, "off": widths**power, "sampled": sampled, "least": 0.1}
    )
    text = width.finding(table)
    assert text.startswith(
        f"{word}: ‖Ĝ − G‖ falls like k to the power relu {power:.2f}, and the spread of λ_min like relu"
    )
    assert width.finding(table[table.width == 100]).startswith("Undecided: ")


TORCH = {
    **{"relu": torch.relu, "selu": torch.selu, "elu": torch.nn.functional.elu, "gelu": torch.nn.functional.gelu},
    **{"swish": torch.nn.functional.silu, "tanh": torch.tanh, "square": torch.square},
}


@pytest.mark.parametrize("sigma", speed.ACTIVATIONS)
def test_gradients_are_autograds(sigma):
    settings = TASK | {"data": "sphere", "labels": "random"}
    X, y = speed.samples(settings)
    W, a = speed.start(settings)
    W = W + np.random.default_rng(0).normal(size=W.shape)
    r, gradient = speed.residual_and_gradient(X, y, W, a, activation(sigma))
    weights = torch.tensor(W, requires_grad=True)
    residual = TORCH[sigma](torch.tensor(X) @ weights.T) @ torch.tensor(a) - torch.tensor(y)
    (residual @ residual / 2).backward()
    assert np.allclose(r, residual.detach().numpy(), atol=1e-12)
    assert np.allclose(gradient, weights.grad.numpy(), atol=1e-12)


def test_wide_networks_follow_the_flow_and_none_is_slower_than_the_worst_rate():
    cell = {"data": "sphere", "labels": "random", "rate": "common", "d": 10, "activation": "tanh", "steps": 60}
    table = pd.DataFrame(speed.rows(cell | {"n": 8, "units": 20_000, "seed": 1}))
    assert table.loc[0, ["loss", "flow"]].tolist() == pytest.approx([1.0, 1.0])
    assert table.loss.is_monotonic_decreasing
    X, y = speed.samples(cell | {"n": 8, "seed": 1})
    values, vectors = np.linalg.eigh(gram_matrix(X, "tanh").values / mean_square("tanh") * table.eta[0])
    parts, steps = (vectors.T @ y) ** 2 / len(y), table.step.to_numpy()[:, None]
    assert np.allclose(np.log(table.loss), np.log((1 - values) ** (2 * steps) @ parts), rtol=0.05, atol=1e-12)
    assert np.allclose(table.flow, np.exp(-2 * steps * values) @ parts, rtol=1e-9)
    assert (table.flow <= np.exp(-2 * table.eta * table["least"] * table.step) * (1 + 1e-9)).all()


def test_networks_begin_at_zero_and_digits_keep_their_labels():
    for labels in ("real", "random"):
        settings = TASK | {"data": "digits", "labels": labels, "n": 40}
        X, y = speed.samples(settings)
        assert X.shape == (40, 3)
        assert np.allclose(np.linalg.norm(X, axis=1), 1)
        assert set(y) == {-1.0, 1.0}
        W, a = speed.start(settings)
        r, _ = speed.residual_and_gradient(X, y, W, a, activation("relu"))
        assert np.allclose(r, -y, atol=1e-12)


def test_losses_that_leave_floating_point_are_gaps():
    settings = TASK | {"data": "sphere", "labels": "random", "activation": "square"}
    X, y = speed.samples(settings)
    losses = speed.trained(settings, X, y, activation("square"), 100.0)
    assert losses[0] == pytest.approx(1.0)
    assert losses[-1] is None
    assert math.isnan(speed.decay(pd.Series([0, 1]), pd.Series([1.0, np.nan])))


@pytest.mark.parametrize(
    ("speeds", "word"), [((0.3, 0.2, 0.1), "Yes"), ((0.15, 0.12, 0.1), "Partly"), ((0.1, 0.2, 0.3), "No")]
)
def test_findings_of_speed(speeds, word):
    rows = []
    for d in (3, 50):
        for sigma, worst, rate in zip(("relu", "elu", "tanh"), (0.1, 0.01, 0.001), speeds, strict=True):
            about = {"data": "sphere", "d": d, "labels": "random", "rate": "own", "activation": sigma, "least": worst}
            rows += [about | {"eta": 1.0, "step": t, "loss": np.exp(-2 * rate * t), "flow": 0.5**t} for t in (0, 5)]
    table = pd.DataFrame(rows)
    assert speed.finding(table).startswith(f"{word}: the order of the activations by speed and by ηλ_min has rank ")
    assert f"where σ' jumps training is {speeds[0] / speeds[2]:.2g} times as fast" in speed.finding(table)
    assert speed.finding(table[table.activation != "elu"]).startswith("Undecided: ")
    assert isinstance(speed.draw(table), Figure)


def test_no_two_activations_of_a_figure_look_alike():
    for names in (dimension.ACTIVATIONS, depth.ACTIVATIONS, width.ACTIVATIONS, speed.ACTIVATIONS):
        looks = {tuple(sorted(style(one).items())) for one in names}
        assert len({tuple(value for key, value in look if key != "label") for look in looks}) == len(names)


ROOT = Path(__file__).parent.parent


def test_the_table_of_the_page_is_that_of_the_run():
    found = quartiles(pd.read_csv(ROOT / "data" / "gram" / "dimension.csv"), "d")
    page = (ROOT / "docs" / "gram.md").read_text()
    for name in dimension.ACTIVATIONS:
        cells = []
        for d in (2, 3, 5, 20, 100):
            own = found.loc[(name, d)]
            spread = f"{number(own.middle)} ({number(own.low)}–{number(own.high)})"
            cells.append(f"< {number(own.bound)}" if np.isnan(own.middle) else spread)
        assert f"| {name} | {' | '.join(cells)} |" in page


def test_the_findings_of_the_page_are_those_of_the_run():
    page = (ROOT / "docs" / "gram.md").read_text()
    for figured in load(COLLECTION, ROOT / "data" / "gram"):
        assert f"**{figured.finding()}**" in page
        assert (ROOT / "docs" / f"gram_{figured.experiment.name}.png").is_file()
        assert figured.record["missing"] == 0
