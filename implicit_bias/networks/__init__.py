"""Gated networks in torch, each exposing its gates and effective weights W in the margin problems' coordinates."""

from implicit_bias._utils.lazy import attach

__getattr__, __dir__ = attach(__name__, __file__)
