"""Problems of other shapes than the paper's: few features, wrong labels, weights next to zero, many groups; see --help.

Solvers take turns, one thread each; figures are medians over the rounds, in seconds. LIBLINEAR solves the soft margin
with ½‖w‖² in place of ‖w‖: the same family of solutions at other values of C, so that only times compare.
"""

import argparse
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from common import raced, run
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer, StandardScaler
from sklearn.svm import LinearSVC

from implicit_bias import (
    Frobenius,
    GatedFeatures,
    GroupLasso,
    HyperplaneGates,
    MarginProblem,
    NuclearNorm,
    load_binary,
    solve,
    svm_gln,
)
from implicit_bias.datasets.images import load_images

#: A run of a solver, which returns a summary of its answer.
Run = Callable[[], str]


def linear(n: int, d: int, wrong: float) -> MarginProblem:
    """Return a linear problem on normal samples, with a share `wrong` of the labels flipped."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(n, d))
    y = np.sign(X @ rng.normal(size=d))
    y[rng.random(n) < wrong] *= -1
    return MarginProblem(GatedFeatures(X), y, Frobenius(), C=1.0)


def many_groups(n: int, H: int, d: int = 50) -> MarginProblem:
    """Return a hard-margin problem with H random half-spaces, a group each; labels are not linear in X (n, d)."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(n, d))
    G = (X @ rng.normal(size=(d, H)) > 0).astype(float)
    y = np.sign(X @ rng.normal(size=d) + np.sin(3 * X[:, 0]) / 2)
    return MarginProblem(GatedFeatures(X, G), y, GroupLasso(range(H)))


def gated_few(n: int, d: int, H: int, wrong: float, C: float) -> MarginProblem:
    """Return SVM-GLN on normal samples with labels sign(x_0 + x_1 x_2), a share `wrong` of them flipped."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(n, d))
    y = np.sign(X[:, 0] + X[:, 1] * X[:, 2])
    y[rng.random(n) < wrong] *= -1
    return svm_gln(X, y, HyperplaneGates(H, 2, seed=1).fit(X), C=C)


def images_of(n: int, H: int, wrong: float, C: float) -> MarginProblem:
    """Return SVM-GLN on MNIST; with two units, 7000 images are separable, 8000 are not."""
    task = load_binary("mnist", n)
    y = np.where(np.random.default_rng(0).random(n) < wrong, -task.y_train, task.y_train)
    return svm_gln(task.X_train, y, HyperplaneGates(H, 2, seed=1).fit(task.X_pool), C=C)


def attention(n: int, d: int, C: float) -> MarginProblem:
    """Return one-layer attention: W (d, d) of least nuclear norm with y_i⟨g_i, W x_i⟩ ≥ 1 for token differences."""
    X, G = np.random.default_rng(0).normal(size=(2, n, d))
    y = np.sign(np.sum(G[:, :3] * X[:, :3], axis=1))
    return MarginProblem(GatedFeatures(X, G), y, NuclearNorm([0] * d, range(d)), C)


def next_to_zero() -> MarginProblem:
    """Return SVM-GLN with a free intercept, one digit against the rest, for a C so small that weights vanish."""
    images, labels = load_images("mnist", None)
    rows = np.random.default_rng(1).permutation(len(images))[:5000]
    X = make_pipeline(StandardScaler(with_std=False), Normalizer()).fit_transform(images[rows])
    y = np.where(labels[rows] == 4, 1.0, -1.0)
    return replace(svm_gln(X, y, HyperplaneGates(100, 2, seed=1).fit(X), C=0.01), intercept=True)


def near_a_plane(n: int, d: int, e: float, seed: int = 0) -> MarginProblem:
    """Return SVM-GLN of three units on samples at distances of e to 2e from a plane, on the sides of their labels."""
    rng = np.random.default_rng(seed)
    normal = rng.normal(size=d)
    normal /= np.linalg.norm(normal)
    X, y = rng.normal(size=(n, d)), np.where(rng.random(n) < 0.5, 1, -1)
    X += np.outer(y * e * rng.uniform(1, 2, n) - X @ normal, normal)
    return svm_gln(X, y, HyperplaneGates(3, 2, seed=seed).fit(X))


def solved(problem: MarginProblem, solver: str | None) -> str:
    """Return status, certified gap and objective of a solver's answer, or the norm below which nothing separates."""
    found = solve(problem, solver)
    if found.status.inseparable:
        return f"{found.status.name}, {found.lower_bound:.0e}"
    return f"{found.status.name}, gap {found.gap:.0e}, {found.objective:.8g}"


def all_solved(problems: list[MarginProblem], solver: str | None) -> str:
    """Return text: how many of the problems are certified to their tolerance, and how many have no weights."""
    found = [solve(problem, solver) for problem in problems]
    optimal, none = (sum(test) for test in zip(*((s.gap <= s.tol, s.objective == np.inf) for s in found), strict=True))
    return f"{optimal} of {len(found)} OPTIMAL, {none} without weights"


def races() -> Iterator[tuple[str, Callable[[], MarginProblem]]]:
    """Yield the problems as pairs (name, function that makes it)."""
    for n, d in ((5000, 5), (5000, 50), (200_000, 5)):
        yield f"d = {d}, n = {n}, 30 % wrong, C = 1", partial(linear, n, d, 0.3)
    for n, d, H, wrong, C in ((20_000, 15, 10, 0.1, 1e-2), (20_000, 15, 10, 0.3, 1.0), (100_000, 20, 10, 0.1, 1e-3)):
        title = f"d = {d}, n = {n}, H = {H}, {100 * wrong:.0f} % wrong, C = {C:g}"
        yield title, partial(gated_few, n, d, H, wrong, C)
    yield "d = 20, n = 100000, H = 10, 10 % wrong, hard", partial(gated_few, 100_000, 20, 10, 0.1, np.inf)
    for n in (7000, 48_000):
        yield f"MNIST, n = {n}, H = 2, hard", partial(images_of, n, 2, 0.0, np.inf)
    for n in (2000, 8000):
        yield f"MNIST, n = {n}, H = 20, 10 % wrong, C = 1e-3", partial(images_of, n, 20, 0.1, 1e-3)
    yield "MNIST, n = 5000, one digit, C = 0.01", next_to_zero
    for n, H in ((300, 5000), (100, 20_000)):
        yield f"n = {n}, {H} groups", partial(many_groups, n, H)
    for n, d in ((30, 10), (100, 20), (200, 30), (700, 50), (1400, 80)):
        for C in (np.inf, 0.02):
            yield f"nuclear, n = {n}, W {d} × {d}, C = {C:g}", partial(attention, n, d, C)


def solvers(build: Callable[[], MarginProblem]) -> dict[str, Run]:
    """Return the runs by solver: NATIVE, and for linear problems and nuclear norms also peers, if they end in time."""
    problem = build()
    runs: dict[str, Run] = {"NATIVE": partial(solved, problem, "NATIVE")}
    if problem.features.k == 1:
        model = LinearSVC(C=1.0, loss="hinge", fit_intercept=False, max_iter=100_000, tol=1e-4)
        runs["LIBLINEAR"] = lambda: (model.fit(problem.features.dense(), problem.y), "")[1]
    if problem.features.k <= 30 and (problem.features.k == 1 or isinstance(problem.norm, NuclearNorm)):
        runs["CLARABEL"] = partial(solved, problem, "CLARABEL")
    if isinstance(problem.norm, NuclearNorm):
        runs["SCS"] = partial(solved, problem, "SCS")
    return runs


def by_a_hair() -> Iterator[tuple[str, Callable[[], dict[str, Run]]]]:
    """Yield problems whose samples are close to a plane: twelve of 50 to 2000 samples at each distance, and large ones.

    The runs are NATIVE and, if no solver is named, NATIVE with its fallback solvers.
    """

    def both(run: Callable[..., str], build: Callable[[], Any]) -> dict[str, Run]:
        problem = build()
        return {"NATIVE": partial(run, problem, "NATIVE"), "default": partial(run, problem, None)}

    sizes = (50, 60, 80, 100, 150, 200, 300, 500, 800, 1000, 1500, 2000)
    for e in (1e-4, 1e-5, 1e-6, 1e-7, 1e-9):
        twelve = partial(lambda e: [near_a_plane(n, 10 + seed % 11, e, seed) for seed, n in enumerate(sizes)], e)
        yield f"12 near a plane, e = {e:.0e}", partial(both, all_solved, twelve)
    for e in (1e-5, 1e-7):
        yield f"near a plane, n = 60000, e = {e:.0e}", partial(both, solved, partial(near_a_plane, 60_000, 10, e))


def report(options: argparse.Namespace) -> Iterator[Any]:
    """Run all solvers in turn, print each row at once, and yield the table."""
    rows = []
    made: list[tuple[str, Callable[[], dict[str, Run]]]] = [(name, partial(solvers, build)) for name, build in races()]
    for title, runs_of in [*made, *by_a_hair()]:
        if options.only not in title:
            continue
        runs = runs_of()
        times, answers = raced(runs, options.rounds, time.perf_counter)
        first = statistics.median(times["NATIVE"])
        for name, seconds in times.items():
            middle = statistics.median(seconds)
            row = {"problem": title, "solver": name, "seconds": f"{middle:.2f}"}
            row |= {"least – most": f"{min(seconds):.2f} – {max(seconds):.2f}", "× ours": f"{middle / first:.3g}"}
            rows.append(row | {"answer": answers[name]})
            print(*rows[-1].values(), flush=True)
    yield rows


if __name__ == "__main__":
    run(__doc__, report, rounds=(3, "how often each runs"), only=("", "run problems whose names contain this text"))
