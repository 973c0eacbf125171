"""torch's random numbers on the CPU, computed by NumPy bit for bit, so that published experiments do not need torch.

Normal numbers use the Box-Muller method in float32, with the polynomials of the Cephes library and fused multiply-add.
"""

import numpy as np
from numpy.typing import NDArray

from implicit_bias._utils.checks import as_seed

Floats = NDArray[np.float32]
f32 = np.float32

#: Coefficients of Cephes' logf, the highest power first.
LOG = (
    *(7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1, -1.6668057665e-1),
    *(2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1),
)
#: Coefficients of Cephes' cosf.
COS = (2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2)
#: Coefficients of Cephes' sinf.
SIN = (-1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1)
#: ln 2 as a sum of short numbers.
LN2 = (0.693359375, -2.12194440e-4)
#: π/4 as a sum of short numbers.
QUARTER_PI = (0.78515625, 2.4187564849853515625e-4, 3.77489497744594108e-8)
#: Block size of normal numbers; torch draws fewer numbers in pairs, in doubles.
BLOCK = 16


class TorchStream:
    """Random numbers of `torch.Generator().manual_seed(seed)`.

    Normal numbers in float32 equal torch's bit for bit on processors with AVX2; on others torch rounds differently.
    """

    def __init__(self, seed: int) -> None:
        # torch uses the last 32 bits of a seed.
        self.twister = np.random.RandomState(as_seed(seed) % 2**32)
        self.spare: float | None = None

    def words(self, count: int) -> NDArray[np.uint32]:
        """Draw `count` integers from 0 to 2³² − 1."""
        return self.twister.randint(0, 2**32, size=count, dtype=np.uint32)

    def uniform(self, count: int) -> Floats:
        """Draw `count` numbers from U[0, 1) in float32, like `tensor.uniform_()`, one word per number."""
        return (self.words(count) & np.uint32(2**24 - 1)).astype(f32) * f32(2.0**-24)

    def permutation(self, count: int) -> NDArray[np.int64]:
        """Return the permutation of 0 … count − 1, count < 2³²/20, that `torch.randperm` and `random_split` draw."""
        order = np.arange(count)
        for i, word in enumerate(self.words(max(count - 1, 0)).tolist()):
            j = i + word % (count - i)
            order[i], order[j] = order[j], order[i]
        return order

    def normal(self, count: int, deviation: float) -> Floats:
        """Draw an array (count,) of numbers from N(0, deviation²) in float32, like `normal_` of a new tensor."""
        if count < BLOCK:
            return np.array([self._one() * deviation for _ in range(count)], dtype=f32)
        whole, drawn = count - count % BLOCK, np.empty(count, dtype=f32)
        drawn[:whole] = _box_muller(self.uniform(count)[:whole])
        if whole < count:
            drawn[-BLOCK:] = _box_muller(self.uniform(BLOCK))
        return drawn * f32(deviation)

    def _one(self) -> float:
        """Draw a number from N(0, 1), computed from two doubles; the second of a pair is kept for the next call."""
        if self.spare is None:
            high, low = self.words(4).astype(np.uint64).reshape(2, 2).T
            turn, u = ((high << np.uint64(32) | low) & np.uint64(2**53 - 1)) * 2.0**-53
            radius, angle = np.sqrt(-2 * np.log1p(-u)), 2 * np.pi * turn
            self.spare = float(radius * np.sin(angle))
            return float(radius * np.cos(angle))
        one, self.spare = self.spare, None
        return one


def _box_muller(u: Floats) -> Floats:
    """Return r cos 2πv and r sin 2πv, r = √(−2 ln(1 − u)), for each 16 uniform numbers: 8 u, followed by 8 v."""
    first, second = u.reshape(-1, 2, BLOCK // 2).transpose(1, 0, 2)
    radius, (sin, cos) = np.sqrt(f32(-2) * _log(f32(1) - first)), _sin_cos(f32(2 * np.pi) * second)
    return np.stack([radius * cos, radius * sin], axis=1).ravel()


def _fused(a: Floats, b: Floats | f32, c: Floats | f32) -> Floats:
    """Return ab + c in float32, computed in doubles, in which the product is exact."""
    return (np.multiply(a, b, dtype=np.float64) + c).astype(f32)


def _polynomial(x: Floats, coefficients: tuple[float, ...]) -> Floats:
    """Return the polynomial at x by Horner's rule, highest coefficient first, each step rounded to float32 once."""
    y = np.full_like(x, coefficients[0])
    for a in coefficients[1:]:
        y = _fused(y, x, f32(a))
    return y


def _log(u: Floats) -> Floats:
    """Return the natural logarithm of u > 0 in float32, rounded as torch's vectorised one."""
    m, exponent = np.frexp(u)
    low = m < f32(0.5**0.5)
    x, e = np.where(low, m - f32(1) + m, m - f32(1)), (exponent - low).astype(f32)
    z = x * x
    y = _fused(_polynomial(x, LOG) * x, z, e * f32(LN2[1]))
    return _fused(e, f32(LN2[0]), x + _fused(z, f32(-0.5), y))


def _sin_cos(x: Floats) -> tuple[Floats, Floats]:
    """Return sine and cosine of 0 ≤ x ≤ 2π in float32, from the remainder of x modulo π/2 and its octant."""
    octant = ((x * f32(4 / np.pi)).astype(np.int64) + 1) & ~1
    for part in QUARTER_PI:
        x = _fused(octant.astype(f32), f32(-part), x)
    z = x * x
    cos = _fused(_polynomial(z, COS) * z, z, z * f32(-0.5)) + f32(1)
    sin = _fused(_polynomial(z, SIN) * z, x, x)
    swapped = (octant & 2) != 0
    return (
        np.where(swapped, cos, sin) * np.where(octant & 4, f32(-1), f32(1)),
        np.where(swapped, sin, cos) * np.where((octant + 2) & 4, f32(-1), f32(1)),
    )
