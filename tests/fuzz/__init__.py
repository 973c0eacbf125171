"""Bad and unusual inputs over the whole public surface, each judged: cases of `reliability.py`."""
