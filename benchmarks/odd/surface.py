"""The registry of cases: which public callable each of them is about."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module

from odd.draw import Draw
from tests.public import public_names


@dataclass(frozen=True)
class Entry:
    """A kind of case: a public callable (or a method of one), the code that makes and checks a call, and its share."""

    name: str
    run: Callable[[Draw], str]
    share: int


ENTRIES: dict[str, Entry] = {}


def entry(name: str, share: int = 2) -> Callable[[Callable[[Draw], str | None]], Callable[[Draw], str | None]]:
    """Register a function of a `Draw` under the name of what it calls. It returns how a correct answer is counted."""

    def register(function: Callable[[Draw], str | None]) -> Callable[[Draw], str | None]:
        ENTRIES[name] = Entry(name, lambda draw: function(draw) or "correct", share)
        return function

    return register


def wheel() -> list[Entry]:
    """Every entry as often as its share says; case number i is about entry i modulo the length."""
    return [entry for entry in ENTRIES.values() for _ in range(entry.share)]


def uncovered() -> list[str]:
    """The public callables that no entry is about."""
    covered = {name.split(".")[0].split(",")[0] for name in ENTRIES}
    public = [
        name for path, names in public_names().items() for name in names if callable(getattr(import_module(path), name))
    ]
    return [name for path, name in public if callable(getattr(import_module(path), name)) and name not in covered]
