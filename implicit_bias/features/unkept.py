"""The features of a saved model whose samples were not kept."""

from __future__ import annotations

from dataclasses import dataclass

from implicit_bias._utils.checks import Array, InputError
from implicit_bias.features.base import Features


@dataclass(frozen=True, eq=False, repr=False)
class UnkeptFeatures(Features):
    """How many samples, gates and inputs there were; whatever needs the samples is refused.

    >>> from implicit_bias import InputError
    >>> try:
    ...     UnkeptFeatures((4, 20, 31), products=True).row_norms()
    ... except InputError as error:
    ...     print(error)
    the 4 samples were not saved with the model: replace its problem's features by theirs, or save it with samples=True
    """

    sizes: tuple[int, int, int]
    products: bool

    kept = False
    verified = True

    @property
    def shape(self) -> tuple[int, int, int]:
        """(n, k, d)."""
        return self.sizes

    @property
    def gated(self) -> bool:
        """Whether they were Φ(x) = g(x) ⊗ x."""
        return self.products

    def dense(self) -> Array:
        """Refused."""
        raise InputError(
            f"the {self.n} samples were not saved with the model: replace its problem's features by theirs, "
            "or save it with samples=True"
        )
