"""Bad and odd inputs over the whole public surface, each judged: cases of `reliability.py`."""
