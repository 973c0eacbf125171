"""`implicit-bias completion`: the options of a static script; `completing` writes it."""

from implicit_bias.cli.parsers import EXIT_CODES, Parser

SHELLS = ("bash", "zsh", "fish")


def declare(parser: Parser, command: str) -> None:
    """Declare the options of `completion`."""
    parser.explain(
        "Print a script that completes commands, options and their values in your shell. Write it again after an "
        "update.",
        [
            ("bash > ~/.local/share/bash-completion/completions/implicit-bias", "read by new shells"),
            ("zsh > ~/.zfunc/_implicit-bias", "with ~/.zfunc in fpath, before compinit"),
            ("fish > ~/.config/fish/completions/implicit-bias.fish", "read by new shells"),
        ],
        {code: EXIT_CODES[code] for code in (0, 2)},
    )
    parser.add_argument("shell", choices=SHELLS, help="your shell")
    parser.set_defaults(run="implicit_bias.cli.completing:completion", json=False)
