"""How much of the gap between GaLU and ReLU do better filters close? (first version, figure 2)

m = 1024 Gaussian samples in R^d with labels y ~ N(0, 1), d = 16 and 32; losses against kd/m ≤ 1 of a ReLU network
(Adam, lr 1e-3, batches of 128, 100 000 steps), of a GaLU layer with k random filters in closed form, and of one whose
filters Algorithm 1 improved in 512 steps, GaLU(512). Sixteen repeats in closed form as published, five for ReLU (16
there). Where kd = m the loss of GaLU is zero whatever its filters, so that there is no gap: the largest width here has
kd/m = 7/8.
"""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from implicit_bias.experiments.galu.gaussian import repeats, samples, trained, widths
from implicit_bias.experiments.galu.under_parametrised import theory_lines, with_shares
from implicit_bias.experiments.runner.drawing import COLOURS, band, panels
from implicit_bias.experiments.runner.experiment import Experiment, Rows, Settings, product
from implicit_bias.regression import improve_filters

#: kd/m of the widths.
SHARES = (0.125, 0.25, 0.5, 0.75, 0.875)


def grid(quick: bool) -> list[Settings]:
    """Two numbers of inputs; a cell of each repeat in closed form, one of all for ReLU; quick: m = 128, fewer steps."""
    m, sizes = (128, (8,)) if quick else (1024, (16, 32))
    adam = {"steps": 10_000, "batch": 64, "lr": 2e-3} if quick else {"steps": 100_000, "batch": 128, "lr": 1e-3}
    lists = {"m": (m,), "d": sizes}
    cells = product(network=("ReLU",), **lists, seed=(1,), repeats=(4 if quick else 5,))
    found = [cell | adam for cell in cells]
    seeds = range(1, 5 if quick else 17)
    return found + product(network=("GaLU",), **lists, seed=seeds, repeats=(1,), updates=(128 if quick else 512,))


def rows(settings: Settings) -> Rows:
    """A row (units, repeat, loss) for every width and repeat; of GaLU with improved_loss and the accepted updates."""
    units = widths(settings, SHARES)
    if settings["network"] == "ReLU":
        return trained(settings, "ReLU", units)
    found = []
    for seed in repeats(settings):
        X, Y = samples(settings, seed)
        for k in units:
            first, better = (improve_filters(X, Y[:, 0], k, steps=n, seed=seed) for n in (0, settings["updates"]))
            losses = {"loss": first.solution.loss, "improved_loss": better.solution.loss}
            found.append({"units": k, "repeat": seed, **losses, "accepted": better.accepted})
    return found


def cost(settings: Settings) -> float:
    """A stack's steps, or the updates of all widths."""
    if settings["network"] == "ReLU":
        return settings["steps"] * (1e-3 + 1e-6 * settings["repeats"] * settings["m"] / settings["d"])
    return 4e-8 * settings["updates"] * settings["m"] ** 2


def losses_of(table: pd.DataFrame) -> pd.DataFrame:
    """Long form: a row (m, d, units, share, repeat, kind, loss) for every fit; kinds ReLU, GaLU and GaLU(512).

    >>> import pandas as pd
    >>> from implicit_bias.experiments.galu.filters import losses_of
    >>> fit = {"network": ["GaLU"], "m": 8, "d": 2, "units": 2, "repeat": 1, "updates": 3.0}
    >>> losses_of(pd.DataFrame(fit | {"loss": 0.5, "improved_loss": 0.4}))[["kind", "share", "loss"]].values.tolist()
    [['GaLU', 0.5, 0.5], ['GaLU(3)', 0.5, 0.4]]
    """
    parts = [table.assign(kind=table.network)]
    if "improved_loss" in table:
        improved = table[table.network == "GaLU"]
        kinds = "GaLU(" + improved.updates.astype(int).astype(str) + ")"
        parts.append(improved.assign(kind=kinds, loss=improved.improved_loss))
    return with_shares(pd.concat(parts))[["m", "d", "units", "share", "repeat", "kind", "loss"]]


def draw(table: pd.DataFrame) -> Figure:
    """Loss against kd/m, a panel for every d; lines 1 − kd/m and 1 − 2kd/m."""
    losses = losses_of(table)
    sizes = [((d, m), part) for (d, m), part in losses.groupby(["d", "m"])]
    with panels(EXPERIMENT.title, columns=len(sizes), size=(4.6, 3.4)) as axes:
        for ax, (size, part) in zip(axes[0], sizes, strict=True):
            theory_lines(ax)
            for kind in sorted(set(part.kind)):
                label = {"ReLU": "ReLU (Adam)", "GaLU": "GaLU (closed form)"}.get(kind, f"{kind} (Algorithm 1)")
                values = part[part.kind == kind].set_index("share").loss
                band(ax, values, color=COLOURS.get(kind, COLOURS["purple"]), label=label)
            ax.set(xlabel="kd / m", ylabel="training loss", title="d = {}, m = {}".format(*size), ylim=(-0.03, 1.0))
        axes[0, 0].legend(frameon=False)
    figure: Figure = axes[0, 0].figure
    return figure


def finding(table: pd.DataFrame) -> str:
    """The share of the gap that better filters close, over the repeats that all three were fitted to."""
    losses = losses_of(table).groupby(["d", "share", "repeat", "kind"]).loss.mean().unstack()
    better = [kind for kind in losses if str(kind).startswith("GaLU(")]
    if not better or "ReLU" not in losses or losses.dropna().empty:
        return "Undecided: no size was fitted by all three."
    means = losses.dropna().groupby(level=["d", "share"]).mean()
    gap = means["GaLU"] - means["ReLU"]
    if gap.min() <= 0:
        return "Undecided: ReLU's mean loss is not below GaLU's, so that there is no gap."
    closed = (means["GaLU"] - means[better[0]]) / gap
    word = "Yes" if closed.min() > 0.5 else "Partly" if closed.max() > 0.5 else "No"
    ends = [
        f"{100 * closed[size]:.0f} % (d = {size[0]}, kd/m = {size[1]:g})"
        for size in closed.sort_values().index[[0, -1]].tolist()
    ]
    return (
        f"{word}: {better[0]} closes {ends[0]} to {ends[1]} of the gap in mean loss between GaLU and ReLU, "
        f"{100 * closed.median():.0f} % in the median of {len(closed)} sizes."
    )


EXPERIMENT = Experiment(
    name="filters",
    title="Loss of GaLU with random filters, with better filters, and of ReLU",
    source="first version, figure 2",
    claim="GaLU with filters that Algorithm 1 improved in 512 steps closes most of the gap between GaLU and ReLU.",
    grid=grid,
    rows=rows,
    cost=cost,
    draw=draw,
    finding=finding,
)
