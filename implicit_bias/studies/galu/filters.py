"""How much of the gap between GaLU and ReLU do better filters close? (first version, figure 2)

The losses of a ReLU network, of a GaLU layer with k random filters in closed form, and of a GaLU layer with filters
improved by Algorithm 1, against kd/m. At kd = m the loss of GaLU is zero for any filters, so that there is no gap;
hence the largest width has kd/m = 7/8.
"""

import pandas as pd
from matplotlib.figure import Figure

from implicit_bias.extensions.galu import improve_filters
from implicit_bias.studies.galu import gaussian
from implicit_bias.studies.galu.common import means, repeats
from implicit_bias.studies.runner import COLOURS, Rows, Settings, Verdict, claims, product, span

TITLE = "Loss of GaLU with random filters, with better filters, and of ReLU"
SOURCE = "first version, figure 2"
CLAIM = "GaLU with filters that Algorithm 1 improved in 512 steps closes most of the gap between GaLU and ReLU."
#: kd/m of the widths.
SHARES = (0.125, 0.25, 0.5, 0.75, 0.875)
CLAIMS = claims("galu", "filters")


def grid(quick: bool) -> list[Settings]:
    lists = {"m": (128,), "d": (8,)} if quick else {"m": (1024,), "d": (16, 32)}
    adam = {"steps": 10_000, "batch": 64, "lr": 2e-3} if quick else gaussian.ADAM
    cells = [cell | adam for cell in product(network=("ReLU",), **lists, seed=(1,), repeats=(4 if quick else 5,))]
    seeds, updates = (range(1, 5), 128) if quick else (range(1, 17), 512)
    return cells + product(network=("GaLU",), **lists, seed=seeds, repeats=(1,), updates=(updates,))


def rows(settings: Settings) -> Rows:
    """Return units, repeat, loss; for GaLU `improved_loss`, that after Algorithm 1, and its `accepted` steps."""
    units = gaussian.widths(settings, SHARES)
    if settings["network"] == "ReLU":
        return gaussian.trained(settings, "ReLU", units)
    table = []
    for seed in repeats(settings):
        X, Y = gaussian.samples(settings, seed)
        for k in units:
            first, better = (improve_filters(X, Y[:, 0], k, steps=n, seed=seed) for n in (0, settings["updates"]))
            losses = {"loss": first.solution.loss, "improved_loss": better.solution.loss}
            table.append({"units": k, "repeat": seed, **losses, "accepted": better.accepted})
    return table


def cost(settings: Settings) -> float:
    return gaussian.training_cost(settings) if "steps" in settings else 4e-8 * settings["updates"] * settings["m"] ** 2


def _improved(table: pd.DataFrame) -> tuple[str, pd.DataFrame]:
    name = f"GaLU({table.updates.max():.0f})" if "updates" in table else "GaLU(512)"
    return name, gaussian.by_kind(table, "improved_loss", name)


def draw(table: pd.DataFrame) -> Figure:
    name, fits = _improved(table)
    styles = {
        "GaLU": {"color": COLOURS["GaLU"], "label": "GaLU (closed form)"},
        name: {"color": COLOURS["purple"], "label": f"{name} (Algorithm 1)"},
        "ReLU": {"color": COLOURS["ReLU"], "label": "ReLU (Adam)"},
    }
    return gaussian.draw_losses(TITLE, fits, styles, width=4.6)


def verdicts(table: pd.DataFrame) -> list[Verdict]:
    name, fits = _improved(table)
    losses = means(fits, ["d", "share", "repeat"], "loss", ("ReLU", "GaLU", name), by="kind")
    losses = losses.groupby(level=["d", "share"]).mean()
    pairs = gaussian.doubled(losses, "GaLU")
    excess = pairs["ReLU"] - pairs["double"]
    decided = [claim.undecided("all three losses, and ReLU's below GaLU's at every size") for claim in CLAIMS.values()]
    gap = losses["GaLU"] - losses["ReLU"]
    if gap.min() > 0:
        closed = ((losses["GaLU"] - losses[name]) / gap).sort_values()
        ends = [f"{closed[d, share]:.0%} (d = {d}, kd/m = {share:g})" for d, share in closed.index[[0, -1]]]
        text = f"{' to '.join(ends)} of the gap in mean loss, {closed.median():.0%} in the median of {len(closed)}"
        claim = CLAIMS["improved"]
        decided[0] = claim.verdict(text, bool(closed.min() > claim.limits["most"]))
    if len(pairs):
        text = f"ReLU's loss is larger at {(excess > 0).sum()} of {len(excess)} sizes, by {span(excess, '.3f')}"
        decided[1] = CLAIMS["double"].verdict(text.replace("-", "−"), bool((excess >= 0).all()))
    return decided
