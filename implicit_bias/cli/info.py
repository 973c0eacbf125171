"""`implicit-bias info`: its options; `inventory` gathers what it says."""

from implicit_bias.cli.parsers import EXIT_CODES, Parser, add_data_root, add_json


def declare(parser: Parser, command: str) -> None:
    """Declare the options of `info`."""
    parser.explain(
        "Say which versions run on which machine, where data files are found, and what there is to choose from.\n"
        "Nothing is downloaded.",
        [("", "as text"), ("--json", "to go with the report of a fault")],
        {code: EXIT_CODES[code] for code in (0, 2)},
    )
    add_data_root(parser)
    add_json(parser)
    parser.set_defaults(run="implicit_bias.cli.inventory:info")
