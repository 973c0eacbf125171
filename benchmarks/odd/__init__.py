"""Bad and odd inputs over the whole public surface, each with the answer that is right: cases of `reliability.py`."""
