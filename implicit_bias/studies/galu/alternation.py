"""Does alternate convex search outperform SGD? (first version, section 5)

For GaLU networks f(x) = B (g(x) ∘ A x) with several outputs, least squares is convex in A and in B, and each step of
alternate convex search (ACS) has a closed form. ACS has a fixed number of rounds, and `drift` is the fall of its loss
over the last doubling of the rounds, as a share. ACS, SGD and Adam have the same gates, and as many units as give
0.7 m d′ parameters. The sizes are small, because the claim is about small samples and a round costs (kd)³ operations.
"""

import pandas as pd
from matplotlib.figure import Figure

from implicit_bias.studies.galu.common import means, repeats
from implicit_bias.studies.galu.gaussian import ADAM, trained
from implicit_bias.studies.galu.outputs import as_many_parameters, searched
from implicit_bias.studies.runner import COLOURS, Rows, Settings, Verdict, band, claims, finished, panels, product
from implicit_bias.studies.runner.mean_test import holm, student_p
from implicit_bias.studies.runner.verdicts import Claim

TITLE = "Alternate convex search against SGD and Adam"
SOURCE = "first version, section 5"
CLAIM = "Alternate convex search outperforms SGD for small enough samples."
#: First seed. Smaller ones were seen before the threshold was set.
FIRST = 101
REVISION = 2
CLAIMS = claims("galu", "alternation")
METHODS = {"ACS": "sky", "Adam": "GaLU", "SGD at 0.1": "purple", "SGD at 0.5": "ReLU"}


def grid(quick: bool) -> list[Settings]:
    sizes, d, q, few = ((16, 32, 64), 4, 3, 2) if quick else ((32, 64, 96), 32, 8, 8)
    adam = {"steps": 4000, "batch": 16, "lr": 3e-3} if quick else ADAM
    how: list[Settings] = [adam | {"rounds": 30 if quick else 8000}]
    how += [adam | {"optimiser": "SGD", "lr": lr} for lr in (0.1, 0.5)]
    return [cell | one for cell in product(m=sizes, d=(d,), outputs=(q,), repeats=(few,), seed=(FIRST,)) for one in how]


def rows(settings: Settings) -> Rows:
    """Return method, units, repeat, loss, and for ACS drift: share of the loss that the last half of rounds removes."""
    units, adam = as_many_parameters(settings), "optimiser" not in settings
    table: Rows = []
    for seed in repeats(settings) if adam else ():
        losses = searched(settings, units, seed, steps=settings["rounds"], tol=0.0).history[::2] / settings["outputs"]
        drift = 1 - losses[-1] / losses[len(losses) // 2]
        table.append(
            {"method": "ACS", "units": units, "repeat": seed, "loss": float(losses[-1]), "drift": float(drift)}
        )
    method = "Adam" if adam else f"SGD at {settings['lr']}"
    return table + [{"method": method} | row | {"drift": None} for row in trained(settings, "GaLU", [units])]


def cost(settings: Settings) -> float:
    size = as_many_parameters(settings) * settings["d"]
    half = 1e-11 * size**3 + 1e-8 * size**2
    rounds = settings.get("rounds", 0)
    return settings["steps"] * (1.5e-4 + 2e-7 * size) + settings["repeats"] * rounds * half / 2


def draw(table: pd.DataFrame) -> Figure:
    axes, first = panels(TITLE, size=(5.4, 3.6)), table.iloc[0]
    for method, subset in table.groupby("method"):
        band(axes[0, 0], subset.set_index("m").loss, color=COLOURS[METHODS[str(method)]], label=str(method))
    title = f"d = {first.d}, d′ = {first.outputs}"
    axes[0, 0].set(title=title, xlabel="samples m", ylabel="training loss", ylim=(0, None))
    return finished(axes)


def verdicts(table: pd.DataFrame) -> list[Verdict]:
    rates = [method for method in METHODS if method.startswith("SGD")]
    return [_against(table, CLAIMS["SGD"], rates), _against(table, CLAIMS["Adam"], ["Adam"])]


def _against(table: pd.DataFrame, claim: Claim, methods: list[str]) -> Verdict:
    """Return the verdict that ACS has a lower loss than the best of `methods` for few samples.

    Of the sizes whose drift is at most the limit `settled`, the smallest one decides at which paired differences over
    repeats are significant, by Holm's method over these sizes; undecided if there is none.
    """
    methods = [method for method in methods if method in set(table.method)]
    losses = means(table, ["m", "repeat"], "loss", ["ACS", *methods], by="method")
    sizes = losses.index.unique("m")
    if len(sizes) < 2 or not methods:
        return claim.undecided("both methods at two numbers of samples")
    drift, texts, gains = table[table.method == "ACS"].groupby("m").drift.mean(), [], {}
    for m in sizes:
        at_size = losses.loc[m]
        best = at_size[methods].mean().idxmin()
        gain = at_size[best] - at_size["ACS"]
        if drift[m] <= claim.limits["settled"]:
            gains[m] = gain
        lower = f"lower in {(gain > 0).sum()} of {len(gain)} repeats, p = {student_p(gain):.2g}, drift {drift[m]:.2%}"
        texts.append(f"m = {m}: ACS {at_size['ACS'].mean():.3f}, {best} {at_size[best].mean():.3f} ({lower})")
    adjusted = holm([student_p(gain) for gain in gains.values()])
    apart = [gain.mean() > 0 for gain, p in zip(gains.values(), adjusted, strict=True) if p < 1 - claim.limits["level"]]
    return claim.verdict("; ".join(texts), bool(apart[0]) if apart else None)
