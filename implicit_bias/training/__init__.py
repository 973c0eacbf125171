"""Training: by stochastic gradient descent, many networks at once, online, and to the limit of descent."""
