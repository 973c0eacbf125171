"""The study of Gram matrices: cells of the kinds that are not pinned, verdicts on tables made for each outcome."""

import math

import numpy as np
import pandas as pd
import pytest
import torch

from implicit_bias.extensions.infinite import activation, gram_matrix, mean_square
from implicit_bias.extensions.infinite.angles import unit_pairs
from implicit_bias.extensions.infinite.layers import Layer
from implicit_bias.studies.gram import (
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
from implicit_bias.studies.gram.sphere import least, quartiles, style, unit_points
from tests.studies.pages import judged, outcomes, told

TASK = {"data": "sphere", "d": 3, "labels": "random", "rate": "own", "steps": 20, "n": 10, "units": 16, "seed": 1}


def test_cells_in_multiprecision_and_of_digits(tmp_path):
    digits = {"n": 6, "d": 2, "activation": "erf", "digits": 20, "draws": 2, "seed": 3}
    real = TASK | {"activation": "tanh", "data": "digits", "labels": "real", "rate": "common"}
    for module, settings in ((dimension, digits), (speed, real)):
        assert set(told(module, settings, tmp_path)) <= {"undecided", "yes"}


def test_draws_are_uniform_and_repeatable():
    X = unit_points(4000, 3, 5, 0)
    assert np.allclose(np.linalg.norm(X, axis=1), 1)
    assert np.abs(X.T @ X / len(X) - np.eye(3) / 3).max() < 0.02
    assert not np.array_equal(X, unit_points(4000, 3, 5, 1))
    assert np.array_equal(X[:3], unit_points(3, 3, 5, 0))


def test_smallest_eigenvalue_within_certified_error():
    X = unit_points(12, 3, 1, 0)
    coarse, fine = least(X, "erf"), least(X, "erf", 40)
    assert fine["error"] < 1e-30
    assert abs(coarse["lambda_min"] - fine["lambda_min"]) <= coarse["error"] + fine["error"]
    assert least(X, "relu")["lambda_min"] == pytest.approx(2 * np.linalg.eigvalsh(gram_matrix(X, "relu").values)[0])


def test_hidden_median_becomes_bound():
    draws = pd.DataFrame({"activation": "tanh", "d": 2, "lambda_min": [1e-15, -1e-15, 2e-15], "error": 1e-12})
    found = quartiles(draws, "d").loc[("tanh", 2)]
    assert found[["middle", "low", "high"]].isna().all()
    assert found.bound == pytest.approx(1e-12, rel=0.01)
    seen = quartiles(draws.assign(lambda_min=[1.0, 2.0, 4.0]), "d").loc[("tanh", 2)]
    assert seen.dropna().to_dict() == {"middle": 2.0, "low": 1.5, "high": 3.0, "upper": 2.0}


def at(over, places, **values):
    """Return a table of least eigenvalues, known to 1e-12, of activations at `places` of the column `over`."""
    rows = [
        {"n": 9, "d": 3, "activation": sigma, over: place, "lambda_min": value, "error": 1e-12}
        for sigma, own in values.items()
        for place, value in zip(places, own, strict=True)
    ]
    return pd.DataFrame(rows)


def fallen(*powers):
    """Return a table of `separation` in which eigenvalues fall with these powers of n."""
    values = {sigma: (50**-power, 100**-power) for sigma, power in zip(("relu", "selu", "elu"), powers, strict=False)}
    table = at("n", (50, 100), **values)
    return table.assign(apart=1 / table.n)


def spectrum(*values, n=4):
    """Return a table of `rank` with these eigenvalues, for a kernel of three monomials."""
    about = {"degree": 2, "d": 2, "n": n, "index": range(1, n + 1), "error": 1e-12}
    return pd.DataFrame(about | {"eigenvalue": values})


def runs(**rates):
    """Return a table of `speed` whose losses decay at these rates; the worst rates are 0.1, 0.01, …."""
    rows = [
        TASK | {"d": d, "activation": sigma, "lambda_min": 0.1**i, "eta": 1.0, "step": t, "loss": np.exp(-2 * rate * t)}
        for d in (3, 50)
        for i, (sigma, rate) in enumerate(rates.items(), 1)
        for t in (0, 5)
    ]
    return pd.DataFrame(rows).assign(flow=lambda table: 0.5**table.step)


def widened(narrow, wide):
    """Return a table of `lazy` with ReLU's rates at two widths; tanh's are 0.1, those of the flows 0.5 and 0.1."""
    rates = [(8, "relu", narrow, 0.5), (64, "relu", wide, 0.5), (8, "tanh", 0.1, 0.1), (64, "tanh", 0.1, 0.1)]
    rows = [
        TASK | {"activation": sigma, "units": k, "step": t, "loss": np.exp(-2 * r * t), "flow": np.exp(-2 * flow * t)}
        for k, sigma, r, flow in rates
        for t in (0, 5)
    ]
    return pd.DataFrame(rows).assign(lambda_min=0.1, eta=1.0)


def sampled(power, spread):
    """Return a table of `width` whose errors and spreads fall with these powers."""
    widths = np.repeat([100, 1000, 10_000], 2)
    columns = {"activation": "relu", "width": widths, "relative_error": widths**power, "lambda_min": 0.1}
    return pd.DataFrame(columns | {"sampled": 0.1 + widths**spread * np.tile([0.01, -0.01], 3)})


FALLING = at("d", (2, 50), relu=(0.1, 0.4), tanh=(1e-6, 0.1))
ROUND = at("n", (10, 20), relu=(0.05, 0.025), erf=(3e-5, 1e-9))
PAIRED = at("pair", (False, True), tanh=(0.2, 1e-14), relu=(0.2, 0.1), swish=(0.2, 0.1))
CENTRED = at("layers", (1, 100), softplus=(0.01, 0.9), relu=(0.01, 0.9))
SPEEDS = runs(relu=0.3, elu=0.2, tanh=0.1)


@pytest.mark.parametrize(
    ("module", "table", "expected", "words"),
    [
        (dimension, FALLING, "yes yes", "medians of 9 points for d = 50: relu 0.40, tanh 0.10"),
        (dimension, at("d", (2, 50), relu=(0.1, 0.4), tanh=(0.05, 0.01)), "no no", "relu 0.40, tanh 0.010"),
        (dimension, FALLING[FALLING.d == 2], "yes undecided", "few"),
        (dimension, FALLING[FALLING.activation == "relu"], "undecided yes", "few"),
        (circle, ROUND, "yes yes", "0.2500 at n = 20 | powers at last relu −1.00, erf −14.87"),
        (circle, at("n", (10, 20), relu=(0.07, 0.035), erf=(0.2, 0.1)), "no no", "0.3500 at n = 20"),
        (circle, ROUND[ROUND.activation == "erf"], "undecided undecided", "few"),
        (rank, spectrum(1, 0.5, 0.1, 1e-15), "yes yes", "at 1 of 1 sizes"),
        (rank, spectrum(1, 0.5, 1e-15, 1e-15), "yes no", "at 0 of 1 sizes"),
        (rank, spectrum(1, 0.5, 0.1, 0.1), "no no", "larger by 1"),
        (rank, spectrum(1, 0.5, n=2), "undecided yes", "at 1 of 1 sizes"),
        (antipodal, PAIRED, "yes yes", "without the pair tanh 0.20"),
        (antipodal, at("pair", (False, True), tanh=(0.2, 0.01), relu=(0.2, 1e-14)), "no no", "in 100 % of the draws"),
        (antipodal, PAIRED[PAIRED.activation == "tanh"], "yes undecided", "in 100 % of the draws"),
        (centred, CENTRED, "yes", "medians at L = 100: relu 0.90, softplus 0.90; at L = 1: relu 0.010, softplus 0.010"),
        (centred, at("layers", (1, 100), softplus=(0.01, 0.3)), "no", "softplus 0.30"),
        (centred, at("layers", (1, 100), softplus=(0.01, 1e-15)), "no", "softplus < 1.0e-12"),
        (centred, CENTRED[CENTRED.layers == 1], "undecided", "few"),
        (separation, fallen(1.0, 1.1, 3.0), "yes no no", "like δ to the powers relu 1.00, selu 1.10, elu 3.00"),
        (separation, fallen(1.0, 2.0, 1.0), "no yes yes", "like n to the powers relu −1.00, selu −2.00"),
        (separation, fallen(1.0, 1.1), "yes undecided undecided", "few"),
        (lazy, widened(0.1, 0.3), "yes yes yes", "1 (k = 8), 3 (k = 64), 5 (flow) times as fast where σ' jumps"),
        (lazy, widened(0.4, 0.15), "no yes no", "0.37 times the ratio"),
        (lazy, widened(0.4, 0.4)[lambda table: table.units == 8], "yes yes undecided", "4 (k = 8), 5 (flow)"),
        (width, sampled(-0.5, -0.5), "yes yes", "like k to the powers relu −0.50"),
        (width, sampled(-0.2, -0.1), "no no", "like k to the powers relu −0.20"),
        (width, sampled(-0.5, -0.5)[:2], "undecided undecided", "few"),
        (speed, SPEEDS, "yes yes no", "in 3 dimensions training is 3 times as fast where σ' jumps"),
        (speed, runs(relu=0.1, elu=0.2, tanh=0.3), "no no yes", "in 3 dimensions training is 0.33 times as fast"),
        (speed, SPEEDS[SPEEDS.activation != "elu"], "undecided yes no", "few"),
        (speed, SPEEDS[SPEEDS.d == 3], "yes yes undecided", "few"),
    ],
)
def test_verdicts(module, table, expected, words):
    assert judged(module, table, words) == expected.split()


def test_hidden_eigenvalue_has_not_grown():
    table = at("layers", (1, 8), tanh=(0.01, 0.02), swish=(0.01, 0.005), erf=(0.01, 1e-13), relu=(0.01, 0.01))
    found = {verdict.claim.split()[4]: verdict for verdict in depth.verdicts(table)}
    decided = {name: (verdict.outcome, verdict.found) for name, verdict in found.items() if verdict.holds is not None}
    assert decided == {
        "tanh": ("yes", "medians 0.010/0.020 at L = 1/8: 2 times as much"),
        "swish": ("no", "medians 0.010/0.0050 at L = 1/8: 0.5 times as much"),
        "erf": ("no", "medians 0.010/< 1.1e-12 at L = 1/8: hidden by the error at last"),
    }
    assert set(outcomes(depth, table[table.layers == 1])) == {"undecided"}


def test_rank_of_polynomials_is_number_of_monomials():
    for degree, d in ((2, 3), (3, 3), (4, 2)):
        most = rank.ceiling(degree, d)
        cell = {"degree": degree, "d": d, "most": most + 2, "step": most + 2, "seed": 1}
        table = pd.DataFrame(cell | row for row in rank.rows(cell))
        assert rank.ranks(table)["rank"].tolist() == [most]
        assert outcomes(rank, table) == ["yes", "yes"]


def test_layers_separate_near_points_except_softplus_and_sigmoid():
    for sigma in depth.ACTIVATIONS:
        layer = Layer.of(activation(sigma), np.ones(1), 1e-11)
        factor = layer.slope_squares[0] / layer.squares[0]
        mean = layer.values(unit_pairs(np.array([np.pi / 2])))[0]
        # Poincaré's inequality.
        assert layer.slope_squares[0] / (layer.squares[0] - mean) > 1 + 1e-6
        known = {"softplus": 0.32, "sigmoid": 0.15, "relu": 1.0, "tanh": 1.18}
        assert round(factor, 2) == known.get(sigma, round(factor, 2))
        assert (factor < 0.999) == (sigma in ("softplus", "sigmoid"))


TORCH = {
    **{"relu": torch.relu, "selu": torch.selu, "elu": torch.nn.functional.elu, "gelu": torch.nn.functional.gelu},
    **{"swish": torch.nn.functional.silu, "tanh": torch.tanh, "square": torch.square},
}


@pytest.mark.parametrize("sigma", speed.ACTIVATIONS)
def test_gradient_equals_autograd(sigma):
    X, y = speed.samples(TASK)
    W, a = speed.start(TASK)
    W = W + np.random.default_rng(0).normal(size=W.shape)
    r, gradient = speed.residual_and_gradient(X, y, W, a, activation(sigma))
    weights = torch.tensor(W, requires_grad=True)
    residual = TORCH[sigma](torch.tensor(X) @ weights.T) @ torch.tensor(a) - torch.tensor(y)
    (residual @ residual / 2).backward()
    assert np.allclose(r, residual.detach().numpy(), atol=1e-12)
    assert np.allclose(gradient, weights.grad.numpy(), atol=1e-12)


def test_wide_network_follows_flow():
    cell = TASK | {"rate": "common", "d": 10, "activation": "tanh", "steps": 60, "n": 8, "units": 20_000}
    table = pd.DataFrame(speed.rows(cell))
    assert table.loc[0, ["loss", "flow"]].tolist() == pytest.approx([1.0, 1.0])
    assert table.loss.is_monotonic_decreasing
    X, y = speed.samples(cell)
    values, vectors = np.linalg.eigh(gram_matrix(X, "tanh").values / mean_square("tanh") * table.eta[0])
    parts, steps = (vectors.T @ y) ** 2 / len(y), table.step.to_numpy()[:, None]
    assert np.allclose(np.log(table.loss), np.log((1 - values) ** (2 * steps) @ parts), rtol=0.05, atol=1e-12)
    assert np.allclose(table.flow, np.exp(-2 * steps * values) @ parts, rtol=1e-9)
    assert (table.flow <= np.exp(-2 * table.eta * table["lambda_min"] * table.step) * (1 + 1e-9)).all()


@pytest.mark.parametrize("labels", ["real", "random"])
def test_network_starts_at_zero_on_unit_digits(labels):
    settings = TASK | {"data": "digits", "labels": labels, "n": 40}
    X, y = speed.samples(settings)
    assert X.shape == (40, 3)
    assert np.allclose(np.linalg.norm(X, axis=1), 1)
    assert set(y) == {-1.0, 1.0}
    r, _ = speed.residual_and_gradient(X, y, *speed.start(settings), activation("relu"))
    assert np.allclose(r, -y, atol=1e-12)


def test_overflowing_losses_are_none():
    X, y = speed.samples(TASK)
    losses = speed.trained(TASK, X, y, activation("square"), 100.0)
    assert losses[0] == pytest.approx(1.0)
    assert losses[-1] is None
    assert math.isnan(speed.decay(pd.Series([0, 1]), pd.Series([1.0, np.nan])))


@pytest.mark.parametrize("module", [dimension, depth, width, speed])
def test_styles_of_activations_differ(module):
    looks = [style(name) for name in module.ACTIVATIONS]
    assert len({(look["color"], look["linestyle"]) for look in looks}) == len(looks)
