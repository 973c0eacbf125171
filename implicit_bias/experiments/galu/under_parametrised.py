"""How large is the least loss of networks with too few parameters? (second version, figure 2)

m Gaussian samples in R^d with labels y ~ N(0, 1), kd ≤ m. Theorem 2: for a GaLU layer of k units the expected least
loss is 1 − rank(Φ)/m, mostly 1 − kd/m. The paper sees ReLU between this and 1 − 2kd/m. GaLU is fitted in closed form
and by Adam with the same gates, ReLU by Adam: lr 1e-3, batches of 128, 100 000 steps, five repeats, m = 512, d = 16
and 32, eight widths from m/8d to m/d in one stack. Networks have a trained readout, which adds nothing that a single
output needs.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from implicit_bias.experiments.galu.gaussian import closed_form, trained, widths
from implicit_bias.experiments.runner.drawing import COLOURS, band, panels
from implicit_bias.experiments.runner.experiment import Experiment, Rows, Settings, product

#: kd/m of the widths.
SHARES = (0.125, 0.25, 0.375, 0.5, 0.625, 0.75, 0.875, 1.0)


def grid(quick: bool) -> list[Settings]:
    """Two numbers of inputs, five repeats; quick: fewer samples, steps and repeats."""
    if quick:
        adam = {"steps": (10_000,), "batch": (64,), "lr": (2e-3,)}
        return product(network=("GaLU", "ReLU"), m=(128,), d=(8,), repeats=(4,), seed=(1,), **adam)
    adam = {"steps": (100_000,), "batch": (128,), "lr": (1e-3,)}
    return product(network=("GaLU", "ReLU"), m=(512,), d=(16, 32), repeats=(5,), seed=(1,), **adam)


def rows(settings: Settings) -> Rows:
    """A row (units, repeat, loss) for every width and repeat; of GaLU with closed_form and rank."""
    found = trained(settings, settings["network"], widths(settings, SHARES))
    if settings["network"] == "GaLU":
        for row in found:
            best = closed_form(settings, row["units"], row["repeat"])
            row |= {"closed_form": best.loss, "rank": best.rank}
    return found


def cost(settings: Settings) -> float:
    """A stack's steps."""
    return settings["steps"] * (1e-3 + 2e-6 * settings["repeats"] * settings["m"] / settings["d"])


def draw(table: pd.DataFrame) -> Figure:
    """Loss against kd/m, a panel for every d; lines 1 − kd/m and 1 − 2kd/m."""
    sizes = [((d, m), part) for (d, m), part in table.groupby(["d", "m"])]
    with panels(EXPERIMENT.title, columns=len(sizes), size=(4.2, 3.4)) as axes:
        for ax, (size, part) in zip(axes[0], sizes, strict=True):
            theory_lines(ax)
            losses = with_shares(part).set_index("share")
            for kind, own in losses.groupby("network"):
                band(ax, own.loss, color=COLOURS[str(kind)], linestyle="none", label=f"{kind} (Adam)")
                if kind == "GaLU":
                    band(ax, own.closed_form, color=COLOURS["GaLU"], marker="", label="GaLU (closed form)")
            ax.set(xlabel="kd / m", ylabel="training loss", title="d = {}, m = {}".format(*size), ylim=(-0.03, 1.0))
        axes[0, 0].legend(frameon=False)
    figure: Figure = axes[0, 0].figure
    return figure


def with_shares(table: pd.DataFrame) -> pd.DataFrame:
    """The table with a column share, kd/m.

    >>> import pandas as pd
    >>> from implicit_bias.experiments.galu.under_parametrised import with_shares
    >>> with_shares(pd.DataFrame({"units": [5], "d": 10, "m": 100})).share.tolist()
    [0.5]
    """
    return table.assign(share=table.units * table.d / table.m)


def theory_lines(ax: Axes) -> None:
    """1 − kd/m and 1 − 2kd/m, for losses over kd/m."""
    look: dict[str, Any] = {"color": COLOURS["theory"], "linewidth": 0.8}
    ax.plot([0, 1], [1, 0], "--", label="1 − kd/m", **look)
    ax.plot([0, 0.5, 1], [1, 0, 0], ":", label="1 − 2kd/m", **look)


def finding(table: pd.DataFrame) -> str:
    """How far GaLU is from theory, and where ReLU lies, as a sentence."""
    means = with_shares(table).groupby(["network", "m", "d", "share"]).mean()
    texts, holds = [], []
    kinds = set(table.network)
    if "GaLU" in kinds:
        galu = means.loc["GaLU"]
        share = galu.index.get_level_values("share").to_numpy()
        by_rank = float(np.abs(galu.closed_form - (1 - galu["rank"] / galu.index.get_level_values("m"))).max())
        by_size = float(np.abs(galu.closed_form - (1 - share)).max())
        behind = float((galu.loss - galu.closed_form).max())
        holds.append(by_size < 0.05)
        texts.append(
            f"GaLU's least loss is within {by_size:.3f} of 1 − kd/m and {by_rank:.3f} of 1 − rank/m, means over "
            f"{table.repeat.nunique()} repeats at {len(galu)} sizes, and Adam within {behind:.3f} of it"
        )
    if "ReLU" in kinds:
        relu = means.loc["ReLU"].loss
        # No loss can lie below that bound at kd = m, where it is zero.
        relu = relu[relu.index.get_level_values("share") < 1]
        share = relu.index.get_level_values("share").to_numpy()
        inside = (relu < 1 - share) & (relu > 1 - 2 * share)
        holds.append(bool(inside.all()))
        texts.append(f"ReLU's lies between 1 − 2kd/m and 1 − kd/m at {int(inside.sum())} of {len(relu)} sizes, kd < m")
    word = "Undecided" if len(holds) < 2 else "Yes" if all(holds) else "Partly" if any(holds) else "No"
    return f"{word}: {'; '.join(texts)}."


EXPERIMENT = Experiment(
    name="under-parametrised",
    title="Least loss with fewer parameters than samples",
    source="second version, figure 2",
    claim="GaLU's expected least loss is 1 − kd/m; ReLU's lies between that and 1 − 2kd/m.",
    grid=grid,
    rows=rows,
    cost=cost,
    draw=draw,
    finding=finding,
)
