"""The scaling's tables and its figure."""

import pandas as pd
from common import COLOURS, markdown, plain_logarithmic, seconds_text
from matplotlib.figure import Figure

TITLES = {"grid": "Grid of n, H and K", "large": "Large", "threads": "Threads", "norms": "Other norms"}
#: What the runs of one row have in common, and what it is called.
SIZES = {"problem": "problem", "dataset": "data", "n": "n", "units": "H", "contexts": "K", "tol": "tol"}
SIZES |= {"threads": "threads"}


def section_text(name: str, table: pd.DataFrame) -> str:
    """One section as Markdown: heading, a row for all seeds of a size, and what it amounts to."""
    solved = table[table.outcome == "ok"]
    rows = [_row(runs) for _, runs in solved.groupby(list(SIZES), sort=True)]
    parts = [f"## {TITLES[name]}", markdown(rows), _summary(table, solved)]
    bad = table[table.outcome != "ok"]
    parts += [f"- {row.problem} n = {row.n}, H = {row.units}: {row.outcome}" for row in bad.itertuples()]
    return "\n\n".join(parts)


def _summary(table: pd.DataFrame, solved: pd.DataFrame) -> str:
    reached = int((solved.gap <= solved.tol).sum())
    proved = int(solved.status.str.startswith("NOT_SEPARABLE").sum())
    others = f", {proved} were proved not separable" if proved else ""
    most = f"; at most {solved.iterations.max():.0f} iterations" if len(solved) else ""
    return f"**{reached} of {len(table)} reached the certified gap asked for{others}{most}.**"


def _range(values: pd.Series) -> str:
    least, most = format(values.min(), ".0f"), format(values.max(), ".0f")
    return least if least == most else f"{least} – {most}"


def _row(runs: pd.DataFrame) -> dict[str, str]:
    """What is said of some runs of a size: how well, how long, how large, and how near to the floor if it is known."""
    first, known = runs.iloc[0], runs.dropna(subset=["floor_seconds"])
    floor = dict.fromkeys(("Gflop/s", "floor", "time / floor"), "–")
    if len(known):
        floor = {
            "Gflop/s": f"{known.gemm_gflops.median():.0f}",
            "floor": seconds_text(float(known.floor_seconds.median())),
            "time / floor": f"{(known.seconds / known.floor_seconds).median():.2f}",
        }
    return {head: f"{first[name]:.0e}" if name == "tol" else str(first[name]) for name, head in SIZES.items()} | {
        "optimal": f"{int((runs.status == 'OPTIMAL').sum())} of {len(runs)}",
        "worst gap": f"{runs.gap.max():.1e}",
        "iterations": _range(runs.iterations),
        "seconds": seconds_text(float(runs.seconds.median())),
        "working set": _range(runs.working_set),
        "support vectors": _range(runs.support_vectors),
        "MiB": f"{runs.memory_mib.max():.0f}",
        **floor,
    }


def picture(table: pd.DataFrame) -> Figure:
    """Seconds against n: the grid's medians over seeds, the large runs, and the floor of H = 100, dotted."""
    figure = Figure(figsize=(7, 4.6), layout="constrained")
    ax = figure.subplots()
    solved = table[table.outcome == "ok"]
    grid = solved[solved.section == "grid"].groupby(["contexts", "units", "n"]).median(numeric_only=True).reset_index()
    units, least = sorted(grid.units.unique()), grid.contexts.min()
    for (K, H), rows in grid.groupby(["contexts", "units"]):
        style = {"color": COLOURS[units.index(H) % len(COLOURS)], "linestyle": "-" if least == K else "--"}
        ax.loglog(rows.n, rows.seconds, marker="o", markersize=4, linewidth=1, label=f"H = {H}, K = {K}", **style)
    large = solved[solved.section == "large"].sort_values("n")
    for threads, rows in large.groupby("threads"):
        label = f"H = 100, K = 2, {threads} thread(s), tol {rows.tol.max():.0e}"
        ax.loglog(rows.n, rows.seconds, marker="s", markersize=4, linewidth=1.4, color=COLOURS[-1], label=label)
    floors = solved[(solved.units == solved.units.max()) & solved.section.isin(["grid", "large"])]
    line = floors[floors.contexts == floors.contexts.min()].groupby("n").floor_seconds.median().dropna()
    ax.loglog(line.index, line, linestyle=":", color="0.5", label=f"floor of H = {solved.units.max()}")
    ax.set(xlabel="samples n", ylabel="seconds", title="Time to the certified gap")
    plain_logarithmic(ax.xaxis)
    plain_logarithmic(ax.yaxis)
    ax.grid(color="0.9")
    figure.legend(loc="outside right upper", frameon=False, fontsize=8)
    return figure
