"""How many units memorise m random samples? (second version, figure 1)

Gaussian inputs and labels, x ~ N(0, I_d) and y ~ N(0, 1), d = 32; networks with one hidden layer and a trained
readout, Adam with lr 1e-3 and batches of 128, 100 000 steps. The answer is the least width k whose training error,
the mean over five repeats, is below 0.01 at the end. GaLU's answer has a certified lower end: least squares on the very
gates of these networks say which widths could reach 0.01 at all; narrower ones are not trained.

Unlike the published code, weights are Kaiming's instead of Xavier's, k is found among several widths that are trained
together, and a training ends early if all networks of a stack are below 0.01.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from implicit_bias.experiments.galu.gaussian import closed_form, mean_losses, repeats, search, trained
from implicit_bias.experiments.runner.drawing import COLOURS, panels
from implicit_bias.experiments.runner.experiment import Experiment, Rows, Settings, product

LEVEL = 0.01
#: How many times m/d counts as "about m/d".
ABOUT = 1.25
#: Widths that are trained together.
AT_ONCE = 4
STYLES = {
    "ReLU": {"color": COLOURS["ReLU"], "marker": "s", "label": "ReLU (Adam)"},
    "GaLU": {"color": COLOURS["GaLU"], "marker": "o", "label": "GaLU (Adam)"},
    "closed form": {
        **{"color": COLOURS["GaLU"], "marker": "x", "linestyle": "--"},
        "label": "GaLU, any weights (closed form)",
    },
}


def grid(quick: bool) -> list[Settings]:
    """Six numbers of samples, five repeats; quick: d = 8, fewer samples and steps, a larger lr."""
    if quick:
        adam = {"steps": (10_000,), "batch": (32,), "lr": (3e-3,)}
        return product(network=("GaLU", "ReLU"), m=(32, 64, 96), d=(8,), repeats=(3,), seed=(1,), **adam)
    adam = {"steps": (100_000,), "batch": (128,), "lr": (1e-3,)}
    sizes = (128, 256, 384, 512, 768, 1024)
    return product(network=("GaLU", "ReLU"), m=sizes, d=(32,), repeats=(5,), seed=(1,), **adam)


def rows(settings: Settings) -> Rows:
    """A row (units, repeat, loss, closed_form) for every width that was looked at; no loss where it was not trained."""
    best: dict[tuple[int, int], float] = {}
    found: Rows = []

    def below(part: Rows) -> set[int]:
        return {units for units, loss in mean_losses(part).items() if loss < LEVEL}

    def by_solving(widths: Sequence[int]) -> set[int]:
        part = {(k, seed): closed_form(settings, k, seed).loss for k in widths for seed in repeats(settings)}
        best.update(part)
        return below([{"units": k, "loss": loss} for (k, _), loss in part.items()])

    def by_training(widths: Sequence[int]) -> set[int]:
        part = trained(settings, settings["network"], widths, LEVEL)
        found.extend(part)
        return below(part)

    even = -(-settings["m"] // settings["d"])
    most = 4 * even + AT_ONCE
    least = search(by_solving, even, most, at_once=2) or most
    if settings["network"] == "ReLU":
        # Where GaLU could is where to begin, not a bound.
        search(by_training, max(1, least - 1), most, at_once=AT_ONCE)
        return [row | {"closed_form": None} for row in found]
    search(by_training, least, most, at_once=AT_ONCE, failing=least - 1)
    by_solving([k for k in mean_losses(found) if (k, settings["seed"]) not in best])
    losses = {(row["units"], row["repeat"]): row["loss"] for row in found}
    return [
        {"units": key[0], "repeat": key[1], "loss": losses.get(key), "closed_form": best[key]} for key in sorted(best)
    ]


def cost(settings: Settings) -> float:
    """A stack's steps, and least squares."""
    return settings["steps"] * (1e-3 + 5e-7 * settings["m"]) + 1e-9 * settings["m"] ** 3 * settings["repeats"]


def least_units(table: pd.DataFrame) -> pd.DataFrame:
    """The answers: a row for every m, a column for ReLU, GaLU and the closed form; NaN where no width sufficed.

    >>> import pandas as pd
    >>> from implicit_bias.experiments.galu.memorisation import least_units
    >>> tried = pd.DataFrame({"network": "GaLU", "m": 64, "units": [7, 8, 9], "closed_form": [0.1, 0.0, 0.0]})
    >>> least_units(tried.assign(loss=[float("nan"), 0.02, 0.001])).to_dict("records")
    [{'GaLU': 9.0, 'closed form': 8.0}]
    """
    columns = {}
    for name, part in table.groupby("network"):
        kinds = {str(name): "loss"} | ({"closed form": "closed_form"} if name == "GaLU" else {})
        for kind, column in kinds.items():
            means = part.groupby(["m", "units"])[column].mean().reset_index()
            columns[kind] = means[means[column] < LEVEL].groupby("m").units.min().astype(float)
    found = pd.DataFrame(columns).reindex(sorted(table.m.unique()))
    return found[[kind for kind in STYLES if kind in found]]


def draw(table: pd.DataFrame) -> Figure:
    """The least width against the number of samples, and the line m/d."""
    found = least_units(table)
    with panels(EXPERIMENT.title, size=(5.4, 3.6)) as axes:
        ax = axes[0, 0]
        ax.plot([0, found.index.max()], [0, found.index.max() / table.d.iloc[0]], **_theory("m / d"))
        for kind in found:
            ax.plot(found.index, found[kind], markersize=5, linewidth=1.2, **STYLES[str(kind)])
        ax.set(xlabel=f"samples m (d = {table.d.iloc[0]})", ylabel=f"least width k with training MSE < {LEVEL}")
        ax.set(xlim=(0, None), ylim=(0, None), xticks=[0, *found.index])
        ax.legend(frameon=False)
    figure: Figure = axes[0, 0].figure
    return figure


def _theory(label: str) -> dict[str, object]:
    return {"color": COLOURS["theory"], "linewidth": 0.8, "linestyle": ":", "label": label}


def finding(table: pd.DataFrame) -> str:
    """The widths where all networks were trained, and what they are in units of m/d for the most samples."""
    trained_networks = table.groupby("m").network.nunique()
    common = trained_networks.index[trained_networks == trained_networks.max()]
    found, d = least_units(table[table.m.isin(common)]), table.d.iloc[0]
    networks = [kind for kind in found if kind != "closed form"]
    missed = [f"{kind} at m = {m}" for kind in networks for m in found.index[found[kind].isna()]]
    last = found.iloc[-1] * d / found.index[-1]
    if len(networks) < 2 or len(found) < 2:
        word = "Undecided"
    elif missed:
        word = "No"
    else:
        word = "Yes" if last[networks].max() <= ABOUT else "Partly" if last[networks].min() <= ABOUT else "No"
    texts = [f"{kind} {', '.join('none' if np.isnan(k) else f'{k:.0f}' for k in found[kind])}" for kind in found]
    ratios = [f"{ratio:.2f} m/d ({kind})" for kind, ratio in last.items()]
    return (
        f"{word}: for m = {', '.join(map(str, found.index))} in {d} dimensions the least widths are "
        f"{'; '.join(texts)}; at m = {found.index[-1]} that is {', '.join(ratios)}."
    )


EXPERIMENT = Experiment(
    name="memorisation",
    title="Units needed to memorise m random samples",
    source="second version, figure 1",
    claim="About m/d units suffice for ReLU and GaLU networks to memorise m random samples in R^d.",
    grid=grid,
    rows=rows,
    cost=cost,
    draw=draw,
    finding=finding,
)
