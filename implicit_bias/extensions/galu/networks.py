"""GaLU networks: each unit is the product of a trained linear part and an untrained gate."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from implicit_bias._utils.checks import Array, InputError, as_floats, as_positive, check_size, shown
from implicit_bias.extensions.galu.filters import filter_gates, sharpness_of
from implicit_bias.gates import Gates, ProductGates, ReLUGates, SoftGates
from implicit_bias.networks.base import to_array
from implicit_bias.networks.layers import LayeredNetwork, Tensors


def gate_values(values: Tensor, sharpness: float | None) -> Tensor:
    """Return hard gates 1(v ≥ 0) of values v, or soft gates σ(s·v) with sharpness s.

    >>> gate_values(torch.tensor([-1.0, 0.0]), None).tolist(), gate_values(torch.tensor([-1.0, 0.0]), 1e300).tolist()
    ([0.0, 1.0], [0.0, 0.5])
    """
    if sharpness is None:
        return (values >= 0).to(values.dtype)
    # In half and single precision a large sharpness would become infinite, and infinity times 0 is NaN.
    return torch.sigmoid(min(sharpness, torch.finfo(values.dtype).max) * values)


class GaLUNetwork(LayeredNetwork):
    """Network of gated linear units: f(x) = B z^{(L)}, z^{(ℓ)} = g(U^{(ℓ)} z^{(ℓ−1)}) ∘ A^{(ℓ)} z^{(ℓ−1)}, z^{(0)} = x.

    Gates g(v) are hard, 1(v ≥ 0), or soft, σ(s·v). The layers A and the readout B are trained, the filters U are not.
    With one hidden layer the gates are functions of the input, so that the network is linear on gated features. With
    several layers, soft gates depend on the scale of their inputs. Such a network is not homogeneous in its weights:
    its normalised margin is meaningless, and `descend_to_limit` rejects it. Source: Fiat, Malach & Shalev-Shwartz,
    Decoupling Gating from Linearity (2019), section 2. Soft gates, several layers and GaLU0 are from section 2 of the
    first version.

    Parameters
    ----------
    inputs, units, outputs
        As for `ReLUNetwork`.
    sharpness : float, optional
        s of soft gates; hard gates by default.
    seed : int
        Seed of torch's Mersenne twister, which draws the weights (Kaiming-normal, N(0, 2/fan-in)) and then the filters,
        N(0, 1/fan-in).

    Raises
    ------
    InputError
        If widths, outputs or the sharpness are out of range.

    Examples
    --------
    >>> network, X = GaLUNetwork(inputs=3, units=8, seed=1), np.random.default_rng(0).normal(size=(5, 3))
    >>> bool(np.allclose(network.gates()(X) @ network.effective_weights(), network.decision_function(X), atol=1e-6))
    True
    """

    #: True if the gates of every layer read the input x.
    reads_input = False

    def __init__(
        self,
        inputs: int,
        units: int | Sequence[int],
        *,
        outputs: int = 1,
        sharpness: float | None = None,
        seed: int = 1,
    ) -> None:
        self.sharpness = None if sharpness is None else as_positive(sharpness, "sharpness")
        super().__init__(inputs, units, outputs=outputs, seed=seed)

    def _draw_filters(self, generator: torch.Generator) -> list[Tensor]:
        into = [self.inputs, *([self.inputs] * len(self.units) if self.reads_input else self.units)]
        sizes = zip(self.units, into, strict=False)
        return [torch.randn(units, fan_in, generator=generator) / fan_in**0.5 for units, fan_in in sizes]

    def activations(self, weights: Tensors, filters: Tensors, X: Tensor, opened: Tensors | None = None) -> Tensor:
        """Return the last hidden layer's activations z^{(L)} (…, n, k_L) for inputs X (n, d).

        `opened`, if given, are the gate values of each layer, instead of those that the filters compute.
        """
        z = X
        for index, (weight, u) in enumerate(zip(weights[:-1], filters, strict=True)):
            read = X if self.reads_input else z
            gates = gate_values(read @ u.mT, self.sharpness) if opened is None else opened[index]
            z = gates * (z @ weight.mT)
        return z

    def fixed_gates(self, filters: Tensors, X: Tensor) -> list[Tensor] | None:
        """Return the gate values (…, n, k_ℓ) of every layer for inputs X (n, d); None if they depend on the weights."""
        if len(filters) > 1 and not self.reads_input:
            return None
        return [gate_values(X @ u.mT, self.sharpness) for u in filters]

    def _gates_of(self, filters: Tensor) -> Gates:
        return filter_gates(to_array(filters), self.sharpness)

    @classmethod
    def from_weights(cls, gates: ReLUGates | SoftGates, weights: ArrayLike) -> Self:
        """Return the network of one hidden layer with f(x) = Σ_j g_j(x) W_j x, in float64.

        With one output, unit j has a_j = w_j/√‖w_j‖ and b_j = √‖w_j‖. With several outputs, a unit has one vector a_j
        for all of them, so that W_j of rank r becomes max(r, 1) units with the same gate, by its singular value
        decomposition.

        Parameters
        ----------
        gates : ReLUGates or SoftGates
            Fitted gates, whose filters the network takes.
        weights : array, shape (k, d), or (q, k, d) for q outputs
            For example of `least_squares` on `gates(X)`. `effective_weights` returns them; with several outputs they
            are split among the units that share a gate.

        Raises
        ------
        InputError
            If the gates are of another class or the weights do not fit them.

        Examples
        --------
        >>> from implicit_bias.extensions.galu import GaLUNetwork, least_squares
        >>> rng = np.random.default_rng(0)
        >>> X, Y = rng.normal(size=(50, 4)), rng.normal(size=(50, 2))
        >>> gates = GaLUNetwork(4, 6).gates()
        >>> found = least_squares(gates(X), Y)
        >>> network = GaLUNetwork.from_weights(gates, found.weights)
        >>> network.units, round(float(np.mean((network.decision_function(X) - Y) ** 2)) * 2 - found.loss, 9)
        ([12], 0.0)
        """
        if not isinstance(gates, ReLUGates | SoftGates):
            raise InputError(f"gates must be ReLUGates(…) or SoftGates(…), not {shown(gates)}")
        k, d = gates.directions_.shape
        W = as_floats(weights, "weights", (2, 3))
        W = W.reshape(-1, *W.shape[-2:])
        if W.shape[1:] != (k, d):
            raise InputError(f"weights must have shape ({k}, {d}) or (q, {k}, {d}) for these gates, not {W.shape}")
        left, sizes, right = np.linalg.svd(W.transpose(1, 0, 2), full_matrices=False)
        counts = sizes > max(W.shape) * np.finfo(float).eps * sizes[:, :1]
        counts[:, 0] = True
        root = np.sqrt(sizes[counts])
        network = cls(d, len(root), outputs=len(W), sharpness=sharpness_of(gates)).double()
        parts = (right[counts] * root[:, None], (left.transpose(0, 2, 1)[counts] * root[:, None]).T)
        for target, values in zip(network.layers, parts, strict=True):
            target.data.copy_(torch.as_tensor(values.copy()))
        network.filters()[0].copy_(torch.as_tensor(gates.directions_[np.nonzero(counts)[0]]))
        return network

    def config(self) -> dict[str, Any]:
        """Return the numbers of inputs, units and outputs, and the sharpness."""
        return super().config() | {"sharpness": self.sharpness}


class GaLU0Network(GaLUNetwork):
    """GaLU network whose gates all read the input: z^{(ℓ)} = g(U^{(ℓ)} x) ∘ A^{(ℓ)} z^{(ℓ−1)}.

    No gate changes in training, so that the network is linear on gated features at any depth, with one gate for each
    path through the units, Π_ℓ k_ℓ in total. Parameters as for `GaLUNetwork`, which is the same with one hidden layer.

    Examples
    --------
    >>> network, X = GaLU0Network(inputs=3, units=[4, 5], seed=1), np.random.default_rng(0).normal(size=(6, 3))
    >>> W = network.effective_weights()
    >>> W.shape, bool(np.allclose(network.gates()(X) @ W, network.decision_function(X), atol=1e-6))
    ((20, 3), True)
    """

    reads_input = True

    def gates(self) -> Gates:
        """Return gates of the hidden layer, or one per path through several, in the order of `effective_weights`."""
        layers = [self._gates_of(filters) for filters in self.filters()]
        return layers[0] if len(layers) == 1 else ProductGates(layers)

    def effective_weights(self) -> Array:
        """Return W (k, d), or (q, k, d), of all paths: w_{(j_1…j_L)} = b_{j_L} A^{(L)}_{j_L j_{L−1}} … a_{j_1}.

        Paths are in lexicographic order, j_L varying fastest.
        """
        check_size(self.outputs * math.prod(self.units) * self.inputs, "the weights of all paths")
        hidden, *others = [to_array(weight) for weight in self.layers]
        # Axes: paths up to the previous layer, last unit, inputs.
        paths = hidden[None]
        for weight in others[:-1]:
            paths = (paths[:, :, None, :] * weight.T[None, :, :, None]).reshape(-1, weight.shape[0], self.inputs)
        weights: Array = (others[-1][:, None, :, None] * paths).reshape(self.outputs, -1, self.inputs)
        return weights[0] if self.outputs == 1 else weights
