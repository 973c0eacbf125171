"""The scaling's tables and its figure."""

from typing import Any

import pandas as pd
from common import COLOURS, markdown, plain_logarithmic, seconds_text
from matplotlib.figure import Figure

TITLES = {
    "grid": "Grid of n, H and K",
    "large": "Large",
    "threads": "Threads",
    "norms": "Other norms",
}


def section_text(name: str, table: pd.DataFrame) -> str:
    """One section as Markdown: heading, table, and what it amounts to."""
    rows = {"grid": _grid, "threads": _threads}.get(name, _single)(table)
    parts = [f"## {TITLES[name]}", markdown(rows), _summary(table)]
    bad = table[table.outcome != "ok"]
    parts += [f"- {row['problem']} n = {row['n']}, H = {row['units']}: {row['outcome']}" for row in _records(bad)]
    return "\n\n".join(parts)


def _records(table: pd.DataFrame) -> list[dict[Any, Any]]:
    records: list[dict[Any, Any]] = table.to_dict("records")
    return records


def _summary(table: pd.DataFrame) -> str:
    solved = table[table.outcome == "ok"]
    reached = int((solved.gap <= solved.tol).sum())
    proved = int(solved.status.str.startswith("NOT_SEPARABLE").sum())
    others = f", {proved} were proved not separable" if proved else ""
    most = f"; at most {solved.iterations.max():.0f} iterations" if len(solved) else ""
    return f"**{reached} of {len(table)} reached the certified gap asked for{others}{most}.**"


def _range(values: pd.Series, form: str = ".0f") -> str:
    least, most = format(values.min(), form), format(values.max(), form)
    return least if least == most else f"{least} – {most}"


def _cell(cell: pd.DataFrame, gap: str, more: dict[str, str]) -> dict[str, str]:
    """What is said of some runs of a kind: how well, how long, how large."""
    return more | {
        gap: f"{cell.gap.max():.1e}",
        "iterations": _range(cell.iterations),
        "seconds": seconds_text(float(cell.seconds.median())),
        "working set": _range(cell.working_set),
        "support vectors": _range(cell.support_vectors),
        "MiB": f"{cell.memory_mib.max():.0f}",
        **_floor(cell),
    }


def _size(row: Any) -> dict[str, str]:
    sizes = {"data": row.dataset, "n": row.n, "H": row.units, "K": row.contexts, "tol": f"{row.tol:.0e}"}
    return {name: str(value) for name, value in (sizes | {"threads": row.threads}).items()}


def _grid(table: pd.DataFrame) -> list[dict[str, str]]:
    """A row for each (n, H, K, tol, threads): all its seeds."""
    keys, rows = ["dataset", "n", "units", "contexts", "tol", "threads"], []
    for _, cell in table[table.outcome == "ok"].groupby(keys, sort=True):
        optimal = f"{int((cell.status == 'OPTIMAL').sum())} of {len(cell)}"
        rows.append(_cell(cell, "worst gap", _size(cell.iloc[0]) | {"optimal": optimal}))
    return rows


def _floor(cells: pd.DataFrame) -> dict[str, str]:
    """The floor's columns for some cells of a kind."""
    known = cells.dropna(subset=["floor_seconds"]) if "floor_seconds" in cells else cells[:0]
    if known.empty:
        return {"Gflop/s": "–", "floor": "–", "time / floor": "–"}
    return {
        "Gflop/s": f"{known.gemm_gflops.median():.0f}",
        "floor": seconds_text(float(known.floor_seconds.median())),
        "time / floor": f"{(known.seconds / known.floor_seconds).median():.2f}",
    }


def _single(table: pd.DataFrame) -> list[dict[str, str]]:
    """A row a cell."""
    solved = table[table.outcome == "ok"].sort_values(["dataset", "problem", "n", "units", "threads"])
    rows = []
    for index, row in solved.iterrows():
        rows.append(_cell(solved.loc[[index]], "gap", {"problem": row.problem} | _size(row) | {"status": row.status}))
    return rows


def _threads(table: pd.DataFrame) -> list[dict[str, str]]:
    """A row for each size, a column for each number of threads, and how much faster the most are than the fewest."""
    solved = table[table.outcome == "ok"]
    rows = []
    for (dataset, n, tol), cells in solved.groupby(["dataset", "n", "tol"], sort=True):
        by_threads = cells.set_index("threads").sort_index()
        seconds = by_threads.seconds
        row = {"data": str(dataset), "n": str(n), "tol": f"{tol:.0e}"}
        for threads in sorted(solved.threads.unique()):
            here = threads in seconds.index
            row[f"seconds on {threads}"] = seconds_text(float(seconds[threads])) if here else "–"
            row[f"Gflop/s on {threads}"] = f"{by_threads.gemm_gflops[threads]:.0f}" if here else "–"
            row[f"time / floor on {threads}"] = _floor(by_threads.loc[[threads]])["time / floor"] if here else "–"
        row["speed-up"] = f"{seconds.iloc[0] / seconds.iloc[-1]:.2f}"
        rows.append(row)
    return rows


def picture(table: pd.DataFrame) -> Figure:
    """Seconds against n: the grid's medians over seeds, the large runs, and the floor of H = 100, dotted."""
    figure = Figure(figsize=(7, 4.6), layout="constrained")
    ax = figure.subplots()
    solved = table[table.outcome == "ok"]
    grid = solved[solved.section == "grid"].groupby(["contexts", "units", "n"]).median(numeric_only=True).reset_index()
    units, least = sorted(grid.units.unique()), grid.contexts.min()
    for (K, H), rows in grid.groupby(["contexts", "units"]):
        style = {
            "color": COLOURS[units.index(H) % len(COLOURS)],
            "linestyle": "-" if least == K else "--",
        }
        ax.loglog(rows.n, rows.seconds, marker="o", markersize=4, linewidth=1, label=f"H = {H}, K = {K}", **style)
    large = solved[solved.section == "large"].sort_values("n")
    for threads, rows in large.groupby("threads"):
        label = f"H = 100, K = 2, {threads} thread(s), tol {rows.tol.max():.0e}"
        ax.loglog(rows.n, rows.seconds, marker="s", markersize=4, linewidth=1.4, color=COLOURS[-1], label=label)
    floors = solved[(solved.units == solved.units.max()) & solved.section.isin(["grid", "large"])]
    if "floor_seconds" in floors:
        line = floors[floors.contexts == floors.contexts.min()].groupby("n").floor_seconds.median().dropna()
        ax.loglog(line.index, line, linestyle=":", color="0.5", label=f"floor of H = {solved.units.max()}")
    ax.set(xlabel="samples n", ylabel="seconds", title="Time to the certified gap")
    plain_logarithmic(ax.xaxis)
    plain_logarithmic(ax.yaxis)
    ax.grid(color="0.9")
    figure.legend(loc="outside right upper", frameon=False, fontsize=8)
    return figure
