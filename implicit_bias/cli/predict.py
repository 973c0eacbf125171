"""`implicit-bias predict`: the options of scoring new samples by a saved model; `predicting` does the work."""

from implicit_bias.cli.parsers import EXIT_CODES, Parser, add_json

TEXT = """\
Score new samples by a model that `implicit-bias solve` or `save_model` saved, and write a table of them.

CSV: the columns that the model was made from, by name; others are left. NPZ: an array X, and gates where the model was
made from gate values. The table has one row a sample: the predicted class, the score (of each class, where there are
more than two), and, where the file holds labels, label and margin, which is not positive where the prediction is wrong.
For two classes the margin is y f(x), for more the score of the label less the largest other. Of a model
of outliers, these are -1 and the rest 1. Of a regression, the table has the predicted targets."""


def declare(parser: Parser, command: str) -> None:
    """Declare the options of `predict`."""
    parser.explain(
        TEXT,
        [
            ("samples-model.npz new.csv", "into new-predictions.csv"),
            ("samples-model.npz samples.csv", "margins of the samples that it was solved for"),
            ("samples-model.npz new.csv --json", "counts and errors as JSON"),
        ],
        {code: EXIT_CODES[code] for code in (0, 2)},
    )
    parser.add_argument("model", metavar="MODEL", help="a model (npz) that solve, or save_model, wrote")
    parser.add_argument("file", metavar="SAMPLES", help="the samples, .csv or .npz")
    parser.add_argument("--out", metavar="FILE", help="the table (csv); else NAME-predictions.csv in this folder")
    add_json(parser)
    parser.set_defaults(run="implicit_bias.cli.predicting:predicted")
