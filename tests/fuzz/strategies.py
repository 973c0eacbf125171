"""Strategies: how an argument is drawn, and which odd values of it are fine."""

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from tests.fuzz.draw import Draw, Given
from tests.fuzz.values import short

Strategy = Callable[[Draw], Any]
#: Counts above this may be refused for the memory that they ask for.
VAST = 10**7


def is_count(least: int = 1, most: int = 10**600) -> Callable[[Any], bool]:
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


def is_power(most: int, least: int = 1) -> Callable[[Any], bool]:
    """Whether a scalar is a power of 2 from `least` to `most`."""
    return lambda v: is_count(least, most)(v) and int(v).bit_count() == 1


def is_zero(value: Any) -> bool:
    """Whether a value is a number that is 0."""
    return is_number()(value) and value == 0


def never(value: Any) -> bool:
    """Of what has no odd values that are fine."""
    return False


def choice(*good: Any, also: Callable[[Any], bool] = never, functions: bool = True) -> Strategy:
    """One of the values, or an odd one, which is refused unless `also` takes it."""
    return lambda draw: draw.scalar(good, also, functions)


def count(*good: Any, least: int = 1, most: int = 10**600, cap: int | None = None, vast: int = VAST) -> Strategy:
    """A whole number; one above `vast` may be refused, one up to there but above `cap` would take long."""

    def drawn(draw: Draw) -> Given:
        given = draw.scalar(good, lambda v: (v is None and None in good) or is_count(least, most)(v))
        if is_count(most=10**700)(given.plain) and given.verdict == "good":
            if cap is not None and cap < given.plain <= vast:
                return Given(good[0], good[0], short(good[0]))
            given.verdict = "doubtful" if given.plain > vast else "good"
        return given

    return drawn


SEED = count(0, 1, 2**40, least=0, most=2**63 - 1, vast=2**63)


def number(
    *good: Any, low: float = 0.0, high: float = math.inf, ends: bool = False, also: Callable[[Any], bool] = never
) -> Strategy:
    """A real number between `low` and `high`, both excluded unless `ends` says otherwise."""
    within = is_number(low, high, ends)
    return lambda draw: draw.scalar(good, lambda v: (v is None and None in good) or within(v) or also(v))


def numbers(
    shape: str, scales: Sequence[float] = (1.0,), rounded: bool = True, signs: bool = False, but: Sequence[str] = ()
) -> Strategy:
    """An array whose sizes have names, the same in one case; `k~` is now and then another one, which is refused."""

    def drawn(draw: Draw) -> Given:
        sizes = [draw.sizes.setdefault(name.rstrip("~"), draw.whole(1, 6)) for name in shape.split()]
        other = shape.endswith("~") and draw.chance(draw.badness / 2)
        sizes[-1] += other
        plain = np.where(draw.normal(*sizes) > 0, 1.0, -1.0) if signs else draw.normal(*sizes) * draw.scale(*scales)
        given = draw.array(plain, rounded and not signs, but)
        return Given(given.value, None, f"{given.note}, one more", "bad") if other else given

    return drawn
