"""Cases about files: cut short, with flipped bytes, of another content, or with code inside that must never run."""

import io
import json
import pickle
import tarfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
import torch

import implicit_bias as ib
from implicit_bias.datasets.scaling import Scaling
from tests import cases
from tests.fuzz import problems
from tests.fuzz.draw import MARKER, Draw, Given, expect
from tests.fuzz.networks import DTYPES, network
from tests.fuzz.strategies import never
from tests.fuzz.table import entry, row
from tests.fuzz.values import alike


class Payload:
    """An object that shows the danger of pickles: unpickling it calls a function, which leaves a mark."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.marker,)


def written(write: Callable[[Any], Any]) -> bytes:
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


def poisoned(marker: Path) -> dict[str, bytes]:
    """Files with a pickle inside, in every wrapping that NumPy, torch or zip know, the oldest included."""
    payload = Payload(marker)
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
    return {name: written(write) for name, write in ways.items()}


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
    return draw.among("a spoiled file", ways)


#: No paths, or none that can be read or written.
PATHS: list[Any] = [None, 3, 0.5, b"\xff\0", "\0", "", "nowhere/at/all", [], object(), "a" * 5000, True, "/dev/null/x"]
PATHS += ["/proc/self/mem/x", "\ud800", np.array("x"), Path(), "~nobody/file", Path("/")]


def place(draw: Draw) -> Given:
    return draw.either(draw.folder / "new" / "file", [draw.folder, None, 3, "\0", "/proc/x/y", "a" * 5000])


# ------------------------------------------------------------------------------------------------------ their content


def _from_npz(file: bytes) -> Any:
    with np.load(io.BytesIO(file)) as archive:
        content = {name: archive[name] for name in archive.files}
    return content | ({"about": json.loads(str(content["about"]))} if "about" in content else {})


def _to_npz(content: Any) -> bytes:
    about = {"about": np.array(json.dumps(content["about"]))} if "about" in content else {}
    return written(lambda file: np.savez(file, **(content | about)))


def _from_csv(file: bytes) -> Any:
    return [line.split(",") for line in file.decode().splitlines()]


def _to_csv(content: Any) -> bytes:
    return "\n".join(row if isinstance(row, str) else ",".join(row) for row in content).encode()


#: How files are read to what they hold, and written from it.
CONTENTS: dict[str, tuple[Callable[[bytes], Any], Callable[[Any], bytes]]] = {
    ".npz": (_from_npz, _to_npz),
    ".pt": (lambda file: torch.load(io.BytesIO(file)), lambda content: written(lambda file: torch.save(content, file))),
    ".csv": (_from_csv, _to_csv),
}


def _other(draw: Draw, value: Any) -> Any:
    if isinstance(value, np.ndarray):
        numbers = [value + 1j, value * np.nan] if value.dtype.kind in "fi" else []
        return draw.pick([np.array("text"), np.array(["a"]), value[..., None], np.array(0.5), *numbers])
    if isinstance(value, torch.Tensor):
        return draw.pick([value[..., None], value * torch.nan, value.to(torch.int64), value.to(torch.complex64)])
    if isinstance(value, str):
        return draw.pick(["word", "", "nan", "inf", "1e999", '"1', "implicit_bias solution 99"])
    return draw.pick([None, "text", 3, [], {"a": 1}, True])


def tampered(draw: Draw, content: Any) -> Any:
    """The content of a file with one thing in it, however deep, changed or gone."""
    changed, keys = content.copy(), list(content) if isinstance(content, dict) else list(range(len(content)))
    key = draw.pick(keys)
    if draw.chance(0.15):
        del changed[key]
    elif isinstance(content[key], dict | list) and len(content[key]):
        changed[key] = tampered(draw, content[key])
    else:
        changed[key] = _other(draw, content[key])
    return changed


# --------------------------------------------------------------------------------------------------- saved and loaded


@dataclass(frozen=True)
class Format:
    """A kind of file: how it is made, saved and loaded; `held` is what must then be the same, and `use` its use."""

    make: Callable[[Draw], Any]
    save: Callable[..., Any]
    load: Callable[[Any], Any]
    suffix: str
    held: Callable[[Any], Any]
    use: Callable[[Any], Any]


def _problem(draw: Draw) -> Any:
    X, y = problems.clean_task(draw)
    spaces, net = ib.RandomHalfSpaces(3, seed=2), ib.ReLUNetwork(X.shape[1], 3)
    built = [ib.svm_gln(X, y, problems.fitted_gates(draw, X)), ib.svm_shallow(X, y, spaces), ib.svm_lc(X, y, net)]
    built.append(ib.svm_classes(X, y, problems.fitted_gates(draw, X), 0.3, shared=draw.chance(0.5)))
    gate, norm, kind = draw.pick(SAVED)
    law = cases.problem(gate, norm, draw.pick([0.3, np.inf]), kind, size=(14, 4), seed=draw.whole(0, 9))
    if draw.chance(0.5) and not law.norm.seminorm:
        law = replace(law, constraints=lambda W: [W[0] >= -0.1, W[:, 0] == draw.pick([0, 0.2])])
    return draw.pick([problems.problem(draw)[0], law, law, *built])


def _solution(draw: Draw) -> Any:
    return ib.solve(_problem(draw), max_iterations=draw.pick([None, 1, 20]), tol=draw.pick([1e-6, 1e-12]))


def _model(draw: Draw) -> Any:
    if draw.chance(0.3):
        # Of kernels, by name.
        return ib.OneClassMargin(nu=0.4).fit(problems.clean_task(draw)[0]).as_model()
    problem = _problem(draw)
    model = ib.MarginModel([problem], [ib.solve(problem)], classes=draw.pick([["cat", "dog"], [-1, 1], [0.5, 2.5]]))
    limits = np.sort(draw.normal(2, model.width), axis=0)
    scaled = replace(model, scaling=Scaling([("subtract", limits[0]), ("divide", np.exp(limits[1]))]), ranges=limits)
    return draw.pick([model, scaled])


def _but_samples(model: Any) -> Any:
    about = [vars(model) | {"problems": 0, "solutions": 0}, None if model.scaling is None else vars(model.scaling)]
    return [*(problem.replace(features=None) for problem in model.problems), *model.solutions, *about]


def _network(draw: Draw) -> Any:
    X, _ = problems.clean_task(draw)
    return network(draw, X).to(draw.pick(DTYPES[1:4]))


def _write_csv(samples: Any, path: Path) -> Path:
    X, y = samples
    rows = [[*(repr(float(v)) for v in row), "cat" if sign < 0 else "dog"] for row, sign in zip(X, y, strict=True)]
    path.write_bytes(_to_csv([[*(f"x{j}" for j in range(X.shape[1])), "animal"], *rows]))
    return path


def _write_npz(samples: Any, path: Path) -> Path:
    np.savez(path, X=samples[0], y=samples[1])
    return path


def _samples(samples: Any) -> Any:
    return samples if isinstance(samples, tuple) else (samples.X, samples.y)


def _outputs(net: Any) -> Any:
    return net.decision_function(np.ones((2, net.inputs)))


#: The cases of the laws that files can hold.
SAVED = [case for case in cases.CASES if case[1] != "l1" and case[2] not in ("chunked", "own")]
FORMATS = {
    "solution": Format(_solution, ib.save_solution, ib.load_solution, ".npz", vars, repr),
    "model": Format(_model, ib.save_model, ib.load_model, ".npz", _but_samples, repr),
    "problem": Format(_problem, ib.save_problem, ib.load_problem, ".npz", lambda problem: problem, ib.solve),
    "network": Format(
        _network, ib.save_network, ib.load_network, ".pt", lambda net: [repr(net), net.state_dict()], _outputs
    ),
    "CSV": Format(problems.clean_task, _write_csv, ib.read_samples, ".csv", _samples, _samples),
    "NPZ": Format(problems.clean_task, _write_npz, ib.read_samples, ".npz", _samples, _samples),
}


def _load(form: Format, draw: Draw) -> None:
    """Whole files give back what was saved to the bit; others are refused, or hold something that can be used."""
    thing, path = form.make(draw), draw.folder / f"file{form.suffix}"
    good = form.save(thing, path).read_bytes()
    kind = draw.kind("file", ["whole", "whole", *["spoiled"] * 3, "poisoned", "tampered", "tampered", "no path"])
    if kind == "no path":
        draw.call(form.load, draw.pick(PATHS), must=True)
    read, write = CONTENTS[form.suffix]
    ways = {
        "whole": lambda: good,
        "spoiled": lambda: spoiled(draw, good),
        "poisoned": lambda: draw.among("a file with code inside", poisoned(draw.folder / MARKER)),
    }
    content = ways.get(kind, lambda: write(tampered(draw, read(good))))()
    path.write_bytes(content)
    try:
        found = draw.call(form.load, path, must=kind == "poisoned", may=content != good)
    finally:
        expect(path.read_bytes() == content, "it changed the file")
    expect(content != good or alike(form.held(found), form.held(thing), 0.0), "another one")
    draw.call(form.use, found, may=kind != "whole")


def _save(form: Format, about: str) -> None:
    """Register the saving: what can be written loads again, anything else is refused."""

    def given(draw: Draw) -> dict[str, Any]:
        return {about: draw.scalar([form.make(draw)], never), "path": place(draw)}

    def fine(c: Any, path: Any) -> bool:
        return alike(form.held(form.load(path)), form.held(getattr(c, about)), 0.0)

    row(form.save, given, same=None, finite=False, fine=fine)


for _name, _form in FORMATS.items():
    entry(f"{_form.load.__name__}, {_name}", share=5)(partial(_load, _form))
    if _name in signature(_form.save).parameters:
        _save(_form, _name)
