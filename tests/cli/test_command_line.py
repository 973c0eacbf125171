"""The command `implicit-bias` as a user, a shell and a program meet it."""

import io
import json
import os
import signal
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from implicit_bias import Status, __version__, dataset_names, load_model, solver_names
from implicit_bias.cli.compare import readable
from implicit_bias.cli.execution import execute, plain
from implicit_bias.cli.main import main
from implicit_bias.cli.parsers import Parser
from tests import ROOT
from tests.cli.commands import process, run

posix = pytest.mark.skipif(os.name != "posix", reason="sends a POSIX signal, or runs a POSIX shell")


@pytest.fixture
def samples(tmp_path, monkeypatch):
    """A folder to work in, with samples that are separable, weighted, and not separable."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3))
    y = np.where(X[:, 0] > 0, "up", "down")
    weights = rng.uniform(1, 3, 40)
    pd.DataFrame(X, columns=["a", "b", "c"]).assign(weight=weights, label=y).to_csv(tmp_path / "s.csv", index=False)
    np.savez(tmp_path / "s.npz", X=X, y=y, sample_weight=weights)
    np.savez(tmp_path / "short.npz", X=X, y=y, sample_weight=weights[1:])
    (tmp_path / "single.csv").write_text("w\n1\n2\n")
    np.savez(tmp_path / "none.npz", X=[[1.0], [1.0]], y=[0, 1])
    monkeypatch.chdir(tmp_path)
    return tmp_path


def answer(*arguments):
    """The exit code and the document of a command, of which nothing else is on standard output."""
    done = run(*arguments, "--json")
    return done.returncode, json.loads(done.stdout)


def test_a_solution_as_json(samples):
    code, document = answer("solve", "s.csv", "--label", "label", "--verbose")
    assert code == 0
    assert document["status"] == "OPTIMAL"
    assert document["solutions"][0]["objective"] == load_model(document["files"][0]).solutions[0].objective
    assert document["problem"]["classes"] == ["down", "up"]
    assert document["problem"]["inputs"] == 5
    assert document["problem"]["C"] is None


VERBOSE = ("solve", "s.npz", "--verbose", "--tol", "1e-3", "--C", "1", "--json")


@posix
@pytest.mark.parametrize("solver", ["NATIVE", "ECOS", "SCS", "CLARABEL"])
def test_nothing_but_json_on_standard_output_even_of_compiled_solvers(samples, capfd, solver):
    assert main([*VERBOSE, "--solver", solver]) == 0
    out, err = capfd.readouterr()
    assert json.loads(out)["solutions"][0]["solver"] == solver
    assert "40 samples" in err
    assert len(err.splitlines()) > 6


def test_a_process_writes_only_json_and_ends_with_the_exit_code(samples):
    done = process(*VERBOSE, "--solver", "ECOS", "--max-iterations", 1)
    assert done.returncode == 1
    assert json.loads(done.stdout)["status"] == "ITERATION_LIMIT"
    assert len(done.stderr.splitlines()) > 6


def test_an_inseparable_problem_has_null_for_an_infinite_objective(samples):
    code, document = answer("solve", "none.npz", "--formulation", "linear")
    assert (code, document["status"], document["solutions"][0]["objective"]) == (0, "NOT_SEPARABLE", None)
    assert document["solutions"][0]["farkas_residual"] < 1e-10


def test_sample_weights_of_csv_and_npz(samples):
    options = ("--formulation", "linear", "--C", "0.1", "--tol", "1e-8")
    _, by_column = answer("solve", "s.csv", *options, "--weights", "weight")
    _, by_array = answer("solve", "s.npz", *options)
    np.savez(samples / "plain.npz", **{k: v for k, v in np.load("s.npz").items() if k != "sample_weight"})
    _, without = answer("solve", "plain.npz", *options)
    column, array, plain_one = (document["solutions"][0]["objective"] for document in (by_column, by_array, without))
    assert column == pytest.approx(array, rel=1e-6)
    assert column > 1.01 * plain_one
    weights = [document["problem"]["weighted"] for document in (by_column, by_array, without)]
    assert weights == [True, True, False]


def test_weights_on_a_hard_margin_are_warned_of(samples):
    done = run("solve", "s.npz")
    assert done.returncode == 0
    assert "no effect on a hard margin; give a finite --C" in done.stderr


def test_inputs_out_of_scale_are_warned_of(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("far.csv").write_text("metres,microns,nothing,kind\n1.5,2e6,0,a\n2,1e6,0,b\n1,3e6,0,a\n")
    Path("near.csv").write_text("metres,centimetres,kind\n1.5,150,a\n2,260,b\n1,120,a\n")
    told = "input 'microns' is 2e+06 times as large as input 'metres'"
    assert [told in run("solve", name).stderr for name in ("far.csv", "near.csv")] == [True, False]


@pytest.mark.parametrize("limit", [["--max-seconds", "1e-9"], ["--max-iterations", "1"]])
def test_limits_end_with_a_worse_answer_and_exit_code_1(samples, limit):
    code, document = answer("solve", "s.npz", "--C", "1", *limit)
    assert code == 1
    assert document["status"] == ("TIME_LIMIT" if "seconds" in limit[0] else "ITERATION_LIMIT")
    assert load_model(document["files"][0]).status is Status[document["status"]]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["solve", "nowhere.csv"], "nowhere.csv is not a readable file"),
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
        (["compare"], "WHICH"),
        (["reproduce", "paper", "--figure", "7"], "unknown figure '7'"),
        (["reproduce", "paper", "--figure", "3", "7"], "unknown figure '7'"),
        (["reproduce", "limit", "--network", "gln", "gln"], "twice"),
        (["reproduce", "limit", "--network", "gln,gnl"], "unknown network 'gnl'"),
        (["reproduce", "limit", "--contexts", "3"], "power of two"),
        (["reproduce", "limit", "--seeds", "1", "-1"], "seed must be"),
        (["reproduce", "limit", "--train-size", "0"], "train_size must be"),
        ([], "COMMAND"),
    ],
)
def test_bad_input_is_a_sentence_and_json_and_exit_code_2(samples, arguments, words):
    before = sorted(samples.rglob("*"))
    code, out, err = run(*arguments, "--json")
    assert code == 2
    assert words in json.loads(out)["error"]
    assert list(json.loads(out)) == ["error"]
    assert words in err
    code, out, err = run(*arguments)
    assert code == 2
    assert words in err.splitlines()[-1]
    assert [path for path in sorted(samples.rglob("*")) if path.is_file()] == [p for p in before if p.is_file()]


@pytest.mark.parametrize("command", [["compare", "gln"], ["solve", "s.csv"], ["reproduce", "limit"], ["info"]])
def test_an_unknown_option_shows_the_usage_of_its_command(samples, command):
    lines = run(*command, "--nonsense", "1").stderr.splitlines()
    name = " ".join(word for word in command if word != "s.csv")
    assert lines[0].startswith(f"usage: implicit-bias {name} ")
    assert lines[-1].startswith(f"implicit-bias {name}: error: unrecognized arguments: --nonsense")


def test_a_comparison_as_json(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    small = ("--train-size", 60, "--seeds", "1,2", "--units", 3, "--steps", 60, "--jobs", 1)
    code, document = answer("compare", "gln", *small)
    assert code == 0
    assert [row["model"] for row in document["summary"]] == ["GD-GLN", "SVM-L2", "SVM-GLN", "SVM-Fro"]
    assert len(document["rows"]) == 8
    assert document["record"]["versions"]["implicit-bias"] == __version__
    assert all(Path(path).is_file() for path in document["files"])


def test_results_of_other_settings_are_not_replaced(tmp_path):
    """A run may add settings to those of the folder."""

    def compared(*options):
        small = ("--train-size", 60, "--units", 3, "--jobs", 1, "--out", tmp_path)
        done = run("compare", "gln", *small, *options)
        return done, (tmp_path / "comparison.csv").read_bytes()

    done, first = compared("--seeds", 1, 2, "--steps", 30)
    assert done.returncode == 0
    assert "2 of 2 cells 100% |##########|" in done.stderr
    for options, words in [
        (("--seeds", 1, 3, "--steps", 30), "holds results of seed 2, which"),
        (("--seeds", 1, 2, "--steps", 31), "holds results of steps 30, which"),
        (("--seeds", 1, 2, "--steps", 30, "--as-published"), "holds results of versions corrected, which"),
    ]:
        done, table = compared(*options)
        assert (done.returncode, table) == (2, first)
        assert words in done.stderr
        assert "--out" in done.stderr
    done, table = compared("--seeds", 1, 2, 3, "--steps", 30)
    assert done.returncode == 0
    assert set(pd.read_csv(tmp_path / "comparison.csv").seed) == {1, 2, 3}


def test_findings_as_json(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, document = answer("reproduce", "paper", "--redraw", ROOT / "data" / "paper", "--figure", "4")
    assert code == 0
    assert document["findings"]["cells"]["verdicts"][0].keys() == {"claim", "found", "threshold", "outcome"}
    assert "results/redrawn/report.html" in document["files"]


def test_the_limit_as_json(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    options = ("--network", "gln", "--units", 3, "--train-size", 40, "--start", "initial", "--tolerance", 0.5)
    code, document = answer("reproduce", "limit", *options)
    assert code == 0
    assert document["record"]["end"] == "finished"
    assert "results/limit/limit.csv" in document["files"]


def test_info(tmp_path, monkeypatch):
    monkeypatch.setenv("IMPLICIT_BIAS_DATA", str(tmp_path))
    raw = tmp_path / "MNIST" / "raw"
    raw.mkdir(parents=True)
    (raw / "train-images-idx3-ubyte").write_text("no images")
    code, document = answer("info")
    assert code == 0
    assert document["versions"]["implicit-bias"] == __version__
    assert document["versions"]["torch"]
    assert document["machine"].endswith("cores")
    assert document["devices"][0] == "cpu"
    assert document["solvers"] == solver_names()
    assert {"ReLUNetwork", "GaLUNetwork of galu"} <= set(document["networks"])
    assert list(document["data_sets"]) == dataset_names()
    assert document["data_sets"]["mnist"][str(raw / "train-images-idx3-ubyte")] == "damaged"
    assert document["data_sets"]["mnist"][str(raw / "t10k-images-idx3-ubyte")] == "missing"
    code, text, _ = run("info")
    assert code == 0
    assert "mnist" in text
    assert "train-images-idx3-ubyte damaged" in text


def test_info_says_which_mnist_files_are_found(mnist_root):
    _, document = answer("info", "--data-root", mnist_root)
    assert set(document["data_sets"]["mnist"].values()) == {"found"}


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
@pytest.mark.parametrize(("module", "options"), [("numpy", ["--json"]), ("torch.nn", [])])
def test_ctrl_c_while_modules_are_loaded_leaves_no_traceback(module, options):
    done = process("-c", INTERRUPTED_AT, module, "compare", "gln", *options, command=[sys.executable])
    assert done.returncode == 130
    assert "Traceback" not in done.stderr
    assert done.stderr.splitlines()[-1].startswith("interrupted: nothing was")
    assert ("interrupted" in json.loads(done.stdout)["error"]) if options else (done.stdout == "")


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_ctrl_c_during_the_work_leaves_no_traceback(tmp_path, monkeypatch, options):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("implicit_bias.studies.runner.engines.compute", interrupted)
    done = run("compare", "gln", "--jobs", 1, "--out", tmp_path, *options)
    assert done.returncode == 130
    assert done.stderr.splitlines()[-1] == "interrupted: nothing was finished"
    assert not options or json.loads(done.stdout)["error"] == "interrupted: nothing was finished"


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(("patience", "options", "shown"), [(0.0, [], True), (1e9, [], False), (0.0, ["--json"], True),
                                                            (0.0, ["--solver", "CLARABEL"], False)])  # fmt: skip
def test_a_long_solve_shows_how_far_it_is(patience, options, shown, samples, monkeypatch):
    from implicit_bias.cli import solving

    monkeypatch.setattr(solving, "PATIENCE", patience)
    terminal, out = Terminal(), io.StringIO()
    with redirect_stderr(terminal), redirect_stdout(out):
        assert main(["solve", "s.npz", *options]) == 0
    lines = terminal.getvalue().split("\r\x1b[K")
    assert (len(lines) > 2 and all(" samples " in line for line in lines[1:])) == shown
    assert "gap" not in out.getvalue().split("OPTIMAL")[0]
    if shown:
        assert lines[-1].split("\n")[0].endswith(" s")


@posix
def test_an_interrupted_solve_saves_the_best_answer(samples, monkeypatch):
    from implicit_bias.cli import solving
    from implicit_bias.solvers import solve

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    interrupt = lambda p: os.kill(os.getpid(), signal.SIGINT) if p.iteration == 3 else None  # noqa: E731
    monkeypatch.setattr(solving, "solve", lambda *a, **k: solve(*a, **k | {"callback": interrupt}))
    try:
        code, document = answer("solve", "s.npz", "--C", "1", "--tol", "1e-9")
    finally:
        signal.signal(signal.SIGINT, before)
    assert (code, document["status"]) == (130, "INTERRUPTED")
    assert load_model("s-model.npz").status is Status.INTERRUPTED


@posix
@pytest.mark.parametrize(
    ("arguments", "unbuffered", "code"),
    [(["--help"], "", 141), (["solve", "--json"], "", 2), (["solve", "--json"], "1", 2)]
    + [
        (["solve", "s.npz", *options], kept, 141)
        for options, kept in [((), "1"), (("--verbose",), ""), (("--json",), "1")]
    ],
)
def test_a_reader_that_has_gone_loses_its_output_and_no_work(samples, arguments, unbuffered, code):
    """Written when it is printed, or when the process ends; an error of the command's own comes first."""
    reader, writer = os.pipe()
    os.close(reader)
    done = process(*arguments, stdout=writer, env=os.environ | {"PYTHONUNBUFFERED": unbuffered})
    os.close(writer)
    assert done.returncode == code
    assert "Traceback" not in done.stderr
    assert "BrokenPipe" not in done.stderr
    if "s.npz" in arguments:
        assert load_model("s-model.npz").status is Status.OPTIMAL


@posix
def test_messages_whose_reader_has_gone_stop_nothing_either(samples):
    reader, writer = os.pipe()
    os.close(reader)
    done = process("solve", "s.npz", "--verbose", stderr=writer)
    os.close(writer)
    assert (done.returncode, "wrote s-model.npz" in done.stdout) == (141, True)
    assert load_model("s-model.npz").status is Status.OPTIMAL


def test_without_memory_the_document_is_an_error(capsys):
    def fails(options):
        raise MemoryError

    parser = Parser()
    parser.set_defaults(run=fails, json=True)
    assert execute(parser.parse_args([])) == 2
    assert "out of memory" in json.loads(capsys.readouterr().out)["error"]


def test_json_knows_no_numpy():
    table = pd.DataFrame({"a": [1, 2], "b": [0.5, np.nan]})
    assert plain(table) == [{"a": 1, "b": 0.5}, {"a": 2, "b": None}]
    assert json.dumps(plain({"n": np.int64(3), "x": (np.float64("inf"), True, None, Path("p"))})) == (
        '{"n": 3, "x": [null, true, null, "p"]}'
    )


def test_a_comparison_says_of_what_no_certified_row_can_be_that_it_is_proved():
    cell = {"study": "compare_gln", "dataset": "digits", "train_size": 9, "units": 1, "contexts": 2, "seed": 1}
    cell |= {"momentum": 0.0, "version": "corrected", "split": "published", "cutoff": "median", "seconds": 0.1}
    cell |= {"inconsistency": np.nan, "expected_inconsistency": np.nan}
    rows = [cell | {"model": "GD-GLN", "status": "TRAINED", "error": 0.1}]
    rows += [cell | {"model": "SVM-L2", "status": "NOT_SEPARABLE", "error": np.nan}]
    *_, last = readable(pd.DataFrame(rows)).splitlines()
    assert last.startswith("1 × SVM-L2 has no solution to certify, which is proved: no weights separate")


@posix
@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_stream_that_is_closed_from_the_start_takes_nothing_along(samples, stream, monkeypatch):
    monkeypatch.setattr(sys, stream, None)
    assert main(["solve", "s.npz", "--verbose"]) == 0
    assert load_model("s-model.npz").status is Status.OPTIMAL
