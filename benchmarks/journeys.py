"""Count the files and functions of the package that three common uses enter: `python benchmarks/journeys.py`."""

import io
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Any

import implicit_bias
from implicit_bias import GLNClassifier, HyperplaneGates, load_binary, solve, svm_gln
from implicit_bias.cli.main import main as cli

PACKAGE = str(Path(implicit_bias.__file__).parent)


def entered(use: Callable[[int], Any]) -> tuple[int, int]:
    """Return the numbers of files and functions of the package that `use(2)` enters, after `use(1)`."""
    use(1)
    found: set[tuple[str, str, int]] = set()

    def note(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(PACKAGE) and code.co_name != "<module>":
            found.add((code.co_filename, code.co_name, code.co_firstlineno))

    sys.setprofile(note)
    try:
        use(2)
    finally:
        sys.setprofile(None)
    return len({file for file, _, _ in found}), len(found)


def main() -> None:
    task = load_binary("digits", train_size=100)
    gates = HyperplaneGates(5, 2, seed=1).fit(task.X_pool)

    def one_solve(_: int) -> None:
        solve(svm_gln(task.X_train, task.y_train, gates))

    def classifier(_: int) -> None:
        GLNClassifier(5, random_state=1).fit(task.X_train[:, :-1], task.y_train).predict(task.X_val[:, :-1])

    def comparison(seed: int) -> None:
        with TemporaryDirectory() as out, redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            cli(f"compare gln --train-size 60 --units 3 --seeds {seed} --steps 60 --out {out}/compare".split())

    print("| use | files | functions |\n|---|---|---|")
    uses = {"svm_gln, solve": one_solve, "GLNClassifier, fit and predict": classifier, "compare gln": comparison}
    for name, use in uses.items():
        files, functions = entered(use)
        print(f"| {name} | {files} | {functions} |")


if __name__ == "__main__":
    main()
