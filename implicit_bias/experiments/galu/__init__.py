"""The figures of "Decoupling Gating from Linearity" (Fiat, Malach & Shalev-Shwartz): one module each."""
