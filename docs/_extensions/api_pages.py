"""The API reference: every public name, grouped by the module that defines it.

Docstrings are valid numpydoc and reach Sphinx as they are, except for displayed formulas. These are indented lines of
Unicode, which `help` can show; reStructuredText only has a directive for LaTeX, which `help` would show as source.
Sphinx also links every word of a parameter's type that is the name of some attribute, and has no option against it.
"""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path
from typing import Any

from sphinx.addnodes import pending_xref
from typeset import latex

from tests.public import public_names

#: Lists of public names, by the module that they are imported from.
PUBLIC = public_names()

#: Title of each group, what it is about, and the modules it covers (with everything below them).
GROUPS = (
    ("Estimators", "Classifiers with scikit-learn's interface.", ("estimators",)),
    (
        "Problems",
        "Margin problems, the features they are stated in, and models of solved ones.",
        ("margin.formulations", "margin.problem", "margin.program", "margin.classes", "margin.model", "features"),
    ),
    ("Gates", "From inputs x to gate values g(x).", ("gates",)),
    ("Norms", "Regularisers, each with its dual norm.", ("norms",)),
    ("Solving", "Solvers and the certificate.", ("solvers", "certificate", "margin.solution")),
    ("Networks and training", "Gated networks, gradient descent, and its limit.", ("networks", "training")),
    ("Metrics", "Error, inconsistency, margins and alignment.", ("metrics",)),
    ("Data", "Binary tasks, from image sets or your own samples.", ("datasets",)),
    ("Best networks", "The best ReLU network and the best chains, with proof.", ("extensions.best_networks",)),
    (
        "Gated linear units",
        "Least squares, filters, networks, and the theorems as functions.",
        ("extensions.galu",),
    ),
    (
        "Gated deep linear networks",
        "The flow of fixed gates, and patterns on a ring.",
        ("extensions.gated_flow",),
    ),
    ("Infinite width", "Gram matrices of activations, and kernels of infinite networks.", ("extensions.infinite",)),
    ("Errors", "Exceptions.", ("_utils",)),
)
#: Names that stand apart from the module that defines them.
SAVING = ("Saving", "Files, and what is read back from them.", re.compile("save_|load_(?!binary)"))
REST = ("Further names", "Not yet in a group of their own.")

HEAD = """\
API reference
=============

Every public name of the package, imported from ``implicit_bias`` itself unless its full name here says otherwise. n is
the number of samples, d of inputs, k of gates, H of hidden units.
"""
SECTION = """
{title}
{line}

{about}

.. autosummary::
   :toctree: generated

   {names}
"""


def group_of(path: str, name: str) -> tuple[str, str]:
    """Return title and description of the group of a public name that is imported from the module `path`."""
    if SAVING[2].match(name):
        return SAVING[:2]
    module = getattr(import_module(path), name).__module__.removeprefix("implicit_bias.")
    for title, about, modules in GROUPS:
        if any(module == m or module.startswith(m + ".") for m in modules):
            return title, about
    return REST


def write_index(path: Path) -> None:
    """Write the page of all groups, unless it is unchanged."""
    grouped: dict[tuple[str, str], list[str]] = {}
    for module, names in PUBLIC.items():
        for name in names:
            grouped.setdefault(group_of(module, name), []).append(f"{module}.{name}")
    order = [*((title, about) for title, about, _ in GROUPS[:-1]), SAVING[:2], GROUPS[-1][:2], REST]
    text = HEAD
    for title, about in order:
        if (title, about) in grouped:
            listed = "\n   ".join(grouped[title, about])
            text += SECTION.format(title=title, line="-" * len(title), about=about, names=listed)
    path.parent.mkdir(exist_ok=True)
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


def typeset_formulas(lines: list[str]) -> None:
    """Turn the indented paragraphs of a docstring's prose into displayed formulas, in place."""
    result: list[str] = []
    formula: list[str] = []
    prose = True
    for before, line, after in zip(["", *lines], [*lines, ""], [*lines[1:], "", ""], strict=True):
        prose = prose and set(after.strip()) != {"-"}
        if prose and line.startswith("    ") and (formula or not before.strip()):
            formula.append(line.strip())
            continue
        if formula:
            result += [".. math::", "", *(f"   {each}" for each in latex("\n".join(formula)).split("\n")), ""]
            formula = []
        result.append(line)
    lines[:] = result


def typeset(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Connect `typeset_formulas` to the docstrings that autodoc reads."""
    typeset_formulas(lines)


def plain_types(app: Any, doctree: Any) -> None:
    """Turn words of parameters' types that are no public names into text: n is not `GatedFeatures.n`."""
    for node in list(doctree.findall(pending_xref)):
        if node.get("reftarget") == "r2_score":
            # A section of scikit-learn's guide, which inherited docstrings point to.
            node.replace_self(node.children)
        elif node.get("refdomain") == "py" and node.get("reftype") == "class":
            path, _, name = node["reftarget"].rpartition(".")
            if not any(name in names for module, names in PUBLIC.items() if path in ("", module)):
                node.replace_self(node.children)


def setup(app: Any) -> dict[str, bool]:
    """Connect to Sphinx; before napoleon, whose priority is the default one."""
    app.connect("autodoc-process-docstring", typeset, priority=100)
    app.connect("doctree-read", plain_types)
    write_index(Path(app.srcdir) / "api" / "index.rst")
    return {"parallel_read_safe": True, "parallel_write_safe": True}
