"""Cases about Gram matrices of activations and their smallest eigenvalues."""

from typing import Any

import numpy as np
import torch

from implicit_bias import kernels
from tests.fuzz.draw import Draw, Given, expect
from tests.fuzz.strategies import SEED, count, number
from tests.fuzz.table import entry, records, row

SERIES = ["tanh", "sigmoid", "softplus", "swish"]
CLOSED = ["relu", "leaky relu", "square", "cube", "elu", "selu", "erf", "gelu"]
MADE = [kernels.leaky_relu(-1.0), kernels.elu(1e-6), kernels.polynomial([1, -2, 0.5, 0, 1e-3])]
STEEP = [kernels.leaky_relu(1e6), kernels.elu(3.0, 1e20)]


def sigma(draw: Draw, series: bool = True) -> Any:
    """An activation by name or as itself, or none; a series may not reach, and a steep one may leave floats."""
    chosen: Any = draw.pick([*CLOSED, *MADE, *STEEP, *(SERIES if series else [])])
    # The series of long points are long.
    draw.sizes["longest"] = 1 if chosen in SERIES else 3
    given = draw.either(chosen, ["sine", "", None, 3, b"relu", ["relu"], object(), np.tanh, "RELU"])
    given.verdict = "doubtful" if given.verdict == "good" and chosen in SERIES + STEEP + MADE else given.verdict
    return given


def closed(draw: Draw) -> Any:
    """An activation whose Gram matrix is known in closed form."""
    return sigma(draw, series=False)


def points(draw: Draw) -> Given:
    """Points (n, d): orthogonal, nearly parallel, opposite, repeated, zero, of lengths from 1e-6 to 1e3 and beyond."""
    n, d = draw.whole(1, 3), draw.whole(1, 3)
    X = draw.normal(n, d)
    X = (
        X
        / np.linalg.norm(X, axis=1, keepdims=True)
        * 10.0 ** draw.rng.uniform(*draw.pick([(0, 0), (-6, draw.sizes["longest"])]), (n, 1))
    )
    last = X[-1] + 10.0 ** -draw.whole(2, 9) * np.eye(d)[0]
    pairs = {"nearly parallel": last, "antipodal": -X[-1], "repeated": X[-1], "zero": 0 * X[-1]}
    variants: dict[str, Any] = {"random": (X, "good"), "orthogonal": (np.eye(max(n, d))[:n, :d] + 1e-9, "good")}
    variants |= {name: (np.vstack([X, row]), "bad" if name == "zero" else "good") for name, row in pairs.items()}
    return draw.variant("points", variants | {f"times {s:g}": (X * s, "bad") for s in (1e-70, 1e70, 1e-300, 1e300)})


def _is_gram(c: Any, found: Any) -> bool:
    """Symmetric, and positive up to an error that is small."""
    values = np.asarray(found.values, dtype=np.float64)
    trace, error = np.trace(values), float(found.error)
    expect(np.array_equal(values, values.T) and 0 <= error <= 1e-3 * trace, f"an error of {error:g}")
    return bool(found.is_certified and np.linalg.eigvalsh(values)[0] >= -error - 1e-13 * trace)


def _more(draw: Draw) -> dict[str, Any]:
    """An activation, now and then with a tolerance or digits, which not every one can reach."""
    exact = draw.chance(0.15)
    odd = {"digits": count(8, 20, 40, None, most=1000)(draw)} if exact else {}
    odd |= {"tolerance": number(1e-11, 1e-6, 1e-3, high=1.0, ends=True)(draw)} if not exact and draw.chance(0.3) else {}
    draw.extreme = draw.extreme or bool(odd)
    return odd | {"activation": sigma(draw, series=not exact), "normalise": draw.chance(0.3)}


NORM, DIGITS, NODES = (
    number(1.0, 0.25, 3, 7.5, low=1e-60, high=1e60),
    count(10, 1, 40, most=1000),
    count(1, 3, 8, most=2000),
)
row(kernels.gram_matrix, _more, share=6, X=points, fine=_is_gram)
row(
    kernels.empirical_gram,
    activation=sigma,
    X=points,
    width=count(1, 7, 300, cap=10**5),
    seed=SEED,
    may=lambda c: c.X.size < 2,
)
row(
    kernels.deep_gram,
    activation=sigma,
    X=points,
    layers=count(1, 2, 4, most=10_000),
    may=lambda c: c.activation == "cube",
)
row(
    kernels.mean_square,
    activation=sigma,
    norm=NORM,
    may=lambda c: not 1e-3 <= c.norm <= 10,
    fine=lambda c, found: found > 0,
)
row(
    kernels.circle_eigenvalue,
    n=NODES,
    activation=closed,
    digits=DIGITS,
    fine=lambda c, found: found.value == 0 or found.error * 2 * 10 ** int(c.digits) <= abs(found.value),
)


def _matrix(draw: Draw) -> Any:
    """A Gram matrix, or a matrix of every kind and size."""
    n = draw.whole(2, 6)
    if draw.chance(0.3):
        return kernels.gram_matrix(
            draw.normal(n, 2), draw.pick(["relu", "erf", "selu", "square"]), digits=draw.pick([None, 25])
        )
    root = draw.normal(n, n + 2)
    A, thin = root @ root.T, root[:, : n - 1] @ root[:, : n - 1].T
    scale = draw.pick([1.0, 1.0, 1e-200, 1e200, 1e-260, 1e260])
    variants: dict[str, Any] = {
        "positive": (A * scale, "good"),
        "singular": (thin * scale, "good"),
        "indefinite": ((A - np.eye(n) * A.trace() / n) * scale, "good"),
        "zero": (0 * A, "good"),
        "diagonal": (np.diag(draw.rng.choice([0.0, 1.0, 1e-9, 5.0], n)) * scale, "good"),
        "without a trace": ((1 - np.eye(n)) * scale, "good"),
        "ill": ((A + 1e12) * scale, "good"),
        "asymmetric": (A + np.triu(A, 1), "bad"),
        "beyond": (A * 1e300, "bad"),
    }
    return draw.variant("matrix", variants)


def _is_least(c: Any, found: Any) -> bool:
    """An eigenvalue no larger than the mean of all, with as many digits as were asked for."""
    A = np.asarray(getattr(c.gram, "values", c.gram), dtype=np.float64)
    expect(float(found.value) <= A.trace() / len(A) + found.error + 1e-13 * np.abs(A).max(), "not the smallest")
    return c.digits is None or found.error * 2 * 10 ** int(c.digits) <= abs(found.value)


MAYBE = count(None, None, None, 1, 3, 30, vast=50)
row(
    kernels.smallest_eigenvalue, share=4, gram=_matrix, digits=MAYBE, may=lambda c: c.digits is not None, fine=_is_least
)

# --------------------------------------------------------------------------------------------------------- activations


def _is_activation(c: Any, found: Any) -> bool:
    """σ and σ' are finite, and the same at a number and in an array."""
    z = c.draw.normal(5)
    expect(np.isfinite(found.function(z)).all(), "no numbers")
    return float(found.derivative(z[0])) == float(found.derivative(z)[0])


def _coefficients(draw: Draw) -> Given:
    c = np.append(draw.normal(draw.whole(2, 21)) * draw.pick([1.0, 1.0, 1e-90, 1e90]), np.zeros(draw.whole(0, 2)))
    odd = {"long": np.ones(22), "constant": c[:1], "tiny": np.ones(3) * 1e-200}
    return draw.variant(
        "c", {"ordinary": (c, "good")} | {name: (v, "bad") for name, v in odd.items()}, but=["one dimension more"]
    )


SLOPE = number(0.0, 0.5, -3, 1e6, 1, low=-1e6, high=1e6, ends=True)
SIZE = number(1.0, 1.67, 3, 1e-9, 1e9, low=1e-60, high=1e60, ends=True)
ACTIVATION: dict[str, Any] = {"same": None, "finite": False, "fine": _is_activation}
row(kernels.activation, lambda draw: {"name": sigma(draw)}, **ACTIVATION)
row(kernels.leaky_relu, slope=SLOPE, must=lambda c: c.slope == 1, **ACTIVATION)
row(kernels.elu, alpha=SIZE, scale=SIZE, **ACTIVATION)
row(kernels.polynomial, coefficients=_coefficients, **ACTIVATION)
SINE = {"name": "sine", "function": np.sin, "derivative": np.cos}
row(kernels.Activation, lambda draw: SINE, share=1, **ACTIVATION)
FUNCTIONS: dict[str, Any] = {"tanh": torch.tanh, "swish": torch.nn.functional.silu, "gelu": torch.nn.functional.gelu}
FUNCTIONS |= {"square": lambda z: z**2, "erf": lambda z: torch.special.erf(z / 2**0.5)}
NO_FUNCTIONS: list[Any] = [None, "tanh", 3, lambda z: z.sum(), lambda z: z.detach(), lambda z: 1.0, lambda z: z > 0]
NO_FUNCTIONS += [lambda z: z[:1], lambda z: z.detach().numpy()]
NO_GRAMS: list[Any] = [torch.sqrt, torch.log, lambda z: 0 * z, lambda z: torch.exp(z**2), lambda z: torch.exp(z**2 / 4)]


@entry(kernels.custom_activation)
def _custom(draw: Draw) -> None:
    """Functions of torch are their namesakes; what is none, or has no mean square, is refused."""
    X, name = draw.normal(2, 3), draw.pick(list(FUNCTIONS))
    if draw.chance(draw.badness):
        if draw.chance(0.5):
            draw.call(kernels.custom_activation, draw.pick(NO_FUNCTIONS), must=True)
        draw.call(kernels.gram_matrix, X, kernels.custom_activation(draw.pick(NO_GRAMS)), must=True)
    found = draw.call(kernels.custom_activation, FUNCTIONS[name], draw.scalar(["mine"], lambda v: isinstance(v, str)))
    gram, known = draw.call(kernels.gram_matrix, X, found), kernels.gram_matrix(X, name)
    expect(np.linalg.norm(gram.values - known.values, 2) <= gram.error + known.error, f"not as {name}")
    expect(not gram.is_certified, "certified")


records({kernels.Gram: (np.eye(2), 0.0), kernels.SmallestEigenvalue: (1.0, 0.5)})
