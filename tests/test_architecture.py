"""Imports point downwards only, and the public names are documented with examples that run."""

import ast
import importlib
import inspect
import re
from pathlib import Path

import pytest

import implicit_bias
from tests.public import public_names

PACKAGE = Path(implicit_bias.__file__).parent

#: From the ground up: a folder imports only from folders of lower levels, and those of one level never each other.
LEVELS = (
    ("ground",),
    ("datasets", "features"),
    ("gates",),
    ("networks",),
    ("margin", "regression", "dynamics", "kernels"),
    ("training", "theory", "comparison"),
    ("estimators", "saving"),
    ("experiments",),
    ("command_line",),
)
LEVEL = {folder: level for level, folders in enumerate(LEVELS) for folder in folders}
#: The modules at the top, which no folder imports.
TOP = {"__init__", "__main__"}


def imported(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("implicit_bias"):
            parts = (node.module or "").split(".")
            found |= {parts[1]} if len(parts) > 1 else {alias.name for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {alias.name.split(".")[1] for alias in node.names if alias.name.startswith("implicit_bias.")}
    return found


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_point_downwards(path):
    own = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    if own in TOP:
        return
    assert own in LEVEL, f"{own} has no level"
    for other in imported(path) - {own, "__version__"}:
        assert LEVEL[other] < LEVEL[own], f"{own} imports {other}, which is not below it"


#: Inside margin/solvers: what passes between the parties, and the parties, which know nothing of each other.
RECORDS = {"solution", "progress", "options", "answer", "base"}
PARTIES = {"judge", "farkas", "obstacle", "cvxpy_solvers", "native"}
SOLVERS = PACKAGE / "margin" / "solvers"


@pytest.mark.parametrize("path", sorted(SOLVERS.rglob("*.py")), ids=lambda p: str(p.relative_to(SOLVERS)))
def test_the_judge_and_the_contestants_share_nothing_that_computes(path):
    own = path.relative_to(SOLVERS).parts[0].removesuffix(".py")
    assert own in RECORDS | PARTIES | {"door", "path", "__init__"}
    if own in RECORDS | PARTIES:
        inside = r"implicit_bias\.margin\.solvers(?:\.(\w+)|\s+import)"
        assert set(re.findall(inside, path.read_text())) <= RECORDS | {own}


def test_the_public_names_are_listed():
    assert sorted(dir(implicit_bias)) == sorted(implicit_bias.__all__)
    assert sorted(implicit_bias.__all__) == sorted(set(implicit_bias.__all__))
    for name in implicit_bias.__all__:
        assert hasattr(implicit_bias, name)


PUBLIC = [(module, name) for module, names in public_names().items() for name in names]


@pytest.mark.parametrize(("path", "name"), PUBLIC)
def test_every_public_name_has_an_example(path, name):
    assert ">>>" in (inspect.getdoc(getattr(importlib.import_module(path), name)) or "")


def test_no_two_public_names_are_the_same():
    assert len({name for _, name in PUBLIC}) == len(PUBLIC)


def test_torchvision_is_imported_only_where_image_files_are_downloaded():
    users = [p.name for p in PACKAGE.rglob("*.py") if "import torchvision" in p.read_text()]
    assert users == ["images.py"]


def test_reshapes_name_their_order():
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in ("cp.reshape", "cp.vec"):
                assert any(keyword.arg == "order" for keyword in node.keywords), f"{path.name}:{node.lineno}"


def arguments():
    """The arguments of every public callable, and of the public methods of classes, by whose they are."""
    found = {}
    for path, name in PUBLIC:
        value = getattr(importlib.import_module(path), name)
        if inspect.isclass(value) and not issubclass(value, Exception):
            methods = inspect.getmembers(value, callable)
            found |= {name: value} | {f"{name}.{of}": method for of, method in methods if not of.startswith("_")}
        elif inspect.isfunction(value):
            found[name] = value
    return {of: inspect.signature(value).parameters for of, value in found.items()}


def test_every_default_of_a_seed_is_1():
    """But for weights that follow the gates' draw; a result is given its own. Estimators are scikit-learn's."""
    asked = arguments()
    found = {of: names["seed"].default for of, names in asked.items() if "seed" in names}
    assert {"train", "empirical_gram", "RingProcess.stream"} <= found.keys()
    others = {of: default for of, default in found.items() if default != 1}
    assert others == {"GatedLinearNetwork": None, "History": inspect.Parameter.empty}
    assert all(
        of.endswith(("Classifier", "Regressor"))
        for of, names in asked.items()
        if {"random_state", "rng"} & names.keys()
    )
