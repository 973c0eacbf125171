"""Compare gradient descent with its margin problems; see --help and the README."""

from implicit_bias.experiments.command import main
from implicit_bias.experiments.shallow_gln import STUDY

if __name__ == "__main__":
    raise SystemExit(main(STUDY))
