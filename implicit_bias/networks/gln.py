"""Gated linear networks, in which fixed contexts of the input choose the weights, and networks with fixed gates."""

import copy
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn

from implicit_bias._utils.checks import Array, InputError, as_numbers, as_seed, check_size, context_bits
from implicit_bias.gates import ContextGates, HyperplaneGates, SubsetGates
from implicit_bias.gates.hyperplanes import CUTOFF_STD, DIRECTION_STD
from implicit_bias.networks.base import GATHER_FROM, GatedNetwork, OneLayer, to_array


class FixedGatesNetwork(GatedNetwork):
    """Base class of networks with the fitted gates of each layer in `_gates`; saved only if all are HyperplaneGates."""

    #: Not buffers: casting or moving the network must not round the gates. They are saved as extra state.
    _gates: list[Any]

    def get_extra_state(self) -> dict[str, list[Tensor]]:
        """Return the hyperplanes and cutoffs, which torch adds to `state_dict`."""
        return {
            "directions": [torch.as_tensor(g.directions_) for g in self._hyperplanes()],
            "cutoffs": [torch.as_tensor(g.cutoffs_) for g in self._hyperplanes()],
        }

    def set_extra_state(self, state: dict[str, list[Tensor]]) -> None:
        """Replace the hyperplanes and cutoffs by those of a `state_dict`; raise InputError for other shapes."""
        restored = []
        for gates, directions, cutoffs in zip(self._hyperplanes(), state["directions"], state["cutoffs"], strict=True):
            v = as_numbers(directions, gates.directions_.shape, "directions").copy()
            b = as_numbers(cutoffs, gates.cutoffs_.shape, "cutoffs").copy()
            restored.append(copy.copy(gates).restore(n_features_in_=self.inputs, directions_=v, cutoffs_=b))
        rest = iter(restored)
        self._gates = [next(rest) if isinstance(gates, HyperplaneGates) else gates for gates in self._gates]

    def _hyperplanes(self) -> list[HyperplaneGates]:
        return [gates for gates in self._gates if isinstance(gates, HyperplaneGates)]

    def config(self) -> dict[str, Any]:
        for gates in self._gates:
            if type(gates) is not HyperplaneGates:
                raise InputError(f"a network of {type(gates).__name__} cannot be saved, only one of HyperplaneGates")
        return {"inputs": self.inputs, "gates": [gates.get_params() for gates in self._gates]}


def blank_gates(config: dict[str, Any]) -> list[HyperplaneGates]:
    """Return the gates of all layers that `config()` describes; hyperplanes are zeros until the state is loaded."""
    d = config["inputs"]
    layers: list[HyperplaneGates] = []
    for parameters in config["gates"]:
        gates = HyperplaneGates(**parameters)
        planes = gates.units * context_bits(gates.contexts)
        zeros = {"directions_": np.zeros((planes, d)), "cutoffs_": np.zeros(planes)}
        layers.append(gates.restore(n_features_in_=d, **zeros))
    return layers


def _default_linear_(weight: Tensor, generator: torch.Generator) -> None:
    """Draw a weight or bias in place from U(−1/√d, 1/√d), as `torch.nn.Linear` does."""
    bound = weight.shape[-1] ** -0.5
    weight.uniform_(-bound, bound, generator=generator)


class GatedLinearNetwork(FixedGatesNetwork):
    """A GLN: each hidden unit h of a layer multiplies its inputs with the weights of its context c_h(x).

        a_h^{(l)} = ⟨w^{(l)}_{h, c_h(x)}, a^{(l−1)}⟩,  a^{(0)} = x,   f(x) = W^{(out)} a^{(L)} + b

    Parameters
    ----------
    gates : ContextGates, such as HyperplaneGates, or a sequence of them, fitted
        The contexts of each gated layer, all read from the input x. One layer with a readout is the two-layer GLN
        of the paper.
    readout : bool
        False drops the readout: the last layer must then have one unit, and one layer is the shallow GLN.
    outputs : int
        q; with one output f(X) has shape (n,), with several (n, q). Several need the readout, and share all units.
    seed : int, optional
        Seed of the weights. If None, they continue the random stream of the first gates' seed, as published:
        default-initialised layers, which orthogonal weights then replace, except the readout's bias. If the first
        gates are not HyperplaneGates, the seed is 1.

    Raises
    ------
    InputError
        If gates are not fitted or differ in their inputs, or without a readout if the last layer has several units or
        `outputs` exceeds 1.

    Examples
    --------
    >>> from implicit_bias import GatedLinearNetwork, HyperplaneGates, load_binary
    >>> task = load_binary("digits")
    >>> network = GatedLinearNetwork(HyperplaneGates(10, 2, seed=1).fit(task.X_pool))
    >>> linear = network.gates()(task.X_val) @ network.effective_weights()
    >>> bool(np.allclose(network.decision_function(task.X_val), linear, atol=1e-5))
    True
    """

    def __init__(
        self,
        gates: ContextGates | Sequence[ContextGates],
        *,
        readout: bool = True,
        outputs: int = 1,
        seed: int | None = None,
    ) -> None:
        layers = list(gates) if isinstance(gates, Sequence) else [gates]
        self._check(layers, readout)
        super().__init__(int(layers[0].n_features_in_), outputs)
        if self.outputs > 1 and not readout:
            raise InputError(f"a GLN of {self.outputs} outputs needs its readout; use readout=True")
        self.shape = [(int(layer.units), int(layer.contexts)) for layer in layers]
        # Copies: refitting the user's gates must not change the network.
        self._gates = copy.deepcopy(layers)
        widths = [self.inputs, *(units for units, _ in self.shape)]
        sizes = [(units * contexts, width) for width, (units, contexts) in zip(widths, self.shape, strict=False)]
        check_size(sum(rows * width for rows, width in sizes) + self.outputs * widths[-1], "the network's weights")
        self.hidden_weights = nn.ParameterList(torch.empty(*size) for size in sizes)
        self.readout = nn.utils.skip_init(nn.Linear, widths[-1], self.outputs) if readout else None
        self._initialise(layers[0], seed)

    @staticmethod
    def _check(layers: list[ContextGates], readout: bool) -> None:
        if not layers or not all(isinstance(g, ContextGates) and g.is_fitted for g in layers):
            raise InputError("a GLN needs fitted contexts per layer, such as HyperplaneGates; call gates.fit(X_pool)")
        if any(isinstance(gates, SubsetGates) for gates in layers):
            raise InputError("units of a GLN see all inputs, those of SubsetGates do not; use HyperplaneGates")
        if len({g.n_features_in_ for g in layers}) > 1:
            raise InputError("the layers' gates were fitted on inputs of different width; fit them on the same X")
        if not readout and layers[-1].units != 1:
            raise InputError(f"without a readout the last layer must have 1 unit, not {layers[-1].units}")

    @torch.no_grad()
    def _initialise(self, first: ContextGates, seed: int | None) -> None:
        """Draw default weights in the published order, then replace them by orthogonal ones, except the bias."""
        if seed is None and isinstance(first, HyperplaneGates):
            generator = torch.Generator().manual_seed(as_seed(first.seed))
            # The published code draws the hyperplanes first.
            directions, cutoffs = torch.empty(first.directions_.shape), torch.empty(first.cutoffs_.shape)
            _default_linear_(directions, generator)
            directions.normal_(0, DIRECTION_STD, generator=generator)
            cutoffs.normal_(0, CUTOFF_STD, generator=generator)
        else:
            generator = torch.Generator().manual_seed(as_seed(1 if seed is None else seed))
        matrices: list[Tensor] = list(self.hidden_weights)
        for weight in matrices:
            _default_linear_(weight, generator)
        if self.readout is not None:
            matrices.append(self.readout.weight)
            _default_linear_(self.readout.weight, generator)
            bound = self.readout.in_features**-0.5
            self.readout.bias.uniform_(-bound, bound, generator=generator)
        for weight in matrices:
            nn.init.orthogonal_(weight, generator=generator)

    def contexts(self, X: Array) -> Tensor:
        """Return the context of each unit of all layers, whole numbers of shape (n, total units)."""
        return torch.as_tensor(np.hstack([gates.contexts_of(X) for gates in self._gates]))

    def layer_gates(self, X: Array) -> list[Array]:
        return [np.eye(gates.contexts)[gates.contexts_of(X)] for gates in self._gates]

    def forward(self, X: Tensor, contexts: Tensor | None = None) -> Tensor:
        """Return the outputs (n,), or (n, q) for q > 1, of inputs (n, d); known `contexts` are not computed again.

        If they are None, the contexts of X in its own precision are used; inputs rounded to float32 may lie on the
        other side of a hyperplane. `decision_function` computes contexts from the float64 inputs.
        """
        activations = self._hidden(X, contexts)
        outputs: Tensor = activations if self.readout is None else self.readout(activations)
        return outputs[:, 0] if self.outputs == 1 else outputs

    def _hidden(self, X: Tensor, contexts: Tensor | None) -> Tensor:
        if contexts is None:
            contexts = self.contexts(to_array(X)).to(X.device)
        first = 0
        for weight, (units, count) in zip(self.hidden_weights, self.shape, strict=True):
            context = contexts[:, first : first + units]
            first += units
            if count > GATHER_FROM:
                X = torch.einsum("nhd,nd->nh", weight[torch.arange(units, device=X.device) * count + context], X)
            else:
                X = (X @ weight.T).unflatten(1, (units, count)).gather(2, context[:, :, None])[:, :, 0]
        return X

    def gates(self) -> ContextGates:
        self.require_one_layer(len(self.shape))
        return copy.deepcopy(self._gates[0])

    def effective_weights(self) -> Array:
        """Return ζ (H·K, d) for K contexts: ζ_{hK+c} = w^{(out)}_h w_{h,c}, plus b/H in the last entry.

        The shape is (q, H·K, d) for q > 1 outputs. The last entry belongs to the constant input. Without a readout, the
        weights are w_{h,c}. InputError is raised for more than one gated layer.
        """
        self.require_one_layer(len(self.shape))
        weights = to_array(self.hidden_weights[0])
        if self.readout is None:
            return weights
        units, contexts = self.shape[0]
        zeta = np.repeat(to_array(self.readout.weight), contexts, axis=1)[:, :, None] * weights
        zeta[:, :, -1] += to_array(self.readout.bias)[:, None] / units
        return zeta[0] if self.outputs == 1 else zeta

    def input_layers(self) -> list[Any]:
        return [self.hidden_weights]

    def one_layer(self, X: Array) -> OneLayer | None:
        trained = all(parameter.requires_grad for parameter in self.parameters())
        if type(self).forward is not GatedLinearNetwork.forward or len(self.shape) > 1 or not trained:
            return None
        readout, bias = (None, None) if self.readout is None else (self.readout.weight, self.readout.bias)
        weights = [None if weight is None else weight.detach() for weight in (readout, bias)]
        return OneLayer(self.hidden_weights[0].detach(), weights[0], weights[1], self.shape[0][1], chosen=True)

    def layer_shapes(self) -> list[tuple[int, int]]:
        return self.shape

    def readout_biases(self) -> list[nn.Parameter]:
        return [] if self.readout is None else [self.readout.bias]

    @property
    def degree(self) -> int:
        return len(self.shape) + (self.readout is not None)

    def config(self) -> dict[str, Any]:
        return super().config() | {"readout": self.readout is not None, "outputs": self.outputs}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        return cls(blank_gates(config), readout=config["readout"], outputs=config.get("outputs", 1), seed=0)
