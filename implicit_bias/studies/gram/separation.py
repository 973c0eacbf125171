"""The smallest eigenvalue against the number of points and their separation

The n points are uniform on the sphere of R^3, and δ is the least distance between two points, which falls as n grows.
The abstract calls ReLU, SELU and ELU not smooth, because σ' or σ'' jumps, and their eigenvalues large. It does not say
how large: the thresholds are ours.
"""

import pandas as pd
from matplotlib.figure import Figure
from scipy.spatial.distance import pdist

from implicit_bias.studies.gram.sphere import LEAST, as_text, each_draw, least, listed, number, power, quartiles, style
from implicit_bias.studies.runner import COLOURS, Rows, Settings, Verdict, decide, finished, log_ticks, panels

TITLE = "Smallest eigenvalue against points and their separation"
SOURCE = "ours, after the abstract on activations that are not smooth"
CLAIM = (
    "Where σ' or σ'' jumps, the smallest eigenvalue falls about like the separation of the points, and is as large as "
    "ReLU's."
)
ACTIVATIONS = ("relu", "selu", "elu", "gelu", "tanh")
NOT_SMOOTH = ("relu", "selu", "elu")
#: Largest power of δ of a fall that counts as slow, as for a first derivative that jumps.
SLOW = 1.5
#: Share of ReLU's λ_min that counts as large.
NEAR = 0.1


def grid(quick: bool) -> list[Settings]:
    sizes, repeats = ((25, 50), 3) if quick else ((50, 100, 200, 400), 15)
    return [{"n": n, "d": 3, "activation": name, "draws": repeats, "seed": 1} for name in ACTIVATIONS for n in sizes]


def rows(settings: Settings) -> Rows:
    """Return a row for each draw: draw, apart (the least distance δ), and those of `sphere.least`."""
    return each_draw(settings, lambda X: {"apart": float(pdist(X).min())} | least(X, settings["activation"]))


def cost(settings: Settings) -> float:
    return settings["draws"] * (0.02 + 2e-6 * settings["n"] ** 2)


def _powers(table: pd.DataFrame, over: str) -> pd.Series:
    """Return p of λ_min ~ x^p for each activation, x = `over`, from rows with λ_min above its error; NaN for one n."""
    fits = {}
    for name, each in table[table.lambda_min > table.error].groupby("activation"):
        fits[name] = power(each.set_index(over)["lambda_min"]) if len(set(each.n)) > 1 else float("nan")
    return pd.Series(fits, dtype=float)


def draw(table: pd.DataFrame) -> Figure:
    axes = panels(TITLE, columns=2, size=(4.2, 3.6))
    (left, right), summary = axes[0], quartiles(table, "n")
    for name in (name for name in ACTIVATIONS if name in set(table.activation)):
        rows, look = pd.DataFrame(summary.loc[name]), style(name)
        left.plot(rows.index, rows.middle, marker="o", markersize=4, **look)
        left.plot(rows.index, rows.bound, "v", color=look["color"], markerfacecolor="none")
        each = table[(table.activation == name) & (table.lambda_min > table.error)]
        right.plot(each.apart, each["lambda_min"], ".", color=look["color"], markersize=3)
    left.set(yscale="log", xlabel="points $n$", ylabel=LEAST)
    log_ticks(left, table.n)
    left.plot([], [], "v", color=COLOURS["theory"], markerfacecolor="none", label="upper bound")
    right.set(xscale="log", yscale="log", xlabel="least distance $\\delta$", ylabel=LEAST)
    return finished(axes, below=6)


def verdicts(table: pd.DataFrame) -> list[Verdict]:
    falls, apart = _powers(table, "n"), _powers(table, "apart")
    summary = quartiles(table, "n")
    last, texts = summary.upper.xs(table.n.max(), level="n"), summary.apply(as_text, axis=1)
    part = last.reindex(["elu"]).iloc[0] / last.reindex(["relu"]).iloc[0]
    medians = "; ".join(f"{name} {'/'.join(texts[name])}" for name in NOT_SMOOTH if name in falls)
    sizes = "/".join(map(str, sorted(set(table.n))))
    powered = f"like δ to the powers {listed(apart.filter(items=NOT_SMOOTH), '.2f')}; like n to the powers "
    powered += listed(falls.filter(items=NOT_SMOOTH), ".2f")
    jumps = apart.reindex(["relu", "selu"])
    elu = f"medians {medians} at n = {sizes}; ELU's is {number(part)} of ReLU's at the most points"
    return [
        decide("σ' jumps: λ_min falls like the separation", powered, jumps.max(skipna=False), "at most", SLOW),
        decide("σ'' jumps (ELU): it does so too", powered, apart.reindex(["elu"]).iloc[0], "at most", SLOW),
        decide("ELU's eigenvalues are as large as ReLU's", elu, part, "at least", NEAR, " of ReLU's"),
    ]
