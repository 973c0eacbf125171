"""Networks of chains of linear units whose layers share their gates."""

from __future__ import annotations

import copy
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn

from implicit_bias._utils.checks import Array, InputError, as_count, as_floats, as_positive, as_seed, check_size, shown
from implicit_bias._utils.floats import length
from implicit_bias.gates import Gates
from implicit_bias.networks.base import to_array
from implicit_bias.networks.gln import FixedGatesNetwork, blank_gates


def check_depth(layers: Any, gated: Any) -> tuple[int, int]:
    """Check and return the numbers of layers, L ≥ 2, and of gated layers, from 1 to L; L − 1 if `gated` is None."""
    layers = as_count(layers, "layers", least=2)
    return layers, layers - 1 if gated is None else as_count(gated, "gated", most=layers, limit="the number of layers")


def check_exclusive(values: Array, units: np.ndarray, gated: int) -> None:
    """Raise InputError unless all gate values (n, k) are 0 or 1, with at most one 1 per unit, or one layer is gated.

    Only then are products of gate values over several layers equal to the values. `units` (k,) are the gates' units.
    """
    if gated == 1:
        return
    opened = values @ np.eye(int(units.max()) + 1)[units]
    if not (np.isin(values, (0.0, 1.0)).all() and (opened <= 1).all()):
        raise InputError(
            "gates that several layers share must be 0 or 1, with at most one of a unit open, such as contexts and "
            "half-spaces; use gated=1"
        )


class ChainNetwork(FixedGatesNetwork):
    """Parallel chains of L linear units; all gated layers of a chain share the same gates.

        f(x) = Σ_h b_h Σ_{j∈h} g_j(x) a_j ⟨w_j, x⟩,   a_j = Π_{l=2}^{G} a^{(l)}_j,   b_h = Π_{l=G+1}^{L} b^{(l)}_h

    The first G layers are gated: they have separate weights for each gate j of unit h. The other L − G layers have one
    weight per unit. With G = L − 1 this is a deep GLN with a readout, without weights between its units, in which all
    layers have the contexts of the first. With L = 2 it is the two-layer GLN.

    Parameters
    ----------
    gates : Gates, fitted
        If several layers are gated, all values must be 0 or 1 with at most one gate of a unit open, as those of
        contexts, half-spaces and ReLU gates are.
    layers : int
        L ≥ 2.
    gated : int, optional
        G, 1 to L; L − 1 by default.
    scale : float
        Initial weights are N(0, scale²/fan-in). The fan-in is d in the first layer, H in the last layer if that is not
        gated, and 1 in all others.
    seed : int
        Seed of the weights, drawn from torch's Mersenne twister in the order of the layers.

    Raises
    ------
    InputError
        If gates are not fitted or sizes are out of range; in calls with inputs, if layers cannot share the gates.

    Examples
    --------
    >>> from implicit_bias.extensions.best_networks import ChainNetwork
    >>> from implicit_bias import HyperplaneGates, load_binary
    >>> task = load_binary("digits")
    >>> network = ChainNetwork(HyperplaneGates(5, 2, seed=1).fit(task.X_pool), layers=4)
    >>> linear = network.gates()(task.X_val) @ network.effective_weights()
    >>> network.degree, bool(np.allclose(network.decision_function(task.X_val), linear, atol=1e-5))
    (4, True)
    """

    @torch.no_grad()
    def __init__(
        self, gates: Gates, layers: int = 2, *, gated: int | None = None, scale: float = 1.0, seed: int = 1
    ) -> None:
        if not isinstance(gates, Gates) or not gates.is_fitted:
            raise InputError(f"chains need fitted gates such as HyperplaneGates(…).fit(X), not {shown(gates)}")
        super().__init__(int(gates.n_features_in_))
        depth, self.gated = check_depth(layers, gated)
        # A copy: refitting the user's gates must not change the network.
        self._gates = [copy.deepcopy(gates)]
        self.units = np.unique(gates.groups, return_inverse=True)[1]
        k, units = len(self.units), int(self.units.max()) + 1
        check_size(k * self.inputs + depth * k, "the network's weights")
        shapes = [(k, self.inputs), *[(k,)] * (self.gated - 1), *[(units,)] * (depth - self.gated)]
        fan_in = [self.inputs, *[1] * (depth - 1)]
        if self.gated < depth:
            fan_in[-1] = units
        generator = torch.Generator().manual_seed(as_seed(seed))
        scale = as_positive(scale, "scale")
        sizes = zip(shapes, fan_in, strict=True)
        drawn = (scale / into**0.5 * torch.randn(shape, generator=generator) for shape, into in sizes)
        self.layers = nn.ParameterList(drawn)

    @classmethod
    def from_weights(cls, gates: Gates, weights: ArrayLike, layers: int = 2, *, gated: int | None = None) -> Self:
        """Return the network of least norm with f(x) = Σ_j g_j(x) ⟨ζ_j, x⟩, in float64.

        All layers of chain h have the same squared norm S_h^{G/L} = (b^{(l)}_h)², with S_h = Σ_{j∈h} ‖ζ_j‖^{2/G}. Both
        w_j and a^{(l)}_j have length (‖ζ_j‖/b_h)^{1/G}. `norm()²` is L Σ_h S_h^{G/L}.

        Parameters
        ----------
        weights : array, shape (k, d)
            ζ, for example from `best_chains`.
        gates, layers, gated
            As for the class.

        Raises
        ------
        InputError
            As for the class, and if the weights have another shape.

        Examples
        --------
        >>> from implicit_bias.extensions.best_networks import ChainNetwork
        >>> from implicit_bias import ConstantGate
        >>> network = ChainNetwork.from_weights(ConstantGate().fit([[1.0, 1.0]]), [[0.0, 8.0]], layers=3)
        >>> network.effective_weights().round(9).tolist(), [round(w.norm().item(), 9) for w in network.layers]
        ([[0.0, 8.0]], [2.0, 2.0, 2.0])
        """
        network = cls(gates, layers, gated=gated).double()
        zeta = as_floats(weights, "weights", 2)
        if zeta.shape != tuple(network.layers[0].shape):
            raise InputError(f"weights must have shape {tuple(network.layers[0].shape)}, not {zeta.shape}")
        L, G, sizes = len(network.layers), network.gated, length(zeta, axis=1)
        top = sizes.max(initial=0.0) or 1.0  # Powers of extreme lengths would overflow or vanish.
        sums = np.bincount(network.units, (sizes / top) ** (2 / G))
        of_unit = sums ** (G / (2 * L)) * top ** (1 / L)
        rest = np.where(of_unit > 0, of_unit ** (L - G), 1.0)[network.units]
        each = (sizes / rest) ** (1 / G)
        first = zeta * (each / np.where(sizes > 0, sizes, 1.0))[:, None]
        for layer, values in zip(network.layers, [first, *[each] * (G - 1), *[of_unit] * (L - G)], strict=True):
            layer.data.copy_(torch.as_tensor(values))
        return network

    def contexts(self, X: Array) -> Tensor:
        """Return the gate values, shape (n, k), computed in float64."""
        values = self._gates[0].transform(X)
        check_exclusive(values, self.units, self.gated)
        return torch.as_tensor(values)

    def _factors(self, layers: int) -> Tensor:
        """Return the products (k,) over the layers l = 2 … `layers` of a^{(l)}_j, or b^{(l)}_h for the unit h of j."""
        factors = self.layers[0].new_ones(len(self.units))
        for index, layer in enumerate(list(self.layers)[1:layers], 1):
            factors = factors * (layer if index < self.gated else layer[self.units])
        return factors

    def forward(self, X: Tensor, contexts: Tensor | None = None) -> Tensor:
        """Return outputs (n,) for inputs (n, d); `contexts`, if given, are the gate values of X."""
        return self._parts(X, contexts) @ self._factors(len(self.layers))

    def _parts(self, X: Tensor, contexts: Tensor | None) -> Tensor:
        """Return g_j(x) ⟨w_j, x⟩, shape (n, k)."""
        if contexts is None:
            contexts = self.contexts(to_array(X)).to(X.device)
        parts: Tensor = (X @ self.layers[0].T) * contexts.to(X.dtype)
        return parts

    def _hidden(self, X: Tensor, contexts: Tensor | None) -> Tensor:
        # If all layers are gated, there is no readout, and the last layer is hidden too.
        parts = self._parts(X, contexts) * self._factors(max(self.gated, len(self.layers) - 1))
        units = torch.as_tensor(self.units, device=X.device)
        return parts.new_zeros(len(X), int(self.units.max()) + 1).index_add_(1, units, parts)

    def gates(self) -> Gates:
        """Return a copy of the gates that all layers share."""
        copied: Gates = copy.deepcopy(self._gates[0])
        return copied

    def effective_weights(self) -> Array:
        """Return ζ (k, d) with ζ_j = b_h a_j w_j."""
        return np.asarray(to_array(self._factors(len(self.layers)))[:, None] * to_array(self.layers[0]))

    def input_layers(self) -> list[Any]:
        """Return a list with one entry: the chains' layers, of which the first multiplies the inputs."""
        return [self.layers]

    @property
    def degree(self) -> int:
        """Degree of homogeneity, L."""
        return len(self.layers)

    def config(self) -> dict[str, Any]:
        """Return the number of inputs, the parameters of the gates, and the numbers of layers and of gated layers."""
        return super().config() | {"layers": len(self.layers), "gated": self.gated}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        """Return a network of the shape in `config`, into which gates and weights can be loaded."""
        return cls(blank_gates(config)[0], config["layers"], gated=config["gated"], seed=0)
