"""The package's own norms: what is proved of them."""

from implicit_bias.margin.norms.base import Norm

#: The relative error of one rounding.
ROUNDED = 2.0**-53


class OwnNorm(Norm):
    """A norm of the package: its formulas are proved, and so is how far floating point takes them from the truth."""

    @property
    def proved(self) -> bool:  # type: ignore[override]
        """Whether the class itself is the package's."""
        return type(self).__module__.startswith("implicit_bias.")

    def rounding(self, k: int, d: int) -> float:
        """A relative error of 2^−53 for each of at most k·d + 2k + d + 16 roundings, all of numbers ≥ 0."""
        return (k * d + 2 * k + d + 16) * ROUNDED if self.proved else super().rounding(k, d)
