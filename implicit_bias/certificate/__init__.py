"""The certificate of any weights and dual, whichever solver computed them; it shares no code with the solvers."""

from implicit_bias.certificate.certificate import NEARLY_ZERO, certify

__all__ = ["NEARLY_ZERO", "certify"]
