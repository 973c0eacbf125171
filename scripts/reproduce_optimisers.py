"""`implicit-bias reproduce optimisers` for a clone of the repository; see --help and the README."""

from implicit_bias.cli.main import main

if __name__ == "__main__":
    raise SystemExit(main(command="reproduce optimisers"))
