"""Saved problems and solutions: their format, and what is refused of damaged files; that they load equal is a law."""

import dataclasses
import io
import json
import tracemalloc
import zipfile
from functools import partial

import numpy as np
import pytest

import implicit_bias as ib
from implicit_bias._utils import limits
from implicit_bias.solvers import Answer
from tests.cases import assert_refused, inputs, interrupt, problem
from tests.cli.commands import run


def peak(call):
    """Return the text of the InputError that `call` raises, and the peak of NumPy's memory meanwhile."""
    tracemalloc.start()
    try:
        with pytest.raises(ib.InputError) as refusal:
            call()
        return str(refusal.value), tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def rewritten(path, change):
    """Rewrite an archive, compressed, with the members that `change(content)` returns; return its path."""
    with zipfile.ZipFile(path) as source:
        content = {name: source.read(name) for name in source.namelist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as target:
        for name, data in (content | change(content)).items():
            target.writestr(name, data)
    return path


def announcing(data, shape):
    """Return an .npy member with the data of another and a header that states `shape`."""
    stream, header = io.BytesIO(data), io.BytesIO()
    dtype = np.lib.format.read_array(stream).dtype
    about = {"descr": dtype.str, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(header, about)
    return header.getvalue() + data[-16:]


def test_the_format_is_open_and_carries_its_version(tmp_path):
    path = ib.save_problem(problem("contexts 2", "group lasso"), tmp_path / "problem.npz")
    other = tmp_path / "other.npz"
    with np.load(path, allow_pickle=False) as content:
        about = json.loads(str(content["about"]), parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
        assert content["C"] == np.inf
        assert {"X", "gate_values", "y", "norm.groups"} <= set(content.files)
        np.savez(other, **{name: values for name, values in content.items() if name != "y"})
    assert about["format"] == "implicit_bias problem 1"
    assert about["implicit_bias"]
    assert_refused(lambda: ib.load_problem(other), "damaged")
    whole = path.read_bytes()
    for size in (0, 10, len(whole) // 2, len(whole) - 5):
        other.write_bytes(whole[:size])
        assert_refused(lambda: ib.load_problem(other), "damaged or not a saved problem")
    np.savez(other, about=json.dumps({"format": "implicit_bias problem 99"}))
    assert_refused(lambda: ib.load_problem(other), "problem 99")


@pytest.mark.parametrize(
    "change",
    [
        {"gates.n_features_in_": np.array(np.inf)},
        {"gates.n_features_in_": np.array(3)},
        {"gates.directions_": np.ones((2, 2))},
        {"gates.directions_": np.full((4, 12), np.nan)},
        {"gates.cutoffs_": np.zeros(3)},
        {"constraints.value": np.array([np.nan] * 96)},
        {"constraints.value": np.array([1j] * 96)},
        {"constraints.equal": np.zeros((8, 12), dtype=bool)},
        {"constraints.row": np.full(96, 1000)},
        {"constraints.h": np.full(96, np.inf)},
        {"constraints.h": np.zeros(7)},
        {"norm.groups": np.arange(3)},
        {"y": np.ones((30, 2))},
    ],
    ids=str,
)
def test_tampered_problems_are_refused(tmp_path, change):
    X = inputs()
    case = ib.svm_gln(X, np.where(X[:, 0] > 0, 1, -1), ib.HyperplaneGates(4, 2))
    case = dataclasses.replace(case, constraints=lambda W: [W >= 0])
    path = ib.save_problem(case, tmp_path / "problem.npz")
    np.savez(path, **(dict(np.load(path)) | change))
    with pytest.raises(ib.InputError):
        ib.load_problem(path)


def stated(slack=np.inf, scale=1.0, conflict=False, **parts):
    X = scale * inputs(12, 3)
    y = np.where(inputs(12, 3)[:, 0] > 0, 1, -1)
    y[::3] *= -1 if conflict else 1
    gates = ib.ConstantGate().fit(X)
    return ib.MarginProblem(gates(X), y, ib.Frobenius(), slack, gates, **parts)


TIGHT, EMPTY = (lambda W: [W[0, 0] >= 100]), (lambda W: [W[0, 0] >= 1, W[0, 0] <= -1])
#: The answer if only the constraint is active.
MULTIPLIER = Answer([[100.0, 0.0, 0.0]], np.zeros(12), -1, multipliers=np.ones(1))
NOTHING = Answer(np.zeros((1, 3)), np.zeros(12), 0)
#: Two samples with the distance 2^-45, whose weights have a norm of 1e14.
NEARLY_EQUAL = partial(ib.MarginProblem, ib.GatedFeatures([[1, 1, 1], [1, 1, 1 + 2.0**-45]]), [1, -1], ib.Frobenius())
#: Answers of `solve`, of every status: the problem, the options and the status.
ENDINGS = {
    "hard": (stated, {}, "OPTIMAL"),
    "soft": (partial(stated, 1.0, intercept=True), {}, "OPTIMAL"),
    "without weights": (partial(stated, 1.0, scale=0.0), {}, "OPTIMAL"),
    "several classes": (
        lambda: ib.svm_classes(inputs(12, 3), ["b", *"abaabbaabab"], ib.ConstantGate(), 0.2),
        {},
        "OPTIMAL",
    ),
    "constraint": (partial(stated, constraints=TIGHT), {"solver": lambda problem, options: MULTIPLIER}, "OPTIMAL"),
    "too small a gap": (stated, {"tol": 1e-17}, "INACCURATE"),
    "no answer": (stated, {"solver": lambda problem, options: NOTHING}, "INACCURATE"),
    "in conflict": (partial(stated, conflict=True, intercept=True), {}, "NOT_SEPARABLE"),
    "in conflict, constrained": (partial(stated, conflict=True, constraints=TIGHT), {}, "NOT_SEPARABLE"),
    "nearly equal": (NEARLY_EQUAL, {"solver": "NATIVE"}, "NOT_SEPARABLE_BELOW"),
    "contradictory": (partial(stated, constraints=EMPTY), {}, "INFEASIBLE"),
    "contradictory, soft": (partial(stated, 1.0, constraints=EMPTY, intercept=True), {}, "INFEASIBLE"),
    "one iteration": (stated, {"max_iterations": 1}, "ITERATION_LIMIT"),
    "no time": (stated, {"max_seconds": 1e-9}, "TIME_LIMIT"),
    "no time for weights": (partial(stated, conflict=True), {"max_seconds": 1e-9}, "TIME_LIMIT"),
    "interrupted": (stated, {"callback": interrupt()}, "INTERRUPTED"),
}


def test_endings_are_all_statuses():
    assert {status for *_, status in ENDINGS.values()} == {*ib.Status.__members__}


@pytest.mark.parametrize(("make", "options", "status"), ENDINGS.values(), ids=ENDINGS)
def test_every_ending_loads_equal(tmp_path, make, options, status):
    case = make()
    # Files have no times.
    found = dataclasses.replace(ib.solve(case, **options), seconds=0.0)
    assert found.status.name == status
    path = ib.save_model(ib.MarginModel([case], [found]), tmp_path / "model.npz", samples=True)
    model = ib.load_model(path)
    for again in (ib.load_solution(ib.save_solution(found, tmp_path / "solution.npz")), *model.solutions):
        assert str(again) == str(found)
        for name, value in vars(found).items():
            np.testing.assert_array_equal(getattr(again, name), value)
        bounds = ib.certify(model.problems[0], again.weights, again.dual, again.intercept, again.multipliers)
        assert bounds.lower_bound == pytest.approx(found.lower_bound, rel=1e-9)
    np.savez(tmp_path / "new.npz", X=inputs(5, 3))
    done = run("predict", path, tmp_path / "new.npz", "--out", tmp_path / "new.csv")
    assert done.returncode == (2 if found.status.inseparable else 0)
    assert ("has no weights" in done.stderr) == found.status.inseparable


def spoiled(values, rng, what):
    changed = np.array(values, dtype=float)
    changed.flat[rng.integers(changed.size)] = what
    return changed


def as_proof(status, total, found, rng):
    """Return the fields of a proof by the λ of `found`, scaled to the sum `total`."""
    nothing = {"weights": found.weights * np.nan, "margins": found.margins * np.nan}
    bounds = dict.fromkeys(("objective", "lower_bound", "gap"), np.inf)
    return {"status": status, "dual": total * found.dual / found.dual.sum()} | nothing | bounds


#: What no answer of `solve` is: the fields that a draw changes, and words of the refusal.
CONTRADICTIONS = {
    "bounds crossed": (
        lambda s, r: {"lower_bound": (low := s.objective * r.uniform(1.1, 1e18)), "gap": 1 - low / s.objective},
        "exceeds the objective",
    ),
    "another gap": (lambda s, r: {"gap": r.uniform(1e-4, 1)}, "does not match the bounds"),
    "another bound": (lambda s, r: {"lower_bound": s.lower_bound * r.uniform(0, 0.9)}, "does not match the bounds"),
    "no gap": (lambda s, r: {"gap": np.nan}, "does not match the bounds"),
    "a wide gap": (lambda s, r: {"objective": 2.0, "lower_bound": (b := r.uniform(0, 1.9)), "gap": 1 - b / 2}, "tol"),
    "any tolerance": (lambda s, r: {"tol": r.uniform(1, 1e300)}, "exceeds tol"),
    "no weights": (lambda s, r: {"weights": spoiled(s.weights, r, np.nan)}, "weights or margins are NaN"),
    "no margins": (lambda s, r: {"margins": spoiled(s.margins, r, r.choice([np.nan, np.inf]))}, "margins are NaN"),
    "an infinite dual": (lambda s, r: {"dual": spoiled(s.dual, r, np.inf)}, "dual or another number is NaN"),
    "a negative dual": (lambda s, r: {"dual": spoiled(s.dual, r, -r.random())}, "dual is negative"),
    "a negative bound": (lambda s, r: {"objective": -r.random(), "gap": np.inf}, "cannot be negative"),
    "a proof": (lambda s, r: {"status": ib.Status.NOT_SEPARABLE}, "in spite of a proof"),
    "a bound without a dual": (lambda s, r: {"dual": 0 * s.dual}, "a lower bound without a dual"),
    "a finite proof": (
        lambda s, r: as_proof(ib.Status.NOT_SEPARABLE, 1.0, s, r) | {"lower_bound": s.lower_bound},
        "an infinite lower bound without",
    ),
    "a proof without a dual": (partial(as_proof, ib.Status.NOT_SEPARABLE, 0.0), "the dual proves nothing"),
    "contradictory constraints with a dual": (partial(as_proof, ib.Status.INFEASIBLE, 1.0), "or INFEASIBLE with one"),
    "a proof of another size": (partial(as_proof, ib.Status.NOT_SEPARABLE, 1.5), "does not have the sum 1"),
}


@pytest.mark.parametrize(("seed", "name"), [*enumerate(CONTRADICTIONS)])
def test_contradictory_solutions_are_refused(tmp_path, name, seed):
    rng, (change, words) = np.random.default_rng(seed), CONTRADICTIONS[name]
    found = ib.solve(problem("contexts 2", "group lasso", rng.choice([0.1, np.inf]), seed=seed))
    path = ib.save_solution(found, tmp_path / "a.npz")
    assert ib.load_solution(path).gap == found.gap
    ib.save_solution(dataclasses.replace(found, **change(found, rng)), path)
    assert_refused(lambda: ib.load_solution(path), words)


@pytest.mark.parametrize("seed", range(6))
def test_announced_arrays_take_no_memory(tmp_path, seed):
    rng = np.random.default_rng(seed)
    case = ib.svm_gln(inputs(), np.where(inputs()[:, 0] > 0, 1, -1), ib.HyperplaneGates(4, 2))
    loads = {
        ib.load_problem: ib.save_problem(case, tmp_path / "p.npz"),
        ib.load_solution: ib.save_solution(ib.solve(case), tmp_path / "s.npz"),
    }
    load, path = list(loads.items())[seed % 2]
    names = ["weights", "dual", "margins"] if seed % 2 else ["X", "y", "gate_values", "gates.directions_"]
    name, shape = f"{rng.choice(names)}.npy", tuple(int(size) for size in 10 ** rng.uniform(3, 8, size=2))
    text, most = peak(lambda: load(rewritten(path, lambda held: {name: announcing(held[name], shape)})))
    assert "damaged" in text
    assert most < 2**23


@pytest.mark.parametrize("sizes", [{"gates.n_features_in_": 5 * 10**8}, {"units": 5 * 10**8}, {"contexts": 2**29}])
def test_announced_gates_take_no_memory(tmp_path, sizes):
    contexts = 1 if "units" in sizes else 2
    gates = ib.ConstantGate() if "gates.n_features_in_" in sizes else ib.HyperplaneGates(1, contexts)
    path = ib.save_problem(ib.svm_shallow(inputs(), np.where(inputs()[:, 0] > 0, 1, -1), gates), tmp_path / "p.npz")
    content = dict(np.load(path))
    about = json.loads(str(content["about"]))
    about["parameters"] |= {name: size for name, size in sizes.items() if name in about["parameters"]}
    more = {name: np.array(size) for name, size in sizes.items() if name in content}
    np.savez(path, **(content | {"about": np.array(json.dumps(about))} | more))
    text, most = peak(lambda: ib.load_problem(path))
    assert "its gates do not match" in text
    assert most < 2**23


def test_unused_arrays_are_not_read(tmp_path):
    found = ib.solve(problem("constant", "frobenius"))
    path = ib.save_solution(found, tmp_path / "a.npz")
    with np.load(path) as held:
        np.savez(path, **held, unused=np.zeros(2**23))
    tracemalloc.start()
    assert ib.load_solution(path).gap == found.gap
    assert tracemalloc.get_traced_memory()[1] < 2**22
    tracemalloc.stop()


def test_arrays_larger_than_memory(tmp_path, monkeypatch):
    path = ib.save_problem(problem("contexts 2", "group lasso"), tmp_path / "p.npz")
    monkeypatch.setattr(limits, "free_memory", lambda: 1000.0)
    assert_refused(lambda: ib.load_problem(path), r"its array '\w+' needs about 0.0 GiB of memory, 0.0 GiB are free")
