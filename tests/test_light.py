"""A light installation, without torch, works as the full one does, and names what it lacks in one sentence."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import implicit_bias as ib
from implicit_bias.extensions import infinite
from tests.test_docs import BLOCKS

#: What is ours and cannot do without torch: networks, their training, and the files they are kept in.
OF_TORCH = ("implicit_bias.networks", "implicit_bias.training", "implicit_bias.saving.networks")
BLOCKED = """
import sys
class NoTorch:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("torch", "torchvision"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, NoTorch())
"""
LAWS = (
    BLOCKED
    + """
import dataclasses, json, os
import numpy as np
from sklearn.model_selection import GridSearchCV
import implicit_bias as ib
from implicit_bias.extensions import best_networks, galu, infinite
from implicit_bias.cli.main import main

refused = {}
for name in dir(ib):
    try:
        getattr(ib, name)
    except ImportError as error:
        refused[name] = str(error)
brought = {}
exec("from implicit_bias import *", brought)
assert brought["solve"] is ib.solve
assert sorted(brought.keys() - {"__builtins__"}) == sorted(set(dir(ib)) - refused.keys())
task = ib.load_binary("digits", train_size=300)
gln = ib.svm_gln(task.X_train, task.y_train, ib.HyperplaneGates(6, 2, seed=1).fit(task.X_pool))
rc = ib.svm_rc(task.X_train, task.y_train, ib.RandomHalfSpaces(6, seed=1).fit(task.X_pool), C=0.1)
found, order = {}, np.random.default_rng(0).permutation(300)
for name, case in (("gln", gln), ("rc", rc)):
    whole = ib.solve(case, tol=1e-8)
    half = dataclasses.replace(case, required_margin=0.5, C=case.C)
    other = dataclasses.replace(case, features=case.features.select(order), y=case.y[order])
    answers = [ib.solve(one, "NATIVE", tol=1e-8) for one in (half, other)]
    assert all(one.status.name == "OPTIMAL" and 0 <= one.gap <= 1e-8 for one in (whole, *answers))
    found[name] = [whole.objective, *(one.objective for one in answers), whole.lower_bound]
try:
    ib.solve(gln, device="cuda")
except ib.InputError as error:
    found["cuda"] = str(error)
one = ib.OneClassMargin(ib.GLNClassifier(4, random_state=1), nu=0.2).fit(task.X_train)
found["one class"] = [one.status_.name, bool((one.predict(task.X_train) < 0).mean() <= 0.2)]
grid = GridSearchCV(ib.GLNClassifier(4, random_state=1), {"C": [0.01, 0.1]}, cv=2).fit(task.X_train, task.y_train)
found["search"] = grid.best_estimator_.status_.name
found["smallest"] = infinite.smallest_eigenvalue(infinite.gram_matrix(task.X_train[:20], "relu")).value
X, y = task.X_train, task.y_train
calls = {
    "learned": lambda: ib.GatedReLUClassifier(gates="learned").fit(X, y),
    "joint": lambda: ib.GatedReLUClassifier(gates="learned", multi_class="joint").fit(X, np.arange(len(X)) % 3),
    "hidden": lambda: ib.HiddenLayerClassifier().fit(X, y),
    "search of hidden": lambda: ib.MarginClassifierCV(ib.HiddenLayerClassifier()).fit(X, y),
    "saved hidden": lambda: ib.load_model(os.path.join(sys.argv[2], "hidden.npz")),
    "galu": lambda: galu.GaLURegressor(3).fit(X, y).network(),
    "chains": lambda: best_networks.best_chains(X, y, ib.HyperplaneGates(2, 2), layers=3),
    "best": lambda: best_networks.best_network(X[:9], y[:9]),
    "images": lambda: ib.datasets.images.load_classes("digits", 10, 100),
    "networks": lambda: ib.networks.GatedNetwork,
    "activation": lambda: infinite.custom_activation(lambda z: z),
}
found["calls"] = {}
for name, call in calls.items():
    try:
        call()
    except ImportError as error:
        found["calls"][name] = str(error)
refusing = [["compare", "gln"], *(["reproduce", name, "--quick"] for name in ("paper", "scale", "galu", "deeper"))]
refusing += [["reproduce", "best", "--quick"], ["reproduce", "classes", "--quick"], ["reproduce", "limit"]]
working = [["info"], ["reproduce", "gram", "--quick", "--figure", "rank"]]
working += [["reproduce", "localization", "--quick", "--figure", "pixels"]]
os.chdir(sys.argv[2])
codes = {" ".join(words): main(words) for words in (*working, *refusing)}
for block in json.loads(sys.argv[1]):
    exec(block, {"__name__": "readme"})
print(json.dumps([refused, found, codes, sorted({name.partition(".")[0] for name in sys.modules} & {"torch"})]))
"""
)


@pytest.fixture(scope="module")
def light(tmp_path_factory):
    """Return results and standard error of a process without torch that runs the README's examples without networks."""
    folder, task = tmp_path_factory.mktemp("light"), ib.load_binary("digits", train_size=30)
    hidden = ib.HiddenLayerClassifier(2, training=ib.SGD(steps=2), random_state=1).fit(task.X_train, task.y_train)
    ib.save_model(hidden, folder / "hidden.npz")
    blocks = [block for block, _ in BLOCKS if "Network" not in block]
    assert blocks
    done = subprocess.run(
        [sys.executable, "-c", LAWS, json.dumps(blocks), folder],
        capture_output=True, text=True, cwd=Path(ib.__file__).parent.parent,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return *json.loads(done.stdout.splitlines()[-1]), done.stderr


def test_only_names_of_torch_are_missing(light):
    refused, loaded = light[0], light[3]
    assert loaded == []
    of_torch = {
        name
        for name, value in ((name, getattr(ib, name)) for name in ib.__all__)
        if getattr(value, "__module__", "").startswith(OF_TORCH)
    }
    assert refused.keys() == of_torch
    assert all(text == f"{name} needs torch: pip install torch torchvision" for name, text in refused.items())


def test_native_solver_gives_the_same_numbers(light):
    """Objectives agree without torch; half the margin halves a hard norm; the order of samples has no effect."""
    found = light[1]
    task = ib.load_binary("digits", train_size=300)
    here = {
        "gln": ib.solve(
            ib.svm_gln(task.X_train, task.y_train, ib.HyperplaneGates(6, 2, seed=1).fit(task.X_pool)), tol=1e-8
        ),
        "rc": ib.solve(
            ib.svm_rc(task.X_train, task.y_train, ib.RandomHalfSpaces(6, seed=1).fit(task.X_pool), C=0.1), tol=1e-8
        ),
    }
    for name, ours in here.items():
        objective, half, permuted, lower = found[name]
        assert objective == pytest.approx(ours.objective, rel=1e-12)
        assert permuted == pytest.approx(objective, rel=2e-8)
        assert lower <= ours.objective
        assert half == pytest.approx(objective / 2, rel=2e-8) if name == "gln" else half < objective
    assert "needs torch" in found["cuda"]


def test_estimators_and_kernels_work(light):
    found = light[1]
    assert found["one class"] == ["OPTIMAL", True]
    assert found["search"] == "OPTIMAL"
    here = infinite.smallest_eigenvalue(
        infinite.gram_matrix(ib.load_binary("digits", train_size=300).X_train[:20], "relu")
    )
    assert found["smallest"] == pytest.approx(here.value, rel=1e-12)


def test_calls_name_the_missing_package(light):
    found = light[1]["calls"]
    assert len(found) == 11
    for text in found.values():
        assert "\n" not in text
        assert text.endswith(" needs torch: pip install torch torchvision")


def test_commands_name_the_missing_package(light):
    working = {"info", *(f"reproduce {name}" for name in ("gram --quick --figure rank",
                                                           "localization --quick --figure pixels"))}  # fmt: skip
    assert light[2] == {command: 0 if command in working else 2 for command in light[2]}
    refusals = [line for line in light[4].splitlines() if line.startswith("error: ")]
    assert len(refusals) == len(light[2]) - len(working)
    assert all(line.endswith(" needs torch: pip install torch torchvision") for line in refusals)
