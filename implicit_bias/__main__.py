"""`python -m implicit_bias` is the command `implicit-bias`."""

from implicit_bias.cli.main import main

if __name__ == "__main__":
    raise SystemExit(main())
