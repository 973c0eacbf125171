"""The command `implicit-bias` as a user, a shell and a program meet it."""

import json
import os
import sys
from pathlib import Path

import pytest

from implicit_bias import Status, load_model
from implicit_bias.cli.main import main
from tests.cli.commands import posix, process, run


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["solve", "nowhere.csv"], "nowhere.csv is not a readable file"),
        (["solve", "."], ". is not a readable file"),
        (["solve", "objects.npz"], "not of Python objects"),
        (["solve"], "FILE"),
        (["solve", "s.csv", "--weights", "w"], "no column 'w'"),
        (["solve", "s.csv", "--weights", "label", "--label", "label"], "both label and weights"),
        (["solve", "s.npz", "--weights", "w"], "array sample_weight"),
        (["solve", "single.csv", "--weights", "w"], "both label and weights"),
        (["solve", "short.npz", "--C", "1"], "sample_weight must be one number or 40"),
        (["solve", "s.csv", "--weights", "a", "--C", "1"], "sample_weight must be positive"),
        (["solve", "s.csv", "--max-seconds", "-1"], "max_seconds"),
        (["solve", "s.csv", "--solver", "GUROBI"], "unknown solver"),
        (["solve", "s.csv", "--form", "linear"], "unrecognized arguments: --form linear"),
        (["compare", "gln", "--seed", "1"], "unrecognized arguments: --seed 1; did you mean --seeds?"),
        (["predict", "s.npz", "s.csv"], "s.npz is damaged or not a saved model"),
        (["predict", "s.npz"], "SAMPLES"),
        (["compare", "gln", "--units", "ten"], "not a list of int values"),
        (["compare", "gln", "--dataset", "cifar"], "unknown data set 'cifar'"),
        (["compare", "gcn"], "invalid choice: 'gcn'"),
        (["compare", "gln", "--solver", "GUROBI"], "unknown solver"),
        (["compare", "gln", "--contexts", "3"], "power of two"),
        (["compare", "gln", "--units", "0"], "units"),
        (["compare", "gln", "--seeds", "1", "1"], "twice"),
        (["compare", "gln", "--momentum", "2"], "momentum"),
        (["compare", "gln", "--train-size", "100000"], "at most 1438"),
        (["compare", "gln", "--cutoff", "mean"], "median"),
        (["compare", "gln", "--jobs", "0"], "jobs"),
        (["compare", "gln", "--tol", "-1"], "tol"),
        (["compare", "gln", "--solver", "OSQP", "--jobs", "1", "--steps", "1"], "CLARABEL, ECOS or SCS"),
        (["compare", "gln", "--dataset", "mnist", "--data-root", "/proc/none"], "by hand"),
        (["compare", "relu", "--contexts", "4"], "contexts at 2"),
        (["compare", "shallow-gln", "--units", "5"], "one unit"),
        (["compare"], "WHICH"),
        (["reproduce", "paper", "--figure", "3", "7"], "unknown figure '7'"),
        (["reproduce", "limit", "--network", "gln,gnl"], "unknown network 'gnl'"),
        (["reproduce", "limit", "--contexts", "3"], "power of two"),
        (["reproduce", "limit", "--seeds", "1", "-1"], "seed must be"),
        (["reproduce", "limit", "--train-size", "0"], "train_size must be"),
        ([], "COMMAND"),
    ],
)
def test_bad_input(samples, arguments, words):
    before = sorted(samples.rglob("*"))
    code, out, err = run(*arguments, "--json")
    assert (code, list(json.loads(out)), words in err) == (2, ["error"], True)
    assert words in json.loads(out)["error"]
    code, out, err = run(*arguments)
    assert (code, words in err.splitlines()[-1], "Traceback" in err) == (2, True, False)
    assert [path for path in sorted(samples.rglob("*")) if path.is_file()] == [p for p in before if p.is_file()]


@pytest.mark.parametrize("command", [["compare", "gln"], ["solve", "s.csv"], ["reproduce", "limit"], ["info"]])
def test_unknown_option(samples, command):
    lines = run(*command, "--nonsense", "1").stderr.splitlines()
    name = " ".join(word for word in command if word != "s.csv")
    assert lines[0].startswith(f"usage: implicit-bias {name} ")
    assert lines[-1].startswith(f"implicit-bias {name}: error: unrecognized arguments: --nonsense")


#: Interrupts its own process when a module is first asked for, and then runs the command.
INTERRUPTED_AT = """
import os, signal, sys
from implicit_bias.cli.main import main

class Interrupts:
    def find_spec(self, name, *_):
        if name == sys.argv[1]:
            os.kill(os.getpid(), signal.SIGINT)

# A shell that starts the tests in its background has them ignore the signal.
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.meta_path.insert(0, Interrupts())
sys.exit(main(sys.argv[2:]))
"""


@posix
@pytest.mark.parametrize("options", [["--json"], []])
def test_ctrl_c_while_loading(options):
    done = process("-c", INTERRUPTED_AT, "numpy", "compare", "gln", *options, command=[sys.executable])
    assert (done.returncode, "Traceback" in done.stderr) == (130, False)
    assert done.stderr.splitlines()[-1].startswith("interrupted: nothing was")
    assert ("interrupted" in json.loads(done.stdout)["error"]) if options else (done.stdout == "")


@posix
@pytest.mark.parametrize(
    ("arguments", "unbuffered", "code"),
    [(["--help"], "", 141), (["solve", "--json"], "1", 2), (["solve", "s.npz", "--json"], "1", 141)],
)
def test_reader_of_output_gone(samples, arguments, unbuffered, code):
    """If the reader of the output is gone, the command ends without a traceback, with 141 or the code of its error."""
    reader, writer = os.pipe()
    os.close(reader)
    done = process(*arguments, stdout=writer, env=os.environ | {"PYTHONUNBUFFERED": unbuffered})
    os.close(writer)
    assert (done.returncode, "Traceback" in done.stderr, "BrokenPipe" in done.stderr) == (code, False, False)
    assert "s.npz" not in arguments or load_model("s-model.npz").status is Status.OPTIMAL


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
@pytest.mark.parametrize("arguments", [["--help"], ["solve", "s.npz", "--json"]])
def test_full_disk(samples, arguments):
    """Output that cannot be written is one sentence and exit code 2; what was computed is saved."""
    with Path("/dev/full").open("w") as full:
        done = process(*arguments, stdout=full)
    sentence = "error: the output cannot be written (No space left on device); send it to another place"
    assert (done.returncode, done.stderr.splitlines()[-1]) == (2, sentence)
    assert "Traceback" not in done.stderr
    assert "solve" not in arguments or load_model("s-model.npz").status is Status.OPTIMAL


@posix
def test_reader_of_messages_gone(samples):
    reader, writer = os.pipe()
    os.close(reader)
    done = process("solve", "s.npz", "--verbose", stderr=writer)
    os.close(writer)
    assert (done.returncode, "wrote s-model.npz" in done.stdout) == (141, True)
    assert load_model("s-model.npz").status is Status.OPTIMAL


@posix
@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_closed_stream(samples, stream, monkeypatch):
    monkeypatch.setattr(sys, stream, None)
    assert main(["solve", "s.npz", "--verbose"]) == 0
    assert load_model("s-model.npz").status is Status.OPTIMAL


def test_a_terminal_without_the_minus_and_a_path_with_a_space(samples):
    environment = os.environ | {"PYTHONIOENCODING": "ascii"}
    done = process("solve", "s.csv", "--label", "label", "--out", "a model.npz", env=environment)
    assert "class -1 is 'down', class +1 is 'up'" in done.stdout
    assert done.stdout.endswith("wrote a model.npz; next: implicit-bias predict 'a model.npz' NEW.csv\n")
