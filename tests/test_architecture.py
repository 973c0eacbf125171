"""The three rings: imports point inwards, and the public names are documented with examples that run."""

import ast
import functools
import importlib
import inspect
from pathlib import Path

import pytest

import implicit_bias
from tests.public import ROOMS, public_names

PACKAGE = Path(implicit_bias.__file__).parent
#: The core, from its base up: a folder imports only from folders before its own.
CORE = (
    "_utils",
    "datasets",
    "features",
    "gates",
    "norms",
    "margin",
    "certificate",
    "solvers",
    "networks",
    "training",
    "estimators",
    "saving",
    "metrics",
)
#: Extensions import the core, and of each other only `infinite`, whose activations and Gram matrices they share.
SHARED = "infinite"
MODULES = sorted(path for path in PACKAGE.rglob("*.py") if path.parent != PACKAGE or path.name == "metrics.py")


def place(parts: tuple[str, ...]) -> tuple[int, ...]:
    """Return the rank of a module: it may import modules of smaller rank, and those of its own folder."""
    first = parts[0]
    if first == "extensions":
        return (len(CORE), 0 if parts[1:2] in ((), (SHARED,)) else 1)
    return (CORE.index(first),) if first in CORE else (len(CORE) + 1 + ("studies", "cli").index(first),)


@functools.cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


@functools.cache
def imported(path: Path) -> list[tuple[str, ...]]:
    """Return the dotted parts of all modules of this package that a module imports, for type checking too."""
    found = []
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "implicit_bias":
            base = (node.module or "").split(".")[1:]
            for alias in node.names:
                whole = [*base, alias.name]
                is_module = PACKAGE.joinpath(*whole).is_dir() or PACKAGE.joinpath(*whole).with_suffix(".py").exists()
                found.append(tuple(whole if is_module else base))
        elif isinstance(node, ast.Import):
            found += [
                tuple(alias.name.split(".")[1:]) for alias in node.names if alias.name.startswith("implicit_bias.")
            ]
    return found


def test_imports_point_inwards():
    outwards = []
    for path in MODULES:
        own = path.relative_to(PACKAGE).with_suffix("").parts
        room = 2 if own[0] == "extensions" else 1
        for other in imported(path):
            if not other or (other[:room] != own[:room] and place(other) >= place(own)):
                outwards.append(f"{'.'.join(own)} imports {'.'.join(other) or 'the root'}")
    assert outwards == []


def test_the_rooms_are_the_folders_of_the_extensions():
    folders = {path.name for path in (PACKAGE / "extensions").iterdir() if (path / "__init__.py").exists()}
    assert folders == set(ROOMS)


def test_the_root_exports_the_core_only():
    homes = {name: getattr(implicit_bias, name).__module__.split(".")[1] for name in implicit_bias.__all__}
    assert set(homes.values()) <= set(CORE)
    assert len(homes) <= 80


def test_certificate_and_solvers_import_nothing_from_each_other():
    for path in MODULES:
        own = path.relative_to(PACKAGE).with_suffix("").parts
        if own[0] == "certificate" or own[:2] == ("solvers", "native") or own[:2] in PARTIES:
            others = {other[0] for other in imported(path)} - {own[0]}
            assert not others & {"certificate", "solvers"}, path
            assert not {other[:2] for other in imported(path) if other[0] == "solvers"} & (PARTIES - {own[:2]}), path


#: What computes, all but what calls it: none of these modules uses another's results unseen.
CALLERS = ("__init__", "base", "dispatch", "expansions", "path")
PARTIES = {("solvers", path.stem) for path in (PACKAGE / "solvers").iterdir() if path.stem not in CALLERS}


def test_no_two_files_import_each_other():
    """There is no cycle of imports, counting those inside functions and for type checking."""
    graph = {}
    for path in MODULES:
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        own = parts[:-1] if parts[-1] == "__init__" else parts
        graph[own] = {other for other in imported(path) if other != own and own[: len(other)] != other}
    done = set()

    def visit(node, above):
        assert node not in above, " -> ".join(".".join(part) for part in [*above[above.index(node) :], node])
        if node not in done:
            for other in graph.get(node, ()):
                visit(other, [*above, node])
            done.add(node)

    for node in graph:
        visit(node, [])


PUBLIC = [(module, name) for module, names in public_names().items() for name in names]


@pytest.mark.parametrize(("path", "name"), PUBLIC)
def test_every_public_name_has_an_example(path, name):
    assert ">>>" in (inspect.getdoc(getattr(importlib.import_module(path), name)) or "")


@pytest.mark.parametrize(("path", "name"), PUBLIC)
def test_public_methods_have_docstrings(path, name):
    value = getattr(importlib.import_module(path), name)
    own = vars(value).items() if inspect.isclass(value) else ()
    methods = {of: method for of, method in own if not of.startswith("_") and inspect.isroutine(method)}
    assert not [of for of, method in methods.items() if not inspect.getdoc(getattr(value, of))]


@pytest.mark.parametrize(("path", "name"), PUBLIC)
def test_signatures_name_types_as_the_source_does(path, name):
    """`help` prints ArrayLike, not the union of private classes of NumPy that it stands for."""
    value = getattr(importlib.import_module(path), name)
    own = vars(value).values() if inspect.isclass(value) else (value,)
    functions = (inspect.unwrap(getattr(of, "__func__", of)) for of in own)
    assert not [of for of in functions if inspect.isfunction(of) and "numpy._" in str(inspect.signature(of))]


def test_no_two_public_names_are_the_same():
    assert len({name for _, name in PUBLIC}) == len(PUBLIC)


def test_torchvision_is_imported_only_where_image_files_are_downloaded():
    users = [p.name for p in PACKAGE.rglob("*.py") if "import torchvision" in p.read_text()]
    assert users == ["images.py"]


def test_reshapes_name_their_order():
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in ("cp.reshape", "cp.vec"):
                assert any(keyword.arg == "order" for keyword in node.keywords), f"{path.name}:{node.lineno}"


def arguments():
    """Return the parameters of every public callable, and of public methods as 'Class.method', by name."""
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
    """Every `seed` is 1 by default, except None for weights that follow the gates' draw, and for records."""
    asked = arguments()
    found = {of: names["seed"].default for of, names in asked.items() if "seed" in names}
    assert {"train", "empirical_gram", "RingProcess.stream"} <= found.keys()
    others = {of: default for of, default in found.items() if default != 1}
    assert others == {"GatedLinearNetwork": None, "TrainingResult": None}
    assert all(
        of.endswith(("Classifier", "Regressor", "RegressorCV", "GaLUFeatures"))
        for of, names in asked.items()
        if {"random_state", "rng"} & names.keys()
    )
