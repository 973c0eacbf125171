"""Samples, networks, and training written out with torch's own optimisers, that the tests of training compare with."""

import numpy as np
import torch

from implicit_bias import SGD, GatedLinearNetwork, HyperplaneGates
from tests.cases import inputs

X = inputs(n=60)
Y = np.where(X[:, 0] > 0, 1.0, -1.0)


def gln(d=X, units=4, contexts=2, **options):
    return GatedLinearNetwork(HyperplaneGates(units, contexts, seed=1).fit(d), **options)


def mean_loss(outputs, y, loss):
    """Return the mean loss of outputs (b,) or (b, q), each term by its formula."""
    if loss == "squared":
        return ((outputs.reshape(len(y), -1) - y.reshape(len(y), -1)) ** 2).mean()
    if outputs.ndim == 1:
        margins = y * outputs
        terms = {
            "logistic": torch.log(1 + torch.exp(-margins)),
            "exponential": torch.exp(-margins),
            "hinge": torch.clamp(1 - margins, min=0),
        }
        return terms[loss].mean()
    rows = torch.arange(len(y))
    right, others = outputs[rows, y.long()], outputs.clone()
    if loss == "logistic":
        return (torch.log(torch.exp(outputs).sum(1)) - right).mean()
    others[rows, y.long()] = -torch.inf
    return torch.clamp(1 + others.max(1).values - right, min=0).mean()


def torch_training(network, X, y, config, seed=1):
    """Train by autograd and torch's optimiser on batches of a permutation per epoch; SGD's rate drops at half time."""
    x, contexts = network.tensors(X)
    y = torch.as_tensor(y, dtype=x.dtype)
    count, epochs = config.count(len(x)), config.epochs(len(x))
    if isinstance(config, SGD):
        optimiser = torch.optim.SGD(network.parameters(), lr=config.lr, momentum=config.momentum)
    else:
        optimiser = torch.optim.Adam(network.parameters(), lr=config.lr)
    generator, batches = torch.Generator().manual_seed(seed), []
    for epoch in range(epochs):
        if getattr(config, "loader", False):
            # As the published version of torch's DataLoader seeds its workers.
            torch.empty((), dtype=torch.int64).random_(generator=generator)
        order = torch.randperm(len(x), generator=generator)
        batches += [(epoch, batch) for batch in order.split(config.batch_size)]
    for epoch, batch in batches[:count]:
        if isinstance(config, SGD) and epoch >= max(1, epochs // 2):
            optimiser.param_groups[0]["lr"] = config.lr * config.lr_factor
        optimiser.zero_grad()
        outputs = network(x[batch], None if contexts is None else contexts[batch])
        mean_loss(outputs, y[batch], config.loss).backward()
        optimiser.step()
    for parameter in network.parameters():
        parameter.grad = None
