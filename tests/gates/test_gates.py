import re

import numpy as np
import pytest
import torch
from sklearn.base import clone

import implicit_bias as ib
from implicit_bias.gates import FunctionContexts
from tests import ROOT
from tests.cases import assert_refused, inputs, refusals


def test_stream_is_published():
    """Directions and cutoffs equal those of the published calls on torch's global generator."""
    torch.manual_seed(4)
    layer = torch.nn.Linear(12, 3 * 2, bias=False)
    torch.nn.init.normal_(layer.weight, 0, 36)
    cutoffs = torch.empty(3, 2).normal_(0, 9)
    gates = ib.HyperplaneGates(3, 4, seed=4, cutoff="random").fit(inputs())
    np.testing.assert_array_equal(gates.directions_, layer.weight.detach().numpy())
    np.testing.assert_array_equal(gates.cutoffs_, cutoffs.numpy().ravel())


def test_fitting_leaves_the_global_generator_alone():
    torch.manual_seed(0)
    before = torch.random.get_rng_state()
    ib.HyperplaneGates(3, 2).fit(inputs())
    ib.RandomHalfSpaces(3).fit(inputs())
    assert torch.equal(before, torch.random.get_rng_state())


def test_context_bits_are_most_significant_first():
    gates = ib.HyperplaneGates.from_hyperplanes([[1.0, 0.0], [0.0, 1.0]], [0.0, 0.0], contexts=4)
    X = np.array([[-1.0, -1.0], [-1.0, 1.0], [1.0, -1.0], [1.0, 1.0]])
    assert gates.contexts_of(X).ravel().tolist() == [0, 1, 2, 3]
    np.testing.assert_array_equal(gates.transform(X), np.eye(4))


@pytest.mark.parametrize("n", [40, 41])
def test_median_cutoffs_halve_the_pool(n):
    X = inputs(n=n)
    opened = ib.HyperplaneGates(6, 2, seed=1).fit_transform(X)[:, 1::2].sum(axis=0)
    np.testing.assert_array_equal(opened, n // 2)


def test_numbers_and_quantiles_as_cutoffs():
    X = inputs(n=2000)
    assert (ib.HyperplaneGates(3, 2, cutoff=1.5).fit(X).cutoffs_ == 1.5).all()
    share = ib.HyperplaneGates(40, 2, cutoff=(0.2, 0.4)).fit_transform(X)[:, 0::2].mean(axis=0)
    assert share.min() >= 0.2 - 1e-3
    assert share.max() <= 0.4 + 1e-3
    assert np.ptp(share) > 0.1


@pytest.mark.parametrize(
    ("cutoff", "centre"), [("median", 0.0), ("median", 1e5), ((0.5, 0.5), 1e5), ((0.0, 0.0), 0.0), ((1.0, 1.0), 1e5)]
)
def test_gates_do_not_depend_on_the_batch(cutoff, centre):
    X = centre + inputs(n=201, d=30)
    gates = ib.HyperplaneGates(20, 2, cutoff=cutoff).fit(X)
    rows = np.vstack([gates.transform(X[i : i + 1]) for i in range(len(X))])
    np.testing.assert_array_equal(rows, gates.transform(X))


def test_changed_parameters_unfit_the_gates():
    gates = ib.HyperplaneGates(10, 2).fit(inputs()).set_params(units=20)
    assert_refused(lambda: gates.transform(inputs()), "not fitted")


def test_half_spaces_are_orthonormal_and_as_published():
    gates = ib.RandomHalfSpaces(5, seed=1).fit(inputs())
    np.testing.assert_allclose(gates.directions_ @ gates.directions_.T, np.eye(5), atol=1e-14)
    torch.manual_seed(1)
    expected = torch.nn.init.orthogonal_(torch.empty(5, 12)).numpy()
    # torch factorises in float32, with a backward error of up to 5 · 12 ε, and the condition number is below 4.
    np.testing.assert_allclose(gates.directions_, expected, rtol=0, atol=240 * np.finfo(np.float32).eps)


def test_relu_gates_are_open_at_zero():
    assert ib.ReLUGates([[1.0, 0.0]]).transform([[0.0, 3.0], [-1e-9, 1.0]]).tolist() == [[1.0], [0.0]]


def test_contexts_that_a_function_computes():
    X = np.array([[-3.0, 1.0], [0.0, 1.0], [3.0, 1.0]])
    gates = FunctionContexts(lambda X: np.digitize(X[:, :1] * [1, -1], [-1, 1]), contexts=3).fit(X)
    assert gates.contexts_of(X).tolist() == [[0, 2], [1, 1], [2, 0]]
    assert gates.transform(X).tolist() == [[1, 0, 0, 0, 0, 1], [0, 1, 0, 0, 1, 0], [0, 0, 1, 1, 0, 0]]
    assert gates.groups.tolist() == [0, 0, 0, 1, 1, 1]
    one = ib.OccupiedRegions(FunctionContexts(lambda X: np.digitize(X[:, :1], [-1, 1, 9]), contexts=4).fit(X)).fit(X)
    assert one.occupied_.tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    "gates",
    [
        ib.HyperplaneGates(),
        ib.RandomHalfSpaces(),
        ib.FunctionGates(lambda X: X[:, :5], [0, 1]),
        FunctionContexts(lambda X: X[:, :5], 1),
    ],
)
def test_failed_fit_leaves_gates_unfitted(gates):
    if isinstance(gates, ib.HyperplaneGates | ib.RandomHalfSpaces):
        gates.fit(inputs())
    with pytest.raises(ib.InputError):
        gates.fit(np.ones((9, 12)))
    assert not gates.is_fitted
    assert_refused(lambda: gates.transform(inputs()), "not fitted")


@pytest.fixture(scope="module")
def guide_gates():
    """Return the class SoftClusters that the guide defines, whose `fit` takes no weights."""
    page = (ROOT / "docs" / "guide" / "own_gates.md").read_text()
    (block,) = re.findall(r"```python\n([^`]*class SoftClusters[^`]*?)\n\n\nproblem = ", page)
    names = {"np": np}
    exec(block, names)
    return names["SoftClusters"]


def test_gates_of_the_guide(guide_gates):
    X = inputs(60)
    y = np.where(X[:, 0] > 0, 1, -1)
    for build in (ib.svm_gln, ib.svm_rc, ib.svm_shallow):
        gates = guide_gates(clusters=3)
        case = build(X, y, gates, C=1.0)
        assert not gates.is_fitted
        np.testing.assert_array_equal(case.features.gate_values, guide_gates(clusters=3).fit(X).transform(X))
    model = ib.GatedReLUClassifier(C=1.0, gates=guide_gates(clusters=3), fit_intercept=False, free_intercept=False).fit(
        X, y
    )
    assert model.certificate_.objective == pytest.approx(ib.solve(ib.svm_rc(X, y, guide_gates(3), C=1.0)).objective)
    model.fit(X, y, sample_weight=np.full(60, 2.0))
    assert_refused(lambda: model.fit(X, y, sample_weight=np.arange(60) + 0.5), "takes no sample_weight")
    weighted = clone(model).fit(X, y, sample_weight=np.arange(60) % 3)
    repeated = clone(model).fit(X.repeat(np.arange(60) % 3, axis=0), y.repeat(np.arange(60) % 3))
    np.testing.assert_array_equal(weighted.decision_function(X), repeated.decision_function(X))
    model.set_params(gates=guide_gates(clusters=3).fit(X)).fit(X, y, sample_weight=np.arange(60))


test_bad_gates = refusals(
    (lambda: ib.HyperplaneGates(10, 3).fit(inputs()), "power of two"),
    (lambda: ib.HyperplaneGates(10, 0).fit(inputs()), "contexts"),
    (lambda: ib.HyperplaneGates(0, 2).fit(inputs()), "units"),
    (lambda: ib.HyperplaneGates(10, 2, seed=-1).fit(inputs()), "seed"),
    (lambda: ib.HyperplaneGates(10, 2, seed=1.5).fit(inputs()), "seed"),
    (lambda: ib.HyperplaneGates(10, 2, cutoff="mean").fit(inputs()), "cutoff"),
    (lambda: ib.HyperplaneGates(10, 2, cutoff=np.nan).fit(inputs()), "cutoff"),
    (lambda: ib.HyperplaneGates(10, 2, cutoff=(0.9, 0.1)).fit(inputs()), "cutoff"),
    (lambda: ib.RandomHalfSpaces(2.0).fit(inputs()), "units"),
    (lambda: ib.HyperplaneGates().fit(np.ones((9, 3))), "the same for all inputs up to rounding \\(n_samples = 9"),
    (lambda: ib.RandomHalfSpaces().fit([[1.0, 2.0]]), "the same for all inputs up to rounding \\(n_samples = 1"),
    (lambda: ib.HyperplaneGates().fit([[np.nan]]), "NaN"),
    (lambda: ib.HyperplaneGates().transform([[1.0]]), "fit"),
    (lambda: ib.HyperplaneGates().fit(inputs()).transform(np.ones((2, 5))), "5 features"),
    (lambda: ib.ReLUGates([1.0, 2.0]), "weights"),
    (lambda: ib.ConstantGate().fit([]), "2D array"),
    (lambda: ib.HyperplaneGates.from_hyperplanes([[1.0]], [0.0], contexts=4), "hyperplanes"),
    (lambda: FunctionContexts(lambda X: X[:, :2] > 0, 0).fit(inputs()), "contexts must be"),
    (lambda: ib.FunctionGates(3).fit(inputs()), "callable"),
    (lambda: ib.FunctionGates(lambda X: X[:1]).fit(inputs()), "rows"),
    (lambda: ib.FunctionGates(lambda X: "a").fit(inputs()), "real numbers"),
    (lambda: ib.FunctionGates(lambda X: X[:, 0]).fit(inputs()), "dimension"),
    (lambda: FunctionContexts("median", 2).fit(inputs()), "callable"),
    (lambda: FunctionContexts(lambda X: X[:, 0] > 0, 2).fit(inputs()), "dimension"),
    (lambda: FunctionContexts(lambda X: X[:5] > 0, 2).fit(inputs()), "5 rows for 30"),
    (lambda: FunctionContexts(lambda X: 0 * X + 0.5, 2).fit(inputs()), "integers from 0 to 1, not 0.5"),
    (lambda: FunctionContexts(lambda X: X[:, :2] > 0, 1).fit(inputs()), "from 0 to 0, not 1"),
    (lambda: FunctionContexts(lambda X: 0 * X - 1, 3).fit(inputs()), "from 0 to 2, not -1"),
    (lambda: FunctionContexts(lambda X: 0 * X[:, : len(X)], 2).fit(inputs()).transform(inputs(5)), "in fit, but"),
    (lambda: FunctionContexts(lambda X: X > 0, 2).transform(inputs()), "not fitted"),
    (lambda: ib.HyperplaneGates(2, 2).set_params(contexts=5).fit(inputs()), "power of two"),
)
