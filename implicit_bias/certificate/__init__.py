"""Certificates of weights and dual variables from any source; the package shares no code with the solvers."""

from implicit_bias.certificate.certificate import NEARLY_ZERO, certify

__all__ = ["NEARLY_ZERO", "certify"]
