"""Compiled loops do what their Python code does, from several threads and without a place to keep the code."""

import re
from concurrent.futures import ThreadPoolExecutor
from errno import ENOSPC

import numba
import numpy as np
import pytest
from numba.core.caching import FunctionCache, IndexDataCacheFile

from implicit_bias._utils.compiled import compiled
from implicit_bias.gates import half_space_kernel
from implicit_bias.solvers import one_kernel


def squares(values):
    total = 0.0
    for value in values:
        total += value * value
    return total


def test_several_threads_call_it_first():
    function = compiled(squares)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(function, [np.arange(4.0)] * 8))
    assert found == [14.0] * 8


def doubled():
    """Compile a new function whose machine code is kept, and call it."""

    def double(x):
        return 2 * x

    double.__module__ = "implicit_bias.double"
    return compiled(double)(1.5)


def test_code_that_cannot_be_kept(monkeypatch):
    """Numba refuses to keep code if no folder can be written."""
    monkeypatch.setattr(FunctionCache._impl_class, "_locator_classes", [])
    assert doubled() == 3.0


@pytest.mark.parametrize(("kind", "share"), [("nbi", 0), ("nbi", 0.5), ("nbc", 0), ("nbc", 0.5)])
def test_damaged_code_is_renewed(kind, share, monkeypatch, tmp_path, recwarn):
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    doubled()
    (file,) = tmp_path.rglob(f"*.{kind}")
    file.write_bytes(file.read_bytes()[: int(share * file.stat().st_size)])
    with pytest.warns(RuntimeWarning, match=f"{re.escape(str(file.parent))} is damaged"):
        assert doubled() == 3.0
    assert doubled() == 3.0
    assert not recwarn.list


def test_a_full_disk(monkeypatch, tmp_path):
    def full(*arguments):
        raise OSError(ENOSPC, "No space left on device")

    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(IndexDataCacheFile, "_open_for_write", full)
    with pytest.warns(RuntimeWarning, match="No space left on device"):
        assert doubled() == 3.0


@pytest.mark.parametrize("paired", [False, True])
@pytest.mark.parametrize("upper", [0.3, np.inf])
def test_smo_steps_are_those_of_the_python_code(paired, upper):
    rng = np.random.default_rng(1)
    X = rng.standard_normal((40, 3))
    K = X @ X.T + np.eye(40)
    y = np.where(X[:, 0] > 0, 1.0, -1.0)
    low, high = np.where(y > 0, 0.0, -upper), np.where(y > 0, upper, 0.0)
    found = []
    for function in (one_kernel._smo_steps, one_kernel._smo_steps.__wrapped__):
        v, s = y.copy(), np.zeros(40)
        violation = function(K, v, s, low, high, paired, 1e-3, 1000)
        np.testing.assert_allclose(v, y - K @ s, atol=1e-12)
        assert violation <= 1e-3
        found.append(s)
    np.testing.assert_allclose(*found, atol=1e-10)


@pytest.mark.parametrize("dtype", [np.float32, float])
@pytest.mark.parametrize(("b", "mean"), [(1, 0.0), (3, 0.5)])
def test_gated_products_are_those_of_the_python_code(dtype, b, mean):
    """Among the cosines are those of equal, opposite and nearly parallel directions, in two parts."""
    rng = np.random.default_rng(2)
    U = rng.standard_normal((9, 4))
    V = np.vstack([U[:3], -U[:3], U[:3] + 1e-3, rng.standard_normal((8, 4))])
    U, V = ((A / np.linalg.norm(A, axis=1, keepdims=True)).astype(dtype) for A in (U, V))
    lengths, sizes = (rng.random(len(A)).astype(dtype) for A in (U, V))
    polynomial = half_space_kernel._arccos(np.dtype(dtype).itemsize).astype(dtype)
    found, single = [], dtype is np.float32
    for function in (half_space_kernel._add_gated, half_space_kernel._add_gated.__wrapped__):
        total, first, last = np.ones((10, 18), dtype), U[:, :3] @ V[:, :3].T, U[:, 3:] @ V[:, 3:].T
        numbers = b, dtype(mean), dtype(0.99)
        function(total, 1, 1, first, last, (U, lengths), (V, sizes), *numbers, polynomial)
        found.append(total)
    angles = np.arccos(np.clip(U.astype(float) @ V.T.astype(float), -1, 1))
    expected = ((1 - angles / np.pi) ** b - mean) * np.cos(angles) * np.outer(lengths, sizes)
    for total in found:
        np.testing.assert_allclose(total[1:, 1:], 1 + expected, rtol=2e-5 if single else 1e-7)
        assert (total[0] == 1).all()
        assert (total[:, 0] == 1).all()
    np.testing.assert_allclose(*found, rtol=2e-5 if single else 1e-12)


def test_polynomials_for_arccos():
    x = np.linspace(0, 1, 100_001)
    for size, error in ((8, 4e-15), (4, 3e-9)):
        found = np.sqrt(1 - x) * np.polyval(half_space_kernel._arccos(size).ravel(), 2 * x - 1)
        assert np.abs(found - np.arccos(x) / np.pi).max() < error
