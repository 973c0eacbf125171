"""Do gated linear networks follow the formulas? Descent on new samples, compared with corrected and printed formulas.

The gate is 1(x_i ≥ 0) of one pixel: with the constant gate ('general'), alone ('single'), with its complement
('exclusive'), or twice ('redundant'). The network is ŷ = Σ_k g_k w_kᵀx with w ~ N(0, 1/n) and Kτ = K; moments are
exact. The printed formulas are (11), (25), (31) and (32), with constants C that agree with the start.
"""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from implicit_bias._utils.checks import Array
from implicit_bias.extensions.gated_flow import Moments, gradient_flow, pixel_moments
from implicit_bias.studies.localization.common import COMMON, process_of, slashed
from implicit_bias.studies.runner import COLOURS, Rows, Settings, Verdict, decide, finished, panels, product, where

TITLE = "Gated linear networks along the formulas"
SOURCE = "the headings of section 4"
CLAIM = "Gated linear networks learn along the closed forms."
CASES = {"general": "general case", "single": "single gate"}
CASES |= {"exclusive": "exclusive gates", "redundant": "redundant gates"}
TIMES = (0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 40.0)
#: The notes' equations for each case.
PRINTED = {"general": "(11)", "single": "(25)", "exclusive": "(25)", "redundant": "(31) and (32)"}
#: Largest distance, relative to ‖w‖, that finite steps and random samples explain.
NEAR = 0.1
REVISION = 3


def grid(quick: bool) -> list[Settings]:
    """Return the four cases at gains 0.01 and 3 with three seeds; quick: gain 3, one seed."""
    base = {name: COMMON[name] for name in ("n", "batch", "label")} | {"process": "NLGP", "xi0": 5.0, "xi1": 1.0}
    cells = product(case=CASES, gain=(3.0,) if quick else (0.01, 3.0), seed=(1,) if quick else (1, 2, 3))
    return [base | {"lr": 0.02} | cell for cell in cells]


def moments_of(settings: Settings) -> Moments:
    """Return the exact moments of a case: ⟨g x xᵀ⟩ is A_11 for the pixel's gate and 2 A_11 for the constant gate."""
    process, pixel = process_of(settings), settings["n"] // 2
    one = pixel_moments(process, pixel, both=settings["case"] == "exclusive")
    if settings["case"] not in ("general", "redundant"):
        return one
    A, b, last = one.dense(), one.b[0], 1.0 if settings["case"] == "redundant" else 2.0
    return Moments.from_arrays(np.stack([b, b * (last == 1)]), np.block([[A, A], [A, last * A]]), one.power)


def rows(settings: Settings) -> Rows:
    """Return a row for each of `TIMES`: time, closed and printed.

    The last two are the distances of the weights of descent from the corrected and from the printed formula, divided by
    the norm of the weights of the corrected formula.
    """
    process, pixel, moments = process_of(settings), settings["n"] // 2, moments_of(settings)
    rng = np.random.default_rng([settings["seed"], 5])
    start = rng.normal(size=(moments.k, settings["n"])) / np.sqrt(settings["n"])
    flow = gradient_flow(moments, start, [0.0, *TIMES])
    lr, w, table = settings["lr"], start, []
    steps = np.round(np.array(TIMES) / lr).astype(int)
    chunks = process.stream(int(steps[-1]), settings["batch"], seed=settings["seed"])
    for step, (X, y) in enumerate(chunks, 1):
        G = _gates(X[:, pixel] >= 0, settings["case"])
        left = y - np.sum(G * (X @ w.T), axis=1)
        w = w + lr / moments.k * ((G * left[:, None]).T @ X) / len(X)
        if step in steps:
            time = TIMES[int(np.flatnonzero(steps == step)[0])]
            ways = {"closed": flow.weights(time), "printed": printed(moments, start, time, settings["case"])}
            size = np.linalg.norm(flow.weights(time))
            table.append({"time": time} | {k: float(np.linalg.norm(w - v) / size) for k, v in ways.items()})
    return table


def _gates(opened: np.ndarray, case: str) -> Array:
    one = opened.astype(float)
    others = {"single": [], "exclusive": [1 - one], "redundant": [one], "general": [np.ones(len(one))]}
    return np.column_stack([one, *others[case]])


def printed(moments: Moments, start: Array, time: float, case: str) -> Array:
    """Return the weights (k, n) of the notes' printed equations at a time, from weights `start` (k, n).

    The `case` is one of `_gates`; 'redundant' has other equations. The 1/K of (5) is in Kτ = K. C agrees with w₁(0):
    e^C·1 = q = Pᵀ(Aw₀ − b), for (31) q = Pᵀ(2A₁₁w₁(0) − b₁). It is real for eigenvectors of signs such that q > 0,
    and P e^{−Λt/Kτ} q does not depend on these signs.
    """
    A, b, together = moments.dense(), moments.b.ravel(), case == "redundant"
    if together:
        A, b = A[: moments.d, : moments.d], b[: moments.d]
    values, P = np.linalg.eigh(A)
    q = P.T @ (A @ (2 * start[0] if together else start.ravel()) - b)
    solution = np.linalg.solve(A, P @ (np.exp(-values * time / moments.k) * q) + b)
    ways = [solution / 2, solution / 2 - (start[0] - start[1])] if together else solution.reshape(start.shape)
    return np.array(ways)


def cost(settings: Settings) -> float:
    return TIMES[-1] / settings["lr"] * settings["batch"] * 3e-6


def draw(table: pd.DataFrame) -> Figure:
    there = [case for case in CASES if case in set(table.case)]
    axes = panels(TITLE, columns=len(there), size=(2.6, 2.6))
    for ax, case in zip(axes[0], there, strict=True):
        part = where(table, case=case).groupby("time")[["closed", "printed"]].median()
        ax.plot(part.index, part.closed, "o-", color=COLOURS["blue"], markersize=3, label="closed form")
        ax.plot(part.index, part.printed, "s--", color=COLOURS["red"], markersize=3, label="as printed")
        ax.set(title=CASES[case], xscale="log", yscale="log", xlabel="time", ylim=(1e-3, 30))
    axes[0, 0].set_ylabel("‖w − w(t)‖ / ‖w(t)‖")
    return finished(axes)


def verdicts(table: pd.DataFrame) -> list[Verdict]:
    judged = []
    for case, name in CASES.items():
        part = where(table, case=case)
        largest = part.groupby("time")[["closed", "printed"]].max()
        closed = f"{slashed(largest.closed, '.3f')} of ‖w‖ away at t = {slashed(largest.index)}"
        printed = f"{slashed(largest.printed, '.2f')} of ‖w‖ away"
        judged.append(decide(f"{name}: along the closed form", closed, part.closed.max(), "at most", NEAR))
        judged.append(decide(f"{name}: along {PRINTED[case]} as printed", printed, part.printed.max(), "at most", NEAR))
    return judged
