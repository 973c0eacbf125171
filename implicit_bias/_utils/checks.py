"""Argument checks, which raise InputError: one sentence that names the fault and the remedy."""

import math
import numbers
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class InputError(ValueError):
    """Error of invalid input; its text names the remedy.

    Examples
    --------
    >>> from implicit_bias import InputError, load_binary
    >>> try:
    ...     load_binary("no such data")
    ... except InputError as error:
    ...     print(error)
    unknown data set 'no such data'; known: digits, mnist, fashion-mnist
    """


#: Exceptions of failing conversions to numbers.
CONVERSION_ERRORS = (TypeError, ValueError, OverflowError, RuntimeError)


def without_torch(values: Any) -> Any:
    """Return the numbers of a tensor, on any device, as an array; other values unchanged."""
    # If torch is not loaded there are no tensors, and importing it takes seconds.
    torch = sys.modules.get("torch")
    return values.numpy(force=True) if torch is not None and isinstance(values, torch.Tensor) else values


def _plain(values: Any) -> np.ndarray:
    """Return an array; raise TypeError for a list with masked numbers, which NumPy would convert to NaN."""
    if isinstance(values, list | tuple) and any(value is np.ma.masked for value in values):
        raise TypeError("masked")
    return np.asarray(without_torch(values))


def as_reals(values: Any) -> Array:
    """Return a float64 array of any shape, with NaN and infinity allowed."""
    if type(values) is np.ndarray and values.dtype == np.float64:
        return values
    raw = _plain(values)
    if raw.dtype.kind not in "biufO" or np.ma.is_masked(values):
        raise TypeError(raw.dtype)
    with np.errstate(over="ignore"):
        array = raw.astype(np.float64, copy=False)
    if raw.dtype == np.longdouble and (np.isinf(array) & ~np.isinf(raw)).any():
        raise OverflowError("a number exceeds the largest double")
    return array


def dimensions(values: Any) -> int:
    """Return the number of dimensions; 0 if the values are not a regular array."""
    try:
        return int(_plain(values).ndim)
    except CONVERSION_ERRORS:
        return 0


def as_floats(values: Any, name: str, ndim: int | tuple[int, ...], missing: bool = False) -> Array:
    """Return a non-empty, contiguous, writable float64 array of `ndim` dimensions; finite, or NaN too if `missing`."""
    ndims = (ndim,) if isinstance(ndim, int) else ndim
    try:
        array = as_reals(values)
    except CONVERSION_ERRORS:
        remedy = "convert the sparse matrix by its toarray()" if hasattr(values, "toarray") else "convert it"
        raise InputError(f"{name} must hold real numbers in a regular {ndims[0]}-dimensional array; {remedy}") from None
    if array.ndim not in ndims:
        kind = " or ".join(map(str, ndims))
        raise InputError(f"{name} must have {kind} dimension(s), but its shape is {array.shape}; reshape it")
    if array.size == 0:
        raise InputError(f"{name} is empty (shape {array.shape}); give at least one sample and one column")
    wrong = np.isinf(array) if missing else ~np.isfinite(array)
    if wrong.any():
        bad = np.argwhere(wrong)[0]
        raise InputError(f"{name} holds NaN or infinity (first at index {tuple(map(int, bad))}); clean it first")
    # Torch does not support read-only arrays or negative strides, which a contiguous array of one row may have.
    if not (array.flags.c_contiguous and array.flags.writeable):
        array = np.require(array, requirements=["C", "W"])
    return array if min(array.strides, default=1) > 0 else array.copy()


def as_column(values: Any, samples: int, name: str = "y", kind: str = "label") -> Array:
    """Return finite numbers (n,), n = `samples`; error messages call them labels, or another `kind`."""
    column = as_floats(values, name, 1)
    if len(column) != samples:
        raise InputError(f"{name} has {len(column)} {kind}s for {samples} samples; give one {kind} per sample")
    return column


def as_signs(values: Any, samples: int, name: str = "y", both: bool = True) -> Array:
    """Return labels −1.0 and +1.0, shape (samples,); raise InputError for others or, if `both`, for one class only."""
    listed = values
    if isinstance(values, np.ndarray):
        listed = values.ravel().tolist() if values.dtype.kind in "OTU" else []
    texts = isinstance(listed, list | tuple) and len(listed) > 0 and all(isinstance(value, str) for value in listed)
    y = np.empty(0) if texts else as_column(values, samples, name)
    classes = np.unique(listed if texts else y)
    if texts or not np.isin(classes, (-1.0, 1.0)).all():
        first = ", ".join(repr(str(c)) if texts else f"{c:g}" for c in classes[:5])
        raise InputError(f"{name} must hold −1 and +1, but holds {first}; BinaryTask.from_arrays converts two classes")
    if both and len(classes) < 2:
        raise InputError(f"{name} holds one class only ({classes[0]:+g}); give samples of both")
    return y


def as_targets(y: Any, samples: int) -> Array:
    """Return targets (n,) or (n, q) as an array (n, q), (n, 1) for one output; max |y| is 0 or from 1e-100 to 1e100."""
    Y = as_floats(y, "y", (1, 2))
    if len(Y) != samples:
        raise InputError(f"y has {len(Y)} targets for {samples} samples; give one per sample")
    check_range(np.abs(Y).max(keepdims=True).ravel(), "the targets y", 1e-100, 1e100)
    return Y.reshape(samples, -1)


def as_numbers(values: Any, shape: tuple[int, ...], name: str) -> Array:
    """Return a C-contiguous float64 array; raise InputError unless of this shape. NaN and infinity are allowed."""
    try:
        array = np.asarray(as_reals(values), order="C")
    except CONVERSION_ERRORS:
        raise InputError(f"{name} must hold real numbers, shape {shape}") from None
    if array.shape != shape:
        raise InputError(f"{name} must have shape {shape}, not {array.shape}")
    return array


def finite(kernel: Array) -> Array:
    """Return the kernel (n, n) unchanged; raise InputError if an entry is infinite or NaN."""
    if not np.isfinite(kernel).all():
        raise InputError("the squares of these features overflow; scale the inputs down")
    return kernel


def as_rows(rows: Any, samples: int) -> np.ndarray:
    """Return the indices (m,), in given order, that a mask, indices or a slice select; raise InputError for none."""
    try:
        chosen = np.arange(samples)[np.asarray(rows) if isinstance(rows, list | tuple) else rows]
    except (IndexError, TypeError, ValueError):
        chosen = np.empty((0, 0), dtype=np.int64)
    if chosen.ndim != 1 or chosen.size == 0:
        raise InputError(f"rows must be a mask or indices that choose at least one of the {samples} samples")
    return chosen


#: Smallest size of features for which sums, and weights of the inverse size, do not overflow.
SMALLEST = 1e-280
#: Largest size of features for which sums do not overflow.
LARGEST = 1e280


def check_range(sizes: Array, what: str, least: float = SMALLEST, most: float = LARGEST) -> None:
    """Raise InputError unless every nonzero size is from `least` to `most`, so that results cannot overflow."""
    used = sizes[sizes != 0]
    if used.size and not (used.min() >= least and used.max() <= most):
        text = f"{what} have sizes from {used.min():.1e} to {used.max():.1e}"
        raise InputError(f"{text}; rescale them to lie between {least:g} and {most:g}")


def as_positives(values: Any, count: int, name: str, instead: str) -> float | Array:
    """Return a positive finite number, or an array (count,) of them; raise InputError for anything else."""
    if isinstance(values, numbers.Real) or not hasattr(values, "__len__"):
        return as_positive(values, name)
    array = as_floats(values, name, 1)
    if len(array) != count:
        raise InputError(f"{name} must be one number or {count}, not {len(array)} numbers")
    if not (array > 0).all():
        raise InputError(f"{name} must be positive, but holds {array.min():g}; {instead}")
    return array


def as_path(value: Any, name: str) -> Path:
    """Return a path from a string or path object; '' is the current folder."""
    if not isinstance(value, (str, os.PathLike)):
        raise InputError(f"{name} must be a path, not {shown(value)}")
    path = Path(os.fsdecode(value))
    try:
        text = os.fsencode(path)
    except UnicodeEncodeError:
        text = b"\0"
    if b"\0" in text or len(text) >= 4096:
        raise InputError(f"{name} must be a path, but {value!a:.80} is too long or has invalid characters")
    return path


def as_file(value: Any) -> Path:
    """Return the path of an existing regular file; raise InputError for others."""
    path = as_path(value, "the file")
    # Unlike the method of Path, this function raises no OSError.
    if not os.path.isfile(path):  # noqa: PTH113
        raise InputError(f"{path} is not a readable file; check the path")
    return path


def as_flag(value: Any, name: str) -> bool:
    if not isinstance(value, bool | np.bool_):
        raise InputError(f"{name} must be True or False, not {shown(value)}")
    return bool(value)


def as_seed(seed: Any) -> int:
    return as_count(seed, "seed", least=0, most=2**63 - 1, limit="2^63 − 1")


def check_size(entries: int, what: str) -> None:
    """Raise InputError for arrays of more than 2³¹ numbers (16 GiB), which most likely are mistakes."""
    if entries > 2**31:
        count = f"{entries:.1e}" if entries < 2**1000 else "far too many"
        raise InputError(f"{what} would hold {count} numbers; use fewer units, contexts or samples")


def as_count(value: Any, name: str, least: int = 1, most: int | None = None, limit: str = "") -> int:
    """Return an integer from `least` to `most`; error messages show `limit`, if given, in place of `most`."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < least:
        raise InputError(f"{name} must be a whole number of at least {least}, not {shown(value)}")
    count = int(value)
    if most is not None and count > most:
        raise InputError(f"{name} must be at most {limit or most}, not {shown(value)}")
    return count


def as_number_of(value: Any, name: str) -> int:
    """Return an integer from 1 to 10¹⁰⁰, for formulas in floating point."""
    return as_count(value, name, most=10**100, limit="10^100")


def shown(value: Any) -> str:
    """Return the text of a value for an error message: the first line of its repr, shortened."""
    try:
        text = repr(value)
    except ValueError:
        return "a number of thousands of digits"
    first = text.split("\n", 1)[0]
    return text if len(text) <= 80 and first == text else f"{first[:80]} …"


def as_real(value: Any) -> float:
    """Return a real number as a float; NaN for other values and for numbers that overflow."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        return math.nan
    try:
        number = float(value)
    except OverflowError:
        return math.nan
    # Numbers of higher precision become infinity.
    return number if value == number or math.isfinite(number) else math.nan


def as_positive(value: Any, name: str, infinite: bool = False, zero: bool = False) -> float:
    """Return a positive finite number as a float; `infinite` also allows infinity, and `zero` allows 0."""
    number = as_real(value)
    # A nonzero value of higher precision may become 0 as a float; the comparison excludes this.
    valid = number > 0 or (zero and number == 0 and value == 0)
    if not valid or (math.isinf(number) and not infinite):
        kind = "number of at least 0" if zero else "positive number"
        raise InputError(f"{name} must be a {kind}{' or infinity' if infinite else ''}, not {shown(value)}")
    return number


def context_bits(contexts: Any) -> int:
    """Return b for 2^b contexts; raise InputError unless their number is a power of two."""
    count = as_count(contexts, "contexts", most=2**62, limit="2^62, so that they can be numbered")
    if count & (count - 1):
        raise InputError(f"contexts must be a power of two (1, 2, 4, 8, …), not {shown(count)}")
    return count.bit_length() - 1


def check_callable(value: Any, name: str) -> None:
    """Raise InputError unless the value is None or callable."""
    if value is not None and not callable(value):
        raise InputError(f"{name} must be a function, not {shown(value)}")


def as_fraction(value: Any, name: str, below: bool = False) -> float:
    """Return a number from 0 to 1, `below` 1 if that is True, as a float; raise InputError for others."""
    number = as_real(value)
    if not 0 <= number <= 1 or (below and number == 1):
        raise InputError(f"{name} must be a number from 0 to {'below ' if below else ''}1, not {shown(value)}")
    return number


def as_probability(value: Any, name: str = "delta") -> float:
    """Return a number strictly between 0 and 1, and at least 1e-100, because formulas underflow for smaller ones."""
    number = as_real(value)
    if not 1e-100 <= number < 1:
        least = " (at least 1e-100)" if 0 < number < 1 else ""
        raise InputError(f"{name} must be a number strictly between 0 and 1{least}, not {shown(value)}")
    return number


def as_text(value: Any, name: str) -> str:
    if not isinstance(value, str):
        raise InputError(f"{name} must be a text, not {shown(value)}; use str(…)")
    return str(value)


def one_of(value: Any, known: Iterable[str], what: str) -> str:
    """Return the text `value`; raise InputError, which lists `known`, unless it is one of these."""
    names = list(known)
    if not isinstance(value, str) or value not in names:
        raise InputError(f"unknown {what} {value!r}; known: {', '.join(names)}")
    return value
