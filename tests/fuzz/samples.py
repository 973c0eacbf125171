"""Cases about files of samples: CSV and NPZ, whole, odd and damaged."""

import io
from typing import Any

import numpy as np
import torch

import implicit_bias as ib
from tests.fuzz import problems
from tests.fuzz.draw import Draw, Refused, expect
from tests.fuzz.files import MARKER, PATHS, load, poisoned, spoiled, written
from tests.fuzz.table import entry


def _csv(draw: Draw, X: Any, y: Any) -> tuple[bytes, str, str]:
    """Samples as CSV with a fault, its name, and what becomes of it: read as they are, refused, or either."""
    end, noise = draw.pick(["\n", "\r\n"]), bytes(draw.rng.integers(0, 256, 500, dtype=np.uint8))
    rows = [[repr(float(v)) for v in row] + ["cat" if sign < 0 else "dog"] for row, sign in zip(X, y, strict=True)]
    names, last = [*(f"x{j}" for j in range(X.shape[1])), "animal"], rows[-1]
    table = [names, *rows]
    whole = end.join(",".join(row) for row in table) + end
    cells = {word: [*table[:-1], [word, *last[1:]]] for word in ("word", "", "nan", "inf", "1e999")}
    refused: dict[str, list[list[str]]] = {
        "short row": [*table[:-1], last[1:]],
        "long row": [*table[:-1], ["1", *last]],
        "three classes": [*table[:-1], [*last[:-1], "cow"]],
        "one class": [names, *([*row[:-1], "cat"] for row in rows)],
        "head only": [names],
    }
    either = {"quotes": [*table[:-1], ['"1', *last[1:]]], "twice": [[names[1], *names[1:]], *rows]}
    either |= {"no label": [row[:-1] for row in table]}
    texts: dict[str, tuple[bytes, str]] = {"none": (whole.encode(), "read")}
    for said, tables in (
        ("refused", cells | refused),
        ("either", either),
        ("read", {"gates": [["gate_0", *names[1:]], *rows]}),
    ):
        texts |= {
            name: ((end.join(",".join(row) for row in found) + end).encode(), said) for name, found in tables.items()
        }
    content, mark = whole.encode(), end.encode()
    texts |= {"semicolons": (content.replace(b",", b";"), "refused"), "binary": (noise, "either")}
    texts |= {"blank lines": (content.replace(mark, mark + mark), "read"), "bom": (b"\xef\xbb\xbf" + content, "read")}
    texts |= {"gates": (content.replace(b"x0", b"gate_0", 1), "read")}
    texts |= {"latin": (content.replace(b"cat", "kät".encode("latin-1")), "either")}
    texts |= {"poisoned": (poisoned(draw), "either"), "spoiled": (spoiled(draw, content), "either")}
    fault = draw.kind("CSV, fault", ["none", "none", "none", *texts])
    return *texts[fault], fault


@entry(ib.read_samples, share=5)
def _read_csv(draw: Draw) -> None:
    """Whole CSV files are read as they are, others are refused or read as what they say."""
    X, y = problems.clean_task(draw)
    content, said, fault = _csv(draw, X, y)
    path = draw.folder / "samples.csv"
    path.write_bytes(content)
    odd, labels = draw.chance(draw.badness / 2), [None] if fault == "no label" else [None, "animal"]
    label: Any = draw.pick(["nowhere", 3, "", ["animal"]] if odd else labels)
    given = draw.either(path, PATHS)
    found = draw.call(ib.read_samples, given, label, must=odd or said == "refused", may=fault != "none")
    expect(not (draw.folder / MARKER).exists(), "CODE INSIDE THE FILE WAS EXECUTED")
    expect(np.isfinite(found.X).all() and set(found.y.tolist()) == {-1.0, 1.0}, "odd samples")
    whole = found.X if found.gate_values is None else np.hstack([found.gate_values, found.X])
    same = np.array_equal(whole, X) and np.array_equal(found.y, y) and found.classes == ("cat", "dog")
    expect(same or said != "read", "other samples")


@entry("read_samples, NPZ", share=3)
def _read_npz(draw: Draw) -> None:
    """Whole NPZ files are read as they are, others are refused; NumPy writes no masks."""
    X, y = problems.clean_task(draw)
    given = {"X": draw.array(X), "y": draw.array(y)}
    try:
        good = written(lambda file: np.savez(file, **{name: _as_held(part.value) for name, part in given.items()}))
    except Exception as error:
        # What NumPy itself cannot write is no file to read.
        raise Refused("not a file") from error
    fault = draw.kind("NPZ, fault", ["none", "none", "spoiled", "spoiled", "poisoned"])
    content = {"spoiled": spoiled(draw, good), "poisoned": poisoned(draw)}.get(fault, good)
    found = load(draw, ib.read_samples, ".npz", content)
    expect(fault != "poisoned", "it accepted a file with code inside")
    expect(given["X"].verdict != "bad" or given["X"].note == "a mask", f"it accepted X: {given['X'].note}")
    held = np.load(io.BytesIO(good), allow_pickle=True)
    labels = np.asarray(held["y"])
    expect(np.array_equal(found.X, np.asarray(held["X"]).astype(float)), "other samples")
    expect(np.array_equal(found.y, np.where(labels == np.unique(labels)[-1], 1.0, -1.0)), "other labels")


def _as_held(value: Any) -> Any:
    """A tensor as NumPy's array where it can be one."""
    tensor = isinstance(value, torch.Tensor) and value.device.type == "cpu" and value.dtype is not torch.bfloat16
    return value.numpy(force=True) if tensor else value
