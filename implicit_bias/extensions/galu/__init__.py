"""Gated linear units after Fiat, Malach & Shalev-Shwartz (2019): least squares, filters, networks and theorems."""

from implicit_bias._utils.lazy import attach

__getattr__, __dir__ = attach(__name__, __file__)
