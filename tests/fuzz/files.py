"""Cases about files: cut short, with flipped bytes, of the wrong kind, or with code inside that must never run."""

import io
import json
import pickle
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

import implicit_bias as ib
from implicit_bias import GatedFeatures, MarginProblem
from tests.fuzz import problems
from tests.fuzz.draw import Draw, Given, Wrong, expect
from tests.fuzz.judge import judge
from tests.fuzz.networks import DTYPES, network
from tests.fuzz.strategies import never
from tests.fuzz.table import entry

#: The file that a payload makes where its code runs.
MARKER = "code was executed"
WRONG: list[Any] = [None, "text", 3, [], {"a": 1}, True]


class Payload:
    """What a pickle is dangerous for: unpickling it calls a function, which leaves a mark."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.marker,)


def written(write: Callable[[Any], Any]) -> bytes:
    """What is written to a file."""
    buffer = io.BytesIO()
    write(buffer)
    return buffer.getvalue()


def _zipped(file: Any, payload: Payload) -> None:
    with zipfile.ZipFile(file, "w") as archive:
        for name in ("constants.pkl", "data.pkl"):
            archive.writestr(f"archive/{name}", pickle.dumps(payload, protocol=2))
        archive.writestr("archive/version", "3\n")


def _tarred(file: Any, payload: Payload) -> None:
    content = pickle.dumps(payload, protocol=2)
    with tarfile.open(fileobj=file, mode="w") as archive:
        for name in ("sys_info", "pickle", "tensors", "storages"):
            about = tarfile.TarInfo(name)
            about.size = len(content)
            archive.addfile(about, io.BytesIO(content))


def poisoned(draw: Draw) -> bytes:
    """A file with a pickle inside, in every wrapping that NumPy, torch or zip know, the oldest included."""
    payload = Payload(draw.folder / MARKER)
    parts = dict.fromkeys(("X", "y", "about", "weights", "dual"), np.array([payload, 1], dtype=object))
    network = {"format": "implicit_bias network 1", "class": "ReLUNetwork", "config": {"inputs": 2, "units": [2]}}
    ways: dict[str, Callable[[Any], Any]] = {
        "pickle": lambda file: pickle.dump(payload, file),
        "old pickle": lambda file: pickle.dump(payload, file, protocol=0),
        "npz": lambda file: np.savez(file, **parts),  # type: ignore[arg-type]
        "npy": lambda file: np.save(file, parts["X"]),
        "torch": lambda file: torch.save(payload, file),
        "old torch": lambda file: torch.save(payload, file, _use_new_zipfile_serialization=False),
        "state": lambda file: torch.save(network | {"state": {"layers.0": payload}}, file),
        "module": lambda file: torch.save(torch.nn.Linear(2, 1), file),
        "tar": lambda file: _tarred(file, payload),
        "script": lambda file: _zipped(file, payload),
    }
    return written(ways[draw.kind("a file with code inside", list(ways))])


def spoiled(draw: Draw, content: bytes) -> bytes:
    """The bytes cut short anywhere, flipped, repeated, or with something before or after."""
    length = len(content)
    at, near = draw.whole(0, length - 1), draw.whole(1, min(length, 40))
    flipped = bytearray(content)
    for _ in range(draw.whole(1, 4)):
        flipped[draw.whole(0, length - 1)] ^= 1 << draw.whole(0, 7)
    ways = {
        "cut": content[:at],
        "cut at the start": content[: near - 1],
        "cut at the end": content[:-near],
        "flipped": bytes(flipped),
        "zeroed": content[:at] + bytes(min(50, length - at)) + content[at + 50 :],
        "doubled": content + content,
        "with a hole": content[:at] + content[at + draw.whole(1, 30) :],
        "after a prefix": draw.pick([b"\xef\xbb\xbf", b"\0", b"PK\x03\x04", b"#!/bin/sh\n"]) + content,
        "noise": bytes(draw.rng.integers(0, 256, draw.whole(0, 300), dtype=np.uint8)),
    }
    return ways[draw.kind("a spoiled file", list(ways))]


def load(draw: Draw, loader: Callable[..., Any], suffix: str, content: bytes, good: bytes | None = None) -> Any:
    """Write the content and load it; no code may have run, and the file must be left alone."""
    path = draw.folder / f"file{suffix}"
    path.write_bytes(content)
    try:
        return draw.call(loader, path, may=content != good)
    finally:
        if (draw.folder / MARKER).exists():
            raise Wrong("CODE INSIDE THE FILE WAS EXECUTED")
        expect(path.read_bytes() == content, "it changed the file")


PATHS: list[Any] = [None, 3, 0.5, b"\xff\0", "\0", "", "nowhere/at/all", [], object(), "a" * 5000, True, "/dev/null/x"]
PATHS += ["/proc/self/mem/x", "\ud800", np.array("x"), Path(), "~nobody/file", Path("/")]


def place(draw: Draw) -> Given:
    """A place that can be written, or none at all."""
    return draw.either(draw.folder / "new" / "file", [draw.folder, None, 3, "\0", "/proc/x/y", "a" * 5000])


def _loaded(draw: Draw, loader: Any, suffix: str, make: Callable[[], bytes], odd: Callable[[bytes], bytes]) -> Any:
    """What is loaded from a whole, spoiled, poisoned or otherwise odd file, and which of them it was."""
    kind = draw.pick(["whole", "whole", *["spoiled"] * 3, "poisoned", "content", "content", "path"])
    if kind == "path":
        draw.call(loader, draw.pick(PATHS), must=True)
    if kind == "poisoned":
        load(draw, loader, suffix, poisoned(draw))
        raise Wrong("it accepted a file with code inside")
    good = make()
    ways = {"whole": lambda: good, "spoiled": lambda: spoiled(draw, good), "content": lambda: odd(good)}
    return load(draw, loader, suffix, ways[kind](), good), kind


def _odd_npz(draw: Draw, good: bytes, about: dict[str, list[Any]], arrays: dict[str, list[Any]]) -> bytes:
    """A well-formed file whose content is wrong in one place: an array, or something of what is said about it."""
    with np.load(io.BytesIO(good)) as file:
        content: dict[str, Any] = {name: file[name] for name in file.files}
    said = json.loads(str(content["about"]))
    change = draw.kind("another content", ["array", "array", "missing array", "about", "missing about", "no about"])
    if change.endswith("array"):
        name = draw.pick([name for name in (arrays or content) if name != "about"])
        array = content.pop(name)
        more = arrays.get(name, [array[..., None], np.array(0.5)])
        odd = [np.array("text"), array + 1j, np.array(["a"]), *more]
        content |= {name: draw.pick(odd)} if change == "array" else {}
    elif change == "no about":
        content["about"] = draw.pick([np.array("{"), np.array(3)])
    else:
        name = draw.pick(list(about))
        said.pop(name)
        content["about"] = np.array(json.dumps(said | ({name: draw.pick(about[name])} if change == "about" else {})))
    return written(lambda file: np.savez(file, **content))


# ------------------------------------------------------------------------------------------------ solutions, problems

NUMBERS = [np.array([1.0, 2.0]), np.array(True)]
ARRAYS = [np.array(1.0), np.ones((2, 2, 2)), np.ones((0, 2))]
SOLUTION = {
    **{name: NUMBERS for name in ("objective", "lower_bound", "gap", "farkas_residual", "seconds", "tol")},
    **{name: ARRAYS for name in ("weights", "dual", "margins")},
}
SAID = {"format": ["implicit_bias solution 99", *WRONG], "status": ["PERFECT", *WRONG], "solver": [None, 3, []]}


@entry(ib.load_solution, share=6)
def _load_solution(draw: Draw) -> None:
    """Whole files give the solution back to the bit, with infinities and NaN; others are refused; code never runs."""
    solution = ib.solve(problems.problem(draw)[0])
    make = lambda: ib.save_solution(solution, draw.folder / "saved.npz").read_bytes()  # noqa: E731
    found, kind = _loaded(draw, ib.load_solution, ".npz", make, lambda good: _odd_npz(draw, good, SAID, SOLUTION))
    expect(kind != "content", "it accepted a file of another content")
    _same(found, solution)


def _same(found: Any, solution: Any) -> None:
    for name, value in vars(solution).items():
        other = getattr(found, name)
        arrays = isinstance(value, np.ndarray | float)
        expect(np.array_equal(other, value, equal_nan=True) if arrays else other == value, f"another {name}")


@entry(ib.save_solution)
def _save_solution(draw: Draw) -> None:
    """Solutions of every status, more arrays beside them, and places that cannot be written."""
    solution = ib.solve(problems.problem(draw)[0])
    more: dict[str, Any] = {}
    if draw.chance(0.3):
        kinds: list[Any] = [draw.normal(3), "text", 3, [1, 2], None, {"a": 1}, len, np.array([None]), [1, "a", None]]
        value, name = draw.pick(kinds), draw.pick(["extra", "extra", "weights", "about", "file"])
        taken = np.asarray(value).dtype == object or name != "extra"
        more[name] = Given(value, None, f"{name}: {value!r:.20}", "bad" if taken else "good")
    saved = draw.call(ib.save_solution, draw.scalar([solution], never), place(draw), **more)
    _same(ib.load_solution(saved), solution)
    with np.load(saved, allow_pickle=False) as file:
        for name, extra in more.items():
            expect(np.array_equal(file[name], extra.value), "another extra array")


@entry(ib.load_problem, share=6)
def _load_problem(draw: Draw) -> str:
    """Whole files give the problem back to the bit; others are refused, or hold a problem that can be solved."""
    problem, raw = problems.problem(draw)
    make = lambda: ib.save_problem(problem, draw.folder / "problem.npz").read_bytes()  # noqa: E731

    def odd(good: bytes) -> bytes:
        with np.load(io.BytesIO(good)) as file:
            return _odd_npz(draw, good, {name: WRONG for name in json.loads(str(file["about"]))}, {})

    found, kind = _loaded(draw, ib.load_problem, ".npz", make, odd)
    if kind == "content":
        answer = draw.call(ib.solve, found)
        return str(answer.status.name) if np.isfinite(answer.dual).all() else ""
    expect(np.array_equal(found.y, problem.y) and found.C == problem.C, "another problem")
    expect(np.array_equal(found.features.dense(), problem.features.dense()), "other features")
    judge(raw, ib.solve(found))
    return "correct"


@entry(ib.save_problem, share=3)
def _save_problem(draw: Draw) -> None:
    """Problems of every kind; what is none, code of the user's own, and places that cannot be written are refused."""
    X, y = problems.clean_task(draw)
    cutoff: Any = draw.pick(["median", 0.0, (0.2, 0.8)])
    spaces, network = ib.RandomHalfSpaces(3, seed=np.int64(2), cutoff=cutoff), ib.ReLUNetwork(X.shape[1], 3)  # type: ignore[arg-type]
    own, parts = ib.FunctionGates(lambda X: np.ones((len(X), 1))), (GatedFeatures(X), y, ib.Frobenius())
    good = [ib.svm_gln(X, y, problems.fitted_gates(draw, X)), ib.svm_shallow(X, y, spaces), ib.svm_lc(X, y, network)]
    good += [MarginProblem(*parts, intercept=True), MarginProblem(*parts, constraints=lambda W: [W[0, 0] >= 0])]
    given = draw.either(draw.pick(good), [ib.svm_gln(X, y, own), None, 3, "problem", X, np, object()])
    found = ib.load_problem(draw.call(ib.save_problem, given, place(draw)))
    first, second = ib.solve(given.value), ib.solve(found)
    expect(np.array_equal(first.weights, second.weights, equal_nan=True), "another solution")
    if found.gates is not None:
        scores = given.value.decision_function(first.weights, X), found.decision_function(first.weights, X)
        expect(np.array_equal(*scores, equal_nan=True), "other scores")


# ------------------------------------------------------------------------------------------------------------ networks


@entry(ib.load_network, share=6)
def _load_network(draw: Draw) -> None:
    """Whole files give the network back; others are refused; code never runs."""
    X, _ = problems.clean_task(draw)
    net = network(draw, X).to(draw.pick(DTYPES[1:4]))
    make = lambda: ib.save_network(net, draw.folder / "saved.pt").read_bytes()  # noqa: E731
    found, kind = _loaded(draw, ib.load_network, ".pt", make, lambda good: _odd_network(draw, good))
    expect(kind != "content", "it accepted a file of another content")
    expect(np.array_equal(found.decision_function(X), net.decision_function(X)), "another network")


def _odd_network(draw: Draw, good: bytes) -> bytes:
    """A well-formed file whose content is wrong in one place."""
    content: dict[str, Any] = torch.load(io.BytesIO(good), weights_only=True)
    values, state = [*WRONG[:-1], torch.zeros(2)], content["state"]
    name, key = draw.pick([name for name in state if name != "_extra_state"]), draw.pick(["directions", "cutoffs"])
    gates = state.get("_extra_state", {}).get(key) or [torch.zeros(0)]
    first, dtype = gates[0], draw.pick([torch.int64, torch.complex64, torch.bool])
    odd: list[Any] = [torch.zeros((*first.shape, 1)), torch.full((1, 1), torch.nan), "text", None, first.to(dtype)]
    other = draw.pick([[], None, gates * 2, *([value, *gates[1:]] for value in [*odd, first * torch.nan])])
    change = draw.kind("another content", ["format", "class", "config", "missing", "state", "gates", "all"])
    if change in ("format", "class", "config"):
        content[change] = draw.pick(values)
    elif change == "missing":
        del content[draw.pick(list(content))]
    elif change == "state":
        state[name] = draw.pick([*values, torch.zeros((*state[name].shape, 2)), state[name].to(dtype)])
    elif change == "gates" and first.numel():
        # One context has no hyperplanes that could be wrong.
        state["_extra_state"][key] = other
    else:
        content = draw.pick([{}, *values])
    return written(lambda file: torch.save(content, file))


@entry(ib.save_network)
def _save_network(draw: Draw) -> None:
    """Networks of every kind and dtype; what is no network is refused."""
    X, _ = problems.clean_task(draw)
    net = network(draw, X).to(draw.pick(DTYPES[1:4]))
    saved = draw.call(ib.save_network, draw.scalar([net], never), place(draw))
    expect(np.array_equal(ib.load_network(saved).decision_function(X), net.decision_function(X)), "another network")
