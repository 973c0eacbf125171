"""Strategies: how an argument is drawn, and which unusual values of it are fine."""

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import torch

from tests.fuzz.draw import Draw, Given
from tests.fuzz.values import short

Strategy = Callable[[Draw], Any]
Predicate = Callable[[Any], bool]


def is_count(least: int = 1, most: int = 10**600) -> Predicate:
    def accepts(value: Any) -> bool:
        integral = isinstance(value, int | np.integer) and not isinstance(value, bool)
        return integral and least <= int(value) <= most

    return accepts


def is_number(low: float = -math.inf, high: float = math.inf, ends: bool = False) -> Predicate:
    def accepts(value: Any) -> bool:
        real = isinstance(value, int | float | np.floating | np.integer | Fraction)
        if isinstance(value, bool | np.bool_) or not real:
            return False
        # Half precision has no such number to compare with.
        value = float(value) if isinstance(value, np.floating) else value
        return bool(abs(value) < 10**308 and (low < value < high or (ends and value in (low, high))))

    return accepts


def is_power(most: int, least: int = 1) -> Predicate:
    return lambda v: is_count(least, most)(v) and int(v).bit_count() == 1


def equals(*fine: Any) -> Predicate:
    """Predicate: one of these values, and of its type."""
    return lambda v: any(type(v) is type(value) and v == value for value in fine)


def are_steps(value: Any) -> bool:
    """Predicate: a sequence of steps, which `every` takes."""
    return equals([], [1], (), (1, 2, 3), {1, 2}, {})(value) or (isinstance(value, np.ndarray) and value.shape == (0,))


def never(value: Any) -> bool:
    """Predicate of arguments that have no unusual values that are fine."""
    return False


def anything(value: Any) -> bool:
    """Predicate of arguments that are only tested for truth, or not used."""
    return True


def choice(*good: Any, also: Predicate = never, functions: bool = True) -> Strategy:
    """Draw one of the values, or an unusual one, which is refused unless `also` accepts it."""
    return lambda draw: draw.scalar(good, also, functions)


def one_of(good: Sequence[Any], *bad: Any) -> Strategy:
    """Draw one of the good values or, if inputs are damaged, one of the bad."""
    return lambda draw: draw.either(draw.pick(good), bad)


def count(
    *good: Any, least: int = 1, most: int = 10**600, cap: int | None = None, vast: int = 10**7, also: Predicate = never
) -> Strategy:
    """A whole number; one above `vast` may be refused, one up to there but above `cap` would take long."""

    def drawn(draw: Draw) -> Given:
        given = draw.scalar(good, lambda v: (v is None and None in good) or is_count(least, most)(v) or also(v))
        if is_count(most=10**700)(given.plain) and given.verdict == "good":
            if cap is not None and cap < given.plain <= vast:
                return Given(good[0], good[0], short(good[0]))
            given.verdict = "doubtful" if given.plain > vast else "good"
        return given

    return drawn


def number(
    *good: Any, low: float = 0.0, high: float = math.inf, ends: bool = False, also: Predicate = never
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


def layers(draw: Draw) -> Given:
    """Units of one layer or of several; sequences of counts are layers."""
    units = draw.scalar([1, 3, [2, 3], (1,), np.array([2])], is_count(1, 10**4))
    vast = is_count(10**4)(units.value) or isinstance(units.value, list | tuple | range | np.ndarray)
    units.verdict = "doubtful" if vast else units.verdict
    return units


def _is_cutoff(value: Any) -> bool:
    if isinstance(value, tuple | list):
        return len(value) == 2 and all(is_number(0, 1, ends=True)(v) for v in value) and value[0] <= value[1]
    return is_number(-1e308, 1e308)(value)


CUTOFFS: list[Any] = ["median", "random", 0.0, -0.1, 3, (0.25, 0.75), [0.5, 0.5], (0, 1), np.float32(0.1)]
ENDLESS = 10**600
#: What an argument of a public callable is by its name, where nothing else is said.
ARGUMENTS: dict[str, Strategy] = {
    "seed": count(0, 1, 2**40, least=0, most=2**63 - 1, vast=2**63),
    "units": count(1, 2, 3, np.int8(2), most=10**4),
    "contexts": choice(1, 2, 4, also=is_power(2**10)),
    "cutoff": choice(*CUTOFFS, also=_is_cutoff),
    "sharpness": number(None, None, 1.0, 0.1, 50, 1e-300, 1e300, np.float32(2)),
    "inputs": count(1, 3, np.int32(4), vast=10**4),
    "outputs": count(1, 1, 3, vast=10**4),
    "X": numbers("n d"),
    "y": numbers("n", signs=True),
    "weights": numbers("k d"),
    "C": number(1.0, 0.1, np.float32(2), np.inf, also=equals(np.inf)),
    "tol": number(1e-6, 1e-3),
    "max_seconds": number(None, 10.0, also=equals(np.inf)),
    "solver": choice(None, "NATIVE", "CLARABEL", also=equals(None), functions=False),
    "device": choice("cpu", torch.device("cpu"), also=equals("cpu")),
    "steps": count(1, 3, 30, 90, cap=100, vast=ENDLESS),
    "max_steps": count(1, 100, 10**9, vast=ENDLESS),
    "batch_size": count(1, 8, 128, vast=ENDLESS),
    "every": count(1, 2, 10**9, vast=ENDLESS, also=are_steps),
    "lr": number(0.1, 1, np.float32(0.5)),
    "ridge": number(0, 0.0, 0.0, 1e-3, 1.0, 1e10, 1e-200, 1e200, also=lambda v: is_number()(v) and v == 0),
    "m": count(1, 2, 5, 30, cap=200, vast=10**11),
    "d": count(1, 2, 5, 30, cap=200, vast=10**11),
    "digits": count(10, 1, 40, most=1000),
    "delta": number(0.05, 0.5, 1e-9, np.float32(0.25), low=9.9e-101, high=1.0),
    "label_bound": number(300, 300.0, 1e3),
}
