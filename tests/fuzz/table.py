"""The table of cases: which public callable each of them is about."""

import pickle
from collections.abc import Callable
from dataclasses import dataclass, is_dataclass
from functools import partial
from importlib import import_module
from inspect import signature
from typing import Any, get_args, get_origin, get_type_hints

import numpy as np
import pandas as pd

from tests.fuzz.draw import Draw, Given, expect, meanings
from tests.fuzz.strategies import ARGUMENTS, Strategy
from tests.fuzz.values import is_finite
from tests.public import public_names


@dataclass(frozen=True)
class Entry:
    """A kind of case: a public callable (or a method of one), the code that makes and judges a call, and its share."""

    name: str
    run: Callable[[Draw], str]
    share: int


ENTRIES: dict[str, Entry] = {}
#: Names of the entries of each area, which is what the docstring of their module says.
AREAS: dict[str, list[str]] = {}
#: Records without mathematics of their own: their entries print and pickle them.
RECORDS: tuple[str, ...] = (
    *("Certificate", "Solution", "DistortedImages", "MarginClassifier", "GroupForm", "PolyhedralForm"),
    *("SpectralForm", "Answer"),
    *("Progress", "Stationarity", "TrainingResult", "Arrangement", "BestChains", "BestNetwork"),
    *("MarginBound", "Clusters", "LeastSquares", "RidgePath", "LinearClusters", "ChangingFlow", "OnlineTraining"),
    *("OrbitMoments", "Pathways", "Race", "Gram", "SmallestEigenvalue"),
)
#: The modules of cases: case number i is about entry i, in this order.
MODULES: tuple[str, ...] = (
    *("networks", "classifiers", "comparisons", "files", "fits", "gates"),
    *("grams", "kernels", "parts", "patterns", "solving", "theorems", "training"),
)


def entry(
    about: Any, share: int = 2, into: dict[str, Entry] = ENTRIES
) -> Callable[[Callable[[Draw], Any]], Callable[[Draw], Any]]:
    """Register a function of a `Draw` under the name of what it calls. It returns how a correct answer is counted."""
    name = about if isinstance(about, str) else about.__name__

    def register(function: Callable[[Draw], Any]) -> Callable[[Draw], Any]:
        into[name] = Entry(name, lambda draw: function(draw) or "correct", share)
        return function

    return register


def row(
    function: Callable[..., Any],
    /,
    *groups: Strategy,
    name: Any = "",
    like: Any = None,
    share: Any = 2,
    fine: Callable[[Any, Any], Any] = lambda c, found: True,
    same: Any = 1e-9,
    finite: Any = True,
    must: Any = False,
    may: Any = False,
    into: dict[str, Entry] = ENTRIES,
    **strategies: Any,
) -> None:
    """Register an entry: how each argument of `function` is drawn, or what it is.

    `groups` draw several arguments at once, as a dictionary. Other arguments of the function (or of what it is
    `like`) are drawn as `ARGUMENTS` states. The answer must be `finite` and the same for plain values, and `fine(c,
    found)` must be true, or say how the answer is counted, where c holds the meanings of the arguments.
    """

    def run(draw: Draw) -> Any:
        given: dict[str, Any] = {}
        for group in groups:
            given |= group(draw)
        given |= {name: drawn(strategy, draw) for name, strategy in strategies.items()}
        given |= arguments(like or function, draw, but=list(given))
        found = draw.call(function, must=must, may=may, same=same, **given)
        expect(not finite or is_finite(found), f"numbers that are none: {found!s:.200}")
        said = fine(meanings(given | {"draw": draw}), found)
        expect(said, f"not as it should be: {found!s:.200}")
        return said if isinstance(said, str) else None

    entry(name or like or function, share, into)(run)


def arguments(function: Any, draw: Draw, but: list[str], known: dict[str, Strategy] = ARGUMENTS) -> dict[str, Any]:
    """Return the arguments of a function that `known` can draw, and flags; optional ones half of the time."""
    found: dict[str, Any] = {}
    for name, parameter in signature(function).parameters.items():
        needed = parameter.default is parameter.empty
        flag = isinstance(parameter.default, bool)
        if name not in but and (flag or name in known) and (needed or draw.chance(0.5)):
            found[name] = draw.chance(0.5) if flag else known[name](draw)
    return found


def drawn(strategy: Any, draw: Draw) -> Any:
    """Return what a strategy draws; any other value stands for itself."""
    return strategy(draw) if callable(strategy) and not isinstance(strategy, type | Given) else strategy


def record(kind: Any, draw: Draw) -> Any:
    """Return a record of a kind, whose required parts have the types that it states."""
    samples: dict[Any, Any] = {float: [0.0, 1e300, np.inf, np.nan, 5e-324], int: [1, 3, 10**9], str: ["text"]}
    samples |= {bool: [True, False], pd.DataFrame: [pd.DataFrame({"loss": [np.nan]})], Any: [0.5, np.nan]}

    def part(hint: Any) -> Any:
        if type(None) in get_args(hint):
            return None
        whole = isinstance(hint, type) or get_origin(hint) is np.ndarray
        first = hint if whole else next(iter(get_args(hint)), hint)
        if is_dataclass(first):
            return record(first, draw)
        return draw.pick(samples.get(first) or list(getattr(first, "__members__", {}).values()) or [np.ones((2, 2))])

    needed = [name for name, parameter in signature(kind).parameters.items() if parameter.default is parameter.empty]
    hints = get_type_hints(kind, localns=public_callables())
    return draw.call(kind, **{name: part(hints[name]) for name in needed})


def load_entries() -> None:
    """Register all entries, in the order that numbers them: those of the modules, then one for each record."""
    for module in MODULES:
        known = set(ENTRIES)
        about = (import_module(f"tests.fuzz.{module}").__doc__ or module).partition(":")[0].rstrip(".")
        AREAS[about.removeprefix("Cases about ").replace(", about", ",").replace("and about", "and")] = [
            name for name in ENTRIES if name not in known
        ]
    AREAS["records, printed and pickled"] = list(RECORDS)
    for name in RECORDS:
        kind = public_callables()[name]
        entry(kind, share=1)(partial(_print_and_pickle, kind))


def _print_and_pickle(kind: Any, draw: Draw) -> None:
    made = record(kind, draw)
    again = pickle.loads(pickle.dumps(made))
    expect(str(made) == str(again) and repr(made) == repr(again), "pickled otherwise")


def wheel() -> list[Entry]:
    """Return the entries, each as often as its share; case i is about entry i modulo the length."""
    return [entry for entry in ENTRIES.values() for _ in range(entry.share)]


def public_callables() -> dict[str, Any]:
    found = {name: getattr(import_module(path), name) for path, names in public_names().items() for name in names}
    return {name: value for name, value in found.items() if callable(value)}


def uncovered(entries: dict[str, Entry] = ENTRIES) -> list[str]:
    """Return the public callables that no entry is about."""
    covered = {name.split(".")[0].split(",")[0] for name in entries}
    return [name for name in public_callables() if name not in covered]
