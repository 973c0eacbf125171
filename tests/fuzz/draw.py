"""A case draws its inputs here, and makes its calls, which are watched."""

import copy
import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any, Literal, TypeVar

import numpy as np
import torch

from implicit_bias import InputError
from tests.fuzz.values import DAMAGE, DISGUISES, DOUBTFUL, ROUNDED, SCALARS, Array, alike, leaves, matching, short

Verdict = Literal["good", "doubtful", "bad"]
T = TypeVar("T")
#: What means nothing wherever a thing of some kind is asked for.
NOTHING: list[Any] = [{"a": 1}, object(), 1j]
#: Another number of dimensions, where an input may have it.
DIMENSIONS = ("one dimension more", "one dimension less")
#: The file in a case's folder that code inside of another file makes where it runs.
MARKER = "code was executed"


class Wrong(Exception):  # noqa: N818
    """The toolkit failed: a wrong answer, a changed input, bad input accepted or good input refused."""


class Refused(Exception):  # noqa: N818
    """The toolkit refused the input with one of its own errors; the case ends well."""


@dataclass
class Given:
    """A value as it is handed over, the plain value that it means, and whether it may or must be refused."""

    value: Any
    plain: Any
    note: str
    verdict: Verdict = "good"

    def __str__(self) -> str:
        return f"<{self.note}{f' {self.plain.shape}' if isinstance(self.plain, np.ndarray) else ''}>"


def as_given(arg: Any) -> Given:
    """Return what a strategy has drawn as it is, and any other value as one that means itself."""
    return arg if isinstance(arg, Given) else Given(arg, arg, "array" if isinstance(arg, np.ndarray) else short(arg))


def expect(condition: Any, complaint: str) -> None:
    if not condition:
        raise Wrong(complaint)


class Draw:
    """The inputs of one case, from its source of randomness alone, and the calls made with them.

    `story` tells what was drawn and called; `folder` is an empty folder for the files of the case.
    """

    def __init__(self, random: Random, folder: Path) -> None:
        self.random, self.folder = random, folder
        self.rng = np.random.default_rng(random.getrandbits(32))
        self.story: list[str] = []
        #: Half of the cases are clean but for disguises; in the others every input may be damaged.
        self.badness = self.pick([0.0, 0.25])
        #: Whether something is so far from the ordinary that it may be refused.
        self.extreme = False
        #: Sizes by the names that `array` knows them by.
        self.sizes: dict[str, int] = {}

    # What is drawn.

    def pick(self, choices: Sequence[T]) -> T:
        return self.random.choice(choices)

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def whole(self, low: int, high: int) -> int:
        return self.random.randint(low, high)

    def normal(self, *shape: int) -> Array:
        return self.rng.normal(size=shape)

    def kind(self, what: str, choices: Sequence[str]) -> str:
        """Return one of the choices, and add it to the story."""
        chosen = self.pick(choices)
        self.story.append(f"{what}: {chosen}")
        return chosen

    def among(self, what: str, choices: dict[str, T]) -> T:
        """Return one of the values, and add its name to the story."""
        return choices[self.kind(what, list(choices))]

    def scale(self, *scales: float) -> float:
        """Draw a scale; one that is 0 or outside 1e-30 … 1e30 may be refused, but not mistaken."""
        scale = self.pick(scales)
        self.extreme = self.extreme or not (scale == 0 or 1e-30 <= scale <= 1e30)
        return scale

    def variant(self, what: str, variants: dict[str, tuple[Any, Verdict]], but: Sequence[str] = ()) -> Given:
        """Draw one of some arrays, half of the time the first; a verdict other than good is kept."""
        name = self.kind(what, [*variants, *[next(iter(variants))] * len(variants)])
        values, verdict = variants[name]
        given = self.array(values, rounded=False, but=but)
        given.note = f"{name}, {given.note}"
        given.verdict = verdict if given.verdict == "good" else given.verdict
        return given

    def either(self, good: Any, bad: Sequence[Any]) -> Given:
        """Return the good value or, if inputs are damaged, a bad one or one that is invalid everywhere."""
        if not self.chance(self.badness):
            return Given(good, good, short(good))
        value = self.pick([*bad, *NOTHING])
        return Given(value, None, f"{type(value).__name__} {short(value)}", "bad")

    def array(self, plain: Any, rounded: bool = True, but: Sequence[str] = ()) -> Given:
        """Disguise or damage an array; `rounded` allows types that round it, `but` names damage that is none here."""
        plain = np.asarray(plain, dtype=np.float64)
        if self.chance(self.badness):
            name = self.pick([name for name in DAMAGE if name not in but])
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                return Given(DAMAGE[name](plain), None, name, "bad")
        if rounded and self.chance(0.3):
            name = self.pick(list(ROUNDED))
            with np.errstate(all="ignore"):
                value = ROUNDED[name](plain)
            held = value.detach().numpy() if isinstance(value, torch.Tensor) else np.asarray(value)
            held = held.astype(np.float64)
            if np.isfinite(held).all() and (name not in ("int32", "uint8") or np.abs(plain).max(initial=0) < 250):
                return Given(value, held, name)
        if self.chance(0.05):
            name = self.pick(list(DOUBTFUL))
            value = DOUBTFUL[name](plain)
            held = value.double().numpy() if isinstance(value, torch.Tensor) else plain
            return Given(value, held, name, "doubtful")
        name = self.pick(list(DISGUISES))
        return Given(DISGUISES[name](plain), plain, name)

    def scalar(self, good: Sequence[Any], accepts: Callable[[Any], bool], functions: bool = True) -> Given:
        """Return one of the `good` values or, if inputs are damaged, any; `accepts` decides which of these are valid.

        Without `functions` nothing that can be called is drawn, because its own exceptions would be raised.
        """
        if not self.chance(self.badness):
            value = self.pick(good)
            return Given(value, _plain(value), short(value))
        value = self.pick([value for value in SCALARS if functions or not callable(value)])
        note = f"{type(value).__name__} {short(value)}"
        if isinstance(value, np.ndarray | torch.Tensor):
            # Arrays of one number may be refused, or taken for the number.
            held = value.item() if value is not np.ma.masked and math.prod(value.shape) == 1 else None
            fine = _is_true(accepts(value if held is None else held))
            return Given(value, held, note, "doubtful" if fine else "bad")
        return Given(value, _plain(value), note, "good" if _is_true(accepts(value)) else "bad")

    # What is done with it.

    def call(
        self,
        function: Callable[..., Any],
        /,
        *args: Any,
        must: Any = False,
        may: Any = False,
        warns: Any = False,
        same: Any = None,
        **kwargs: Any,
    ) -> Any:
        """Call a function of the given values; return its answer, or raise `Refused`.

        Raise `Wrong` if the call changes the values, warns, accepts what must be refused or refuses what is
        valid. `must` and `may` state whether the call must or may be refused beyond what the givens state for
        themselves; as functions of the plain values they are evaluated only if no given is bad. With `same`,
        plain values must have the same answer, up to this share.
        """
        plain, parts = meanings(kwargs), [as_given(arg) for arg in args]
        by_name = {name: as_given(arg) for name, arg in kwargs.items()}
        givens = [*parts, *by_name.values()]
        bad = [given.note for given in givens if given.verdict == "bad"]
        shown = [*map(str, parts), *(f"{name}={given}" for name, given in by_name.items())]
        self.story.append(f"{getattr(function, '__qualname__', repr(function))}({', '.join(shown)})")
        must, may = (not bad and bool(rule(plain) if callable(rule) else rule) for rule in (must, may))
        values, named = [given.value for given in parts], {name: given.value for name, given in by_name.items()}
        compared = same is not None and not bad
        untouched = copy.deepcopy([[given.plain for given in parts], vars(plain)]) if compared else []
        before = leaves([values, named])
        answer, refusal, complaints = _watched(function, values, named)
        expect(matching(leaves([values, named]), before, 0.0), "it changed its input")
        if complaints and not warns:
            raise Wrong(f"it warned: {complaints[0].category.__name__}: {complaints[0].message}")
        if refusal is not None:
            text = str(refusal)
            expect(0 < len(text) <= 2000, f"its error is no sentence: {text!r:.2000}")
            doubtful = any(given.verdict == "doubtful" for given in givens)
            expect(bad or doubtful or must or may or self.extreme, f"it refused good input: {text}")
            raise Refused(text) from refusal
        expect(not bad, f"it accepted bad input ({'; '.join(bad)})")
        expect(not must, "it accepted bad input")
        if same is not None:
            again = function(*untouched[0], **untouched[1])
            expect(alike(answer, again, same), "plain values have another answer")
        return answer


def _watched(function: Callable[..., Any], values: Any, named: Any) -> tuple[Any, InputError | None, list[Any]]:
    """Return the answer or the refusal, and the warnings, except scikit-learn's on names of columns."""
    answer, refusal = None, None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            answer = function(*values, **named)
        except InputError as error:
            refusal = error
    return answer, refusal, [warning for warning in caught if "feature names" not in str(warning.message)]


def meanings(given: dict[str, Any]) -> Any:
    """Return the plain values that arguments mean, by name."""
    return SimpleNamespace(**{name: as_given(arg).plain for name, arg in given.items()})


def _plain(value: Any) -> Any:
    plain = value.item() if isinstance(value, np.generic) and not isinstance(value, np.longdouble) else value
    return float(plain) if isinstance(plain, Fraction) else plain


def _is_true(answer: Any) -> bool:
    """True if an answer is a boolean and true; comparisons with pandas' NA are neither."""
    return isinstance(answer, bool | np.bool_) and bool(answer)


def in_range(*sizes: Any) -> bool:
    """True if all numbers except zeros lie between 1e-280 and 1e280, as features and problems require."""
    used = np.concatenate([np.abs(np.asarray(size, dtype=np.longdouble)).ravel() for size in sizes])
    used = used[used != 0]
    return used.size == 0 or bool(used.min() >= 1e-280 and used.max() <= 1e280)
