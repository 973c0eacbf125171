"""The table of cases: which public callable each of them is about."""

import pickle
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from tests.fuzz.draw import Draw, Given, expect, meanings
from tests.fuzz.strategies import Strategy
from tests.fuzz.values import is_finite
from tests.public import public_names


@dataclass(frozen=True)
class Entry:
    """A kind of case: a public callable (or a method of one), the code that makes and judges a call, and its share."""

    name: str
    run: Callable[[Draw], str]
    share: int


ENTRIES: dict[str, Entry] = {}


def entry(about: Any, share: int = 2) -> Callable[[Callable[[Draw], Any]], Callable[[Draw], Any]]:
    """Register a function of a `Draw` under the name of what it calls. It returns how a correct answer is counted."""
    name = about if isinstance(about, str) else about.__name__

    def register(function: Callable[[Draw], Any]) -> Callable[[Draw], Any]:
        ENTRIES[name] = Entry(name, lambda draw: function(draw) or "correct", share)
        return function

    return register


def row(
    function: Callable[..., Any],
    /,
    *groups: Strategy,
    name: Any = "",
    share: Any = 2,
    fine: Callable[[Any, Any], Any] = lambda c, found: True,
    same: Any = 1e-9,
    finite: Any = True,
    must: Any = False,
    may: Any = False,
    **strategies: Any,
) -> None:
    """An entry in one call: how each argument is drawn, or what it is; `groups` draw several at once, as a dictionary.

    The answer is `finite`, plain values have the same one, and `fine(c, found)` is true, where c is what the arguments
    mean.
    """

    def run(draw: Draw) -> None:
        given: dict[str, Any] = {}
        for group in groups:
            given |= group(draw)
        given |= {name: drawn(strategy, draw) for name, strategy in strategies.items()}
        found = draw.call(function, must=must, may=may, same=same, **given)
        expect(not finite or is_finite(found), f"numbers that are none: {found!s:.200}")
        expect(fine(meanings(given | {"draw": draw}), found), f"not as it should be: {found!s:.200}")

    entry(name or function, share)(run)


def records(kinds: dict[Any, Any], brief: bool = True) -> None:
    """Entries about records of numbers, by what they are made of: printed and pickled; `brief` ones print no arrays."""
    for kind, parts in kinds.items():

        def run(draw: Draw, kind: Any = kind, parts: Any = parts) -> None:
            record = draw.call(kind, **parts(draw)) if callable(parts) else draw.call(kind, *parts)
            text, again = repr(record), pickle.loads(pickle.dumps(record))
            expect(str(record) == str(again) and text == repr(again), "pickled otherwise")
            expect(not brief or not ("array(" in text or "DataFrame" in text), "it prints its arrays")

        entry(kind, share=1)(run)


def drawn(strategy: Any, draw: Draw) -> Any:
    """What a strategy draws; anything else stands for itself."""
    return strategy(draw) if callable(strategy) and not isinstance(strategy, type | Given) else strategy


def wheel() -> list[Entry]:
    """Every entry as often as its share says; case number i is about entry i modulo the length."""
    return [entry for entry in ENTRIES.values() for _ in range(entry.share)]


def uncovered() -> list[str]:
    """The public callables that no entry is about."""
    covered = {name.split(".")[0].split(",")[0] for name in ENTRIES}
    return [
        name
        for path, names in public_names().items()
        for name in names
        if callable(getattr(import_module(path), name)) and name not in covered
    ]
