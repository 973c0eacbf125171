"""Do gates that tile the inputs have the least loss? The best sets of K gates in three families, tilings and others.

Gates tile the inputs if exactly one is open at each input. The loss is L* = ⟨y²⟩ − bᵀA⁻¹b, the notes' (16). The family
of pixel gates compares tilings by the signs of log2 K pixels with sets of K gates 1(x_i ≥ 0) or constant gates. The
half-spaces 1(uᵀx ≥ 0) start at random and are replaced if that lowers the loss. For any gate functions (18), gates and
weights are improved alternately: the open gates of a sample are the best one (tiling) or the best of all 2^K sets
(overlapping) for the current weights. Such gates may depend on the class, because at ξ = (5, 1) the input determines
the class.
"""

import itertools
from collections.abc import Callable
from functools import partial

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from implicit_bias._utils.checks import Array
from implicit_bias.extensions.galu.closed_form import least_squares
from implicit_bias.extensions.galu.filters import search_gates
from implicit_bias.extensions.gated_flow import Moments, OrbitMoments, RingProcess
from implicit_bias.features import GatedFeatures
from implicit_bias.studies.localization.common import COMMON, process_of
from implicit_bias.studies.runner import Rows, Settings, Verdict, decide, over_seeds, product, seeded, where
from implicit_bias.studies.runner.drawing import COLOURS, beside, log_ticks, panels

TITLE = "Gates that tile against gates that overlap"
SOURCE = "after equation (16), and (18)"
CLAIM = "Gates that tile the inputs without overlap have the least loss of all sets of as many gates."
FAMILIES = {
    "pixels": ("blue", "pixel gates"),
    "half-spaces": ("orange", "half-spaces, searched"),
    "any": ("purple", "any gate functions"),
}
#: Losses that differ by less are equal: standard errors over 20 000 samples are about .001.
EQUAL = 0.003


def grid(quick: bool) -> list[Settings]:
    """Return all families with K = 2, 4, 8, 20 000 samples, 600 steps; quick: K = 2, 4, 1000 samples, 60 steps."""
    base = {name: COMMON[name] for name in ("n", "label")} | {"process": "NLGP", "xi0": 5.0, "xi1": 1.0, "gain": 3.0}
    extent = {"samples": 1000, "steps": 60} if quick else {"samples": 20_000, "steps": 600}
    cells = product(family=FAMILIES, units=(2, 4) if quick else (2, 4, 8))
    return seeded([base | cell | extent for cell in cells], quick)


def rows(settings: Settings) -> Rows:
    """Return a row for each kind of gates, 'tiling' and 'overlapping'; half-spaces have only the latter.

    `loss` is that of the best set of gates found, and `fresh` the loss of the same weights on new samples. `sets` is
    the number of sets tried (for 'any', of rounds of improvement), and `gates` describes the best set.
    """
    process = process_of(settings)
    results = {"pixels": _pixels, "half-spaces": _half_spaces, "any": _any}[settings["family"]](process, settings)
    return [
        {"kind": kind, "loss": float(loss), "fresh": float(fresh), "sets": tried, "gates": names}
        for kind, loss, fresh, tried, names in results
    ]


Found = list[tuple[str, float, float, int, str]]


def _pixels(process: RingProcess, settings: Settings) -> Found:
    n, K, m = settings["n"], settings["units"], settings["samples"]
    X, y = process.sample(m, seed=settings["seed"])
    depth = int(np.log2(K))
    rests = itertools.combinations(range(1, n), depth - 1)
    # Up to a shift of the ring and a reflection.
    places = [(0, *rest) for rest in rests if rest <= tuple(sorted(n - r for r in rest))]
    few = slice(0, min(m, 6000))
    tiles = {p: Moments.from_samples(GatedFeatures(X[few], _cells(X[few], p)), y[few]).best_loss for p in places}
    best = min(tiles, key=lambda place: tiles[place])
    sets, tried = _best_set(process, settings)
    ways = [("tiling", best, partial(_cells, places=best), len(tiles))]
    ways.append(("overlapping", sets, partial(_opened, places=sets), tried))
    return [
        (kind, *_losses(process, gates, settings), count, " ".join(map(str, places)))
        for kind, places, gates, count in ways
    ]


def _cells(X: Array, places: tuple[int, ...]) -> Array:
    return np.asarray(np.eye(2 ** len(places))[(X[:, places] >= 0) @ 2 ** np.arange(len(places))])


def _opened(X: Array, places: tuple[int, ...]) -> Array:
    """Return the gates 1(x_i ≥ 0), shape (m, K), of the pixels i in `places`; −1 is the constant gate."""
    return np.column_stack([np.ones(len(X)) if i < 0 else X[:, i] >= 0 for i in places]).astype(float)


def _best_set(process: RingProcess, settings: Settings) -> tuple[tuple[int, ...], int]:
    n, K = settings["n"], settings["units"]
    X, y = process.sample(min(settings["samples"], 2000), seed=settings["seed"])
    orbit = OrbitMoments.from_samples(lambda X: X[:, 0] >= 0, X, y)
    mean = (process.covariance(0) + process.covariance(1)) / 2

    def loss(places: tuple[int, ...]) -> float:
        """Return ⟨y²⟩ − bᵀA⁻¹b of the gates at `places`."""
        cells = [[_pair(orbit, mean, i, j) for j in places] for i in places]
        b = np.concatenate([np.zeros(n) if i < 0 else orbit.b for i in places])
        return float(orbit.power - b @ np.linalg.lstsq(np.block(cells), b, rcond=1e-9)[0])

    if K == 2:
        sets = [(0, j) for j in (-1, *range(1, n // 2 + 1))]
        return min(sets, key=loss), len(sets)
    return _annealed(loss, n, settings)


def _pair(orbit: OrbitMoments, mean: Array, i: int, j: int) -> Array:
    """Return ⟨g_i g_j x xᵀ⟩, rows counted from pixel i and columns from pixel j (from 0 for the constant gate −1)."""
    if i < 0 and j < 0:
        return mean
    if j < 0:
        return np.roll(orbit.A[0], i, axis=1)
    return _pair(orbit, mean, j, i).T if i < 0 else np.asarray(orbit.A[(j - i) % orbit.k])


def _annealed(loss: Callable[[tuple[int, ...]], float], n: int, settings: Settings) -> tuple[tuple[int, ...], int]:
    rng = np.random.default_rng([settings["seed"], settings["units"]])
    now = tuple(int(i) for i in rng.permutation(n)[: settings["units"]])
    value = loss(now)
    best, lowest = now, value
    for step in range(settings["steps"]):
        other = int(rng.choice([i for i in range(-1, n) if i not in now]))
        place = int(rng.integers(len(now)))
        new = (*now[:place], other, *now[place + 1 :])
        heat = 0.01 * (1 - step / settings["steps"]) ** 2
        if (reached := loss(new)) < value + heat * rng.exponential():
            now, value = new, reached
            best, lowest = (new, reached) if reached < lowest else (best, lowest)
    return best, settings["steps"] + 1


def _losses(process: RingProcess, gates: Callable[[Array], Array], settings: Settings) -> tuple[float, float]:
    """Return the least loss behind gates (m, n) → (m, K) over samples, and that of its weights over new samples."""
    pairs = [process.sample(settings["samples"], seed=settings["seed"] + k) for k in (10, 11)]
    here, fresh = (Moments.from_samples(GatedFeatures(X, gates(X)), y) for X, y in pairs)
    return here.best_loss, fresh.loss(here.best_weights)


def _half_spaces(process: RingProcess, settings: Settings) -> Found:
    m, steps = settings["samples"] // 2, settings["steps"] // 3
    X, y = process.sample(m, seed=settings["seed"])
    gates = search_gates(X, y, units=settings["units"], restarts=2, steps=steps, seed=settings["seed"]).best.gates()
    return [("overlapping", *_losses(process, gates.transform, settings), 2 * steps, "searched")]


def _any(process: RingProcess, settings: Settings) -> Found:
    K, m = settings["units"], settings["samples"] // 4
    X, y = process.sample(m, seed=settings["seed"])
    fresh, target = process.sample(m, seed=settings["seed"] + 10)
    choices = {"tiling": np.eye(K), "overlapping": np.array(list(itertools.product((0.0, 1.0), repeat=K)))}
    results = []
    for kind, sets in choices.items():
        ends = []
        for start in range(2):
            rng = np.random.default_rng([settings["seed"], start])
            w = rng.normal(size=(K, settings["n"])) / settings["n"]
            for _ in range(settings["steps"] // 20):
                w = least_squares(GatedFeatures(X, _chosen(X, y, w, sets)), y, ridge=1e-6).weights
            ends.append((_left(X, y, w, sets), _left(fresh, target, w, sets)))
        results.append((kind, *min(ends), 2 * (settings["steps"] // 20), "any"))
    return results


def _chosen(X: Array, y: Array, w: Array, sets: Array) -> Array:
    """Return the gates (m, K): for each sample, the one of `sets` (s, K) whose output with w (K, n) is nearest to y."""
    return np.asarray(sets[np.abs(X @ w.T @ sets.T - y[:, None]).argmin(axis=1)])


def _left(X: Array, y: Array, w: Array, sets: Array) -> float:
    """Return ⟨(y − ŷ)²⟩ if every sample has the gates of `_chosen`."""
    return float(np.mean(np.abs(X @ w.T @ sets.T - y[:, None]).min(axis=1) ** 2))


def cost(settings: Settings) -> float:
    return 1e-3 + 3e-7 * settings["steps"] * settings["samples"] / 20 * settings["units"]


def draw(table: pd.DataFrame) -> Figure:
    axes = panels(TITLE, size=(7.0, 3.4))
    ax = axes[0, 0]
    for (family, kind), part in table.groupby(["family", "kind"], sort=False):
        colour, text = FAMILIES[str(family)]
        marker = {"tiling": "s", "overlapping": "o"}[str(kind)]
        style = {"color": COLOURS[colour], "marker": marker, "linewidth": 1.2, "markersize": 4}
        line = "--" if kind == "tiling" else "-"
        ax.plot(part.groupby("units").fresh.median(), line, label=f"{text}, {kind}", **style)
    log_ticks(ax, table.units)
    ax.set(xlabel="gates K", ylabel="⟨(y − ŷ)²⟩, fresh samples", ylim=(0, None))
    return beside(axes)


@over_seeds
def verdicts(table: pd.DataFrame) -> list[Verdict]:
    decided = []
    for family in ("pixels", "any"):
        for K in sorted(table.units.unique()):
            part = where(table, family=family, units=K).set_index("kind")
            if not {"tiling", "overlapping"} <= set(part.index):
                continue
            tile, over = part.fresh["tiling"], part.fresh["overlapping"]
            text = f"{tile:.3f} for tilings (best of {part.sets['tiling']}), {over:.3f} for others"
            text += f" ({part.gates['overlapping']})" if family == "pixels" else ""
            name = f"{FAMILIES[family][1]}, K = {K}: tilings are best"
            decided.append(decide(name, text, tile - over, "at most", EQUAL, " more than others"))
    return decided
