"""`implicit-bias reproduce`, but for the limit: its options; `reproducing` does the work."""

from importlib import import_module

from implicit_bias.cli.parsers import Parser, add_data_root, add_engine, add_json, add_list, add_versions
from implicit_bias.studies.collection import Collection
from implicit_bias.studies.paper.plan import FIGURES, PAPER
from implicit_bias.studies.paper.studies import VERSIONS

PART = ("--quick", "a part of every figure, in a few minutes")


def declare(parser: Parser, command: str) -> None:
    """Declare the options of the paper's reproduction, or a collection's."""
    name = command.rpartition(" ")[2]
    if name == "paper":
        _declare_paper(parser)
    else:
        _declare_collection(parser, import_module(f"implicit_bias.studies.{name}").COLLECTION)


def _declare_paper(parser: Parser) -> None:
    parser.explain(
        "Reproduce the paper's figures 2 to 5, panel by panel, and figures of our own, corrected and with its faults:\n"
        "figures, findings and a self-contained report, every corrected cell certified. Finished cells are stored:\n"
        "the same command goes on where an interrupted one ended.",
        [
            PART,
            ("--figure 3 4 --corrected", "two figures, without the published faults"),
            ("--redraw data/paper", "figures and report of the committed table, in seconds"),
        ],
    )
    place = "table, figures and report; else results/paper, for --redraw results/redrawn"
    _options(parser, [*FIGURES], "report from an earlier run, such as data/paper", place, paper=True)
    parser.set_defaults(run="implicit_bias.cli.reproducing:reproduce_paper")


def _declare_collection(parser: Parser, collection: Collection) -> None:
    folder, figures = f"results/{collection.name}", [*collection.names]
    parser.explain(
        f"Draw the figures again of {collection.source},\n"
        "and say whether their claims hold. Finished cells are stored: the same command goes on where an\n"
        "interrupted one ended, and figures of several runs gather in one folder.",
        [
            PART,
            (f"--figure {figures[-1]}", "one figure"),
            (f"--redraw {folder}", "figures and findings of an earlier run's tables, in seconds"),
        ],
    )
    place = f"tables, figures and findings; else {folder}, for --redraw {folder}-redrawn"
    _options(parser, figures, "findings from an earlier run's folder", place, files=collection.images)
    parser.set_defaults(run="implicit_bias.cli.reproducing:reproduce", collection=collection.name, data_root=None)


def _options(
    parser: Parser, figures: list[str], redraw: str, place: str, *, files: bool = True, paper: bool = False
) -> None:
    add = parser.add_argument
    add_list(parser, "--figure", str, ("all",), f"{', '.join(figures)} or all", offered=[*figures, "all"])
    add("--quick", action="store_true", help=PART[1])
    if paper:
        add("--dataset", default=PAPER["dataset"], help="mnist as published, or another data set")
    if files:
        add_data_root(parser)
    add("--redraw", metavar="FOLDER", help=f"compute nothing: figures and {redraw}")
    if paper:
        add_versions(parser, VERSIONS)
    add_engine(parser)
    add("--out", help=f"folder for cells, {place}")
    add_json(parser)
