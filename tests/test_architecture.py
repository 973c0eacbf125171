"""Imports point downwards only, and the public names are documented with examples that run."""

import ast
import importlib
import inspect
from pathlib import Path

import pytest

import implicit_bias
from implicit_bias.public import FURTHER

PACKAGE = Path(implicit_bias.__file__).parent

#: From the ground up: a module imports only from layers below its own, or from its own package folder.
LAYERS = [
    ["checks", "threads", "version"],
    ["blocks", "files"],
    ["features", "kernel_features", "datasets", "validation", "constraints"],
    ["archives", "gates", "norms", "patterns"],
    ["soft_gates", "problems", "regions", "function_gates", "expression_norm"],
    ["networks"],
    ["formulations", "problem_files", "regression", "solvers", "updates"],
    ["training", "together", "homogeneous"],
    ["comparison", "plots", "limit", "limit_figure", "estimators", "theory", "dynamics"],
    ["kernels", "paper_figures"],
    ["experiments"],
    ["command_line", "public"],
    ["__main__"],
]
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}


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
    if own == "__init__":
        return
    assert own in LEVEL, f"give {own} a layer"
    for other in imported(path) - {own}:
        assert LEVEL[other] < LEVEL[own], f"{path.name} imports {other} from above"


def test_the_public_names_are_listed():
    assert sorted(dir(implicit_bias)) == sorted({*implicit_bias.__all__, *vars(implicit_bias)})
    assert sorted(implicit_bias.__all__) == sorted(set(implicit_bias.__all__))
    for name in implicit_bias.__all__:
        assert hasattr(implicit_bias, name)


#: Every public name, and the module it is imported from.
PUBLIC = [
    (path, name) for path, names in ({"implicit_bias": implicit_bias.__all__} | FURTHER).items() for name in names
]


@pytest.mark.parametrize(("path", "name"), PUBLIC)
def test_every_public_name_has_an_example(path, name):
    assert ">>>" in (inspect.getdoc(getattr(importlib.import_module(path), name)) or "")


def test_no_two_public_names_are_the_same():
    assert len({name for _, name in PUBLIC}) == len(PUBLIC)


def test_torchvision_is_imported_only_where_image_files_are_loaded():
    users = [p.name for p in PACKAGE.rglob("*.py") if "import torchvision" in p.read_text()]
    assert users == ["images.py"]


def test_reshapes_name_their_order():
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in ("cp.reshape", "cp.vec"):
                assert any(keyword.arg == "order" for keyword in node.keywords), f"{path.name}:{node.lineno}"
