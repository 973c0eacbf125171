"""HTML tables of solutions for notebooks, and plots of certificates on matplotlib axes."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

import numpy as np

from implicit_bias._utils.checks import InputError, shown

#: Colours of active items (support vectors, or gates with weights) and of inactive ones.
COLOURS = ("#0072B2", "#B9C4CC")


def summary(solutions: Mapping[Any, Any], groups: np.ndarray | None = None) -> str:
    """Return an HTML table of solutions, one row per class, "" without a name; `groups` (k,) are those of gates."""
    classes = list(solutions) != [""]
    if groups is not None and any(len(one.weights) != len(groups) for one in solutions.values()):
        groups = None
    head = ["class"] * classes + ["status", "lower bound", "objective", "gap"]
    head += ["active gates" if groups is None else "active groups", "support vectors", "solver"]
    rows = [[str(label)] * classes + _row(one, groups) for label, one in solutions.items()]
    remedies = [f"{one.status.value}{f': {one.reason}' if one.reason else ''}" for one in solutions.values()]
    lines = ["".join(f"<th>{name}</th>" for name in head)]
    for cells, remedy in zip(rows, remedies, strict=True):
        lines.append("".join(f'<td title="{escape(remedy)}">{escape(cell)}</td>' for cell in cells))
    return f"<table>{''.join(f'<tr>{line}</tr>' for line in lines)}</table>"


def _row(one: Any, groups: np.ndarray | None) -> list[str]:
    names = np.arange(len(one.weights)) if groups is None else groups
    active = "none" if one.status.inseparable else f"{len(np.unique(names[one.active]))} of {len(np.unique(names))}"
    numbers = [f"{one.lower_bound:.9g}", f"{one.objective:.9g}", f"{one.gap:.1e}"]
    return [one.status.name, *numbers, active, f"{len(one.support)} of {len(one.dual)}", one.solver]


def _axes(certificate: Any, ax: Any) -> Any:
    import matplotlib.pyplot as plt
    from matplotlib.axes import Axes

    if not np.isfinite(certificate.weights).all():
        raise InputError("no weights separate these samples, so that there is nothing to plot; use a soft margin")
    if ax is not None and not isinstance(ax, Axes):
        raise InputError(f"ax must be matplotlib axes or None, not {shown(ax)}")
    return plt.subplots()[1] if ax is None else ax


def draw_margins(certificate: Any, ax: Any) -> Any:
    """Draw stacked histograms of the margins of support vectors and others on `ax` or new axes; return the axes."""
    ax, margins = _axes(certificate, ax), certificate.margins
    in_support = np.isin(np.arange(len(margins)), certificate.support)
    parts = {"support vectors": margins[in_support], "other samples": margins[~in_support]}
    labels = [f"{name} ({len(part)})" for name, part in parts.items()]
    most = max(margins.max(), margins.min() + 1e-6 * max(1.0, np.abs(margins).max()))
    bins = np.linspace(margins.min(), most, min(40, max(5, len(margins) // 5)) + 1)
    ax.hist(list(parts.values()), bins, stacked=True, color=COLOURS, label=labels)
    if margins.min() <= 0:
        ax.axvline(0, color="black", linewidth=0.8, label="decision boundary")
    ax.set(xlabel=r"margin $y_i\,((\Phi W)_i + b)$", ylabel="samples")
    ax.legend()
    return ax


def draw_gates(certificate: Any, ax: Any) -> Any:
    """Draw the lengths of the gates' weights as bars, longest first, on `ax` or new axes, and return the axes."""
    ax, active = _axes(certificate, ax), certificate.active
    lengths = np.linalg.norm(certificate.weights, axis=1)
    order = np.argsort(-lengths, kind="stable")
    colours = [COLOURS[0] if active[j] else COLOURS[1] for j in order]
    ax.bar(np.arange(1, len(order) + 1), lengths[order], color=colours)
    title = f"{active.sum()} of {len(active)} gates have weights"
    ax.set(xlabel="gate, by size", ylabel=r"$\|w_j\|_2$", title=title)
    return ax
