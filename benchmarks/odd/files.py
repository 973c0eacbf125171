"""Cases about files: cut short, with flipped bytes, of the wrong kind, or with code inside that must never run."""

from __future__ import annotations

import io
import json
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from implicit_bias import (
    Frobenius,
    FunctionGates,
    GatedFeatures,
    MarginProblem,
    RandomHalfSpaces,
    ReLUNetwork,
    load_network,
    load_problem,
    load_solution,
    read_samples,
    save_network,
    save_problem,
    save_solution,
    solve,
    svm_gln,
    svm_lc,
    svm_rc,
)
from odd import data
from odd.draw import Array, Draw, Given, Refused, Wrong, expect
from odd.judge import Raw, judge
from odd.nets import network, own_forward
from odd.surface import entry

#: What can be wrong with a CSV file.
FAULTS = [
    *("spoiled", "words", "short row", "long row", "empty cell", "NaN", "inf", "label", "three classes", "one class"),
    *("head only", "semicolons", "quotes", "twice", "binary", "poisoned", "huge number", "blank lines", "no label"),
    *("gates", "bom", "latin"),
]
#: The file that a payload makes where its code runs.
MARKER = "code was executed"


class Payload:
    """What a pickle is dangerous for: unpickling it calls a function, which leaves a mark."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.marker,)


def poisoned(draw: Draw) -> bytes:
    """A file with a pickle inside, in every wrapping that NumPy, torch or zip know."""
    payload = Payload(draw.folder / MARKER)
    buffer = io.BytesIO()
    kind = draw.pick(["pickle", "old pickle", "npz", "npy", "torch", "old torch", "tar", "state", "module", "script"])
    draw.story.append(f"a file with code inside: {kind}")
    objects = np.array([payload, 1], dtype=object)
    if kind == "pickle":
        return pickle.dumps(payload)
    if kind == "old pickle":
        return pickle.dumps(payload, protocol=0)
    if kind == "npz":
        np.savez(buffer, X=objects, y=objects, about=objects, weights=objects, dual=objects)
    elif kind == "npy":
        np.save(buffer, objects)
    elif kind == "torch":
        torch.save(payload, buffer)
    elif kind == "old torch":
        torch.save(payload, buffer, _use_new_zipfile_serialization=False)
    elif kind == "tar":
        return _tar(payload)
    elif kind == "state":
        content = {"format": "implicit_bias network 1", "class": "ReLUNetwork", "config": {"inputs": 2, "units": [2]}}
        torch.save(content | {"state": {"layers.0": payload}}, buffer)
    elif kind == "module":
        torch.save(torch.nn.Linear(2, 1), buffer)
    else:
        with zipfile.ZipFile(buffer, "w") as archive:
            archive.writestr("archive/constants.pkl", pickle.dumps(payload, protocol=2))
            archive.writestr("archive/data.pkl", pickle.dumps(payload, protocol=2))
            archive.writestr("archive/version", "3\n")
    return buffer.getvalue()


def _tar(payload: Payload) -> bytes:
    """The oldest format of torch: a tar archive of pickles."""
    import tarfile

    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name in ("sys_info", "pickle", "tensors", "storages"):
            content = pickle.dumps(payload, protocol=2)
            about = tarfile.TarInfo(name)
            about.size = len(content)
            archive.addfile(about, io.BytesIO(content))
    return buffer.getvalue()


def spoiled(draw: Draw, content: bytes) -> bytes:
    """The bytes cut short anywhere, flipped, repeated, or with something before or after."""
    kind = draw.pick(
        ["cut", "cut at the start", "cut at the end", "flipped", "zeroed", "doubled", "hole", "prefix", "noise"]
    )
    draw.story.append(f"a spoiled file: {kind}")
    length = len(content)
    at = draw.whole(0, length - 1)
    if kind == "cut":
        return content[:at]
    if kind == "cut at the start":
        return content[: draw.whole(0, min(length, 40))]
    if kind == "cut at the end":
        return content[: length - draw.whole(1, min(length, 40))]
    if kind == "flipped":
        bytes_ = bytearray(content)
        for _ in range(draw.whole(1, 4)):
            bytes_[draw.whole(0, length - 1)] ^= 1 << draw.whole(0, 7)
        return bytes(bytes_)
    if kind == "zeroed":
        return content[:at] + bytes(min(50, length - at)) + content[at + 50 :]
    if kind == "doubled":
        return content + content
    if kind == "hole":
        return content[:at] + content[at + draw.whole(1, 30) :]
    if kind == "prefix":
        return draw.pick([b"\xef\xbb\xbf", b"\0", b"PK\x03\x04", b"#!/bin/sh\n"]) + content
    return bytes(draw.rng.integers(0, 256, draw.whole(0, 300), dtype=np.uint8))


def load(draw: Draw, loader: Callable[..., Any], suffix: str, content: bytes, good: bytes | None = None) -> Any:
    """Write the content and load it; no code may have run, and the file must be left alone."""
    path = draw.folder / f"file{suffix}"
    path.write_bytes(content)
    try:
        return draw.call(loader, path, may_refuse=content != good)
    finally:
        if (draw.folder / MARKER).exists():
            raise Wrong("CODE INSIDE THE FILE WAS EXECUTED")
        expect(path.read_bytes() == content, "it changed the file")


def odd_path(draw: Draw) -> Given:
    """A path that is none."""
    bad: list[Any] = [None, 3, 0.5, b"\xff\0", "\0", "", "nowhere/at/all", draw.folder, [], object(), "a" * 5000, True]
    bad += ["/dev/null/x", "/proc/self/mem/x", "\ud800", np.array("x"), Path(), "~nobody/file"]
    value = draw.pick(bad)
    return Given(value, None, f"path {str(value)[:30]!a}", "bad")


# ----------------------------------------------------------------------------------------------------------- solutions


def _saved_solution(draw: Draw) -> tuple[Any, bytes]:
    problem, _ = data.problem(draw)
    solution = solve(problem)
    path = save_solution(solution, draw.folder / "saved.npz")
    return solution, path.read_bytes()


def _same_solution(found: Any, solution: Any) -> None:
    for name, value in vars(solution).items():
        other = getattr(found, name)
        if isinstance(value, np.ndarray | float):
            same = np.array_equal(np.asarray(other), np.asarray(value), equal_nan=True)
        else:
            same = other == value
        expect(same, f"another {name}")


@entry("load_solution", share=6)
def _load_solution(draw: Draw) -> str:
    """Whole files give the solution back to the bit, with infinities and NaN; others are refused; code never runs."""
    kind = draw.pick(["whole", "spoiled", "spoiled", "spoiled", "poisoned", "content", "content", "path"])
    if kind == "path":
        draw.call(load_solution, odd_path(draw))
    if kind == "poisoned":
        load(draw, load_solution, ".npz", poisoned(draw))
        raise Wrong("it accepted a file with code inside")
    solution, good = _saved_solution(draw)
    changes = {
        "whole": lambda: good,
        "spoiled": lambda: spoiled(draw, good),
        "content": lambda: _odd_solution(draw, good),
    }
    found = load(draw, load_solution, ".npz", changes[kind](), good)
    expect(kind != "content", "it accepted a file of another content")
    _same_solution(found, solution)
    return "correct"


def _odd_solution(draw: Draw, good: bytes) -> bytes:
    """A well-formed file whose content is wrong in one place."""
    with np.load(io.BytesIO(good)) as file:
        arrays: dict[str, Any] = {name: file[name] for name in file.files}
    about = json.loads(str(arrays["about"]))
    values: list[Any] = [None, "text", [1], {"a": 1}, True]
    change = draw.pick(["number", "array", "missing", "missing number", "format", "status", "about", "solver"])
    if change == "number":
        number = draw.pick([np.array("text"), np.array([1.0, 2.0]), np.array(1j), np.array(True)])
        arrays[draw.pick(["objective", "lower_bound", "gap", "farkas_residual", "seconds", "tol"])] = number
    elif change == "array":
        odd = [np.array("text"), np.array(1.0), np.ones((2, 2, 2)), np.ones((0, 2)), np.array([1j, 2]), np.array(["a"])]
        arrays[draw.pick(["weights", "dual", "margins"])] = draw.pick(odd)
    elif change == "missing":
        del arrays[draw.pick(["weights", "dual", "margins", "about"])]
    elif change == "missing number":
        del about[draw.pick(["format", "status", "solver", "iterations"])]
    elif change == "format":
        about["format"] = draw.pick(["implicit_bias solution 99", *values])
    elif change == "status":
        about["status"] = draw.pick(["PERFECT", *values])
    elif change == "solver":
        about["solver"] = draw.pick([None, 3, []])
    if "about" in arrays:
        arrays["about"] = np.array(json.dumps(about)) if change != "about" else draw.pick([np.array("{"), np.array(3)])
    draw.story.append(f"another content: {change}")
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


@entry("save_solution", share=2)
def _save_solution(draw: Draw) -> str:
    """Solutions of every status, more arrays beside them, and places that cannot be written."""
    problem, _ = data.problem(draw)
    solution = solve(problem)
    given = draw.scalar([solution], lambda v: False)
    path = odd_path(draw) if draw.chance(draw.badness) else Given(draw.folder / "new" / "s.npz", 0, "a new file")
    if path.verdict == "bad":
        # Names that can be created are fine; these must not be tried here.
        path = Given(draw.pick([draw.folder, None, 3, "\0", "/proc/x/y", "a" * 5000]), None, "no place", "bad")
    more: dict[str, Any] = {}
    if draw.chance(0.3):
        kinds: list[Any] = [draw.normal(3), "text", 3, [1, 2], None, {"a": 1}, len, np.array([None]), [1, "a", None]]
        value = draw.pick(kinds)
        name = draw.pick(["extra", "extra", "weights", "about", "file"])
        objects = np.asarray(value).dtype == object
        taken = objects or name in ("weights", "about", "file")
        more[name] = Given(value, None, f"{name}: {value!r:.20}", "bad" if taken else "good")
    saved = draw.call(save_solution, given, path, **more)
    _same_solution(load_solution(saved), solution)
    with np.load(saved, allow_pickle=False) as file:
        for name, extra in more.items():
            expect(np.array_equal(file[name], extra.value), "another extra array")
    return "correct"


# ------------------------------------------------------------------------------------------------------------ problems


def _saved_problem(draw: Draw) -> tuple[Any, Raw, bytes]:
    problem, raw = data.problem(draw)
    return problem, raw, save_problem(problem, draw.folder / "problem.npz").read_bytes()


@entry("load_problem", share=6)
def _load_problem(draw: Draw) -> str:
    """Whole files give the problem back to the bit; others are refused, or hold a problem that can be solved."""
    kind = draw.pick(["whole", "whole", "spoiled", "spoiled", "spoiled", "poisoned", "content", "content", "path"])
    if kind == "path":
        draw.call(load_problem, odd_path(draw))
    if kind == "poisoned":
        load(draw, load_problem, ".npz", poisoned(draw))
        raise Wrong("it accepted a file with code inside")
    problem, raw, good = _saved_problem(draw)
    if kind == "content":
        found = load(draw, load_problem, ".npz", _odd_problem(draw, good))
        answer = draw.call(solve, found)
        return str(answer.status.name) if np.isfinite(answer.dual).all() else ""
    found = load(draw, load_problem, ".npz", good if kind == "whole" else spoiled(draw, good), good)
    expect(np.array_equal(found.y, problem.y) and found.C == problem.C, "another problem")
    expect(np.array_equal(found.features.dense(), problem.features.dense()), "other features")
    judge(raw, solve(found), 1e-6)
    return "correct"


def _odd_problem(draw: Draw, good: bytes) -> bytes:
    """A well-formed file, one of whose arrays is another."""
    with np.load(io.BytesIO(good)) as file:
        arrays: dict[str, Any] = {name: file[name] for name in file.files}
    name = draw.pick([name for name in arrays if name != "about"])
    change = draw.pick(["missing", "text", "shape", "nan", "complex", "number", "about"])
    draw.story.append(f"the array {name} is changed: {change}")
    array = arrays[name]
    if change == "missing":
        del arrays[name]
    elif change == "about":
        about = json.loads(str(arrays["about"]))
        about[draw.pick(list(about))] = draw.pick([None, 3, "text", [], {"a": 1}, True])
        arrays["about"] = np.array(json.dumps(about))
    else:
        changes = {"text": np.array("text"), "shape": array[..., None], "nan": array * np.nan, "complex": array + 1j}
        arrays[name] = changes.get(change, np.array(draw.pick([0, -1, 10**9, 0.5])))
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


@entry("save_problem", share=3)
def _save_problem(draw: Draw) -> str:
    """Problems of every kind; what is none, code of the user's own, and places that cannot be written are refused."""
    X, y = data.clean_task(draw)
    seed: Any = np.int64(2)
    cutoff: Any = draw.pick(["median", 0.0, (0.2, 0.8)])
    kinds: dict[str, Any] = {
        "gates": lambda: svm_gln(X, y, data.fitted_gates(draw, X)),
        "half-spaces": lambda: svm_rc(X, y, RandomHalfSpaces(3, seed, cutoff, True)),
        "relu": lambda: svm_lc(X, y, ReLUNetwork(X.shape[1], 3)),
        "own gates": lambda: svm_gln(X, y, FunctionGates(lambda X: np.ones((len(X), 1)))),
        "intercept": lambda: MarginProblem(GatedFeatures(X), y, Frobenius(), intercept=True),
        "constraints": lambda: MarginProblem(GatedFeatures(X), y, Frobenius(), constraints=lambda W: [W[0, 0] >= 0]),
    }
    kind = draw.pick(list(kinds))
    draw.story.append(f"problem: {kind}")
    problem = kinds[kind]()
    given = draw.scalar([problem], lambda v: False)
    path = Given(draw.folder / "p.npz", 0, "a file")
    if draw.chance(draw.badness):
        path = Given(draw.pick([draw.folder, None, 3, "\0", "/proc/x/y"]), None, "no place", "bad")
    found = load_problem(draw.call(save_problem, given, path, must_refuse=kind == "own gates"))
    first, second = solve(problem), solve(found)
    expect(np.array_equal(first.weights, second.weights, equal_nan=True), "another solution")
    if kind in ("gates", "half-spaces", "relu"):
        scores = problem.decision_function(first.weights, X), found.decision_function(first.weights, X)
        expect(np.array_equal(*scores, equal_nan=True), "other scores")
    return "correct"


# ------------------------------------------------------------------------------------------------------------ networks


def _saved_network(draw: Draw) -> tuple[Any, Array, bytes]:
    X, _ = data.clean_task(draw)
    net = network(draw, X).to(draw.pick([torch.float32, torch.float64, torch.bfloat16]))
    return net, X, save_network(net, draw.folder / "saved.pt").read_bytes()


@entry("load_network", share=6)
def _load_network(draw: Draw) -> str:
    """Whole files give the network back; others are refused or still predict finite numbers; code never runs."""
    kind = draw.pick(["whole", "spoiled", "spoiled", "spoiled", "poisoned", "poisoned", "content", "content", "path"])
    if kind == "path":
        draw.call(load_network, odd_path(draw))
    if kind == "poisoned":
        load(draw, load_network, ".pt", poisoned(draw))
        raise Wrong("it accepted a file with code inside")
    net, X, good = _saved_network(draw)
    if kind == "content":
        found = load(draw, load_network, ".pt", _odd_network(draw, good))
        expect(draw.call(found.decision_function, np.ones((2, found.inputs))).shape == (2,), "no outputs")
        raise Wrong("it accepted a file of another content")
    found = load(draw, load_network, ".pt", good if kind == "whole" else spoiled(draw, good), good)
    expect(np.array_equal(found.decision_function(X), net.decision_function(X)), "another network")
    expect(np.abs(own_forward(found, X) - own_forward(net, X)).max() == 0, "other weights")
    return "correct"


def _odd_network(draw: Draw, good: bytes) -> bytes:
    """A well-formed file whose content is wrong in one place."""
    content: dict[str, Any] = torch.load(io.BytesIO(good), weights_only=True)
    change = draw.pick(["format", "class", "config", "missing", "state", "shape", "dtype", "gates", "all"])
    values: list[Any] = [None, "text", 3, [], {"a": 1}, torch.zeros(2)]
    if change == "all":
        content = draw.pick(values)
    elif change in ("format", "class", "config"):
        content[change] = draw.pick(values)
    elif change == "missing":
        del content[draw.pick(list(content))]
    else:
        state = content["state"]
        names = [name for name in state if name != "_extra_state"]
        name = draw.pick(names)
        if change == "state":
            state[name] = draw.pick(values)
        elif change == "shape":
            state[name] = torch.zeros((*state[name].shape, 2))
        elif change == "dtype":
            state[name] = state[name].to(draw.pick([torch.int64, torch.complex64, torch.bool]))
        elif "_extra_state" in state:
            extra = state["_extra_state"]
            key = draw.pick(["directions", "cutoffs"])
            first = extra[key][0]
            odd: list[Any] = [torch.zeros((*first.shape, 1)), torch.full((1, 1), torch.nan), "text", None]
            odd.append(first.to(torch.complex64))
            extra[key] = draw.pick([[], [draw.pick(odd)], None, extra[key] * 2, [first[:0], *extra[key][1:]]])
            if draw.chance(0.2) and first.numel():
                extra[key] = [first * torch.nan, *extra[key][1:]] if isinstance(extra[key], list) else None
            if first.numel() == 0:
                # One context has no hyperplanes that could be wrong.
                content = {}
        else:
            content = {}
    draw.story.append(f"another content: {change}")
    buffer = io.BytesIO()
    torch.save(content, buffer)
    return buffer.getvalue()


@entry("save_network", share=2)
def _save_network(draw: Draw) -> str:
    """Networks of every kind and dtype; what is no network is refused."""
    X, _ = data.clean_task(draw)
    net = network(draw, X).to(draw.pick([torch.float32, torch.float64, torch.bfloat16]))
    given = draw.scalar([net], lambda v: False)
    path = Given(draw.folder / "n.pt", 0, "a file")
    if draw.chance(draw.badness):
        path = Given(draw.pick([draw.folder, None, 3, "\0", "/proc/x/y"]), None, "no place", "bad")
    saved = draw.call(save_network, given, path)
    expect(np.array_equal(load_network(saved).decision_function(X), net.decision_function(X)), "another network")
    return "correct"


# ------------------------------------------------------------------------------------------------------------- samples


@entry("read_samples", share=8)
def _read_samples(draw: Draw) -> str:
    """Samples of CSV and NPZ files: whole ones are read as they are, others are refused or read as what they say."""
    if draw.chance(0.1):
        draw.call(read_samples, odd_path(draw))
    return _read_csv(draw) if draw.chance(0.6) else _read_npz(draw)


def _read_csv(draw: Draw) -> str:
    X, y = data.clean_task(draw)
    names = [f"x{j}" for j in range(X.shape[1])]
    rows = [[repr(float(v)) for v in row] + ["cat" if sign < 0 else "dog"] for row, sign in zip(X, y, strict=True)]
    head = [*names, "animal"]
    separator, end = ",", draw.pick(["\n", "\r\n"])
    label: Any = draw.pick([None, "animal"])
    fault = draw.pick(["no", "no", "no", *FAULTS])
    draw.story.append(f"CSV, fault: {fault}")
    text_of: Callable[[], str] = lambda: end.join(separator.join(row) for row in [head, *rows]) + end  # noqa: E731
    cells = {"words": "word", "empty cell": "", "NaN": "nan", "inf": "inf", "quotes": '"1', "huge number": "1e999"}
    if fault in cells:
        rows[-1][0] = cells[fault]
    elif fault == "short row":
        rows[-1] = rows[-1][1:]
    elif fault == "long row":
        rows[-1] = ["1", *rows[-1]]
    elif fault == "label":
        labels: list[Any] = ["nowhere", 3, "", None, ["animal"]]
        label = draw.pick(labels)
    elif fault == "three classes":
        rows[-1][-1] = "cow"
    elif fault == "one class":
        rows = [[*row[:-1], "cat"] for row in rows]
    elif fault == "head only":
        rows = []
    elif fault == "semicolons":
        separator = ";"
    elif fault == "twice":
        head[0] = head[1]
    elif fault == "no label":
        head, rows, label = head[:-1], [row[:-1] for row in rows], None
    elif fault == "gates":
        head[0] = "gate_0"
    content = text_of().encode()
    good = content if fault == "no" else None
    if fault == "blank lines":
        content = content.replace(end.encode(), (end + end).encode())
    elif fault == "bom":
        content = b"\xef\xbb\xbf" + content
    elif fault == "latin":
        content = content.replace(b"cat", "kät".encode("latin-1"))
    elif fault == "binary":
        content = bytes(draw.rng.integers(0, 256, 500, dtype=np.uint8))
    elif fault == "poisoned":
        content = poisoned(draw)
    elif fault == "spoiled":
        content = spoiled(draw, content)
    path = draw.folder / "samples.csv"
    path.write_bytes(content)
    must = fault in (
        "words",
        "empty cell",
        "NaN",
        "inf",
        "huge number",
        "three classes",
        "one class",
        "head only",
        "semicolons",
        "short row",
        "long row",
    ) or (fault == "label" and label is not None)
    found = draw.call(read_samples, path, label, must_refuse=must, may_refuse=good is None)
    expect(not (draw.folder / MARKER).exists(), "CODE INSIDE THE FILE WAS EXECUTED")
    expect(np.isfinite(found.X).all() and set(found.y.tolist()) == {-1.0, 1.0}, "odd samples")
    expect(len(found.X) == len(found.y), "sizes differ")
    if fault in ("no", "blank lines", "bom", "gates"):
        whole = found.X if found.gate_values is None else np.hstack([found.gate_values, found.X])
        expect(np.array_equal(whole, X) and np.array_equal(found.y, y), "other samples")
        expect(found.classes == ("cat", "dog"), "other classes")
    return "correct"


def _is_plain(value: Any) -> bool:
    """Whether a value is a tensor that NumPy can hold."""
    return isinstance(value, torch.Tensor) and value.device.type == "cpu" and value.dtype is not torch.bfloat16


def _read_npz(draw: Draw) -> str:
    X, y = data.clean_task(draw)
    given_X, given_y = draw.array(X), draw.array(y)
    parts = [given.value for given in (given_X, given_y)]
    buffer = io.BytesIO()
    try:
        values = [part.numpy(force=True) if _is_plain(part) else part for part in parts]
        np.savez(buffer, X=values[0], y=values[1])
    except Exception as error:
        # What NumPy itself cannot write is no file to read.
        raise Refused("not a file") from error
    content, fault = buffer.getvalue(), draw.pick(["no", "no", "spoiled", "spoiled", "poisoned", "label"])
    draw.story.append(f"NPZ, X {given_X.note}, y {given_y.note}, fault: {fault}")
    if fault == "poisoned":
        load(draw, read_samples, ".npz", poisoned(draw))
        raise Wrong("it accepted a file with code inside")
    if fault == "spoiled":
        content = spoiled(draw, content)
    path = draw.folder / "samples.npz"
    path.write_bytes(content)
    label = "y" if fault == "label" else None
    found = draw.call(read_samples, path, label, may_refuse=True, must_refuse=label is not None)
    # NumPy writes no masks.
    expect(given_X.verdict != "bad" or given_X.note == "a mask", f"it accepted X: {given_X.note}")
    held = np.load(io.BytesIO(buffer.getvalue()), allow_pickle=True)
    expect(np.array_equal(found.X, np.asarray(held["X"]).astype(float)), "other samples")
    labels = np.asarray(held["y"])
    expect(np.array_equal(found.y, np.where(labels == labels.max(), 1.0, -1.0)), "other labels")
    return "correct"


__all__ = ["MARKER", "Refused", "load", "poisoned", "spoiled"]
