"""Image tasks, samples of one's own from arrays and files, and synthetic tasks."""

import shutil
import sys
import urllib.error
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import stats
from torchvision.datasets import MNIST

from implicit_bias import BinaryTask, Frobenius, GatedFeatures, InputError, MarginProblem, load_binary, read_samples
from implicit_bias.datasets import images
from implicit_bias.datasets.tables import read_inputs
from implicit_bias.extensions.galu import noisy_clusters, separable
from tests.cases import assert_refused, refusals


def test_digits():
    task = load_binary()
    assert [X.shape for X in (task.X_train, task.X_val, task.X_pool)] == [(500, 65), (359, 65), (1797, 65)]
    assert (task.X_pool[:, :-1].min(), task.X_pool[:, :-1].max()) == (-1, 1)
    assert (task.X_pool[:, -1] == 1).all()
    assert set(task.y_train) == set(task.y_val) == {-1.0, 1.0}


def test_the_split_is_random_split():
    generator = torch.Generator().manual_seed(5)
    parts = torch.utils.data.random_split(range(1797), [100, 1797 - 100 - 359, 359], generator=generator)
    task = load_binary("digits", 100, seed=5)
    np.testing.assert_array_equal(task.X_train, task.X_pool[list(parts[0])])
    np.testing.assert_array_equal(task.X_val, task.X_pool[list(parts[2])])
    assert not np.array_equal(load_binary("digits", 100, seed=6).X_train, task.X_train)


def test_any_grouping_of_the_labels():
    from sklearn.datasets import load_digits

    labels = load_digits().target
    assert len(load_binary("digits", positive=range(1, 10, 2)).X_pool) == 1797
    assert len(load_binary("digits", 200, positive=[3], negative=[5]).X_pool) == np.isin(labels, [3, 5]).sum()


test_bad_options = refusals(
    ({"name": "cifar"}, "known: digits, mnist, fashion-mnist"),
    ({"name": None}, "unknown data set"),
    ({"train_size": 0}, "train_size"),
    ({"train_size": 1500}, "at most 1438"),
    ({"train_size": "many"}, "train_size"),
    ({"seed": -3}, "seed"),
    ({"positive": [1], "negative": [1, 2]}, "both classes"),
    ({"positive": []}, "each class"),
    ({"positive": range(10)}, "each class"),
    ({"positive": [11]}, "each class"),
    ({"positive": 3}, "collections"),
    call=lambda options: load_binary(**options),
)


def test_own_arrays():
    task = BinaryTask.from_arrays([[0.0], [1.0]], [True, False], X_val=[[3.0]], y_val=[True], X_pool=[[5.0]])
    assert (task.classes, task.X_val.tolist(), task.y_val.tolist()) == ((False, True), [[3.0, 1.0]], [1.0])
    assert BinaryTask.from_arrays([[0.0], [1.0]], [3, 7], constant=False).X_train.shape == (2, 1)


test_bad_own_arrays = refusals(
    (([[1.0], [2.0]], [1, 1]), "two classes, but there is 1"),
    (([[1.0], [2.0], [3.0]], ["a", "b", "c"]), "two classes, but there are 3"),
    (([[1.0], [2.0]], [1.0, np.nan]), "NaN"),
    (([[1.0], [2.0]], [1.0, 2.5]), "fractions such as 2.5"),
    (([[1.0], [2.0]], [1, 2, 1]), "3 labels for 2"),
    (([[1.0], [2.0]], [1, "a", None]), "labels"),
    (([], []), "X_train"),
    (([[np.inf], [2.0]], [1, 2]), "infinity"),
    (([[1.0], [2.0]], [1, 2], [[1.0]]), "together"),
    (([[1.0], [2.0]], [1, 2], [[1.0]], [3]), "neither of the training classes"),
    (([[1.0], [2.0]], [1, 2], [[1.0, 2.0]], [1]), "same number of columns"),
    (([[1.0], [2.0]], [[1], [2]]), "one-dimensional"),
    call=lambda arguments: BinaryTask.from_arrays(*arguments),
)


@pytest.mark.mnist
@pytest.mark.parametrize("name", ["mnist", "fashion-mnist"])
def test_image_sets(mnist_root, name):
    if name == "fashion-mnist" and not (Path(mnist_root) / "FashionMNIST").is_dir():
        pytest.skip("no FashionMNIST folder under IMPLICIT_BIAS_DATA")
    task = load_binary(name, 500, root=mnist_root)
    assert (task.X_pool.shape, task.X_val.shape) == ((60_000, 785), (12_000, 785))
    assert (task.X_pool.min(), task.X_pool.max()) == (-1, 1)


@pytest.mark.mnist
@pytest.mark.parametrize("train", [True, False])
def test_the_files_are_read_as_torchvision_reads_them(mnist_root, train):
    theirs = MNIST(mnist_root, train=train)
    pixels, labels = images.raw_images("mnist", mnist_root, train)
    np.testing.assert_array_equal(pixels.reshape(-1, 28, 28), theirs.data.numpy())
    np.testing.assert_array_equal(labels, theirs.targets.numpy())


@pytest.mark.mnist
def test_damaged_and_missing_files(tmp_path, mnist_root):
    shutil.copytree(Path(mnist_root) / "MNIST", tmp_path / "MNIST")
    file = tmp_path / "MNIST" / "raw" / "train-images-idx3-ubyte"
    file.chmod(0o644)
    damaged = bytearray(file.read_bytes())
    damaged[5000] ^= 1
    file.write_bytes(damaged)
    assert_refused(lambda: load_binary("mnist", root=tmp_path), "train-images-idx3-ubyte is damaged")
    assert file.read_bytes() == bytes(damaged)
    file.write_bytes(damaged[:1000])
    assert_refused(lambda: load_binary("mnist", root=tmp_path), "is damaged")
    file.unlink()
    assert_refused(lambda: load_binary("mnist", root=tmp_path), "train-images-idx3-ubyte is missing")
    assert not file.exists()


@pytest.fixture
def downloader(monkeypatch):
    """Replace torchvision's data set by one whose download writes half a file and then raises `error`."""

    def install(error):
        class Fake:
            def __init__(self, root, train, download):
                raw = Path(root) / "MNIST" / "raw"
                raw.mkdir(parents=True)
                (raw / "train-images-idx3-ubyte").write_bytes(b"half")
                raise error

        monkeypatch.setattr(images, "_torchvision", lambda folder: Fake)

    return install


@pytest.mark.parametrize(
    ("error", "raised", "words"),
    [
        (RuntimeError("Error downloading"), InputError, "by hand"),
        (urllib.error.URLError("no network"), InputError, "by hand"),
        (TimeoutError(), InputError, "by hand"),
        (KeyboardInterrupt(), KeyboardInterrupt, None),
    ],
)
def test_failed_and_interrupted_downloads(tmp_path, downloader, error, raised, words):
    downloader(error)
    root = tmp_path / "data"
    with pytest.raises(raised, match=words):
        load_binary("mnist", root=root)
    assert list(root.iterdir()) == []


def test_without_torchvision(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torchvision", None)
    assert_refused(lambda: load_binary("mnist", root=tmp_path), r"downloads MNIST, cannot be imported .* by hand")


def test_an_unwritable_data_root(tmp_path, downloader):
    downloader(AssertionError("the download starts"))
    (tmp_path / "file").write_text("")
    assert_refused(lambda: load_binary("mnist", root=tmp_path / "file"), "cannot be written")


def test_the_environment_names_the_root(tmp_path, monkeypatch):
    monkeypatch.setenv("IMPLICIT_BIAS_DATA", str(tmp_path))
    assert (images.data_root(None), images.data_root("other")) == (tmp_path, Path("other"))


@pytest.mark.parametrize(
    ("content", "given", "header", "classes"),
    [
        # A name above numbers; of numbers that increase, over labels of several samples; a name that was given.
        ("0,1,y\n1,2,0\n3,4,1\n", {}, True, (0, 1)),
        ("2019,2020,y\n1,2,a\n3,4,b\n5,6,a\n7,8,b\n", {}, True, ("a", "b")),
        ("2020,2019,y\n1,2,a\n3,4,b\n5,6,a\n7,8,b\n", {"label": "y"}, True, ("a", "b")),
        ("2019,2020,2021\n1,2,0\n3,4,1\n5,6,0\n7,8,1\n", {"header": True}, True, (0, 1)),
        ("1,2,a\n3,4,b\n5,6,a\n7,8,b\n", {}, False, ("a", "b")),
        ("1.5,2.5,0\n3,4,1\n5,6,1\n", {}, False, (0, 1)),
        ("0,1,0\n2,3,1\n", {"header": False}, False, (0, 1)),
    ],
)
def test_first_row(tmp_path, content, given, header, classes):
    (tmp_path / "s.csv").write_text(content)
    samples = read_samples(tmp_path / "s.csv", **given)
    assert (samples.header, samples.classes, len(samples.X)) == (header, classes, content.count("\n") - header)
    assert samples.columns.inputs == (content.split("\n")[0].split(",")[:2] if header else ["0", "1"])


@pytest.mark.parametrize(("row", "values"), [("1.500;7", [1500, 7]), ("1.5;7", [1.5, 7]), ("1.500;2,4", [1500, 2.4])])
def test_new_samples_have_the_decimal_separator_of_the_fit(tmp_path, row, values):
    """1.500 may have decimals or thousands; 1.5 tells by itself."""
    (tmp_path / "fit.csv").write_text("a;b;y\n1.234,5;1,5;u\n1.300,1;2,5;v\n")
    (tmp_path / "new.csv").write_text(f"a;b\n{row}\n")
    columns = read_samples(tmp_path / "fit.csv").columns
    assert read_inputs(tmp_path / "new.csv", columns, 2).X.tolist() == [values]


@pytest.mark.parametrize(
    ("options", "inputs", "gates", "label"),
    [
        ({"drop": ["", "note"]}, ["a", "b"], ["gate_1"], "y"),
        ({"drop": ["", "note", "b"], "gates": []}, ["a", "gate_1"], [], "y"),
        ({"drop": ["", "note"], "gates": ["a"], "label": "y"}, ["gate_1", "b"], ["a"], "y"),
        ({"columns": ["b", "gate_1"], "label": "y"}, ["b", "gate_1"], [], "y"),
        ({"columns": ["b"], "gates": ["gate_1"], "weights": "a", "label": "y"}, ["b"], ["gate_1"], "y"),
    ],
)
def test_named_columns(tmp_path, options, inputs, gates, label):
    table = pd.DataFrame({"a": [1, 2], "gate_1": [0.5, 1], "b": [3, 4], "y": ["u", "v"], "note": ["x", "z"]})
    table.to_csv(tmp_path / "s.csv")
    samples = read_samples(tmp_path / "s.csv", **options)
    assert samples.columns == (inputs, gates, label, {}, ".")
    assert samples.X.tolist() == table[inputs].to_numpy().tolist()
    assert samples.gate_values is None if not gates else samples.gate_values.tolist() == table[gates].values.tolist()


TABLE = pd.DataFrame({"höhe": [0.5, 1.25, 2.5, 3.5], "b": [1.0, -2.5, 3.0, 4.0], "y": list("uvuv")})


@pytest.mark.parametrize(
    ("name", "written", "given", "note"),
    [
        ("s.csv", {"sep": ";", "decimal": ","}, {}, "semicolons and decimal commas"),
        ("s.csv", {"sep": ";", "decimal": ","}, {"separator": ";", "decimal": ","}, ""),
        ("s.csv", {"sep": ",", "decimal": ","}, {}, "commas and decimal commas"),
        ("s.tsv", {"sep": "\t", "header": False}, {}, "tabs"),
        ("s.txt", {"sep": "\t"}, {"separator": "tab"}, ""),
        ("s.txt", {"sep": " "}, {"separator": " "}, ""),
        ("s.csv", {"index": True}, {}, "numbers the rows"),
        ("s.csv", {"encoding": "utf-16"}, {}, ""),
        ("s.csv", {"encoding": "latin-1"}, {"encoding": "latin-1"}, ""),
        ("s.csv.gz", {}, {}, ""),
        ("s.CSV.zip", {}, {}, ""),
    ],
)
def test_tables_are_read_as_they_are_written(tmp_path, name, written, given, note):
    TABLE.to_csv(tmp_path / name, **({"index": False} | written))
    samples = read_samples(tmp_path / name, **given)
    assert samples.X.tolist() == TABLE[["höhe", "b"]].to_numpy().tolist()
    assert samples.columns.inputs == (["höhe", "b"] if samples.header else ["0", "1"])
    assert note in " ".join(samples.notes)
    assert len(samples.notes) == 1 + bool(note)


@pytest.mark.parametrize(
    ("first", "second", "decimal", "numbers"),
    [
        ("1,250", "-2,500,125.5", None, [1250, -2500125.5]),
        ("1,250", "0.5", None, [1250, 0.5]),
        ("1,250", "2,125", ".", [1250, 2125]),
        ("1,250", "2,125", ",", [1.25, 2.125]),
        ("1.250,5", "1\u00a0250,5", None, [1250.5, 1250.5]),
        ("1.250", "12,5", ",", [1250, 12.5]),
        ("1’250", "2'125'000", None, [1250, 2125000]),
        ("−1250", "1.5", None, [-1250, 1.5]),
    ],
)
def test_separators_of_thousands(tmp_path, first, second, decimal, numbers):
    (tmp_path / "s.csv").write_text(f"a;y\n{first};u\n{second};v\n")
    samples = read_samples(tmp_path / "s.csv", encode=True, decimal=decimal)
    assert samples.X[:, 0].tolist() == numbers
    assert ("has numbers such as" in str(samples.notes)) == (max(map(abs, numbers)) > 1e3)


@pytest.mark.parametrize(
    ("content", "names", "left"),
    [
        ('# made by "x, y", z\n\n#,1,2\na,b,y\n1,2,u\n3,4.5,v\n', ["a", "b"], "'#,1,2'"),
        ("# file\n#a,b,y\n1,2,u\n3,4.5,v\n", ["#a", "b"], "'# file'"),
        ("sep=;\na;b;y\n1;2;u\n3;4,5;v\n", ["a", "b"], "'sep=;'"),
        ('"sep=|"\n1|2|u\n3|4.5|v\n', ["0", "1"], "'sep=|'"),
        ("#1,2,u\n#3,4.5,v\n", ["0", "1"], None),
    ],
)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_lines_above_a_table(tmp_path, content, names, left, encoding):
    (tmp_path / "s.csv").write_text(content, encoding)
    samples = read_samples(tmp_path / "s.csv", encode=left is None)
    assert samples.columns.inputs == names
    assert samples.X[:, -1].tolist() == [2, 4.5]
    assert (f"are left out, such as {left}" if left else "is a sample") in samples.notes[0].replace('"', "")


def test_tables_of_other_kinds_are_read_as_text(tmp_path, monkeypatch):
    (tmp_path / "s.parquet").touch()
    monkeypatch.setattr(pd, "read_parquet", lambda _: TABLE.assign(b=[0.1, 1 / 3, 1e22, -0.0]))
    assert read_samples(tmp_path / "s.parquet").X[:, 1].tolist() == [0.1, 1 / 3, 1e22, -0.0]
    assert_refused(lambda: read_samples(tmp_path / "s.parquet", decimal=","), "leave decimal out")
    (tmp_path / "s.xlsx").touch()
    monkeypatch.setattr(pd, "read_excel", lambda *_, **__: pd.DataFrame([[None] * 3, [None, "a", "y"], [None, 1.5, 2]]))
    assert_refused(lambda: read_samples(tmp_path / "s.xlsx"), "one class only .2")
    TABLE.to_csv(tmp_path / "s.csv", encoding="latin-1")
    assert_refused(lambda: read_samples(tmp_path / "s.csv"), "not in utf-8; name its encoding")


@pytest.mark.parametrize(
    ("column", "values", "words"),
    [
        ("no", range(5, 17), "'no' may only number the samples"),
        ("patient_id", [3, 9, 4, 21, 33, 2, 7, 8, 91, 11, 15, 12], "'patient_id' may only number"),
        ("copy", [2, 7] * 6, "'copy' has one value for each label"),
        ("y", ["Ja", "ja"] * 6, "'Ja' and 'ja' look alike"),
        ("y", ["für", "fu\u0308r\u200b"] * 6, "look alike and are two classes"),
        ("id", [1.5, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12], None),
        ("age", [3, 9, 4, 21, 33, 2, 7, 8, 91, 11, 15, 12], None),
        ("copy", [2, 7] * 5 + [2, 2], None),
    ],
)
def test_suspicious_columns_are_warned_of(tmp_path, column, values, words):
    table = pd.DataFrame({"a": np.linspace(0, 1, 12) ** 2, "y": ["u", "v"] * 6})
    table.assign(**{column: values}).to_csv(tmp_path / "s.csv", index=False)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        read_samples(tmp_path / "s.csv", "y")
    assert [words in str(one.message) for one in found] == ([True] if words else [])


@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        (["NA", "None"], ("NA", "None")),
        (["nan", "null"], ("nan", "null")),
        (['"aspirin "', '" aspirin"', "none"], ("aspirin", "none")),
        (["01", "2.0"], (1, 2)),
        (["True", "False"], ("False", "True")),
        (["9007199254740992", "9007199254740993"], (9007199254740992, 9007199254740993)),
        # Numbers of these kinds would make one class of two.
        (["1E3", "9007199254740992", "9007199254740993"], ("1E3", "9007199254740992", "9007199254740993")),
        (LONG := ["-1", "18446744073709551614", "18446744073709551615"], tuple(LONG)),
        (LONG := ["12345678901234567890123", "12345678901234567890124"], tuple(LONG)),
        (["0", "1e-400"], ("0", "1e-400")),
    ],
)
def test_labels_of_csv(tmp_path, labels, classes):
    # Spreadsheets also write a mark, line ends of two characters, and empty rows.
    rows = [f"{i},{label}" for i, label in enumerate(labels * 2, 10**22)]
    (tmp_path / "s.csv").write_bytes("\r\n".join(["\ufeffa,y", *rows, ",", "", ""]).encode())
    samples = read_samples(tmp_path / "s.csv")
    assert (samples.classes, len(samples.X), samples.columns.inputs) == (classes, len(rows), ["a"])
    assert set(samples.X[:, 0]) == {1e22}


def test_npz(tmp_path):
    np.savez(tmp_path / "a.npz", X=np.eye(2), y=np.array(["n", "p"]), gates=np.ones((2, 3)), groups=np.array([0, 0, 1]))
    samples = read_samples(tmp_path / "a.npz")
    assert (samples.classes, samples.groups.tolist()) == (("n", "p"), [0, 0, 1])


@pytest.mark.parametrize(
    ("name", "content", "options", "words"),
    [
        ("a.csv", "a,b\n1,x\n2,y\n", {"label": "c"}, "no column 'c'"),
        ("a.csv", ",a,y\n0,1,u\n1,2,v\n", {"drop": ["", "y"], "label": "y"}, "column 'y' .* both label and drop"),
        ("a.csv", ",a,y\n0,1,u\n1,2,v\n", {"drop": ["", "z"]}, "no column 'z'"),
        ("a.csv", ",a,y\n0,1,u\n1,2,v\n", {"gates": "a"}, "lists of them"),
        ("a.csv", "a,b\n1,x\n,y\n", {}, "NaN"),
        ("a.csv", "a,b\n1,x\n2,x\n", {}, "one class only"),
        ("a.csv", "a\nx\ny\n", {}, "no input columns"),
        ("a.csv", "", {}, "cannot be read"),
        ("a.csv", "a,b\n1,2,3\n4,5,6\n", {}, "cannot be read"),
        ("a.csv", "0,1,2\n0.5,1.5,0\n2.5,3.5,1\n", {}, "counts its columns.*header=False"),
        ("a.csv", ",1,0\n2,3,1\n", {}, "NaN"),
        ("a.csv", "1,2,cat\n3,4,dog\n5,6,eel\n", {}, "3 classes for 3 samples"),
        ("a.csv", "1,2,0.5\n3,4,1.5\n5,6,0.5\n7,8,1.5\n", {}, "fractions such as 0.5, which are quantities"),
        ("a.csv", "a,b\n", {}, "no samples"),
        ("a.csv", "2020,2019,y\n1,2,a\n3,4,b\n5,6,a\n7,8,b\n", {}, "first row .* or be a sample; say whether"),
        ("a.csv", "2019,2020,2021\n1,2,0\n3,4,1\n5,6,0\n7,8,1\n", {}, "first row .* or be a sample; say whether"),
        ("a.csv", "a;b;y\n1,5;2,5;u\n2,5;3,5\n", {}, "seems to separate columns by semicolons"),
        ("a.csv", "a;b;y\n1,250;2,500;u\n2,125;3,375;v\n", {}, "'1,250' .* may have decimals or thousands"),
        ("a.csv", "a;b;y\n1.234;2,500;u\n5.678;3,250;v\n", {}, "'2,500' .* may have decimals or thousands"),
        ("a.csv", "a;b;y\n1.250;2,5;u\n2.125;3,375;v\n", {}, "column 'b' .* not numbers, such as '2,5'"),
        ("a.csv", "a;b;y;\n1;2;u;\n3;4;v;\n", {}, "column 4 .* has no name; name it"),
        ("a.csv", "a;b;y\n12,5;x;u\n1.5;3,375;v\n", {}, "column 'a' .* not numbers, such as '12,5'"),
        ("a.csv", "a,b,a,y\n1,2,3,u\n2,3,4,v\n", {}, "columns 1 and 3 of .* have the name 'a'; rename"),
        ("a.csv", "a,b,y\ncm,,-\n1,2,u\n2,3,v\n", {}, "second row .* units, such as 'cm' in column 'a'"),
        ("a.csv", "a,y\n1,u\n2,v\na,y\n", {}, "sample 3 of .* repeats the names; remove it"),
        ("a.csv", "Title,,\na,b,y\n1,2,u\n", {}, "columns 2 and 3 of .* have no name; name or drop them"),
        ("a.csv", "Title\na,y\n1,u\n", {}, "cannot be read .*, without titles"),
        ("a.csv", "a,b,y\n1,2,u\n2,3,\n", {}, r"column 'y' .* empty cells or NaN \(first for sample 2\)"),
        ("a.csv", "a,y\n1,0\n2,NA\n", {}, r"column 'y' .* empty cells or NaN \(first for sample 2\)"),
        ("a.csv", "a,y\n1,01\n2,1\n3,x\n", {}, "'01' and '1' are the same number; write them alike"),
        ("a.csv", "a,y\n1,0001\n2,1\n3,2\n", {}, "'0001' and '1' are the same number; write them alike"),
        ("a.csv", "a,y\n1,1E2\n2,2E2\n3,100\n", {}, "'1E2' and '100' are the same number; write them alike"),
        ("a.csv", "date,y\n2024-05-01,u\n2024-05-02,v\n", {}, "not numbers, such as '2024-05-01'; encode it .*, or"),
        ("a.csv", "a,y\n1,u\ninf,v\n", {}, r"column 'a' .* infinity \(first for sample 2\)"),
        ("a.npz", "junk", {}, "cannot be read"),
        ("a.csv.gz", "a,y\n1,u\n", {}, "cannot be read"),
        ("a.parquet", "junk", {}, "needs pyarrow .pip install pyarrow.|cannot be read"),
        ("a.doc", "1", {}, "neither .csv, .* nor .npz"),
    ],
)
def test_bad_files(tmp_path, name, content, options, words):
    (tmp_path / name).write_text(content)
    assert_refused(lambda: read_samples(tmp_path / name, **options), words)


def test_npz_without_the_arrays_or_with_objects(tmp_path):
    np.savez(tmp_path / "a.npz", X=np.eye(2))
    assert_refused(lambda: read_samples(tmp_path / "a.npz"), "no array 'y'")
    np.savez(tmp_path / "b.npz", X=np.array([{}], dtype=object), y=[1])
    assert_refused(lambda: read_samples(tmp_path / "b.npz"), "cannot be read")
    assert_refused(lambda: read_samples(tmp_path / "nowhere.csv"), "not a readable file")


# Synthetic tasks


def test_clusters_keep_their_draws_whatever_the_noise():
    quiet = noisy_clusters(500, 4, 3, 0.0, 0.0, seed=1)
    loud = noisy_clusters(500, 4, 3, 0.2, 0.5, seed=1)
    np.testing.assert_array_equal(quiet.X, quiet.centres[quiet.cluster])
    np.testing.assert_array_equal(quiet.cluster, loud.cluster)
    assert np.std(loud.X - quiet.X) == pytest.approx(0.2, rel=0.05)
    assert np.std(loud.y - quiet.y) == pytest.approx(0.5, rel=0.1)
    assert len(set(quiet.y)) == 4
    again = noisy_clusters(500, 4, 3, 0.2, 0.5, seed=1)
    assert all(np.array_equal(a, b) for a, b in zip(loud, again, strict=True))


def test_flipped_labels():
    kept, flipped = noisy_clusters(20_000, 6, 3, flip=0.0, seed=2), noisy_clusters(20_000, 6, 3, flip=0.2, seed=2)
    assert set(kept.y) <= {-1.0, 1.0}
    assert all(len(set(kept.y[kept.cluster == i])) == 1 for i in range(6))
    assert np.mean(kept.y != flipped.y) == pytest.approx(0.2, abs=3 * 0.4 / np.sqrt(20_000))
    np.testing.assert_array_equal(noisy_clusters(50, 6, 3, flip=1.0).y, -noisy_clusters(50, 6, 3, flip=0.0).y)


@pytest.mark.parametrize("margin", [0.0, 0.5, 6.0])
def test_separable_samples(margin):
    X, y = separable(4000, 3, margin, seed=3)
    # The direction is drawn first, from the same seed.
    w = np.random.default_rng(3).normal(size=3)
    along = X @ (w / np.linalg.norm(w))
    assert (y * along).min() >= margin - 1e-12
    across = np.eye(3)[0] - (w[0] / (w @ w)) * w
    assert stats.kstest(X @ across / np.linalg.norm(across), "norm").pvalue > 1e-3
    tail = lambda t: 1 - stats.norm.sf(t) / stats.norm.sf(margin)  # noqa: E731
    assert stats.kstest(y * along, tail).pvalue > 1e-3


test_labels_that_are_no_signs = refusals(
    (["cat", "dog"], "holds 'cat', 'dog'"),
    (np.array(["cat", "dog"]), "holds 'cat', 'dog'"),
    (np.array("cat"), "holds 'cat'"),
    (np.array(1.0), "must have 1 dimension"),
    ([], "y is empty"),
    call=lambda y: MarginProblem(GatedFeatures([[1.0], [-1.0]]), y, Frobenius()),
)
