"""The figures of the notes on localization in gated deep linear networks: one module each."""
