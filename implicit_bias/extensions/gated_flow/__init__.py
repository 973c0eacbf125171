"""Gated deep linear networks: moments, gradient flow in closed form, online training and receptive fields."""

from implicit_bias._utils.lazy import attach

__getattr__, __dir__ = attach(__name__, __file__)
