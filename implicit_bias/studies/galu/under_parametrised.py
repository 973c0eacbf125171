"""How large is the least loss of networks with too few parameters? (second version, figure 2)

Theorem 2: for a GaLU layer of k units the expected least loss is 1 − rank(Φ)/m, mostly 1 − kd/m. GaLU is fitted in
closed form and by Adam with the same gates, ReLU by Adam, at eight widths from m/8d to m/d that train together. For one
output, the trained readout does not lower the least loss.
"""

import pandas as pd
from matplotlib.figure import Figure

from implicit_bias.studies.galu import gaussian
from implicit_bias.studies.galu.common import NETWORKS, means
from implicit_bias.studies.runner import COLOURS, Rows, Settings, Verdict, claims, product

TITLE = "Least loss with fewer parameters than samples"
SOURCE = "second version, figure 2"
CLAIM = "GaLU's expected least loss is 1 − kd/m; ReLU's lies between that and 1 − 2kd/m."
#: kd/m of the widths.
SHARES = (0.125, 0.25, 0.375, 0.5, 0.625, 0.75, 0.875, 1.0)
CLAIMS = claims("galu", "under-parametrised")
STYLES = {
    "GaLU": {"color": COLOURS["GaLU"], "linestyle": "none", "label": "GaLU (Adam)"},
    "closed form": {"color": COLOURS["GaLU"], "marker": "", "label": "GaLU (closed form)"},
    "ReLU": {"color": COLOURS["ReLU"], "linestyle": "none", "label": "ReLU (Adam)"},
}
cost = gaussian.training_cost


def grid(quick: bool) -> list[Settings]:
    m, d, repeats = (128, (8,), 4) if quick else (512, (16, 32), 5)
    adam = {"steps": 10_000, "batch": 64, "lr": 2e-3} if quick else gaussian.ADAM
    return [cell | adam for cell in product(network=NETWORKS, m=(m,), d=d, repeats=(repeats,), seed=(1,))]


def rows(settings: Settings) -> Rows:
    """Return units, repeat, loss; for GaLU `closed_form`, the least loss with its gates, and the features' `rank`."""
    table = gaussian.trained(settings, settings["network"], gaussian.widths(settings, SHARES))
    for row in table if settings["network"] == "GaLU" else ():
        best = gaussian.closed_form(settings, row["units"], row["repeat"])
        row |= {"closed_form": best.loss, "rank": best.rank}
    return table


def draw(table: pd.DataFrame) -> Figure:
    return gaussian.draw_losses(TITLE, gaussian.by_kind(table, "closed_form", "closed form"), STYLES, width=4.2)


def verdicts(table: pd.DataFrame) -> list[Verdict]:
    fits, places = gaussian.by_kind(table, "closed_form", "closed form"), ["d", "m", "share"]
    losses = means(fits, places, "loss", STYLES, by="kind")
    if losses.empty:
        return [claim.undecided("both networks at the same d") for claim in CLAIMS.values()]
    minimum, ranks = losses["closed form"], fits.groupby(places)["rank"].mean()
    m, share = (losses.index.get_level_values(name).to_numpy() for name in ("m", "share"))
    by_size, by_rank = ((minimum - 1 + part).abs().max() for part in (share, ranks.loc[losses.index] / m))
    # No loss can lie below the upper bound at kd = m, where it is zero.
    inside = ((losses["ReLU"] < 1 - share) & (losses["ReLU"] > 1 - 2 * share))[share < 1]
    within = f"within {by_size:.3f} ({by_rank:.3f} of 1 − rank/m), means of {table.repeat.nunique()} repeats at "
    within += f"{len(losses)} sizes; Adam within {(losses['GaLU'] - minimum).max():.3f} of the least loss"
    between = f"at {inside.sum()} of {len(inside)} sizes with kd < m"
    theory, same = CLAIMS["theory"], CLAIMS["double"]
    decided = [
        theory.verdict(within, bool(by_size < theory.limits["tolerance"])),
        CLAIMS["between"].verdict(between, bool(inside.all())),
    ]
    pairs = gaussian.doubled(losses, "GaLU")
    if pairs.empty:
        return [*decided, same.undecided("ReLU with k units, GaLU with 2k")]
    apart = (pairs["double"] - pairs["ReLU"]).abs()
    relu, double = pairs.to_numpy()[apart.argmin()]
    text = f"mean losses {apart.min():.3f} to {apart.max():.3f} apart at {len(apart)} sizes; at the closest ReLU "
    text += f"{relu:.3f}, GaLU with 2k units {double:.3f}"
    return [*decided, same.verdict(text, bool(apart.max() <= same.limits["tolerance"]))]
