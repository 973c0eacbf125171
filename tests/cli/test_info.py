"""`implicit-bias info`: versions, machine, files and choices."""

from implicit_bias import __version__, dataset_names, solver_names
from tests.cases import MISSING_SOLVERS
from tests.cli.commands import answer, run


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
    assert document["solvers"] == [name for name in solver_names() if name not in MISSING_SOLVERS]
    assert {"ReLUNetwork", "GaLUNetwork of galu"} <= set(document["networks"])
    assert list(document["data_sets"]) == dataset_names()
    assert document["data_sets"]["mnist"][str(raw / "train-images-idx3-ubyte")] == "damaged"
    assert document["data_sets"]["mnist"][str(raw / "t10k-images-idx3-ubyte")] == "missing"
    code, text, _ = run("info")
    assert (code, "mnist" in text) == (0, True)
    assert "train-images-idx3-ubyte damaged" in text


def test_info_lists_what_is_installed(monkeypatch):
    for module in ("studies.runner.engines", "solvers.cvxpy_solvers"):
        monkeypatch.setattr(f"implicit_bias.{module}.find_spec", lambda name: None)
    _, document = answer("info")
    assert (document["engines"], document["solvers"]) == (["local"], ["NATIVE", "PRECISE"])


def test_info_says_which_mnist_files_are_found(mnist_root):
    _, document = answer("info", "--data-root", mnist_root)
    assert set(document["data_sets"]["mnist"].values()) == {"found"}
