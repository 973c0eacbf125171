"""The work of `implicit-bias predict`: classes, scores and margins of new samples by a saved model."""

import warnings
from argparse import Namespace
from typing import Any

import pandas as pd

from implicit_bias.command_line.execution import Outcome, counted, place_of
from implicit_bias.datasets.tables import read_inputs
from implicit_bias.ground.files import write_atomically
from implicit_bias.margin.solvers import Status
from implicit_bias.saving.models import load_model


def predicted(options: Namespace) -> Outcome:
    """Load, score and write."""
    out = place_of(options.out, options.file, "-predictions.csv", [options.model, options.file])
    model = load_model(options.model)
    for positive, solution in zip(model.positives, model.solutions, strict=False):
        if solution.status is not Status.OPTIMAL and not solution.status.inseparable:
            warnings.warn(f"class {positive!r}: {solution.status.value} (gap {solution.gap:.1e})", stacklevel=2)
    text = all(isinstance(label, str) for label in model.classes)
    X, gate_values, labels = read_inputs(options.file, model.columns, model.n_features_in, text)
    scores = model.decision_function(X, gate_values)
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
    path = write_atomically(out, table.to_csv(index=False, lineterminator="\n").encode())
    print(f"wrote {path}")
    return Outcome(0, document | {"files": [path]})
