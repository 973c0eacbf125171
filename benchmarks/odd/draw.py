"""A case draws its inputs here: clean values in disguise, damaged values, and calls that are watched.

A *disguise* is another way to hand over the same numbers (float16, big-endian, pandas, a tensor with gradients …): it
must be taken for what it means. *Damage* leaves nothing that could be meant (NaN, a string among numbers …): it must be
refused. What lies between (a `bfloat16` tensor, numbers in strings) may be refused or understood, but not mistaken.
"""

from __future__ import annotations

import copy
import datetime
import math
import types
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, is_dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np
import pandas as pd
import scipy.sparse as sp
import torch
from numpy.typing import NDArray

from implicit_bias import Gates, InputError, Norm

Array = NDArray[np.float64]
Verdict = Literal["good", "doubtful", "bad"]
T = TypeVar("T")


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


def expect(condition: Any, complaint: str) -> None:
    """Raise `Wrong` unless the condition holds."""
    if not condition:
        raise Wrong(complaint)


def close(found: Any, expected: Any, rel: float = 1e-9) -> bool:
    """Whether two arrays have one shape and agree, up to `rel` of the largest expected number."""
    found, expected = np.asarray(found, dtype=np.longdouble), np.asarray(expected, dtype=np.longdouble)
    size = np.max(np.abs(expected), initial=0)
    if found.shape != expected.shape:
        return False
    return bool(np.all((np.abs(found - expected) <= rel * size) | (found == expected)))


# ---------------------------------------------------------------------------------------------------------- disguises


def _strided(a: Array) -> Array:
    wide = np.full([2 * size for size in a.shape], np.nan)
    view = wide[tuple(slice(None, None, 2) for _ in a.shape)]
    view[...] = a
    return view


def _backwards(a: Array) -> Array:
    turned = tuple(slice(None, None, -1) for _ in a.shape)
    return a[turned].copy()[turned]


def _read_only(a: Array) -> Array:
    a = a.copy()
    a.flags.writeable = False
    return a


def _frame(a: Array) -> Any:
    index = [f"row {i}" for i in range(len(a))][::-1]
    return pd.Series(a, index=index) if a.ndim == 1 else pd.DataFrame(a, index=index) if a.ndim == 2 else a


def _nested_tuple(a: Array) -> Any:
    return tuple(_nested_tuple(row) for row in a) if a.ndim else float(a)


#: Ways to hand over the very same numbers.
DISGUISES: dict[str, Callable[[Array], Any]] = {
    "float64": lambda a: a,
    "list": lambda a: a.tolist(),
    "tuple": _nested_tuple,
    "Fortran order": np.asfortranarray,
    "strided": _strided,
    "negative strides": _backwards,
    "read-only": _read_only,
    "big-endian": lambda a: a.astype(">f8"),
    "longdouble": lambda a: a.astype(np.longdouble),
    "objects": lambda a: a.astype(object),
    "fractions": lambda a: np.array([Fraction(v) for v in a.ravel()], dtype=object).reshape(a.shape),
    "pandas": _frame,
    "pandas, reversed columns": lambda a: _frame(_backwards(a)),
    "tensor": torch.tensor,
    "tensor with gradients": lambda a: torch.tensor(a, requires_grad=True),
    "conjugate view": lambda a: torch.complex(torch.zeros(a.shape).double(), torch.tensor(-a)).conj().imag,
    "masked array, nothing masked": np.ma.masked_array,
    "signed zeros": lambda a: np.where(a == 0, -0.0, a),
}
#: Types that round: what they hold is what they mean.
ROUNDED: dict[str, Callable[[Array], Any]] = {
    "float32": lambda a: a.astype(np.float32),
    "float16": lambda a: a.astype(np.float16),
    "int32": lambda a: np.rint(a).astype(np.int32),
    "uint8": lambda a: np.rint(np.abs(a)).astype(np.uint8),
    "bool": lambda a: a > 0,
    "tensor float32": lambda a: torch.tensor(a, dtype=torch.float32, requires_grad=True),
    "pandas float32": lambda a: _frame(a.astype(np.float32)),
}
#: May be understood or refused.
DOUBTFUL: dict[str, Callable[[Array], Any]] = {
    "strings": lambda a: np.array([repr(float(v)) for v in a.ravel()]).reshape(a.shape),
    "strings in objects": lambda a: np.array([repr(float(v)) for v in a.ravel()], dtype=object).reshape(a.shape),
    "pandas Float64": lambda a: _frame(a).astype("Float64") if a.ndim in (1, 2) else a,
    "half-precision brain floats": lambda a: torch.tensor(a).to(torch.bfloat16),
}


def _spoiled(a: Array, value: Any) -> Any:
    """The array with one entry replaced; of objects if need be."""
    spoiled = a.astype(object if not isinstance(value, float) else float, order="C")
    spoiled.reshape(-1)[a.size // 2] = value
    return spoiled


#: Kept open for all cases; it has a method `detach`, as tensors have.
OPEN_FILE = Path(__file__).open(encoding="utf-8")  # noqa: SIM115
#: Damage that leaves infinities and NaN, which pass where weights are concerned.
NOT_FINITE = ("a NaN", "a None", "an infinity", "minus infinity, float16", "a longdouble beyond floats")
#: What means nothing.
DAMAGE: dict[str, Callable[[Array], Any]] = {
    "a NaN": lambda a: _spoiled(a, math.nan),
    "an infinity": lambda a: _spoiled(a, math.inf),
    "minus infinity, float16": lambda a: _spoiled(a, -math.inf).astype(np.float16),
    "a None": lambda a: _spoiled(a, None),
    "a word": lambda a: _spoiled(a, "word"),
    "a list inside": lambda a: _spoiled(a, [1.0, 2.0]),
    "a date inside": lambda a: _spoiled(a, datetime.date(2024, 2, 29)),
    "an int beyond floats": lambda a: _spoiled(a, 10**400),
    "an int beyond printing": lambda a: _spoiled(a, 10**6000),
    "a longdouble beyond floats": lambda a: (
        a.astype(np.longdouble) * np.longdouble("1e4000") if a.any() else _spoiled(a, math.inf)
    ),
    "complex numbers": lambda a: a + 1j,
    "complex numbers, no imaginary part": lambda a: a.astype(complex),
    "complex tensor with gradients": lambda a: torch.tensor(a + 1j, requires_grad=True),
    "words": lambda a: np.full(a.shape, "word"),
    "bytes": lambda a: np.full(a.shape, b"\xff"),
    "dates": lambda a: np.zeros(a.shape, "datetime64[s]"),
    "durations": lambda a: np.zeros(a.shape, "timedelta64[s]"),
    "records": lambda a: np.zeros(a.shape, [("a", float), ("b", int)]),
    "a mask": lambda a: np.ma.masked_array(a, np.arange(a.size).reshape(a.shape) == a.size // 2),
    "one dimension more": lambda a: a[None],
    "one dimension less": lambda a: a[0],
    "a number": lambda a: float(a.flat[0]),
    "a 0-d array": lambda a: np.array(a.flat[0]),
    "a 0-d tensor": lambda a: torch.tensor(a.flat[0], requires_grad=True),
    "nothing in it": lambda a: a[:0],
    "an empty list": lambda a: [],
    "ragged": lambda a: [*a.tolist(), [[1.0], 2.0]],
    "a missing value, pandas": lambda a: pd.Series([1.0, None] * len(a), dtype="Float64"),
    "text frame": lambda a: pd.DataFrame({"detach": ["a"] * len(a)}),
    "sparse": lambda a: sp.csr_array(a.reshape(len(a), -1)),
    "sparse tensor": lambda a: torch.tensor(a).to_sparse(),
    "meta tensor": lambda a: torch.empty(a.shape, device="meta"),
    "None": lambda a: None,
    "a string": lambda a: "0.5 1.5",
    "bytes object": lambda a: b"0.5",
    "a dict": lambda a: {0: 1.0},
    "a set": lambda a: {1.0, 2.0},
    "an object": lambda a: object(),
    "a function": lambda a: len,
    "a class": lambda a: np.ndarray,
    "a generator": lambda a: (row for row in a),
    "an open file": lambda a: OPEN_FILE,
    "a module": lambda a: np,
    "a namespace with detach": lambda a: types.SimpleNamespace(detach=1),
}
#: Values for parameters that are no arrays; what they mean depends on the parameter.
SCALARS: list[Any] = [
    *(None, True, False, 0, -1, 1, 2, 3, 2**31, 2**63, 10**30, 10**400, -(10**400)),
    *(0.0, -0.0, 0.5, 1.0, -2.5, 1e-300, 1e300, 5e-324, math.nan, math.inf, -math.inf, 1j, 2 + 0j),
    *("", "1", "auto", "cpu", "nan", b"1", "\0", "é" * 300),
    *(np.float16(0.5), np.float32(2), np.longdouble("1e4000"), np.int8(3), np.uint64(2**64 - 1), np.bool_(True)),
    *(np.array(2), np.array([2]), np.array([]), np.array("x"), np.datetime64("NaT"), np.ma.masked),
    *(torch.tensor(2), torch.tensor(0.5, requires_grad=True), torch.tensor([1.0, 2.0]), Fraction(1, 3), pd.NA, pd.NaT),
    *([], [1], [0.5, 1.0], (), (0.2, 0.8), (1, 2, 3), {}, {"a": 1}, {1, 2}, range(3), object(), len, int, Ellipsis, np),
]


# ---------------------------------------------------------------------------------------------------------------- draw


class Draw:
    """The inputs of one case, from (seed, number) alone, and the calls made with them.

    `story` tells what was drawn and called; `folder` is an empty folder for the files of the case.
    """

    def __init__(self, seed: int, number: int, folder: Path) -> None:
        self.rng = np.random.default_rng([seed, number])
        self.folder = folder
        self.story: list[str] = []
        #: Half of the cases are clean but for disguises; in the others every input may be damaged.
        self.badness = float(self.rng.choice([0.0, 0.25]))

    # What is drawn.

    def pick(self, choices: Sequence[T]) -> T:
        """One of the choices."""
        return choices[int(self.rng.integers(len(choices)))]

    def chance(self, probability: float) -> bool:
        """True with this probability."""
        return bool(self.rng.random() < probability)

    def whole(self, low: int, high: int) -> int:
        """A whole number, both ends included."""
        return int(self.rng.integers(low, high + 1))

    def normal(self, *shape: int) -> Array:
        """Clean normal numbers."""
        return self.rng.normal(size=shape)

    def array(self, plain: Any, rounded: bool = True) -> Given:
        """The array in a disguise or damaged; `rounded` allows types that round it."""
        plain = np.asarray(plain, dtype=np.float64)
        if self.chance(self.badness):
            name = self.pick(list(DAMAGE))
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
        """One of the `good` values, or anything at all where inputs are damaged; `accepts` tells which are fine.

        Without `functions` nothing that can be called is drawn: what it raises would be its own.
        """
        if not self.chance(self.badness):
            value = self.pick(good)
            return Given(value, value, short(value))
        value = self.pick([value for value in SCALARS if functions or not callable(value)])
        note = f"{type(value).__name__} {short(value)}"
        if isinstance(value, np.ndarray | torch.Tensor):
            # Arrays of one number may be refused, or taken for the number.
            held = value.item() if value is not np.ma.masked and math.prod(value.shape) == 1 else None
            return Given(value, held, note, "doubtful" if _is_true(accepts(held)) else "bad")
        return Given(value, value, note, "good" if _is_true(accepts(value)) else "bad")

    # What is done with it.

    def call(
        self,
        function: Callable[..., Any],
        *args: Any,
        may_refuse: bool = False,
        must_refuse: bool = False,
        may_warn: bool = False,
        **kwargs: Any,
    ) -> Any:
        """`function` of the given values: its answer, or `Refused`.

        Raises `Wrong` if it changes them, warns, accepts what must be refused or refuses what nothing is wrong with.
        `may_refuse` and `must_refuse` say what the givens do not tell each for itself.
        """
        givens = [arg for arg in (*args, *kwargs.values()) if isinstance(arg, Given)]
        bad = [given.note for given in givens if given.verdict == "bad"]
        doubtful = any(given.verdict == "doubtful" for given in givens)
        values = [arg.value if isinstance(arg, Given) else arg for arg in args]
        named = {name: arg.value if isinstance(arg, Given) else arg for name, arg in kwargs.items()}
        self.tell(getattr(function, "__qualname__", repr(function)), args, kwargs)
        before = fingerprint([values, named])
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            answer: Any = None
            refusal: InputError | None = None
            try:
                answer = function(*values, **named)
            except InputError as error:
                refusal = error
        expect(fingerprint([values, named]) == before, "it changed its input")
        # Names of columns in one call only are scikit-learn's to warn of.
        complaints = [warning for warning in caught if "feature names" not in str(warning.message)]
        if complaints and not may_warn:
            raise Wrong(f"it warned: {complaints[0].category.__name__}: {complaints[0].message}")
        if refusal is not None:
            text = str(refusal)
            expect(0 < len(text) <= 2000, f"its error is no sentence: {text!r:.2000}")
            expect(bad or doubtful or must_refuse or may_refuse, f"it refused good input: {text}")
            raise Refused(text) from refusal
        expect(not bad, f"it accepted bad input ({'; '.join(bad)})")
        expect(not must_refuse, "it accepted bad input")
        return answer

    def tell(self, name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
        """Add a line to the story."""
        shown = [_shown(arg) for arg in args] + [f"{key}={_shown(value)}" for key, value in kwargs.items()]
        self.story.append(f"{name}({', '.join(shown)})")


def _is_true(answer: Any) -> bool:
    """Comparisons with pandas' NA are neither true nor false."""
    return isinstance(answer, bool | np.bool_) and bool(answer)


def is_count(least: int = 1, most: int = 2**40) -> Callable[[Any], bool]:
    """Whether a scalar is a whole number from `least` to `most`."""

    def accepts(value: Any) -> bool:
        integral = isinstance(value, int | np.integer) and not isinstance(value, bool)
        return integral and least <= int(value) <= most

    return accepts


def is_number(low: float = -math.inf, high: float = math.inf, ends: bool = False) -> Callable[[Any], bool]:
    """Whether a scalar is a real number between `low` and `high`."""

    def accepts(value: Any) -> bool:
        real = isinstance(value, int | float | np.floating | np.integer | Fraction)
        if isinstance(value, bool | np.bool_) or not real:
            return False
        # Half precision has no such number to compare with.
        value = float(value) if isinstance(value, np.floating) else value
        if not abs(value) < 10**308:
            return False
        return bool(low < value < high or (ends and value in (low, high)))

    return accepts


def short(value: Any) -> str:
    """A short text of any value."""
    try:
        return repr(value)[:60]
    except ValueError:
        return "(too long to print)"


def _shown(value: Any) -> str:
    if isinstance(value, Given):
        shape = f" {np.shape(value.plain)}" if value.verdict != "bad" and np.ndim(value.plain) else ""
        return f"<{value.note}{shape}>"
    if isinstance(value, np.ndarray):
        return f"<array {value.shape}>"
    return short(value)


def in_range(*sizes: Any) -> bool:
    """Whether all numbers but zeros lie between 1e-280 and 1e280, as the doors of features and problems ask."""
    used = np.concatenate([np.abs(np.asarray(size, dtype=np.longdouble)).ravel() for size in sizes])
    used = used[used != 0]
    return used.size == 0 or bool(used.min() >= 1e-280 and used.max() <= 1e280)


def fingerprint(value: Any, depth: int = 0) -> Any:
    """Something that is equal before and after a call unless an input was changed."""
    if depth > 4:
        return None
    if isinstance(value, np.ma.MaskedArray):
        return fingerprint(value.data, depth), np.ma.getmaskarray(value).tobytes()
    if isinstance(value, np.ndarray):
        objects = value.dtype == object
        content = [hex(v) if isinstance(v, int) else repr(v) for v in value.ravel()] if objects else value.tobytes()
        return value.dtype.str, value.shape, value.strides, value.flags.writeable, content
    if isinstance(value, torch.Tensor):
        if value.layout != torch.strided or value.device.type == "meta":
            return str(value.layout)
        plain = value.detach().resolve_conj().resolve_neg().clone().contiguous()
        held = plain.to(torch.complex128 if plain.is_complex() else torch.float64).numpy().tobytes()
        return str(value.dtype), tuple(value.shape), value.requires_grad, value.grad is None, held
    if isinstance(value, pd.DataFrame | pd.Series):
        return repr(value.index.tolist()), value.to_json(), str(value.dtypes)
    if isinstance(value, list | tuple):
        return type(value).__name__, [fingerprint(v, depth + 1) for v in value]
    if isinstance(value, dict):
        return [(repr(k), fingerprint(v, depth + 1)) for k, v in value.items()]
    if isinstance(value, Gates | Norm):
        return fingerprint({k: v for k, v in vars(value).items() if not isinstance(v, sp.sparray)}, depth + 1)
    if is_dataclass(value) and not isinstance(value, type):
        return fingerprint({f.name: getattr(value, f.name) for f in fields(value)}, depth + 1)
    return short(value) if isinstance(value, str | bytes | int | float | complex | Fraction | None) else None


def copied(value: T) -> T:
    """A deep copy."""
    return copy.deepcopy(value)
