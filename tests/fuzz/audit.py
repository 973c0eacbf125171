"""Random margin problems, wildly drawn, whose answers are judged in rational arithmetic by `tests/fuzz/exact.py`.

A problem is a piece of Python, made from (seed, number) alone: what runs is what `--audit-case NUMBER` prints.
"""

import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from random import Random
from typing import Any

import numpy as np

from implicit_bias import InputError, Status
from tests.fuzz.exact import Exact, faults, fractions
from tests.fuzz.values import Array

Samples = tuple[Array, Array]
INACCURATE = Status.INACCURATE.name
#: What is said of problems whose solver `solve` chooses.
UNNAMED = "no solver named"
CODE = """\
import cvxpy as cp
import numpy as np

import implicit_bias as ib

problem = ib.MarginProblem(
    {features},
    {y},
    {norm},
    {options},
)
solution = ib.solve(problem, {how})
"""

# ------------------------------------------------------------------------------------------------------------ samples


def _tiny(rng: Any, most: int = 15) -> float:
    return float(10.0 ** -rng.integers(3, most))


def _labels(rng: Any, X: Array) -> Array:
    """Labels of a linear model, or random ones."""
    if rng.random() < 0.6:
        return np.where(X @ rng.integers(-3, 4, X.shape[1]) + rng.integers(-1, 2) / 2 > 0, 1.0, -1.0)
    return np.asarray(rng.choice([-1.0, 1.0], len(X)))


def _normal(rng: Any, n: int, d: int) -> Samples:
    X = rng.normal(size=(n, d))
    return X, _labels(rng, X)


def _integers(rng: Any, n: int, d: int) -> Samples:
    X = rng.integers(-3, 4, (n, d)).astype(float)
    return X, _labels(rng, X)


def _large_integers(rng: Any, n: int, d: int) -> Samples:
    """Determinants of about one beside entries of millions."""
    N = int(rng.choice([1_000, 2_000_000, 2**26])) + int(rng.integers(1000))
    if rng.random() < 0.5:
        return np.array([[N, N + 1], [N + 1, N + 2]], dtype=float), np.array([1.0, -1.0])
    X = N + rng.integers(0, 4, (min(n, d + 1), d)).astype(float)
    return X, rng.choice([-1.0, 1.0], len(X))


def _nearly_parallel(rng: Any, n: int, d: int) -> Samples:
    size = rng.choice([1.0, -1.0, 2.0, 0.1], n)
    X = size[:, None] * (rng.normal(size=d) + _tiny(rng) * rng.normal(size=(n, d)))
    return X, np.sign(size) if rng.random() < 0.5 else rng.choice([-1.0, 1.0], n)


def _nearly_separable(rng: Any, n: int, d: int) -> Samples:
    """Some samples lie next to the plane, on their own side or on the other."""
    X, w = rng.normal(size=(n, d)), rng.normal(size=d)
    w /= np.linalg.norm(w)
    y = np.where(X @ w > 0, 1.0, -1.0)
    near = rng.random(n) < 0.4
    X[near] += (rng.choice([1, 1, -1]) * _tiny(rng) * y[near] - X[near] @ w)[:, None] * w
    return X, y


def _conflicting(rng: Any, n: int, d: int) -> Samples:
    """The last samples are copies or sums of others, with labels that no W can give them."""
    X, y = (_integers, _normal)[rng.integers(2)](rng, n, d)
    for i in range(max(1, n - int(rng.integers(1, 3))), n):
        others = rng.choice(i, int(rng.integers(1, min(i, 3) + 1)), replace=False)
        X[i] = -y[i] * ((rng.choice([1.0, 1.0, 2.0, 0.1], len(others)) * y[others]) @ X[others])
    return X, y


def _nearly_conflicting(rng: Any, n: int, d: int) -> Samples:
    X, y = _conflicting(rng, n, d)
    if rng.random() < 0.3:
        return np.where(X == 0, X, np.nextafter(X, X + rng.integers(-1, 2, X.shape))), y
    return X + _tiny(rng, 17) * rng.normal(size=X.shape), y


def _any(rng: Any, n: int, d: int) -> Samples:
    return (_normal, _conflicting, _nearly_conflicting)[rng.integers(3)](rng, n, d)


def _scaled_columns(rng: Any, n: int, d: int) -> Samples:
    X, y = _any(rng, n, d)
    return X * 10.0 ** rng.choice([-5, 0, 5] if rng.random() < 0.8 else [-8, 0, 8], d), y


def _scaled_rows(rng: Any, n: int, d: int) -> Samples:
    if rng.random() < 0.5:
        a = float(10.0 ** rng.integers(1, 9))
        return np.array([[a, a / 2], [1 / a, -1 / a]]), rng.choice([-1.0, 1.0], 2)
    X, y = _any(rng, n, d)
    return X * 10.0 ** rng.choice([-5, -2, 0, 5], (n, 1)), y


def _duplicates(rng: Any, n: int, d: int) -> Samples:
    """Samples of rank three at most, the same again and again, a constant last."""
    X = rng.integers(-2, 3, (n, 2)).astype(float) @ rng.integers(-2, 3, (2, d)).astype(float)
    X[:, -1] = 1.0
    return X, _labels(rng, X)


KINDS: dict[str, Callable[[Any, int, int], Samples]] = {
    "normal": _normal,
    "integers": _integers,
    "large integers": _large_integers,
    "nearly parallel": _nearly_parallel,
    "nearly separable": _nearly_separable,
    "conflicting": _conflicting,
    "nearly conflicting": _nearly_conflicting,
    "scaled columns": _scaled_columns,
    "scaled rows": _scaled_rows,
    "duplicates": _duplicates,
}

# ----------------------------------------------------------------------------------------------------------- problems


@dataclass
class Case:
    """A problem as Python, and in Fractions; `tags` are its kind and what else is peculiar to it."""

    code: str
    exact: Exact
    tol: float
    tags: list[str]


def draw(seed: int, number: int) -> Case:
    """The problem of a number."""
    rng = np.random.default_rng(Random(f"audit/{seed}/{number}").getrandbits(64))
    kind = list(KINDS)[number % len(KINDS)]
    X, y = KINDS[kind](rng, int(rng.integers(2, 31 if rng.random() < 0.15 else 11)), int(rng.integers(1, 6)))
    features, blocks, units = _features(rng, X)
    n, k, d = blocks.shape
    norm, groups, units = _norm(rng, k, d, units)
    options, tags = {"C": 'float("inf")'}, [kind, norm.split("(")[0].removeprefix("ib.")]
    tags += ["KernelFeatures"] * ("Kernel" in features) + ["gates"] * ("], [" in features and k > 1)
    numbers = {"required_margin": np.ones(n), "sample_weight": np.ones(n)}
    for name in numbers:
        if rng.random() < 0.15:
            numbers[name] = 10.0 ** rng.uniform(-3, 3, n)
            options[name] = str(numbers[name].tolist())
            tags.append(name)
    prices = None
    if rng.random() < 0.4:
        options["C"] = repr(float(10.0 ** rng.uniform(-6, 10)))
        prices = Fraction(float(options["C"])) * fractions(numbers["sample_weight"])
    tags.append("hard margin" if prices is None else "soft margin")
    if intercept := bool(rng.random() < 0.25 and len(set(y)) == 2):
        options["intercept"] = "True"
        tags.append("free intercept")
    E, equal = np.zeros((0, k * d)), np.zeros(0, dtype=bool)
    if units is None and rng.random() < 0.15:
        texts, *parts = zip(*(_constraint(rng, k, d) for _ in range(rng.integers(1, 3))), strict=True)
        options["constraints"] = f"lambda W: [{', '.join(texts)}]"
        E, equal = map(np.concatenate, parts)
        tags.append("constraints")
    quadratic = prices is None and norm.startswith(("ib.Frobenius", "ib.PredictorL2"))
    how, more = _how(rng, quadratic)
    code = CODE.format(features=features, y=y.tolist(), norm=norm, options=_texts(options), how=_texts(how))
    signs, required = fractions(y), fractions(numbers["required_margin"])
    rows = blocks.reshape(n, -1) * signs[:, None]
    exact = Exact(rows, signs, groups, units, required, prices, intercept, fractions(E), equal)
    return Case(code, exact, float(how["tol"]), tags + more)


def _texts(options: dict[str, str]) -> str:
    return ", ".join(f"{name}={value}" for name, value in options.items())


def _features(rng: Any, X: Array) -> tuple[str, Any, tuple[int, int] | None]:
    """Features as Python, their blocks (n, k, d), exactly, and (H, K) if the gates are contexts."""
    (n, d), units, kind = X.shape, None, rng.random()
    if kind < 0.4:
        return f"ib.GatedFeatures({X.tolist()})", fractions(X)[:, None], None
    k = int(rng.integers(2, 5))
    if kind < 0.5:
        factors = np.stack([X ** (j + 1) if rng.random() < 0.5 else X * rng.normal(size=d) for j in range(k)], axis=1)
        return f"ib.KernelFeatures({factors.tolist()})", fractions(factors), None
    # Some samples find every gate closed.
    G = (rng.random((n, k)) < 0.6).astype(float)
    if kind < 0.65:
        units = (int(rng.integers(1, 4)), int(rng.choice([2, 2, 4])))
        G = np.hstack([np.eye(units[1])[rng.integers(0, units[1], n)] for _ in range(units[0])])
    elif kind < 0.75:
        G *= rng.normal(size=(n, k)) * 10.0 ** rng.integers(-3, 4, k)
    elif kind < 0.95:
        G[:, 0] = 1.0
    return f"ib.GatedFeatures({X.tolist()}, {G.tolist()})", fractions(G)[:, :, None] * fractions(X)[:, None], units


def _norm(rng: Any, k: int, d: int, units: tuple[int, int] | None) -> tuple[str, Any, tuple[int, int] | None]:
    """A norm as Python, its groups, and (H, K) if it is the one of a GLN's predictors."""
    kind, entries = rng.random(), np.arange(k * d).reshape(k, d)
    if units is not None and kind < 0.5:
        return f"ib.PredictorL2{units}", [], units
    if kind < 0.6:
        labels = rng.integers(0, k, k)
        used = np.unique(labels)
        weights = 10.0 ** rng.uniform(-4, 4, len(used)) if rng.random() < 0.5 else np.ones(len(used))
        groups = [(c, entries[labels == h].ravel().tolist()) for c, h in zip(fractions(weights), used, strict=True)]
        return f"ib.GroupLasso({labels.tolist()}, {weights.tolist()})", groups, None
    if kind < 0.65:
        dual = ", lambda V: np.abs(V).max()" if rng.random() < 0.8 else ""
        return f"ib.ExpressionNorm(lambda W: cp.norm1(W){dual})", [(Fraction(1), [j]) for j in range(k * d)], None
    return "ib.Frobenius()", [(Fraction(1), [*range(k * d)])], None


def _constraint(rng: Any, k: int, d: int) -> tuple[str, Array, Array]:
    """A constraint as Python, its rows of E, and which are equalities."""
    unit, kind, (a, b) = np.eye(k * d), int(rng.integers(5)), rng.integers(0, k * d, 2).tolist()
    one, other = (f"W[{j // d}, {j % d}]" for j in (a, b))
    sense = str(rng.choice(["<=", ">=", "=="], p=[0.3, 0.5, 0.2]))
    sign = -1 if sense == ">=" else 1
    if kind == 0:
        # CVXPY lists the entries of W column by column.
        text, rows = f"W {sense} 0", sign * unit[np.arange(k * d).reshape(k, d).ravel(order="F")]
    elif kind == 1:
        text, rows = f"{one} {sense} {other}", sign * (unit[[a]] - unit[[b]])
    elif kind == 2:
        text, rows = f"cp.sum(W) {sense} 0", sign * np.ones((1, k * d))
    elif kind == 3:
        wide = float(rng.choice([1.0, 0.5, 1e3, 1e-3]))
        thin, sense = wide * (1 - _tiny(rng)), "<="
        text = f"{one} <= {wide!r} * {other}, {thin!r} * {other} <= {one}"
        rows = np.array([unit[a] - wide * unit[b], thin * unit[b] - unit[a]])
    else:
        rows = rng.integers(-2, 3, (int(rng.integers(1, 3)), k * d)).astype(float)
        text, rows = f"np.array({rows.tolist()}) @ cp.vec(W, order='C') {sense} 0", sign * rows
    return text, rows, np.full(len(rows), sense == "==")


def _how(rng: Any, quadratic: bool) -> tuple[dict[str, str], list[str]]:
    """The options of `solve` as Python, and their tags."""
    how, tags = {"tol": repr(float(rng.choice([1e-3, 1e-6, 1e-8])))}, [UNNAMED]
    solver = str(rng.choice(["default", "CLARABEL", "ECOS", "SCS", "OSQP"], p=[0.87, 0.08, 0.015, 0.015, 0.02]))
    if solver != "default" and (quadratic or solver != "OSQP"):
        how, tags = {"solver": repr(solver)} | how, [solver]
    if solver in ("SCS", "OSQP"):
        how["tol"] = "0.001"
    if rng.random() < 0.04:
        how["max_iterations"] = str(rng.integers(1, 8))
        tags.append("few iterations")
    return how, tags


# ------------------------------------------------------------------------------------------------------------ answers


@dataclass
class Result:
    """Result of a problem: its faults by kind, each with a number, and remarks, which are no faults."""

    number: int
    tags: list[str]
    tol: float = 0.0
    status: str = ""
    faults: dict[str, float] = field(default_factory=dict)
    remarks: dict[str, float] = field(default_factory=dict)
    story: str = ""

    def __str__(self) -> str:
        found = "; ".join(f"{kind} {size:.1e}" for kind, size in (self.faults | self.remarks).items())
        return f"audit {self.number} ({', '.join(self.tags)}; {self.status}, tol {self.tol:g}): {found or 'well'}"


def run_case(seed: int, number: int) -> Result:
    """Solve a problem and judge the answer."""
    case = draw(seed, number)
    result, names = Result(number, case.tags, case.tol), dict[str, Any]()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            exec(case.code, names)
        found = names["solution"]
        result.status, result.story = found.status.name, str(found)
        result.faults = faults(case.exact, found, case.tol)
        if found.status is Status.INACCURATE:
            result.remarks[INACCURATE if getattr(found, "reason", "") else f"{INACCURATE}, no reason"] = found.gap
        if found.objective == np.inf and found.status is not Status.NOT_SEPARABLE and case.exact.separable():
            result.remarks["no weights, though separable"] = np.inf
    except InputError as error:
        result.faults, result.story = {"refused": np.inf}, str(error)
    except Exception:
        # Whatever else comes out is a finding.
        result.faults, result.story = {"foreign exception": np.inf}, traceback.format_exc()
    return result


def ended(seed: int, judged: Any) -> Result:
    """The result itself, or that of a case that hung or died; wrong ones are printed."""
    if not isinstance(judged, Result):
        judged = Result(judged.number, draw(seed, judged.number).tags, faults={judged.ending: np.inf})
    if judged.faults:
        print(judged, flush=True)
    return judged


def told(seed: int, number: int) -> int:
    """Print a problem as Python, and what became of it; the exit code."""
    result = run_case(seed, number)
    print(f"{draw(seed, number).code}\n{result.story}\n{result}")
    return int(bool(result.faults))


INTRODUCTION = """\
Random problems of at most 30 samples: large integers, samples that are nearly parallel, nearly separable or nearly in
conflict (by 1e-3 to 1e-16), badly scaled inputs and samples, closed gates, group weights, prices from 1e-6 to 1e10,
free intercepts, linear constraints. Every answer of `solve` is judged in rational arithmetic, by `tests/fuzz/exact.py`,
from its stated numbers alone: whether the weights reach the upper bound (to 1e-15) and lie in the cone (to the last
bit), whether the dual proves the lower bound and is balanced where the intercept is free, and whether a claim that
nothing separates is true, by the simplex method. `--audit-case NUMBER` prints a problem as Python, and its answer."""
FOUND = """\
What was found: how often, how large (by which share a bound is off, the dual unbalanced or a weight outside the cone;
the gap), and the first numbers. INACCURATE is no fault, and neither are weights that were not found."""
BY_KIND = """\
By kind of problem: how many have a wrong answer, how they ended (`else`: limits, exceptions), and the share of
INACCURATE at each tolerance."""
STATUSES = ("OPTIMAL", "NOT_SEPARABLE", INACCURATE)


def report(results: list[Result]) -> list[Any]:
    """Texts and tables for the page."""
    found = {r.number: r.faults | r.remarks for r in results}
    kinds = Counter(kind for r in results for kind in r.faults), Counter(kind for r in results for kind in r.remarks)
    tags = ["all", *KINDS, *(tag for tag, _ in Counter(t for r in results for t in r.tags).most_common())]
    strict = [r for r in results if r.tol <= 1e-6]
    return [
        "## Audit",
        INTRODUCTION,
        f"{len(results)} problems, {sum(bool(r.faults) for r in results)} wrong answers; "
        f"at tolerances of 1e-6 and less, {_inaccurate(strict)} are INACCURATE, "
        f"{_inaccurate([r for r in strict if UNNAMED in r.tags])} of those for which no solver was named.",
        FOUND,
        [_row(kind, found) for counts in kinds for kind, _ in counts.most_common()],
        BY_KIND,
        [_tag_row(tag, [r for r in results if tag in ("all", *r.tags)]) for tag in dict.fromkeys(tags)],
    ]


def _row(kind: str, found: dict[int, dict[str, float]]) -> dict[str, str]:
    sizes = {number: kinds[kind] for number, kinds in found.items() if kind in kinds}
    middle, largest = (f"{size:.1e}" for size in (np.median([*sizes.values()]), max(sizes.values())))
    numbers = " ".join(map(str, [*sizes][:10]))
    return {"found": kind, "problems": str(len(sizes)), "median": middle, "largest": largest, "numbers": numbers}


def _tag_row(tag: str, results: list[Result]) -> dict[str, str]:
    count = Counter(r.status if r.status in STATUSES else "else" for r in results)
    row = {"problems": tag, "number": str(len(results)), "wrong": str(sum(bool(r.faults) for r in results))}
    row |= {name: str(count[name]) for name in (*STATUSES, "else")}
    return row | {f"at {tol:g}": _inaccurate([r for r in results if r.tol == tol]) for tol in (1e-3, 1e-6, 1e-8)}


def _inaccurate(results: list[Result]) -> str:
    return f"{sum(r.status == INACCURATE for r in results) / max(1, len(results)):.1%}"
