"""The figures of the notes on localisation in gated deep linear networks: one module each."""
