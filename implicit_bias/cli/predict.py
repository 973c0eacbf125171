"""`implicit-bias predict`: classes, scores and margins of new samples, computed by a saved model."""

from __future__ import annotations

import warnings
from argparse import Namespace
from collections.abc import Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np

# The names of the package are loaded when first used, so that help does not wait for them.
import implicit_bias as core
from implicit_bias._utils.checks import Array, InputError, as_numbers
from implicit_bias._utils.files import write_atomically
from implicit_bias.cli.execution import Output, counted, place_of
from implicit_bias.cli.parsers import SHORT_CODES, Parser
from implicit_bias.datasets.tables import FORMAT, read_inputs

if TYPE_CHECKING:
    import pandas as pd

TEXT = """\
Score new samples by a model that `implicit-bias solve` or `save_model` saved, and write a table of them.

Tables: the columns that the model was fitted to, by name; others are ignored. NPZ: an array X, and gates if the model
was fitted to gate values. The result has one row per sample: the number of its row in the file, from 1, the predicted
class, the score (one per class if there are more than two) and, if the file has labels, label and margin. A margin is
at most 0 if the prediction is wrong: it is y f(x) for two classes, otherwise the score of the label minus the largest
other score. Empty labels, and labels of other classes, have no margin. A model of outliers predicts -1 for outliers and
1 for other samples. The table of a regression has the predicted targets."""


def declare(parser: Parser, command: str) -> None:
    parser.explain(
        TEXT,
        [
            ("samples-model.npz new.csv", "into new-predictions.csv"),
            ("samples-model.npz samples.csv", "margins of the samples that it was solved for"),
            ("samples-model.npz new.csv --json", "counts and errors as JSON"),
        ],
        SHORT_CODES,
    )
    parser.add_argument("model", metavar="MODEL", help="a model (npz) that solve, or save_model, wrote")
    parser.add_argument("file", metavar="SAMPLES", help="the samples, .csv, .npz or another that solve reads, or -")
    parser.add_argument("--keep", nargs="+", default=(), metavar="COLUMN", help="columns to repeat, such as an id")
    parser.add_shared(*(f"--{name}" for name in FORMAT))
    parser.add_argument("--ignore-label", action="store_true", help="do not compare with labels, if the file has some")
    parser.add_argument("--out", metavar="FILE", help="the table (csv); else NAME-predictions.csv in this folder")
    parser.set_defaults(run=predict, loads=("saving.models",))


def predict(options: Namespace) -> Output:
    """Load the model and the samples, write the table of predictions, and print a summary."""
    out = place_of(options.out, "-predictions.csv", [options.model, options.file])
    model = core.load_model(options.model)
    is_margin = isinstance(model, core.MarginModel)
    gated = is_margin and model.problems[0].gates is None
    form = {name: getattr(options, name) for name in ("keep", *FORMAT)}
    form |= {"gated": gated, "missing": model.scaling is not None and model.scaling.fills}
    samples = read_inputs(options.file, model.columns, model.n_features_in, **form)
    print("".join(f"{note}\n" for note in samples.notes), end="")
    more = [samples.gate_values] if is_margin else []
    if is_margin:
        for positive, solution in zip(model.positives, model.solutions, strict=False):
            if solution.status is not core.Status.OPTIMAL and not solution.status.inseparable:
                warnings.warn(f"class {positive!r}: {solution.status.value} (gap {solution.gap:.1e})", stacklevel=2)
    far = _warn_of_far(model, samples.X)
    scores = model.decision_function(samples.X, *more)
    labels = None if options.ignore_label else samples.labels
    table, document = (_targets if model.classes is None else _classes)(model, scores, labels)
    table = samples.kept.assign(**table)
    files = [write_atomically(out, table.to_csv(index=False, lineterminator="\n").encode())]
    wrong = "inspect the misclassified samples, whose margins are at most 0"
    then = wrong if document.get("wrong") else "read its predictions"
    return Output(0, {"model": repr(model), "samples": len(table), "far_outside": far} | document, then, files)


def _warn_of_far(model: Any, X: Array) -> int:
    far = model.far_outside(X)
    rows, columns = far.any(axis=1).sum(), np.flatnonzero(far.any(axis=0))
    if rows:
        names = range(X.shape[1]) if model.columns is None else model.columns.encoded
        where = f"{len(columns)} of {counted(X.shape[1], 'column')}, such as {names[columns[0]]!r}; check their units"
        text = f"{rows} of {counted(len(X), 'sample')} are outside the range of the fit by more than its width"
        warnings.warn(f"{text}, in {where} and scale before you trust these predictions", stacklevel=2)
    return int(rows)


def _targets(model: Any, scores: Array, labels: Any) -> tuple[pd.DataFrame, dict[str, Any]]:
    import pandas as pd

    names = ["prediction"] if scores.ndim == 1 else [f"prediction_{j}" for j in range(scores.shape[1])]
    table = pd.DataFrame(scores.reshape(len(scores), -1), columns=names)
    print(f"{model!r}\n{counted(len(table), 'sample')}")
    if labels is None:
        return table, {}
    # Texts of a CSV file; the cells of some targets may be empty.
    given = pd.to_numeric(pd.Series(labels), errors="coerce") if np.ndim(labels) == 1 else labels
    squares = (scores - as_numbers(given, scores.shape, "the targets")) ** 2
    labelled = np.isfinite(squares)
    if not labelled.any():
        return table, {}
    error = float(np.sqrt(np.mean(squares[labelled])))
    print(f"root mean square error {error:.6g}" + ("" if labelled.all() else f" on {labelled.sum()} known targets"))
    return table, {"root_mean_square_error": error}


def _classes(model: Any, scores: Array, labels: Any) -> tuple[pd.DataFrame, dict[str, Any]]:
    import pandas as pd

    table = pd.DataFrame({"prediction": model.chosen(scores)})
    names = ["score"] if scores.ndim == 1 else [f"score_{label}" for label in model.classes]
    table[names] = scores.reshape(len(scores), -1)
    counts = {str(label): int((table.prediction == label).sum()) for label in model.classes}
    shares = ", ".join(f"{count} of {label}" for label, count in counts.items())
    print(f"{model!r}\n{counted(len(table), 'sample')}: {shares}")
    matches, labelled = ([], np.empty(0, dtype=int)) if labels is None else matched(model.classes, labels)
    if not len(labelled):
        return table, {"predictions": counts}
    if len(labels) != len(scores):
        raise InputError(f"there are {len(labels)} labels for {len(scores)} samples; give one label per sample")
    chosen = [matches[i] for i in labelled]
    table["label"], table["margin"] = pd.Series(matches, dtype=object), np.nan
    table.loc[labelled, "margin"] = model.margins(scores[labelled], chosen)
    wrong = int((table.prediction[labelled] != pd.Series(chosen, labelled)).sum())
    share, smallest = wrong / len(labelled), float(table.margin.min()) + 0.0
    count = "" if len(labelled) == len(table) else f" of {counted(len(labelled), 'known label')}"
    print(f"error {100 * share:.2f} % ({wrong} wrong{count}), smallest margin {smallest:.6g}")
    return table, {"predictions": counts, "wrong": wrong, "error": share, "smallest_margin": smallest}


def matched(classes: Sequence[Any], labels: np.ndarray) -> tuple[list[Any], np.ndarray]:
    """Return the class of each label, or the label itself if it is of no class, and the indices of those with a class.

    Labels of a CSV file are texts: those of classes that are numbers may be written in other ways, such as 1.0 for 1.
    Warn if some labels are of no class and not empty.
    """
    import pandas as pd

    places: dict[Any, Any] = {str(one): one for one in classes} | {one: one for one in classes}
    listed = labels.tolist()
    texts = pd.Series(labels.astype(str))
    numbers = texts.where(pd.to_numeric(texts, errors="coerce").notna(), "NaN").map(Decimal)
    matches = [places.get(label, places.get(number)) for label, number in zip(listed, numbers, strict=True)]
    unknown = [str(label) for label, one in zip(listed, matches, strict=True) if one is None]
    named = [label for label in unknown if label]
    if named:
        text = f"labels such as {named[0]!r}, {len(named)} in all, are not classes of the model"
        warnings.warn(f"{text} and have no margin", stacklevel=2)
    labelled = np.array([i for i, one in enumerate(matches) if one is not None], dtype=int)
    return [label if one is None else one for label, one in zip(listed, matches, strict=True)], labelled
