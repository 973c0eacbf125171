"""What is drawn: disguises, damage, unusual numbers; and what is compared before and after a call.

A *disguise* is another way to hand over the same numbers (float16, big-endian, pandas, a tensor with gradients …): it
must be taken for what it means. *Damage* leaves nothing that could be meant (NaN, a string among numbers …): it must be
refused. What lies between (a `bfloat16` tensor, numbers in strings) may be refused or understood, but not mistaken.
"""

import datetime
import math
import types
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
import torch
from numpy.typing import NDArray

from implicit_bias.gates import Gates
from implicit_bias.norms import Norm

Array = NDArray[np.float64]


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
    """Return the array with one entry replaced, of objects if the value needs it."""
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


def short(value: Any) -> str:
    try:
        return repr(value)[:60]
    except ValueError:
        return "(too long to print)"


def leaves(value: Any, depth: int = 0) -> list[Any]:
    """Return copies of the numbers and texts in a value, however nested, except networks and seconds."""
    deeper = depth + 1
    if isinstance(value, np.ma.MaskedArray):
        return leaves([value.data, np.ma.getmaskarray(value)], deeper)
    if isinstance(value, torch.Tensor):
        if value.layout != torch.strided or value.device.type == "meta":
            return [str(value.layout)]
        held = value.detach().double() if value.dtype is torch.bfloat16 else value
        return [value.requires_grad, value.grad is None, *leaves(held.numpy(force=True), deeper)]
    if isinstance(value, pd.Series | pd.DataFrame):
        columns = value.to_numpy() if isinstance(value, pd.Series) else dict(value.items())
        return leaves([value.index.tolist(), columns], deeper)
    if sp.issparse(value):
        value = value.toarray()
    if isinstance(value, np.ndarray):
        return [value.astype(np.longdouble) if value.dtype.kind in "biuf" else value.tolist()]
    if isinstance(value, list | tuple):
        return [leaf for item in value for leaf in leaves(item, deeper)]
    if isinstance(value, dict):
        return [leaf for key, item in value.items() if key != "seconds" for leaf in (repr(key), *leaves(item, deeper))]
    if is_dataclass(value) and not isinstance(value, type):
        return leaves({field.name: getattr(value, field.name) for field in fields(value)}, deeper)
    if isinstance(value, Gates | Norm) and depth < 4:
        # Attributes that the class defines are cached properties.
        return leaves({name: part for name, part in vars(value).items() if not hasattr(type(value), name)}, deeper)
    if isinstance(value, float | np.floating | np.integer | np.bool_):
        return [np.longdouble(value)]
    return [value if isinstance(value, str | bytes | int | complex) else type(value).__name__]


def is_finite(answer: Any) -> bool:
    return all(np.isfinite(leaf).all() for leaf in leaves(answer) if isinstance(leaf, np.ndarray | np.longdouble))


def alike(found: Any, expected: Any, rel: float) -> bool:
    """True if two values are equal, numbers up to `rel` of the largest in their array."""
    return matching(leaves(found), leaves(expected), rel)


def matching(ours: list[Any], theirs: list[Any], rel: float) -> bool:
    """True if two lists of leaves are `alike`."""
    return len(ours) == len(theirs) and all(
        close(a, b, rel) if isinstance(b, np.ndarray | np.longdouble) else bool(np.all(a == b))
        for a, b in zip(ours, theirs, strict=True)
    )


def close(found: Any, expected: Any, rel: float = 1e-9) -> bool:
    """True if two arrays have one shape and numbers equal up to `rel` of the largest expected one."""
    found, expected = np.asarray(found, dtype=np.longdouble), np.asarray(expected, dtype=np.longdouble)
    finite = np.abs(expected[np.isfinite(expected)])
    if found.shape != expected.shape:
        return False
    same = (found == expected) | (np.isnan(found) & np.isnan(expected))
    with np.errstate(invalid="ignore"):
        return bool(np.all(same | (np.abs(found - expected) <= rel * np.max(finite, initial=0))))
