"""Cases about Gram matrices of activations and their smallest eigenvalues."""

from typing import Any

import numpy as np
import torch

from implicit_bias.extensions import infinite
from tests.fuzz import problems
from tests.fuzz.draw import Draw, Given, expect
from tests.fuzz.strategies import count, number, numbers, one_of
from tests.fuzz.table import entry, row

SERIES = ["tanh", "sigmoid", "softplus", "swish"]
CLOSED = ["relu", "leaky relu", "square", "cube", "elu", "selu", "erf", "gelu"]
#: Of which a series may not reach, and which may leave floats.
MADE = [infinite.leaky_relu(-1.0), infinite.elu(1e-6), infinite.polynomial([1, -2, 0.5, 0, 1e-3])]
STEEP = [infinite.leaky_relu(1e6), infinite.elu(3.0, 1e20)]
NO_ACTIVATIONS: list[Any] = ["sine", "", None, 3, b"relu", ["relu"], object(), np.tanh, "RELU"]


def sigma(draw: Draw, series: bool = True) -> Given:
    chosen: Any = draw.pick([*CLOSED, *MADE, *STEEP, *(SERIES if series else [])])
    given = draw.either(chosen, NO_ACTIVATIONS)
    given.verdict = "doubtful" if given.verdict == "good" and chosen not in CLOSED else given.verdict
    return given


def closed(draw: Draw) -> Given:
    """An activation whose Gram matrix is known in closed form."""
    return sigma(draw, series=False)


def _layer(draw: Draw) -> dict[str, Any]:
    """An activation, and points of lengths from 1e-6 to 1e3 and beyond; the series of long points are long."""
    activation = sigma(draw)
    longest = draw.pick([0.0, 1.0 if activation.value in SERIES else 3.0])
    scales = (*[1.0] * 9, 1e-70, 1e70, 1e-300, 1e300)
    return {"activation": activation, "X": problems.points(draw, longest, scales)}


def _is_gram(c: Any, found: Any) -> bool:
    values = np.asarray(found.values, dtype=np.float64)
    trace, error = np.trace(values), float(found.error)
    expect(np.array_equal(values, values.T) and 0 <= error <= 1e-3 * trace, f"an error of {error:g}")
    return bool(found.is_certified and np.linalg.eigvalsh(values)[0] >= -error - 1e-13 * trace)


def _exact(draw: Draw) -> dict[str, Any]:
    """Return now and then a tolerance or digits, which not every activation can reach."""
    digits, tolerance = count(8, 20, 40, None, most=1000), number(1e-11, 1e-6, 1e-3, high=1.0, ends=True)
    more = draw.pick([{}, {}, {"tolerance": tolerance(draw)}, {"digits": digits(draw)}])
    draw.extreme = draw.extreme or bool(more)
    return more | ({"activation": closed(draw)} if "digits" in more else {})


NORM = number(1.0, 0.25, 3, 7.5, low=1e-60, high=1e60)
WIDTH, DEPTH = count(1, 7, 300, cap=10**5), count(1, 2, 4, cap=1000, most=10_000)
row(infinite.gram_matrix, _layer, _exact, share=6, fine=_is_gram, tolerance=1e-11, digits=None)
row(infinite.empirical_gram, _layer, width=WIDTH, may=lambda c: c.X.size < 2)
row(infinite.deep_gram, _layer, layers=DEPTH, may=lambda c: c.activation == "cube")
row(infinite.mean_square, activation=sigma, norm=NORM, may=lambda c: not 1e-3 <= c.norm <= 10)


def _has_digits(c: Any, found: Any) -> bool:
    digits = int(getattr(c, "digits", None) or 0)
    return digits == 0 or found.value == 0 or found.error * 2 * 10**digits <= abs(found.value)


row(infinite.circle_eigenvalue, n=count(1, 3, 8, most=2000), activation=closed, fine=_has_digits)


def _matrix(draw: Draw) -> Any:
    n = draw.whole(2, 6)
    if draw.chance(0.3):
        name, digits = draw.pick(["relu", "erf", "selu", "square"]), draw.pick([None, 25])
        return infinite.gram_matrix(draw.normal(n, 2), name, digits=digits)
    root = draw.normal(n, n + 2)
    A, thin = root @ root.T, root[:, : n - 1] @ root[:, : n - 1].T
    good = {"positive": A, "singular": thin, "indefinite": A - np.eye(n) * A.trace() / n, "zero": 0 * A}
    good |= {"diagonal": np.diag(draw.rng.choice([0.0, 1.0, 1e-9, 5.0], n)), "no trace": 1 - np.eye(n), "ill": A + 1e12}
    scale = draw.pick([1.0, 1.0, 1e-200, 1e200, 1e-260, 1e260])
    variants: dict[str, Any] = {name: (value * scale, "good") for name, value in good.items()}
    variants |= {"asymmetric": (A + np.triu(A, 1), "bad"), "beyond": (A * 1e300, "bad")}
    return draw.variant("matrix", variants)


MAYBE: dict[str, Any] = {"digits": count(None, None, None, 1, 3, 30, vast=50), "may": lambda c: c.digits is not None}
row(infinite.smallest_eigenvalue, share=4, gram=_matrix, **MAYBE, fine=_has_digits)

# --------------------------------------------------------------------------------------------------------- activations


def _is_activation(c: Any, found: Any) -> bool:
    """True if σ and σ' are finite, and the same for a number as in an array."""
    z = c.draw.normal(5)
    expect(np.isfinite(found.function(z)).all(), "no numbers")
    return float(found.derivative(z[0])) == float(found.derivative(z)[0])


def _coefficients(draw: Draw) -> Given:
    c = np.append(draw.normal(draw.whole(2, 21)) * draw.pick([1.0, 1.0, 1e-90, 1e90]), np.zeros(draw.whole(0, 2)))
    bad: dict[str, Any] = {"long": (np.ones(22), "bad"), "constant": (c[:1], "bad")}
    bad["tiny"] = (np.ones(3) * 1e-200, "bad")
    return draw.variant("c", {"ordinary": (c, "good")} | bad, but=["one dimension more"])


SLOPE = number(0.0, 0.5, -3, 1e6, 1, low=-1e6, high=1e6, ends=True)
SIZE = number(1.0, 1.67, 3, 1e-9, 1e9, low=1e-60, high=1e60, ends=True)
ACTIVATION: dict[str, Any] = {"same": None, "finite": False, "fine": _is_activation}
row(infinite.activation, lambda draw: {"name": sigma(draw)}, **ACTIVATION)
row(infinite.leaky_relu, slope=SLOPE, must=lambda c: c.slope == 1, **ACTIVATION)
row(infinite.elu, alpha=SIZE, scale=SIZE, **ACTIVATION)
row(infinite.polynomial, coefficients=_coefficients, **ACTIVATION)
SINE = {"name": "sine", "function": np.sin, "derivative": np.cos}
row(infinite.Activation, lambda draw: SINE, share=1, **ACTIVATION)


def _is_positive(gram: Any, room: float) -> bool:
    least, trace = np.linalg.eigvalsh(gram.values)[0], float(np.trace(gram.values))
    return bool(np.array_equal(gram.values, gram.values.T) and least >= -float(gram.error) - room * trace)


@entry(infinite.spline)
def _spline(draw: Draw) -> None:
    k = draw.whole(1, 3)
    breaks = np.sort(draw.normal(k))
    pieces = [draw.normal(draw.whole(1, 3)).tolist() for _ in range(k + 1)]
    bad_breaks: list[Any] = [breaks[::-1] if k > 1 else [], [np.nan], "01", None, [0.0, 0.0]]
    bad_pieces: list[Any] = [pieces[:-1], [[1.0, 2.0, 3.0, 4.0]] * (k + 1), "p", None]
    decays: list[Any] = [[(draw.pick([-2.0, 0.5]), 1.0)], *([] for _ in range(k - 1)), [(1.0, -3.0)]]
    bad_decays: list[Any] = [decays[:-1], [[(1.0, 1.0, 1.0)]] * (k + 1), decays[::-1], "e", [[(0.0, 1.0)]] * (k + 1)]
    if none := bool(draw.pick([False, True])):
        bad_pieces.append([[0.0]] * (k + 1))
    given = draw.either(breaks, bad_breaks), draw.either(pieces, bad_pieces)
    exponentials = None if none else draw.either(decays, bad_decays)
    flat = none and all(len(piece) == 1 for piece in pieces)
    activation = draw.call(infinite.spline, *given, exponentials, may=flat)
    expect(_is_positive(infinite.gram_matrix(draw.normal(4, 3), activation), 1e-12), "a negative eigenvalue")


def _has_kernels(c: Any, network: Any) -> bool:
    found = network.kernels(c.draw.normal(3, 2))
    return _is_positive(found.nngp, 1e-9) and _is_positive(found.ntk, 1e-9)


row(
    infinite.InfiniteNetwork,
    layers=one_of([1, 2, 3], 0, -1, 1.5, "2"),
    weight_variance=one_of([1.0, 2.0], 0.0, -1.0, np.nan, "1"),
    bias_variance=one_of([0.0, 0.1], -0.1, np.inf),
    activation=one_of(CLOSED, *NO_ACTIVATIONS),
    same=None,
    finite=False,
    fine=_has_kernels,
)


def _has_variances(c: Any, found: Any) -> bool:
    """True if no variance is negative beyond rounding, or if the covariance was not asked for."""
    covariance = np.zeros((1, 1)) if found.covariance is None else found.covariance
    return bool(np.diag(covariance).min() >= -1e-6 * (1 + abs(covariance).max()))


row(
    infinite.predict,
    network=lambda draw: infinite.InfiniteNetwork(draw.pick(["relu", "erf", "gelu"]), 2, bias_variance=0.1),
    X=numbers("n d", rounded=False),
    y=numbers("n", rounded=False),
    Z=numbers("m d", rounded=False),
    time=one_of([0.0, 1.0, np.inf], -1.0, "t", np.nan),
    trained=one_of(["all", "readout"], "none", None),
    ridge=one_of([0.0, 0.1], -0.1, "r"),
    may=lambda c: len(c.X) > c.X.shape[1],
    same=None,
    fine=_has_variances,
)


FUNCTIONS = [torch.tanh, torch.nn.functional.silu, lambda z: z**2, lambda z: torch.special.erf(z / 2**0.5)]
NO_FUNCTIONS: list[Any] = [None, "tanh", 3, lambda z: z.sum(), lambda z: z.detach(), lambda z: 1.0, lambda z: z > 0]
NO_FUNCTIONS += [lambda z: z[:1], lambda z: z.detach().numpy()]
NO_GRAMS: list[Any] = [torch.sqrt, torch.log, lambda z: 0 * z, lambda z: torch.exp(z**2), lambda z: torch.exp(z**2 / 4)]


@entry(infinite.custom_activation)
def _custom(draw: Draw) -> None:
    """Functions of torch have Gram matrices; what is none, or has no mean square, is refused."""
    function = draw.either(draw.pick(FUNCTIONS), NO_FUNCTIONS)
    made = draw.call(infinite.custom_activation, function, draw.scalar(["mine"], lambda v: isinstance(v, str)))
    draw.call(infinite.gram_matrix, draw.normal(2, 3), made)
    without = infinite.custom_activation(draw.pick(NO_GRAMS))
    draw.call(infinite.gram_matrix, np.diag([2.0, 3.0]), without, must=True)
