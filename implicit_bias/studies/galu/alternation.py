"""Does alternate convex search outperform SGD? (first version, section 5)

For GaLU networks f(x) = B (g(x) ∘ A x) with several outputs, least squares is convex in A and in B, and each step of
alternate convex search (ACS) has a closed form. ACS ends when a round lowers the loss by less than one part in 10 000.
ACS, SGD and Adam have the same gates, and as many units as give 0.7 m d′ parameters.
"""

import pandas as pd
from matplotlib.figure import Figure

from implicit_bias.studies.galu.common import means
from implicit_bias.studies.galu.gaussian import ADAM, trained
from implicit_bias.studies.galu.outputs import alternated, as_many_parameters
from implicit_bias.studies.runner import COLOURS, Rows, Settings, Verdict, band, finished, panels, product

TITLE = "Alternate convex search against SGD and Adam"
SOURCE = "first version, section 5"
CLAIM = "Alternate convex search outperforms SGD for small enough samples."
#: Least mean difference that counts, in standard errors.
ERRORS = 2
METHODS = {"ACS": "sky", "Adam": "GaLU", "SGD at 0.1": "purple", "SGD at 0.5": "ReLU"}


def grid(quick: bool) -> list[Settings]:
    """Return m = 32 to 512, d = 32, d′ = 8, 5 repeats, for ACS with Adam, and for SGD at the rates 0.1 and 0.5.

    Quick: m = 16 to 64, d = 4, d′ = 3, 2 repeats, fewer steps.
    """
    sizes, d, q, few = ((16, 32, 64), 4, 3, 2) if quick else ((32, 64, 128, 256, 512), 32, 8, 5)
    adam = {"steps": 4000, "batch": 16, "lr": 3e-3} if quick else ADAM
    how: list[Settings] = [adam | {"rounds": 30 if quick else 1000}]
    how += [adam | {"optimiser": "SGD", "lr": lr} for lr in (0.1, 0.5)]
    return [cell | one for cell in product(m=sizes, d=(d,), outputs=(q,), repeats=(few,), seed=(1,)) for one in how]


def rows(settings: Settings) -> Rows:
    """Return a row (method, units, repeat, loss) for every repeat of ACS and of Adam, or of SGD (`optimiser`)."""
    units = [as_many_parameters(settings)]
    adam = "optimiser" not in settings
    found = {"ACS": alternated(settings | {"steps": settings["rounds"]}, units)} if adam else {}
    found["Adam" if adam else f"SGD at {settings['lr']}"] = trained(settings, "GaLU", units)
    return [{"method": method} | row for method, part in found.items() for row in part]


def cost(settings: Settings) -> float:
    size = as_many_parameters(settings) * settings["d"]
    half = 1e-11 * size**3 + 1e-8 * size**2
    rounds = settings.get("rounds", 0)
    return settings["steps"] * (1.5e-4 + 2e-7 * size) + settings["repeats"] * rounds * half / 2


def draw(table: pd.DataFrame) -> Figure:
    axes, first = panels(TITLE, size=(5.4, 3.6)), table.iloc[0]
    for method, own in table.groupby("method"):
        band(axes[0, 0], own.set_index("m").loss, color=COLOURS[METHODS[str(method)]], label=str(method))
    title = f"d = {first.d}, d′ = {first.outputs}"
    axes[0, 0].set(title=title, xlabel="samples m", ylabel="training loss", ylim=(0, None))
    return finished(axes)


def verdicts(table: pd.DataFrame) -> list[Verdict]:
    rates = [method for method in METHODS if method.startswith("SGD")]
    return [_against(table, "SGD", rates), _against(table, "Adam", ["Adam"])]


def _against(table: pd.DataFrame, rival: str, methods: list[str]) -> Verdict:
    """Return the verdict that ACS has a lower loss than the best of `methods` at each m, which `rival` names.

    The least m decides at which paired differences over repeats are more than ERRORS standard errors from 0.
    """
    claim = f"alternate convex search outperforms {rival} for small enough samples"
    methods = [method for method in methods if method in set(table.method)]
    losses = means(table, ["m", "repeat"], "loss", ["ACS", *methods], by="method")
    sizes = losses.index.unique("m")
    if len(sizes) < 2 or not methods:
        return Verdict.undecided(claim, "both methods at two numbers of samples")
    told, holds = [], None
    for m in sizes:
        own = losses.loc[m]
        best = own[methods].mean().idxmin()
        gain = own[best] - own["ACS"]
        if holds is None and abs(gain.mean()) > ERRORS * float(gain.sem()):
            holds = bool(gain.mean() > 0)
        lower = f"({(gain > 0).sum()} of {len(gain)} repeats lower)"
        told.append(f"m = {m}: ACS {own['ACS'].mean():.3f}, {best} {own[best].mean():.3f} {lower}")
    threshold = f"lower at the fewest samples where they differ by {ERRORS} standard errors"
    return Verdict(claim, "; ".join(told), threshold, holds)
