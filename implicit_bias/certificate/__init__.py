"""The judge: it scores any weights and dual, whichever solver produced them, and shares nothing with the solvers."""

from implicit_bias.certificate.certificate import NEARLY_ZERO, certify

__all__ = ["NEARLY_ZERO", "certify"]
