"""Deep chains behind tied contexts: what they cost, the best that reweighting finds, and what is proved of all."""

from implicit_bias.extensions.best_networks.chains.search import BestChains, best_chains

__all__ = ["BestChains", "best_chains"]
