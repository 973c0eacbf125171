"""A small instance of tests/fuzz/reliability.py, and every fault that a full run of it has found, once."""

import json
from random import Random

import numpy as np
import pandas as pd
import pytest
import torch

import implicit_bias as ib
from implicit_bias import InputError
from implicit_bias.extensions.galu import GaLUFeatures
from implicit_bias.gates import Gates
from implicit_bias.metrics import alignment, expected_inconsistency, normalised_margin, optimality_ratio
from implicit_bias.studies.paper.summary import summarise
from tests.cases import assert_refused
from tests.fuzz import reliability, strategies, table
from tests.fuzz.draw import Wrong
from tests.fuzz.files import poisoned
from tests.fuzz.judge import Raw, judge
from tests.fuzz.parts import _Pretender
from tests.fuzz.stuck import dies, hangs
from tests.fuzz.table import ENTRIES, uncovered, wheel

X, Y = np.array([[2.0, 1.0], [1.0, -0.5], [-1.0, 0.5], [-2.0, -1.0]]), np.array([1.0, 1.0, -1.0, -1.0])


def problem(C=np.inf, scale=1.0):
    return ib.MarginProblem(ib.GatedFeatures(scale * X), Y, ib.Frobenius(), C)


def test_every_public_callable_has_an_entry():
    assert uncovered() == [], "these need an entry, a function of tests/fuzz with @entry"
    assert uncovered({name: about for name, about in ENTRIES.items() if name != "stationarity"}) == ["stationarity"]


@pytest.mark.parametrize("name", ENTRIES)
def test_every_entry_ends_well(name):
    for seed in range(3):
        result = reliability.run_entry(ENTRIES[name], Random(f"{seed}/{name}"))
        assert result.ending in reliability.WELL, "\n".join([*result.story, result.trace])


def test_same_seed_and_number_same_case():
    first, second = reliability.run_case(3, 200), reliability.run_case(3, 200)
    assert (first.ending, first.answer, first.entry) == (second.ending, second.answer, second.entry)


def test_single_case_tells_its_story(capsys):
    assert reliability.main(["--seed", "7", "--case", "0"]) == 0
    assert f"case 0 of seed 7: {wheel()[0].name}" in capsys.readouterr().out


@pytest.mark.parametrize(("work", "limit", "ending"), [(dies, 60.0, "died"), (hangs, 0.0, "hung")])
def test_worker_without_an_answer_is_ended(work, limit, ending):
    assert [result.ending for result in reliability.run_cases(1, [0, 1], 1, work, limit)] == [ending, ending]


def test_report_of_three_cases(tmp_path):
    assert reliability.main(["--cases", "3", "--audit", "0", "--jobs", "1", "--out", str(tmp_path / "page.md")]) == 0
    page = (tmp_path / "page.md").read_text()
    assert "3 end well and 0 do not" in page


@pytest.mark.parametrize(
    ("fault", "ending"),
    [
        (lambda X: np.full(len(X), np.nan), "wrong"),
        (lambda X: np.asarray(X, dtype=float).astype(np.float16), "wrong"),
        (lambda X: X.sort(), "raised"),
        (lambda X: 1 / 0, "raised"),
        (lambda X: float("never"), "raised"),
    ],
)
def test_missing_check_is_found_in_few_cases(fault, ending):
    entries = {}
    table.row(fault, X=strategies.numbers("n"), fine=lambda c, found: np.array_equal(found, c.X), into=entries)
    (entry,) = entries.values()
    endings = {reliability.run_entry(entry, Random(seed)).ending for seed in range(20)}
    assert ending in endings


def test_judge_refuses_each_wrong_number():
    case = problem()
    raw, found = Raw.gated(X, np.ones((4, 1)), Y, "frobenius"), ib.solve(case)
    assert judge(raw, found, 1e-6) == "OPTIMAL"
    first = np.append(1.001, np.ones(len(found.dual) - 1))
    wrong = {"weights": 0.9 * found.weights, "dual": first * found.dual, "objective": 0.999 * found.objective}
    wrong |= {"lower_bound": found.lower_bound * (1 + 1e-9), "intercept": 0.1}
    for name, value in wrong.items():
        with pytest.raises(Wrong):
            judge(raw, type(found)(**{**vars(found), name: value}), 1e-6)


# ---------------------------------------------------------------------------------------------------- faults found


def test_tensors_and_views_are_numbers():
    turned = torch.complex(torch.zeros(4, 2).double(), torch.tensor(-X)).conj().imag
    assert np.array_equal(ib.GatedFeatures(turned).X, X)
    assert ib.solve(ib.MarginProblem(ib.GatedFeatures(np.array([[1.0]])[::-1]), [1], ib.Frobenius(), 1.0)).gap < 1e-6
    assert ib.GroupLasso(torch.tensor([0, 1])).gates == 2


def test_weights_that_are_no_real_numbers_are_refused():
    features = ib.GatedFeatures(X)
    for W in (np.ones((1, 2)) * 1j, np.ma.masked_array(np.ones((1, 2)), [[True, False]]), np.full((1, 2), b"1")):
        with pytest.raises(InputError, match="real numbers"):
            features.apply(W)


def test_open_file_is_not_read(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("text")
    with path.open() as file:
        with pytest.raises(InputError):
            ib.GatedFeatures(file)
        assert file.read() == "text"


def test_short_integers_do_not_overflow():
    gates = ib.HyperplaneGates(np.int8(100), np.int8(2), seed=np.int64(3), cutoff=0.0).fit(X)
    assert gates.transform(X).shape == (4, 200)
    assert ib.load_binary("digits", np.int16(500), np.int64(1)).X_train.shape == (500, 65)
    assert ib.SGD(steps=np.int8(100), batch_size=np.int8(100)).epochs(500) == 20


@pytest.mark.parametrize("scale", [1e-300, 1e300])
def test_features_that_leave_floating_point_are_refused(scale):
    assert_refused(lambda: problem(scale=scale), "rescale")
    part = np.sqrt(scale)
    assert_refused(lambda: ib.GatedFeatures(X * part, np.full((4, 1), part)), "rescale")


@pytest.mark.parametrize(("C", "scale"), [(5e-324, 1.0), (1e-200, 1e-200), (1e200, 1e200)])
def test_bounds_that_leave_floating_point_are_refused(C, scale):
    assert_refused(lambda: problem(C, scale), "rescale")


def test_certificate_counts_its_rounding():
    """For C = 1e15, a slack of one rounding error costs a tenth of the objective, and the bounds include it."""
    rng = np.random.default_rng(0)
    for _ in range(20):
        t = rng.normal(size=(5, 1))
        inputs, y = t * rng.normal(size=(1, 4)), np.where(t[:, 0] > 0, 1.0, -1.0)
        found = ib.solve(ib.MarginProblem(ib.GatedFeatures(inputs), y, ib.Frobenius(), 1e15))
        judge(Raw.gated(inputs, np.ones((5, 1)), y, "frobenius", C=1e15), found, 1e-6)


@pytest.mark.parametrize("size", [1e-300, 1.0, 1e300])
def test_scores_do_not_depend_on_scale(size):
    expected = ib.certify(problem(), [[1.0, 0.2]], [1.0, 2.0, 0.5, 1.0])
    found = ib.certify(problem(), size * np.array([[1.0, 0.2]]), size * np.array([1.0, 2.0, 0.5, 1.0]))
    assert found.objective == pytest.approx(expected.objective, rel=1e-12)
    assert found.lower_bound == pytest.approx(expected.lower_bound, rel=1e-12)
    assert alignment([[size, 0.0]], [[size, 0.0]]) == 1.0
    assert normalised_margin(problem(), size * np.array([[1.0, 0.0]])) == pytest.approx(1.0)


def test_proof_of_large_features_does_not_overflow():
    rng = np.random.default_rng(1)
    inputs = 1e200 * rng.normal(size=(20, 3))
    found = ib.solve(ib.MarginProblem(ib.GatedFeatures(inputs), rng.choice([-1.0, 1.0], 20), ib.Frobenius()))
    assert found.status is ib.Status.NOT_SEPARABLE


def test_outputs_of_low_precision():
    assert ib.ReLUNetwork(2, 3).to(torch.bfloat16).decision_function(X).shape == (4,)


def test_descent_of_large_inputs_lowers_the_loss():
    descent = ib.descend_to_limit(ib.ReLUNetwork(2, [3, 3]), 1e60 * X, Y, ib.LossScaled(max_steps=50))
    assert descent.table.log_loss.iloc[-1] <= descent.table.log_loss.iloc[0]


@pytest.mark.parametrize("solver", ib.solver_names())
def test_iteration_limit_beyond_64_bits(solver):
    assert ib.solve(problem(), solver, tol=1e-3, max_iterations=10**30).status is ib.Status.OPTIMAL


def test_margin_of_weights_whose_powers_overflow():
    """The normalised margin of a deep network is finite even if ‖w‖³ overflows."""
    network = ib.ReLUNetwork(2, [3, 3]).double()
    with torch.no_grad():
        for weight in network.parameters():
            weight.mul_(1e120)
    assert np.isfinite(ib.train(network, 1e-300 * X, Y, ib.SGD(steps=1, lr=1e-300)).table.normalised_margin).all()


def test_stationarity_of_tiny_weights():
    linear = torch.nn.Sequential(torch.nn.Linear(2, 1, bias=False), torch.nn.Flatten(0)).double()
    linear[0].weight.data = torch.tensor([[1e-200, 0.0]], dtype=torch.float64)
    assert ib.stationarity(linear, 1e200 * X, Y).degree == pytest.approx(1.0)


def test_numbers_of_numpy_are_saved(tmp_path):
    gates = ib.HyperplaneGates(np.int64(2), 2, seed=np.int64(5), cutoff=0.0)
    case = ib.svm_gln(X, Y, gates)
    assert json.dumps(ib.load_problem(ib.save_problem(case, tmp_path / "p.npz")).gates.get_params())


@pytest.mark.parametrize("load", [ib.load_network, ib.load_solution, ib.load_problem, ib.load_model, ib.read_samples])
def test_code_inside_a_file_never_runs(tmp_path, load):
    path = tmp_path / ("file.pt" if load is ib.load_network else "file.npz")
    for content in poisoned(tmp_path / "marker").values():
        path.write_bytes(content)
        with pytest.raises(InputError):
            load(path)
    assert not (tmp_path / "marker").exists()


@pytest.mark.parametrize("scale", [1e-200, 1e200])
def test_constant_columns_of_every_size(scale):
    case, plain = (ib.MarginProblem(ib.GatedFeatures(c * X[:2]), [1, 1], ib.Frobenius()) for c in (scale, 1.0))
    assert ib.solve(case).objective * scale == pytest.approx(ib.solve(plain).objective, rel=1e-6)
    one = ib.MarginProblem(ib.GatedFeatures(scale * X[:1]), [1], ib.Frobenius())
    assert ib.solve(one).objective * scale == pytest.approx(5**-0.5)


@pytest.mark.parametrize(
    "call",
    [
        lambda: ib.svm_lc(X, Y, _Pretender()),
        lambda: ib.svm_lc(X, Y, problem()),
        lambda: ib.svm_hl(X, Y, _Pretender()),
        lambda: ib.svm_hl(X, Y, np),
        lambda: ib.svm_gln(X, Y, Gates()),
        lambda: ib.HyperplaneGates(1, 2**70).fit(X),
        lambda: ib.HyperplaneGates(10**6000, 2).fit(X),
        lambda: ib.HyperplaneGates(2, 2, cutoff=10**400).fit(X),
        lambda: ib.HyperplaneGates(2, 2, cutoff=0.0).fit(np.array([[10**400, 1.0]], dtype=object)),
        lambda: ib.HyperplaneGates(2, 2, cutoff=0.0).fit(np.zeros((3, 2), "m8[s]")),
        lambda: ib.ReLUNetwork(10**9, 10**9),
        lambda: ib.ReLUNetwork(2, np.array(2.5)),
        lambda: ib.train(ib.ReLUNetwork(2, 3), X, Y, ib.SGD(steps=1, lr=1e300)),
        lambda: ib.SGD().epochs(0),
        lambda: ib.train(ib.ReLUNetwork(2, 3), X, Y, ib.SGD(steps=1), device=10**400),
        lambda: ib.train(ib.ReLUNetwork(2, 3), X, Y, ib.SGD(steps=1), progress=3),
        lambda: ib.solve(problem(), device=10**400),
        lambda: ib.ReLUNetwork(2, b"12"),
        lambda: ib.HyperplaneGates(2**31, 1).fit(X).transform(X),
        lambda: ib.descend_to_limit(ib.ReLUNetwork(2, 3), 1e200 * X, Y),
        lambda: ib.GatedFeatures(X).select([9]),
        lambda: ib.GatedFeatures(X).scaled("2"),
        lambda: ib.GatedFeatures(1e200 * X).gram(),
        lambda: ib.GroupLasso(torch.tensor([0.5], requires_grad=True)),
        lambda: ib.GroupLasso(np.ma.masked_array([0, 1], [False, True])),
        lambda: ib.GroupLasso([0, 1]).value(np.ones((3, 2))),
        lambda: ib.Frobenius().value("W"),
        lambda: problem().adjoint(torch.ones(3, requires_grad=True)),
        lambda: problem().adjoint(0.5),
        lambda: ib.solve(10**6000),
        lambda: ib.margin_path(problem(), torch.tensor(1.0)),
        lambda: ib.margin_path(problem(), {1.0, 2.0}),
        lambda: ib.MarginProblem(ib.GatedFeatures(X), Y, ib.Frobenius(), C=np.longdouble("1e4000")),
        lambda: expected_inconsistency("a", 2.0),
        lambda: optimality_ratio(problem(), [[1.0, 0.0]], []),
        lambda: normalised_margin(X, [[1.0, 0.0]]),
        lambda: summarise(pd.DataFrame({"status": ["OPTIMAL"]})),
        lambda: summarise(pd.DataFrame({"status": ["OPTIMAL"], "error": ["much"]}), by=["status"]),
        lambda: summarise(pd.DataFrame({"status": ["OPTIMAL"]}), by=3),
        lambda: ib.load_network("a" * 5000),
        lambda: ib.save_solution(ib.solve(problem()), "\0"),
        lambda: ib.save_solution(X, "nowhere"),
        lambda: ib.load_solution("\ud800"),
        lambda: ib.train(ib.ReLUNetwork(2, 2), X, Y, ib.SGD(steps=2), every=[0.5, 1.0]),
        lambda: GaLUFeatures(gates=ib.RandomHalfSpaces(2), random_state=2 + 0j).fit(X),
    ],
)
def test_refusal_is_a_sentence(call):
    with pytest.raises(InputError) as refusal:
        call()
    assert 10 < len(str(refusal.value)) < 1000


def test_column_names_must_match_the_file(tmp_path):
    path = tmp_path / "samples.csv"
    path.write_text("a,b\n1,x\n2,y\n")
    assert_refused(lambda: ib.read_samples(path, ["b"]), "names of columns")
