"""Problems, settings and comparisons of the native solver's tests."""

import dataclasses
import itertools
import zlib

import cvxpy as cp
import numpy as np

from implicit_bias import GatedFeatures, MarginProblem, Solution, Status
from implicit_bias.norms import Norm, PolyhedralForm
from implicit_bias.solvers.native import NativeSolver
from implicit_bias.solvers.native.scaled import ScaledProblem, scaled
from implicit_bias.solvers.native.settings import Settings
from tests.cases import FEATURES, PAIRS, problem

GATES = list(dict.fromkeys(gate for gate, _ in PAIRS))
#: All samples at once.
ALL = {"all_samples_up_to": 10**9}
#: Samples are screened first, however few they are; few stay free for certain.
SCREENED = {"all_samples_up_to": 0, "first_samples": 5, "nearest": 2, "all_products_up_to": 0}
SCREENED |= {"bounded": -1.0, "least_samples": 3}
#: The same for samples few of which are at their bound; a first draw of few finds the size of η.
UNBOUNDED = {**SCREENED, "bounded": 2.0, "drawn": 5}


def native(**settings) -> NativeSolver:
    return NativeSolver(Settings(**settings))


def in_our_coordinates(case: MarginProblem, device: str = "cpu", **settings) -> ScaledProblem:
    return scaled(case, case.norm.group_form(case.features.k), device, Settings(**settings))


def variants(gate: str, norm: str):
    """Yield two of all combinations of hard or soft margin, intercept, required margins, and gates or blocks."""
    weights = np.linspace(0.5, 2.0, problem(gate, norm).features.n)
    parts = [{"intercept": True}, {}, {"required_margin": weights, "sample_weight": weights[::-1]}]
    kinds = ["gated"] if norm.startswith("predictor") else ["gated", "kernels"]
    place, every = zlib.crc32(f"{gate}, {norm}".encode()), list(itertools.product((0.3, np.inf), parts, kinds))
    for C, changes, kind in (every[place % len(every)], every[(5 * place + 3) % len(every)]):
        case = problem(gate, norm, C)
        yield dataclasses.replace(case, features=FEATURES[kind](case.features), **changes)


def agree(one: Solution, other: Solution) -> None:
    """Assert that both solutions are certified and their bounds overlap, or that both are inseparable."""
    assert one.status.inseparable == other.status.inseparable
    if not one.status.inseparable:
        assert (one.status, other.status) == (Status.OPTIMAL, Status.OPTIMAL)
        assert one.lower_bound <= other.objective
        assert other.lower_bound <= one.objective


def teacher(n, k, d, seed, wrong=0.0):
    """Return features of half-open gates on n normal inputs (n, d), and labels of a teacher, some of them wrong."""
    rng = np.random.default_rng(seed)
    X, G = rng.normal(size=(n, d)), (rng.random((n, k)) < 0.5).astype(float)
    G[:, 0] = 1.0
    features = GatedFeatures(X, G)
    y = np.where(features @ rng.normal(size=(k, d)) > 0, 1.0, -1.0)
    return features, np.where(rng.random(n) < wrong, -y, y)


class SumNorm(Norm):
    """User-defined norm max_h Σ |ζ_h| / c_h over groups of two gates, with a form of its own or a wrong one."""

    def __init__(self, costs, factor=1.0):
        self.costs, self.factor = np.asarray(costs, dtype=float), factor

    def value(self, W):
        return float((np.abs(W).sum(axis=1).reshape(-1, 2).sum(axis=1) / self.costs).max())

    def dual(self, V):
        return float((np.abs(V).max(axis=1).reshape(-1, 2).max(axis=1) * self.costs).sum())

    def expression(self, W):
        rows = cp.sum(cp.abs(W), axis=1)
        return cp.max(cp.hstack([cp.sum(rows[2 * h : 2 * h + 2]) / c for h, c in enumerate(self.costs)]))

    def polyhedral_form(self, k):
        return PolyhedralForm(True, np.arange(k) // 2, np.full(k, self.factor), self.costs)
