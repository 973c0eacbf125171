"""The work of `implicit-bias predict`: classes, scores and margins of new samples by a saved model."""

import warnings
from argparse import Namespace
from typing import Any

import numpy as np
import pandas as pd

from implicit_bias._utils.checks import Array, as_numbers
from implicit_bias._utils.files import write_atomically
from implicit_bias.cli.execution import Outcome, counted, place_of
from implicit_bias.datasets.tables import read_inputs
from implicit_bias.margin.model import MarginModel
from implicit_bias.margin.solution import Status
from implicit_bias.saving.models import load_model


def predicted(options: Namespace) -> Outcome:
    """Load, score and write."""
    out = place_of(options.out, options.file, "-predictions.csv", [options.model, options.file])
    model = load_model(options.model)
    text = all(isinstance(label, str) for label in model.classes or [0])
    X, gate_values, labels = read_inputs(options.file, model.columns, model.n_features_in, text)
    if isinstance(model, MarginModel):
        for positive, solution in zip(model.positives, model.solutions, strict=False):
            if solution.status is not Status.OPTIMAL and not solution.status.inseparable:
                warnings.warn(f"class {positive!r}: {solution.status.value} (gap {solution.gap:.1e})", stacklevel=2)
        scores = model.decision_function(X, gate_values)
    else:
        scores = model.decision_function(X)
    table, document = (_targets if model.classes is None else _classes)(model, scores, labels)
    path = write_atomically(out, table.to_csv(index=False, lineterminator="\n").encode())
    print(f"wrote {path}")
    return Outcome(0, document | {"files": [path]})


def _targets(model: Any, scores: Array, labels: Any) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Predictions of targets, and how far they are from those of the file, if it has any."""
    names = ["prediction"] if scores.ndim == 1 else [f"prediction_{j}" for j in range(scores.shape[1])]
    table = pd.DataFrame(scores.reshape(len(scores), -1), columns=names)
    document: dict[str, Any] = {"model": repr(model), "samples": len(table)}
    print(f"{document['model']}\n{counted(len(table), 'sample')}")
    if labels is not None:
        targets = as_numbers(labels, scores.shape, "the targets")
        document["root_mean_square_error"] = error = float(np.sqrt(np.mean((scores - targets) ** 2)))
        print(f"root mean square error {error:.6g}")
    return table, document


def _classes(model: Any, scores: Array, labels: Any) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Predicted classes with their scores, and margins where labels are known."""
    table = pd.DataFrame({"prediction": model.chosen(scores)})
    if scores.ndim == 1:
        table["score"] = scores
    else:
        table[[f"score_{label}" for label in model.classes]] = scores
    counts = {str(label): int((table.prediction == label).sum()) for label in model.classes}
    document: dict[str, Any] = {"model": repr(model), "samples": len(table), "predictions": counts}
    shares = ", ".join(f"{count} of {label}" for label, count in counts.items())
    print(f"{document['model']}\n{counted(len(table), 'sample')}: {shares}")
    if labels is not None:
        table["label"], table["margin"] = labels, model.margins(scores, labels)
        wrong = int((table.prediction != table.label).sum())
        document |= {"wrong": wrong, "error": wrong / len(table), "smallest_margin": float(table.margin.min())}
        print(f"error {100 * wrong / len(table):.2f} % ({wrong} wrong), smallest margin {table.margin.min():.6g}")
    return table, document
