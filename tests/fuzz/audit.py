"""Random margin problems, wildly drawn, whose answers are judged in rational arithmetic by `tests/fuzz/exact.py`.

A problem is a piece of Python, made from (seed, number) alone: what runs is what `--audit-case NUMBER` prints.
"""

import traceback
import warnings
from collections import Counter
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import numpy as np

from implicit_bias import InputError, Status
from tests.cases import MISSING_SOLVERS
from tests.fuzz.exact import Exact, faults
from tests.fuzz.exact_layers import LARGEST, SPECTRAL, SQUARES, SUMS
from tests.fuzz.judge import Raw, saved_otherwise
from tests.fuzz.problems import ALL_KINDS, KINDS, tiny
from tests.fuzz.values import Array

INACCURATE = Status.INACCURATE.name
OF_LAYERS = "norms of layers"
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
CODE_OF_CLASSES = """\
import implicit_bias as ib

problem = ib.svm_classes({X}, {labels}, ib.ConstantGate(), {C}, norm={norm!r})
solution = ib.solve(problem, {how})
"""

# ----------------------------------------------------------------------------------------------------------- problems


@dataclass
class Case:
    """A problem as Python, and in Fractions; `tags` are its kind and what else is peculiar to it."""

    code: str
    exact: Exact
    tol: float
    tags: list[str]


@dataclass(frozen=True)
class Family:
    """The properties of a family of problems. Without `named`, `solve` chooses the solver, and the tolerance is 1e-6.

    C, weights and margins are powers of 10 with exponents in `C` and up to ± `spread`. All features are multiplied by a
    power with an exponent up to ± `scale`, and C is divided by it.
    `constraints` and `layers` are shares; `tight` constraints leave a thin wedge, or an interval of one point or none.
    """

    kinds: tuple[str, ...] = tuple(KINDS)
    C: tuple[float, float] = (-6.0, 12.0)
    spread: float = 3.0
    scale: float = 0.0
    constraints: float = 0.0
    tight: bool = False
    layers: float = 0.0
    named: bool = False


PLAIN = ("normal", "integers", "separated", "one class", "nearly parallel", "collinear", "duplicates", "zeros")
FAMILIES = {
    "of all kinds": Family(constraints=0.15, layers=1 / 6, named=True),
    "ordinary": Family(PLAIN, (-3.0, 3.0), 1.0),
    "wild": Family(tuple(ALL_KINDS), scale=140.0),
    "large C": Family(tuple(ALL_KINDS), (8.0, 15.0), 8.0),
    "with constraints": Family(PLAIN, (-3.0, 3.0), constraints=1.0),
    "with constraints and layers": Family(PLAIN, (-3.0, 3.0), constraints=1.0, layers=1.0),
    "with tight constraints": Family(PLAIN, (-3.0, 3.0), constraints=1.0, tight=True),
}


def draw(seed: int, number: int) -> Case:
    """Return the problem of a number, of one family after the other."""
    rng = np.random.default_rng(Random(f"audit/{seed}/{number}").getrandbits(64))
    about_family = list(FAMILIES)[number % len(FAMILIES)]
    family, kind = FAMILIES[about_family], str(rng.choice(FAMILIES[about_family].kinds))
    X, y = ALL_KINDS[kind](rng, int(rng.integers(2, 31 if rng.random() < 0.15 else 11)), int(rng.integers(1, 6)))
    unit = 10.0 ** (family.scale * rng.choice([0.0, -1.0, 1.0]) * rng.random())
    X = X * unit
    layered = rng.random() < family.layers
    if layered and family.constraints < 1 and rng.random() < 0.25 and len(set(y)) == 2:
        return _classes(rng, X, y, [about_family, kind])
    features, raw, units = _features(rng, X, y, family.constraints < 1)
    n, k, d = raw.blocks.shape
    norm, about, units = _layers(rng, k, units) if layered else _norm(rng, k, d, units)
    options, tags = {"C": 'float("inf")'}, [about_family, kind] + [OF_LAYERS] * layered
    tags += [norm.split("(")[0].removeprefix("ib.")]
    tags += ["KernelFeatures"] * ("Kernel" in features) + ["gates"] * ("], [" in features and k > 1)
    for name in ("required_margin", "sample_weight"):
        if rng.random() < (0.15 if family.spread <= 3 or "margin" in name else 0.6):
            numbers = 10.0 ** rng.uniform(-family.spread, family.spread, n)
            about |= {name.removesuffix("_margin"): numbers}
            options[name] = str(numbers.tolist())
            tags.append(name)
    if rng.random() < 0.4:
        about["C"] = float(10.0 ** rng.uniform(*family.C) / unit)
        options["C"] = repr(about["C"])
    hard = "C" not in about
    tags.append("hard margin" if hard else "soft margin")
    if rng.random() < 0.25 and len(set(y)) == 2:
        about["intercept"], options["intercept"] = True, "True"
        tags.append("free intercept")
    if units is None and rng.random() < family.constraints:
        texts, *parts = zip(*(_constraint(rng, k, d, family.tight) for _ in range(rng.integers(1, 3))), strict=True)
        options["constraints"] = f"lambda W: [{', '.join(texts)}]"
        about |= dict(zip(("E", "equal", "h"), map(np.concatenate, parts), strict=True))
        tags.append("right-hand sides" if about["h"].any() else "constraints")
    quadratic = hard and norm.startswith(("ib.Frobenius", "ib.PredictorL2"))
    how, more = _how(rng, quadratic, '"spectral"' in norm) if family.named else ({"tol": "1e-06"}, [])
    code = CODE.format(features=features, y=y.tolist(), norm=norm, options=_texts(options), how=_texts(how))
    return Case(code, replace(raw, **about).exact, float(how["tol"]), tags + more)


def _texts(options: dict[str, str]) -> str:
    return ", ".join(f"{name}={value}" for name, value in options.items())


def _features(rng: Any, X: Array, y: Array, contexts: bool) -> tuple[str, Raw, tuple[int, int] | None]:
    """Return features as Python and as numbers, and (H, K) if the gates are `contexts`, which are possible if True."""
    (n, d), units, kind = X.shape, None, rng.random()
    if kind < 0.4:
        return f"ib.GatedFeatures({X.tolist()})", Raw.gated(X, np.ones((n, 1)), y), None
    k = int(rng.integers(2, 5))
    if kind < 0.5:
        size = abs(X).max() or 1.0
        powers = [size * (X / size) ** (j + 1) if rng.random() < 0.5 else X * rng.normal(size=d) for j in range(k)]
        factors = np.stack(powers, axis=1)
        return f"ib.KernelFeatures({factors.tolist()})", Raw(factors, y), None
    # Some samples find every gate closed.
    G = (rng.random((n, k)) < 0.6).astype(float)
    if kind < 0.65 and contexts:
        units = (int(rng.integers(1, 4)), int(rng.choice([2, 2, 4])))
        G = np.hstack([np.eye(units[1])[rng.integers(0, units[1], n)] for _ in range(units[0])])
    elif kind < 0.75:
        G *= rng.normal(size=(n, k)) * 10.0 ** rng.integers(-3, 4, k)
    elif kind < 0.95:
        G[:, 0] = 1.0
    return f"ib.GatedFeatures({X.tolist()}, {G.tolist()})", Raw.gated(X, G, y), units


def _norm(rng: Any, k: int, d: int, units: Any) -> tuple[str, dict[str, Any], tuple[int, int] | None]:
    """Return a norm as Python and as `Raw` takes it, and (H, K) if it is `PredictorL2`."""
    kind = rng.random()
    if units is not None and kind < 0.5:
        return f"ib.PredictorL2{units}", {"norm": "predictor", "shape": units}, units
    if kind < 0.6:
        labels = rng.integers(0, k, k)
        used = np.unique(labels)
        weights = 10.0 ** rng.uniform(-4, 4, len(used)) if rng.random() < 0.5 else np.ones(len(used))
        text = f"ib.GroupLasso({labels.tolist()}, {weights.tolist()})"
        return text, {"norm": "groups", "groups": labels, "weights": weights}, None
    if kind < 0.65:
        dual = ", lambda V: np.abs(V).max()" if rng.random() < 0.8 else ""
        entries = np.arange(k * d).reshape(k, d)
        return f"ib.ExpressionNorm(lambda W: cp.norm1(W){dual})", {"norm": "groups", "groups": entries}, None
    return "ib.Frobenius()", {}, None


def _layers(rng: Any, k: int, units: Any) -> tuple[str, dict[str, Any], None]:
    """Return a norm of two layers as Python and as `Raw` takes it; contexts of a unit are one row."""
    names = list(SUMS | SQUARES | LARGEST) + 4 * list(SPECTRAL)
    layers = names[rng.integers(len(names))]
    groups = rng.integers(0, k, k)
    if layers in SPECTRAL:
        groups = np.arange(k)
        if k % 2 == 0 and rng.random() < 0.3:
            groups = rng.permutation(groups // 2)
    if units is not None:
        groups = np.repeat(np.arange(units[0]), units[1])
    m = rng.integers(1, 6, len(np.unique(groups))) if rng.random() < 0.5 else np.ones(len(np.unique(groups)), dtype=int)
    text = f'ib.TwoLayerNorm({groups.tolist()}, "{layers[0]}", "{layers[1]}", {m.tolist()})'
    return text, {"norm": "layers", "groups": groups, "layers": (layers, m.tolist())}, None


def _classes(rng: Any, X: Array, y: Array, tags: list[str]) -> Case:
    """Return a problem of two or three classes and one layer, whose samples are pairs of a sample and a class."""
    labels, norm = (y > 0).astype(int), str(rng.choice(["spectral", "entries", "frobenius", "l1"]))
    if rng.random() < 0.5:
        labels[rng.random(len(y)) < 0.3] = 2
    labels = np.unique(labels, return_inverse=True)[1]
    K, C = int(labels.max()) + 1, float(10.0 ** rng.uniform(-6, 12)) if rng.random() < 0.4 else float("inf")
    hard = np.isinf(C)
    if K < 2:
        labels[0], K = 1, 2
    signs = [np.eye(K)[own] - np.eye(K)[other] for own in labels for other in range(K) if other != own]
    blocks = np.array(signs)[:, :, None] * np.repeat(X, K - 1, axis=0)[:, None]
    about: dict[str, Any] = {"groups": np.arange(K), "layers": ((norm, "l_inf"), [1] * K), "C": C}
    how, more = _how(rng, False, norm == "spectral")
    code = CODE_OF_CLASSES.format(
        X=X.tolist(), labels=labels.tolist(), C="float('inf')" if hard else C, norm=norm, how=_texts(how)
    )
    tags = [*tags, "classes", OF_LAYERS, "hard margin" if hard else "soft margin", *more]
    return Case(code, Raw(blocks, np.ones(len(blocks)), "layers", **about).exact, float(how["tol"]), tags)


def _constraint(rng: Any, k: int, d: int, tight: bool) -> tuple[str, Array, Array, Array]:
    """Return a constraint as Python, its rows of E, a mask of the equalities, and its h."""
    unit, (a, b) = np.eye(k * d), rng.integers(0, k * d, 2).tolist()
    kind = int(rng.choice([3, 5, 6, 6]) if tight else rng.integers(7))
    one, other = (f"W[{j // d}, {j % d}]" for j in (a, b))
    sense = str(rng.choice(["<=", ">=", "=="], p=[0.3, 0.5, 0.2]))
    sign = -1 if sense == ">=" else 1
    right = 0.0 if rng.random() < 0.4 else float(rng.choice([1.0, 1.0, -1.0, 3.0]) * 10.0 ** rng.integers(-8, 4))
    if kind == 0:
        # CVXPY lists the entries of W column by column.
        text, rows = f"W {sense} {right}", sign * unit[np.arange(k * d).reshape(k, d).ravel(order="F")]
    elif kind == 1:
        text, rows = f"{one} - {other} {sense} {right}", sign * (unit[[a]] - unit[[b]])
    elif kind == 2:
        text, rows = f"cp.sum(W) {sense} {right}", sign * np.ones((1, k * d))
    elif kind == 3:
        wide = float(rng.choice([1.0, 0.5, 1e3, 1e-3]))
        thin, sense = wide * (1 - tiny(rng)), "<="
        text = f"{one} <= {wide!r} * {other}, {thin!r} * {other} <= {one}"
        return text, np.array([unit[a] - wide * unit[b], thin * unit[b] - unit[a]]), np.array([False] * 2), np.zeros(2)
    elif kind == 4:
        rows = rng.integers(-2, 3, (int(rng.integers(1, 3)), k * d)).astype(float)
        text, rows = f"np.array({rows.tolist()}) @ cp.vec(W, order='C') {sense} {right}", sign * rows
    else:
        # An interval, which may have one point only, or nearly, or none.
        row = np.where(rng.random(k * d) < 0.5, rng.normal(size=k * d), unit[a])
        form, none = f"np.array({row.tolist()}) @ cp.vec(W, order='C')", np.array([False] * 2)
        if kind == 5:
            return f"cp.abs({form}) <= {abs(right)}", np.array([row, -row]), none, np.full(2, abs(right))
        near = [right, right * (1 + tiny(rng)), right * (1 - tiny(rng)), right - 1.0]
        least = float(rng.choice(near[: 3 + (not tight)]))
        return f"{form} <= {right}, {form} >= {least}", np.array([row, -row]), none, np.array([right, -least])
    return text, rows, np.full(len(rows), sense == "=="), np.full(len(rows), sign * right)


def _how(rng: Any, quadratic: bool, semidefinite: bool) -> tuple[dict[str, str], list[str]]:
    """Return the options of `solve` as Python, and their tags."""
    how, tags = {"tol": repr(float(rng.choice([1e-3, 1e-6, 1e-8])))}, list[str]()
    solver = str(rng.choice(["default", "CLARABEL", "ECOS", "SCS", "OSQP"], p=[0.87, 0.08, 0.015, 0.015, 0.02]))
    fits = solver not in {"default", *MISSING_SOLVERS}
    if fits and (quadratic or solver != "OSQP") and not (semidefinite and solver == "ECOS"):
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
    """Solve a problem, judge the answer and return the result."""
    case = draw(seed, number)
    result, names = Result(number, case.tags, case.tol), dict[str, Any]()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            exec(case.code, names)
        found = names["solution"]
        result.status, result.story = found.status.name, str(found)
        result.faults = faults(case.exact, found, case.tol)
        if otherwise := saved_otherwise(found):
            result.faults[otherwise] = np.inf
        if found.status is Status.INACCURATE:
            result.remarks[INACCURATE if getattr(found, "reason", "") else f"{INACCURATE}, no reason"] = found.gap
        if found.objective == np.inf and not found.status.inseparable and case.exact.feasible():
            result.remarks["no weights, though feasible"] = np.inf
    except InputError as error:
        result.faults, result.story = {"refused": np.inf}, str(error)
    except Exception:
        # Whatever else comes out is a finding.
        result.faults, result.story = {"foreign exception": np.inf}, traceback.format_exc()
    return result


def ended(seed: int, judged: Any) -> Result:
    """Return the result itself, or that of a case that hung or died; print wrong ones."""
    if not isinstance(judged, Result):
        judged = Result(judged.number, draw(seed, judged.number).tags, faults={judged.ending: np.inf})
    if judged.faults:
        print(judged, flush=True)
    return judged


def told(seed: int, number: int) -> int:
    """Print a problem as Python and its result; return the exit code, 1 if it has faults."""
    result = run_case(seed, number)
    print(f"{draw(seed, number).code}\n{result.story}\n{result}")
    return int(bool(result.faults))


INTRODUCTION = """\
Random problems of at most 30 samples, judged in rational arithmetic (`tests/fuzz/exact.py`), of seven families. *Of all
kinds*: badly posed samples, any solver. *Ordinary*: C from 1e-3 to 1e3. *Wild*: features times 1e±140, C up to
1e12 in their units. *Large C*: up to 1e15, weights 1e±8. *Tight*: wedges, and intervals of one point or none.
`--audit-case NUMBER` prints a problem."""
FOUND = "Median and largest are gaps, or relative errors of bounds. Neither INACCURATE nor missing weights are faults."
BY_KIND = "Outcomes by family and kind of samples. The last columns are shares of INACCURATE by tolerance."
STATUSES = ("OPTIMAL", "NOT_SEPARABLE", "NOT_SEPARABLE_BELOW", "INFEASIBLE", INACCURATE)


def report(results: list[Result]) -> list[Any]:
    """Return the texts and tables of the page."""
    found = {r.number: r.faults | r.remarks for r in results}
    kinds = Counter(kind for r in results for kind in r.faults), Counter(kind for r in results for kind in r.remarks)
    return [
        "## Audit",
        INTRODUCTION,
        f"{len(results)} problems, {sum(bool(r.faults) for r in results)} wrong answers.",
        FOUND,
        [_row(kind, found) for counts in kinds for kind, _ in counts.most_common()],
        BY_KIND,
        [_tag_row(tag, [r for r in results if tag in ("all", *r.tags)]) for tag in ("all", *FAMILIES, *ALL_KINDS)],
    ]


def _row(kind: str, found: dict[int, dict[str, float]]) -> dict[str, str]:
    sizes = {number: kinds[kind] for number, kinds in found.items() if kind in kinds}
    middle, largest = (f"{size:.1e}" for size in (np.median([*sizes.values()]), max(sizes.values())))
    numbers = " ".join(map(str, [*sizes][:10]))
    return {"found": kind, "problems": str(len(sizes)), "median": middle, "largest": largest, "numbers": numbers}


def _tag_row(tag: str, results: list[Result]) -> dict[str, str]:
    count = Counter(r.status if r.status in STATUSES else "else" for r in results)
    row = {"problems": tag, "number": str(len(results)), "wrong": str(sum(bool(r.faults) for r in results))}
    row |= {name.replace("NOT_SEPARABLE_BELOW", "BELOW"): str(count[name]) for name in (*STATUSES, "else")}
    return row | {f"at {tol:g}": _inaccurate([r for r in results if r.tol == tol]) for tol in (1e-3, 1e-6, 1e-8)}


def _inaccurate(results: list[Result]) -> str:
    return f"{sum(r.status == INACCURATE for r in results) / len(results):.2%}" if results else "–"
