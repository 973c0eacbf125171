"""Studies: one module each, from a configuration to a tidy table."""
