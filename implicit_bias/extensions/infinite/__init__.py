"""Gram matrices of activations and their smallest eigenvalues; NNGP and NTK kernels of infinitely wide networks."""

from implicit_bias._utils.lazy import attach

__getattr__, __dir__ = attach(__name__, __file__)
