"""Studies: a folder each, from settings to a tidy table, figures and verdicts; `runner` runs all of them."""
