"""The figures of "Decoupling Gating from Linearity" (Fiat, Malach & Shalev-Shwartz): one module each.

`base.Experiment` is what a figure's module exposes as EXPERIMENT; `figures.FIGURES` lists them.
"""
