"""Cases about receptive fields: how local they are, pixel gates in closed form, and gates that are searched for."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import special

from implicit_bias import GateSearch, OnlineTraining, improve_filters, search_gates, train_online
from implicit_bias.datasets import RingProcess, nonlinear_gaussian_process
from implicit_bias.dynamics import ipr, peak_frequency, pixel_moments
from odd.draw import Array, Draw, Given, close, expect, is_count, is_number
from odd.regression import count
from odd.rings import by_quadrature
from odd.surface import entry


def fields_of(draw: Draw) -> tuple[Given, bool]:
    """Fields (…, n) of every size, some of one pixel or zero, and whether they must be refused."""
    shape = draw.pick([(1,), (7,), (8,), (3, 8), (2, 2, 5), (4, 1)])
    w = draw.normal(*shape)
    kind = draw.pick(["ordinary", "ordinary", "one pixel", "wave", "flat", "zero"])
    turn = 2 * np.pi * np.arange(shape[-1]) / shape[-1]
    if kind == "one pixel":
        w = np.where(np.arange(shape[-1]) == 0, w, 0.0) if w[..., 0].all() else w
    elif kind == "wave":
        w = np.cos(draw.whole(0, 4) * turn) + 0 * w
    elif kind == "flat":
        w = np.ones(shape)
    elif kind == "zero" and draw.chance(0.5):
        w.reshape(-1, shape[-1])[0] = 0.0
    draw.story.append(f"fields: {kind}")
    given = draw.array(w * draw.pick([1.0, 1.0, 1e-300, 1e300]))
    if given.verdict == "bad" and given.note in ("one dimension more", "one dimension less"):
        given = Given(w, w, "float64")
    return given, given.plain is not None and not given.plain.any(axis=-1).all()


def rows_of(w: Array) -> Array:
    """Fields (m, n) in longdouble, the largest entry of each 1."""
    rows = w.reshape(-1, w.shape[-1]).astype(np.longdouble)
    return rows / np.abs(rows).max(axis=1, keepdims=True)


@entry("ipr")
def _ipr(draw: Draw) -> str:
    """Σw⁴/(Σw²)², field by field."""
    w, must = fields_of(draw)
    found = draw.call(ipr, w, must_refuse=must)
    own = [float(np.sum(row**4) / np.sum(row**2) ** 2) for row in rows_of(w.plain)]
    expect(found.shape == w.plain.shape[:-1] and close(found.ravel(), own, 1e-13), "another ratio")
    return "correct"


@entry("peak_frequency")
def _peak(draw: Draw) -> str:
    """The lowest of the largest Fourier coefficients, by a sum over the pixels."""
    w, must = fields_of(draw)
    found = draw.call(peak_frequency, w, must_refuse=must)
    expect(found.shape == w.plain.shape[:-1] and found.dtype.kind == "i", "another shape")
    for row, frequency in zip(rows_of(w.plain), found.ravel(), strict=True):
        n = len(row)
        turns = np.exp(-2j * np.pi * np.outer(np.arange(n // 2 + 1), np.arange(n)) / n)
        sizes = np.abs(turns @ row.astype(float))
        expect(sizes[frequency] >= (1 - 2e-9) * sizes.max(), f"{frequency} is not the peak of {sizes}")
        expect((sizes[:frequency] <= (1 - 1e-10) * sizes.max()).all(), "a lower one is as large")
    return "correct"


@entry("pixel_moments", share=3)
def _pixel(draw: Draw) -> str:
    """A = ¼(Σ₀ + Σ₁), and b by quadrature over the pixel."""
    n, labels = draw.whole(3, 12), draw.pick([(1.0, -1.0), (1.0, 0.0), (0.5, 3.0)])
    gain = draw.pick([1e-6, 0.1, 1.0, 30.0, 1e6])
    process: Any = nonlinear_gaussian_process(n, (0.1 * n, 0.3), gain, labels)
    kind = draw.pick(["erf", "erf", "clone", "gaussian"])
    if kind == "clone":
        process = process.clone()
    elif kind == "gaussian":
        process = RingProcess(draw.pick([1.0, 1e-40, 1e50]) * np.array([np.ones(n), np.full(n, 2.0)]), labels=labels)
    pixel = draw.scalar([0, n - 1, np.int8(1)], is_count(0, n - 1))
    both = draw.chance(0.5)
    wrapped = draw.scalar([process], lambda v: False)
    found = draw.call(pixel_moments, wrapped, pixel, both=both)
    i, A, b = int(pixel.value), np.zeros((n, n)), np.zeros(n)
    for which, label in enumerate(labels):
        A += process.covariance(which) / 4
        C = process.latent(which)
        if process.gain is None:
            b += label / 2 * C[i] / np.sqrt(2 * np.pi * C[i, i])
        else:
            products = by_quadrature(process.gain, np.clip(C[i], -1.0, 1.0))
            b += label / 2 * products[1] / process.normaliser
    expect(found.k == 1 + both and found.exclusive and close(found.b[0], b, 1e-9), "another b")
    expect(close(found.dense()[:n, :n], A, 1e-12) and not found.dense()[:n, n:].any(), "another A")
    expect(abs(found.power - (labels[0] ** 2 + labels[1] ** 2) / 2) <= 1e-15 * found.power, "another power")
    expect(not both or close(found.b[1], -b, 1e-9), "the two gates are no opposites")
    expect(0 <= found.best_loss <= found.power, "another best loss")
    return "correct"


@entry("search_gates", share=3)
def _search(draw: Draw) -> str:
    """Every start's losses are those of least squares on gates; the best is the least."""
    n, d = draw.whole(12, 40), draw.whole(1, 3)
    X = draw.array(draw.normal(n, d) * draw.pick([1.0, 1.0, 1e-30, 1e60]))
    y = draw.array(draw.normal(n) * draw.pick([1.0, 1.0, 1e40, 1e-70]))
    y = Given(np.ones(n), np.ones(n), "ones") if y.note == "one dimension more" else y
    units = draw.scalar([1, 2, 3, 3, n // d + 1], is_count())
    plain = X.plain is not None and y.plain is not None
    # Rounding to integers may leave nothing.
    must = plain and (not X.plain.any() or len(y.plain) != n)
    must = must or (is_count(most=10**500)(units.value) and int(units.value) * d >= n)
    options: dict[str, Any] = {"restarts": draw.scalar([1, 2, 3], is_count(most=40))}
    options["steps"] = count(draw, [0, 5, 30], least=0)
    many = is_count(41, 2**80)(options["restarts"].value)
    options["restarts"] = Given(2, 2, "2") if many else options["restarts"]
    seed = draw.scalar([0, 1, 2**40], is_count(0, 2**63 - 1))
    # Few filters may be closed for all of few samples, or for inputs that are all positive.
    few = n < 9 * d or (plain and bool((X.plain >= 0).all()))
    found = draw.call(search_gates, X, y, units, must_refuse=must, may_refuse=few, seed=seed, **options)
    expect(found.losses.shape == found.first.shape == (int(options["restarts"].value),), "another number of starts")
    best = found.best.solution.loss
    expect(best == found.losses.min(), "not the best of the starts")
    opened = (X.plain @ found.best.directions.T >= 0).astype(float)
    dense = (opened[:, :, None] * X.plain[:, None, :]).reshape(n, -1)
    size, to = np.abs(dense).max() or 1.0, np.abs(y.plain).max() or 1.0
    fit = np.linalg.lstsq(dense / size, y.plain / to, rcond=1e-9)[0]
    own = np.mean((y.plain / to - dense / size @ fit) ** 2)
    expect(abs(best / to / to - own) <= 1e-7 * own + 1e-14, f"loss {best / to / to:g}, not {own:g}")
    plainly = {name: given.value for name, given in options.items()} | {"seed": seed.value}
    again = search_gates(X.plain, y.plain, int(units.value), **plainly)
    expect(np.array_equal(found.losses, again.losses), "it does not repeat")
    zero = np.mean(y.plain.astype(np.longdouble) ** 2)
    # Of filters that open for the same samples the search knows its losses to a few digits less.
    ladder = np.array([found.losses, found.first, np.full_like(found.first, zero)])
    expect((np.diff(ladder, axis=0) >= -1e-4 * zero).all(), "uphill")
    return "correct"


@entry("GateSearch", share=1)
def _record(draw: Draw) -> str:
    record = draw.call(GateSearch, np.zeros(2), np.zeros(2), improve_filters(draw.normal(9, 2), np.ones(9), 2, steps=1))
    expect("FilterSearch" not in repr(record), "it prints the best search")
    return "correct"


def own_training(process: Any, W: Array, b: Array, activation: str, options: dict[str, Any]) -> list[Any]:
    """Weights (R, K, n) and biases (R, K) after every step, and the losses (R,) before it, unit by unit."""
    steps, lr, seed = options["steps"], float(options["lr"]), options["seed"]
    W, b, found = W.copy(), b.copy(), []
    for X, y in process.stream(steps + 1, options["batch_size"], seed=seed):
        net = np.einsum("rkn,mn->rkm", W, X) + b[..., None]
        if activation == "relu":
            h, slope = np.maximum(net, 0), (net > 0).astype(float)
        elif activation == "sigmoid":
            h = 1 / (1 + np.exp(-net))
            slope = np.exp(-net) * h**2
        else:
            h, slope = special.erf(net / np.sqrt(2)), np.sqrt(2 / np.pi) * np.exp(-(net**2) / 2)
        missing = y - h.mean(axis=1)
        found.append((W.copy(), b.copy(), np.mean(missing**2, axis=1)))
        W += lr * np.einsum("rm,rkm,mn->rkn", missing, slope, X) / len(X)
        if options["biases"]:
            b += lr * np.einsum("rm,rkm->rk", missing, slope) / len(X)
    return found


@entry("train_online", share=3)
def _online(draw: Draw) -> str:
    """Every step once more, from the same start and samples."""
    process = nonlinear_gaussian_process(draw.whole(3, 8), (0.4, 0.2), draw.pick([0.1, 3.0]), labels=(1.0, 0.0))
    name = draw.scalar(["relu", "sigmoid", "erf"], lambda v: False)
    small = is_count(most=50)
    options: dict[str, Any] = {
        "steps": count(draw, [1, 2, 9]),
        "lr": draw.scalar([0.1, 0.01, 1], is_number(0, 10.0)),
        "batch_size": count(draw, [1, 8, 20]),
        "scale": draw.scalar([0.1, 1, 1e-9], is_number(0, 1e3)),
        "repeats": draw.scalar([1, 2], small),
        "seed": draw.scalar([0, 1, 2**40], is_count(0, 2**63 - 1)),
    }
    units = draw.scalar([1, 3], small)
    for given in (options["repeats"], units, options["lr"], options["scale"]):
        if given.verdict == "bad" and (is_count()(given.value) or is_number(0)(given.value)):
            given.value, given.verdict = 1, "good"
    record = draw.scalar([2, 20, 10**30, [0, 1], [1], range(2)], is_count(2, 10**500))
    if isinstance(record.value, list | tuple | range | np.ndarray):
        record = Given([1], [1], "[1]")
    biases = draw.chance(0.5)
    data: Any = process
    may = draw.chance(0.3)
    if may:
        X, y = draw.array(draw.normal(6, process.n)), draw.array(draw.normal(6 + draw.chance(0.1)))
        draw.story.append(f"samples: {X.note}, {y.note}")
        bad = "bad" in (X.verdict, y.verdict) and y.note != "one dimension more"
        options["batch_size"] = Given(8, 8, "8")
        data = Given((X.value, y.value), None, "a pair", "bad" if bad else "doubtful")
    found = draw.call(train_online, data, units, name, record=record, biases=biases, may_refuse=may, **options)
    expect(found.times.shape == found.steps.shape and found.steps[0] == 0, "no record of the start")
    expect(found.steps[-1] == options["steps"].value and np.isfinite(found.weights).all(), "no record of the end")
    if may:
        return "correct"
    plain = {key: given.value for key, given in options.items()} | {"biases": biases}
    own = own_training(process, found.weights[0], found.biases[0], name.value, plain)
    for step, W, b, loss in zip(found.steps, found.weights, found.biases, found.losses, strict=True):
        for mine, theirs in zip(own[step], (W, b, loss), strict=True):
            # What balanced samples add to a bias may cancel.
            cancelled = np.abs(theirs - mine).max() <= 1e-14 * plain["lr"]
            expect(cancelled or close(theirs, mine, 1e-9), f"another step {step}")
    fresh, _ = process.sample(9)
    gates = draw.call(found.gates, fresh)
    expect(gates.shape == (len(found.steps), plain["repeats"], units.value, 9), "gates of another shape")
    expect(close(found.flips(fresh), (gates != gates[-1:]).mean(axis=(2, 3)).T, 1e-12), "other flips")
    return "correct"


@entry("OnlineTraining.gates", share=1)
def _gates(draw: Draw) -> str:
    """1(w·x + b > 0) of any samples."""
    weights, biases = draw.normal(2, 1, 3, 4), draw.normal(2, 1, 3)
    record = OnlineTraining("relu", 0.1, np.array([0, 5]), weights, biases, np.zeros((2, 1)))
    X = draw.array(draw.normal(5, draw.pick([4, 4, 3])))
    found = draw.call(record.gates, X, must_refuse=X.plain is not None and X.plain.shape[1] != 4)
    own = np.sum(weights[..., None, :] * X.plain, axis=-1) + biases[..., None]
    clear = np.abs(own) > 1e-12
    expect(np.array_equal(found[clear], own[clear] > 0), "other gates")
    expect("array" not in repr(record), "it prints its arrays")
    return "correct"
