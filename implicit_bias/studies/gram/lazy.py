"""Training speed against width, and the gradient flow at infinite width

The task is the one of `speed` in which networks of 2048 units are far from the flow: 50 points of the sphere of R^3
with random labels. Widths are up to 16 384. At infinite width the residual after t steps is e^{−ηtG} y.
"""

import pandas as pd
from matplotlib.figure import Figure

from implicit_bias.studies.gram import speed
from implicit_bias.studies.gram.sphere import JUMP, SMOOTH, ordered, style
from implicit_bias.studies.runner import Settings, Verdict, decide, over_seeds, seeded, where
from implicit_bias.studies.runner.drawing import COLOURS, log_ticks, panels

TITLE = "Training speed against width"
SOURCE = "abstract, on slow training"
CLAIM = "On data of low dimension smooth activations lead to slow training: the wider the networks, the more so."
ACTIVATIONS = ("relu", "selu", "swish", "tanh")
#: Least ratio of speeds at which training counts as faster.
SLOWER = 2


def grid(quick: bool) -> list[Settings]:
    widths, names, steps = ((128, 512), ACTIVATIONS[::2], 100) if quick else ((256, 2048, 16_384), ACTIVATIONS, 5000)
    task = {"data": "sphere", "d": 3, "labels": "random", "rate": "own", "n": 50, "steps": steps}
    cells = [task | {"activation": name, "units": units} for units in widths for name in names]
    return seeded(cells, quick)


rows = speed.rows
cost = speed.cost


def _speeds(table: pd.DataFrame) -> pd.DataFrame:
    return pd.concat({units: speed.speeds(part) for units, part in table.groupby("units")}, names=["units"])


def ratios(table: pd.DataFrame) -> pd.Series:
    """Return the median speed of activations whose σ' jumps divided by that of smooth ones, by width.

    The index has the widths in increasing order as text, then 'flow', the ratio of the speeds of the gradient flow.
    """
    speeds = _speeds(table)
    names, units = (speeds.index.get_level_values(level) for level in ("activation", "units"))
    jumping, smooth = (speeds[names.isin(chosen)].groupby("units").median() for chosen in (JUMP, SMOOTH))
    times = (jumping / smooth).reindex(sorted(set(units)))
    last = times.flow.iloc[-1:].set_axis(["flow"])
    return pd.concat([times.measured.rename(index=str), last])


def draw(table: pd.DataFrame) -> Figure:
    """Plot the losses of the first seed at each width, and the median speeds over seeds, with a dot for each."""
    widths = sorted(set(table.units))
    axes = panels(TITLE, columns=2, rows=-(-(len(widths) + 1) // 2), size=(3.3, 2.4)).ravel()
    for ax, units in zip(axes, widths, strict=False):
        speed.curves(ax, where(table, units=units, seed=table.seed.min()))
        ax.set(title=f"{units} units", xlabel="steps", ylabel="loss / first loss", ylim=(1e-3, 2))
    speeds, last = pd.concat([_speeds(part) for _, part in table.groupby("seed")]), axes[len(widths)]
    for name in ordered(table.activation):
        runs, look = speeds.xs(name, level="activation").droplevel([1, 2, 3, 4]), style(name)
        last.plot(runs.measured, "o", color=look["color"], markersize=3, alpha=0.4)
        last.plot(runs.measured.groupby(level=0).median(), linewidth=1.4, **look)
        last.axhline(runs.flow.median(), linewidth=0.6, **look | {"label": "_"})
    last.set(xlabel="units $k$", ylabel="rate of decay a step", yscale="log")
    log_ticks(last, widths)
    last.plot([], [], color=COLOURS["theory"], linewidth=0.6, label="flow")
    axes[0].legend(*last.get_legend_handles_labels(), loc="lower left")
    for ax in axes[len(widths) + 1 :]:
        ax.set_visible(False)
    return axes[0].figure


@over_seeds
def verdicts(table: pd.DataFrame) -> list[Verdict]:
    times = ratios(table)
    names = (f"k = {name}" if name != "flow" else name for name in times.index)
    listed = ", ".join(f"{value:.2g} ({name})" for name, value in zip(names, times, strict=True))
    steps = f"after {table.step.max()} steps training is {listed} times as fast where σ' jumps"
    slower = "low dimension: the widest networks are slower where σ is smooth"
    grown = times.iloc[-2] / times.iloc[0] if len(times) > 2 else float("nan")
    return [
        decide(slower, steps, times.iloc[-2], "above", SLOWER, " times"),
        decide("low dimension: so is the flow of infinite width", steps, times.iloc[-1], "above", SLOWER, " times"),
        decide("the wider, the more so", f"{grown:.2g} times the ratio", grown, "above", 1, " times"),
    ]
