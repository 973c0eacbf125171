"""The study of Gram matrices: tiny cells, drawings, verdicts of tables made up for each outcome; its page."""

import math

import numpy as np
import pandas as pd
import pytest
import torch
from matplotlib.figure import Figure

from implicit_bias.extensions.infinite import activation, gram_matrix, mean_square
from implicit_bias.extensions.infinite.angles import unit_pairs
from implicit_bias.extensions.infinite.layers import Layer
from implicit_bias.studies.gram import (
    COLLECTION,
    antipodal,
    centred,
    circle,
    depth,
    dimension,
    lazy,
    rank,
    separation,
    speed,
    width,
)
from implicit_bias.studies.gram.sphere import as_text, least, number, quartiles, style, unit_points
from tests import ROOT
from tests.studies.pages import cell_name, outcomes, page_of, told

TINY = {"n": 12, "d": 5, "activation": "relu", "draws": 2, "seed": 3}
TASK = {"d": 3, "rate": "own", "steps": 20, "n": 10, "units": 16, "seed": 1}
CELLS = [
    (dimension, TINY | {"digits": None}),
    (dimension, TINY | {"d": 2, "activation": "erf", "digits": 40}),
    (circle, {"activation": "erf", "n": 7, "digits": 5, "seed": 0}),
    (rank, {"degree": 2, "d": 2, "most": 6, "step": 2, "seed": 1}),
    (antipodal, TINY | {"activation": "tanh"}),
    (depth, TINY | {"layers": 3}),
    (centred, TINY | {"layers": 3}),
    (separation, TINY),
    (lazy, TASK | {"activation": "relu", "data": "sphere", "labels": "random"}),
    (width, TINY | {"width": 50}),
    (speed, TASK | {"activation": "relu", "data": "sphere", "labels": "random"}),
    (speed, TASK | {"activation": "tanh", "data": "digits", "labels": "real", "rate": "common"}),
]


@pytest.mark.parametrize(("module", "settings"), CELLS, ids=cell_name)
def test_a_tiny_cell_is_computed_drawn_and_told(module, settings, tmp_path):
    assert set(told(module, settings, tmp_path)) <= {"undecided", "yes"}


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
    ("low", "high", "expected"),
    [((0.1, 1e-6), (0.4, 0.1), "yes yes"), ((0.1, 0.05), (0.4, 0.1), "no yes"), ((0.1, 0.05), (0.4, 0.01), "no no")],
)
def test_verdicts_of_the_dimension(low, high, expected):
    rows = [
        {"n": 9, "d": d, "activation": sigma, "least": value, "error": 1e-12}
        for d, values in ((2, low), (50, high))
        for sigma, value in zip(("relu", "tanh"), values, strict=True)
    ]
    table = pd.DataFrame(rows)
    assert outcomes(dimension, table) == expected.split()
    assert dimension.verdicts(table)[1].found == f"medians of 9 points for d = 50: relu 0.40, tanh {number(high[1])}"
    assert outcomes(dimension, table[table.d == 2]) == [expected.split()[0], "undecided"]
    assert outcomes(dimension, table[table.activation == "relu"])[0] == "undecided"


@pytest.mark.parametrize(
    ("relu", "erf", "expected"), [(0.5, 1e-9, "yes yes"), (0.7, 1e-9, "no yes"), (0.7, 0.1, "no no")]
)
def test_verdicts_of_the_circle(relu, erf, expected):
    rows = [{"activation": "relu", "n": n, "least": relu / n, "error": 0.0} for n in (10, 20)]
    rows += [{"activation": "erf", "n": n, "least": erf ** (n / 20), "error": 0.0} for n in (10, 20)]
    table = pd.DataFrame(rows)
    limit, powers = circle.verdicts(table)
    assert [limit.outcome, powers.outcome] == expected.split()
    assert limit.found == f"{relu / 2:.4f} at n = 20"
    assert "relu −1.00, erf −" in powers.found
    assert outcomes(circle, table[table.activation == "erf"]) == ["undecided", "undecided"]


def test_the_rank_of_polynomials_is_the_number_of_monomials():
    for degree, d in ((2, 3), (3, 3), (4, 2)):
        most = rank.ceiling(degree, d)
        table = pd.DataFrame(
            {"degree": degree, "d": d} | row
            for row in rank.rows({"degree": degree, "d": d, "most": most + 2, "step": most + 2, "seed": 1})
        )
        assert rank.ranks(table)["rank"].tolist() == [most]
        assert outcomes(rank, table) == ["yes", "yes"]


@pytest.mark.parametrize(
    ("n", "values", "expected"),
    [
        (4, [1, 0.5, 0.1, 1e-15], "yes yes"),
        (4, [1, 0.5, 1e-15, 1e-15], "yes no"),
        (4, [1, 0.5, 0.1, 0.1], "no no"),
        (2, [1, 0.5], "undecided yes"),
    ],
)
def test_verdicts_of_ranks(n, values, expected):
    """Three monomials, so that at most three eigenvalues count."""
    table = pd.DataFrame({"degree": 2, "d": 2, "n": n, "index": range(1, n + 1), "eigenvalue": values, "error": 1e-12})
    assert outcomes(rank, table) == expected.split()
    assert f"at {int(expected.endswith('yes'))} of 1 sizes" in rank.verdicts(table)[1].found


def paired(**least):
    rows = [
        {"activation": sigma, "pair": pair, "least": value, "error": 1e-12}
        for sigma, values in least.items()
        for pair, value in zip((False, True), values, strict=True)
    ]
    return pd.DataFrame(rows)


@pytest.mark.parametrize(
    ("tanh", "relu", "expected"), [(1e-14, 0.1, "yes yes"), (1e-14, 1e-14, "yes no"), (0.01, 0.1, "no yes")]
)
def test_verdicts_of_antipodal_pairs(tanh, relu, expected):
    table = paired(tanh=(0.2, tanh), relu=(0.2, relu), swish=(0.2, 0.1))
    assert outcomes(antipodal, table) == expected.split()
    assert outcomes(antipodal, table[table.activation == "tanh"]) == [expected.split()[0], "undecided"]
    assert isinstance(antipodal.draw(table), Figure)


@pytest.mark.parametrize(("tanh", "swish"), [(2, 3), (2, 0.5), (0.5, 0.5), (2, 1e-11)])
def test_verdicts_of_depth(tanh, swish):
    """An eigenvalue that the error hides in the end has not grown."""
    rows = [
        {"d": 3, "activation": sigma, "layers": layers, "least": value, "error": 1e-12}
        for sigma, last in (("tanh", tanh), ("swish", swish), ("relu", 1.0))
        for layers, value in ((1, 0.01), (8, 0.01 * last))
    ]
    table = pd.DataFrame(rows)
    found = {verdict.claim.split()[4]: verdict for verdict in depth.verdicts(table)}
    assert "relu" not in found
    assert {found[name].outcome for name in found.keys() - {"tanh", "swish"}} == {"undecided"}
    for name, times in (("tanh", tanh), ("swish", swish)):
        assert found[name].outcome == ("yes" if times > 1 else "no")
        hidden = "< 1.1e-12 at L = 1/8: hidden by the error at last"
        end = hidden if times < 1e-9 else f"{number(0.01 * times)} at L = 1/8: {times:g} times as much"
        assert found[name].found == f"medians 0.010/{end}"
    assert set(outcomes(depth, table[table.layers == 1])) == {"undecided"}


def test_layers_pull_near_points_apart_but_those_of_softplus_and_sigmoid():
    for sigma in depth.ACTIVATIONS:
        layer = Layer.of(activation(sigma), np.ones(1), 1e-11)
        factor = layer.slope_squares[0] / layer.squares[0]
        mean = layer.values(unit_pairs(np.array([np.pi / 2])))[0]
        # Poincaré's inequality.
        assert layer.slope_squares[0] / (layer.squares[0] - mean) > 1 + 1e-6
        known = {"softplus": 0.32, "sigmoid": 0.15, "relu": 1.0, "tanh": 1.18}
        assert round(factor, 2) == known.get(sigma, round(factor, 2))
        assert (factor < 0.999) == (sigma in ("softplus", "sigmoid"))


@pytest.mark.parametrize(("softplus", "expected"), [(0.9, "yes"), (0.3, "no"), (1e-15, "no")])
def test_verdicts_of_centred_layers(softplus, expected):
    rows = [
        {"activation": sigma, "layers": layers, "least": value, "error": 1e-12}
        for sigma, last in (("softplus", softplus), ("relu", 0.9))
        for layers, value in ((1, 0.01), (100, last))
    ]
    table = pd.DataFrame(rows)
    assert outcomes(centred, table) == [expected]
    assert outcomes(centred, table[table.layers == 1]) == ["undecided"]


@pytest.mark.parametrize(
    ("powers", "expected"),
    [((1.0, 1.1, 3.0), "yes no no"), ((1.0, 1.1, 1.2), "yes yes yes"), ((1.0, 2.0, 1.0), "no yes yes")],
)
def test_verdicts_of_separation(powers, expected):
    rows = [
        {"activation": sigma, "n": n, "apart": 1 / n, "least": n**-power, "error": 1e-12}
        for sigma, power in zip(("relu", "selu", "elu"), powers, strict=True)
        for n in (50, 100)
    ]
    table = pd.DataFrame(rows)
    assert outcomes(separation, table) == expected.split()
    assert f"like δ to the powers relu {powers[0]:.2f}" in separation.verdicts(table)[0].found
    assert set(outcomes(separation, table[table.n == 50])[:2]) == {"undecided"}
    assert isinstance(separation.draw(table), Figure)


@pytest.mark.parametrize(
    ("speeds", "expected"), [((0.1, 0.3), "yes yes yes"), ((0.1, 0.15), "no yes yes"), ((0.4, 0.3), "yes yes no")]
)
def test_verdicts_of_training_speed_against_width(speeds, expected):
    rows = []
    for units, relu in zip((8, 64), speeds, strict=True):
        for sigma, rate in (("relu", relu), ("tanh", 0.1)):
            about = TASK | {"data": "sphere", "labels": "random", "activation": sigma, "units": units}
            flow = {"relu": 0.5, "tanh": 0.1}[sigma]
            rows += [
                about
                | {"least": 0.1, "eta": 1.0, "step": t, "loss": np.exp(-2 * rate * t), "flow": np.exp(-2 * flow * t)}
                for t in (0, 5)
            ]
    table = pd.DataFrame(rows)
    assert outcomes(lazy, table) == expected.split()
    assert lazy.ratios(table).round(6).tolist() == [round(speeds[0] / 0.1, 6), round(speeds[1] / 0.1, 6), 5.0]
    assert outcomes(lazy, table[table.units == 8])[-1] == "undecided"
    assert isinstance(lazy.draw(table), Figure)


@pytest.mark.parametrize(
    ("power", "spread", "expected"),
    [(-0.5, -0.5, "yes yes"), (-0.5, -0.1, "yes no"), (-0.2, -0.5, "no yes"), (-0.2, 0.0, "no no")],
)
def test_verdicts_of_the_width(power, spread, expected):
    widths = np.repeat([100, 1000, 10_000], 2)
    sampled = 0.1 + widths**spread * np.tile([0.01, -0.01], 3)
    table = pd.DataFrame(
        {"activation": "relu", "width": widths, "off": widths**power, "sampled": sampled, "least": 0.1}
    )
    assert outcomes(width, table) == expected.split()
    assert width.verdicts(table)[0].found == f"like k to the powers relu {power:.2f}".replace("-", "−")
    assert outcomes(width, table[table.width == 100]) == ["undecided", "undecided"]


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
    ("speeds", "expected"),
    [((0.3, 0.2, 0.1), "yes yes no"), ((0.15, 0.12, 0.1), "yes no yes"), ((0.1, 0.2, 0.3), "no no yes")],
)
def test_verdicts_of_speed(speeds, expected):
    rows = []
    for d in (3, 50):
        for sigma, worst, rate in zip(("relu", "elu", "tanh"), (0.1, 0.01, 0.001), speeds, strict=True):
            about = {"data": "sphere", "d": d, "labels": "random", "rate": "own", "activation": sigma, "least": worst}
            rows += [about | {"eta": 1.0, "step": t, "loss": np.exp(-2 * rate * t), "flow": 0.5**t} for t in (0, 5)]
    table = pd.DataFrame(rows)
    assert outcomes(speed, table) == expected.split()
    times = f"in 3 dimensions training is {speeds[0] / speeds[2]:.2g} times as fast where σ' jumps"
    assert speed.verdicts(table)[1].found.startswith(times)
    assert outcomes(speed, table[table.activation != "elu"])[0] == "undecided"
    assert outcomes(speed, table[table.d == 3]) == [*expected.split()[:2], "undecided"]
    assert isinstance(speed.draw(table), Figure)


def test_no_two_activations_of_a_figure_look_alike():
    for names in (dimension.ACTIVATIONS, depth.ACTIVATIONS, width.ACTIVATIONS, speed.ACTIVATIONS):
        looks = {tuple(sorted(style(one).items())) for one in names}
        assert len({tuple(value for key, value in look if key != "label") for look in looks}) == len(names)


def test_the_page_says_what_the_committed_tables_say():
    """The verdicts, the table of the dimensions, and the growth with depth that the text tells beside the verdicts."""
    page = page_of(COLLECTION)
    tables = {name: pd.read_csv(ROOT / "data" / "gram" / f"{name}.csv") for name in ("dimension", "depth")}
    found = quartiles(tables["dimension"], "d")
    for name in dimension.ACTIVATIONS:
        cells = []
        for d in (2, 3, 5, 20, 100):
            own = found.loc[(name, d)]
            spread = "" if np.isnan(own.middle) else f" ({number(own.low)}–{number(own.high)})"
            cells.append(as_text(own) + spread)
        assert f"| {name} | {' | '.join(cells)} |" in page
    growth = depth.growth(tables["depth"])
    assert ", ".join(f"{name} {growth[name]:.2g}" for name in ("relu", "selu", "elu")) in page.replace("\n", " ")
