"""Certified best two-layer ReLU networks and gated chains, and bounds on the margins of deep gated networks."""

from implicit_bias._utils.lazy import attach

__getattr__, __dir__ = attach(__name__, __file__)
