"""Saving and loading of networks with their gates and cutoffs; loading executes no code."""

import io
import os
import warnings
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from implicit_bias import networks
from implicit_bias._utils.checks import InputError, as_count, as_file
from implicit_bias._utils.files import reading, write_atomically
from implicit_bias.networks import GatedNetwork
from implicit_bias.saving.names import class_name, named_class

FORMAT = "implicit_bias network 1"


def save_network(network: GatedNetwork, path: str | os.PathLike[str]) -> Path:
    """Write a network of this package with its gates and cutoffs to a file, and return the path.

    The loaded network has the same predictions.

    Raises
    ------
    InputError
        If `path` cannot be written, the network is not of a class of this package, or its weights are not finite.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from implicit_bias import ReLUNetwork, load_network, save_network
    >>> path = save_network(ReLUNetwork(3, 2, seed=1), pathlib.Path(tempfile.mkdtemp(), "network.pt"))
    >>> load_network(path).config()
    {'inputs': 3, 'units': [2], 'outputs': 1}
    """
    buffer = io.BytesIO()
    torch.save({"format": FORMAT, **_content(network), "state": network.state_dict()}, buffer)
    return write_atomically(path, buffer.getvalue())


def _content(network: Any) -> dict[str, Any]:
    kind = class_name(type(network), networks)
    if kind is None or not isinstance(network, GatedNetwork):
        raise InputError(f"cannot save a {type(network).__name__}; use a network of this package")
    if not _finite(network):
        raise InputError("the network's weights contain NaN or infinity; train with smaller steps")
    return {"class": kind, "config": network.config()}


def network_parts(network: Any) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return a network as a JSON dictionary and arrays; raise InputError if it cannot be saved."""
    return _content(network), {name: value.cpu().numpy() for name, value in network.state_dict().items()}


def network_of(about: dict[str, Any], arrays: Mapping[str, np.ndarray]) -> GatedNetwork:
    """Return the network that `network_parts` converted; raise any exception for invalid content."""
    state = {name: torch.as_tensor(values) for name, values in arrays.items()}
    return _restored({"format": FORMAT, **about, "state": state})


def load_network(path: str | os.PathLike[str]) -> GatedNetwork:
    """Load a network that `save_network` wrote, onto the CPU and with its dtype.

    Raises
    ------
    InputError
        If the file is missing, damaged or of another kind.

    Examples
    --------
    >>> from implicit_bias import load_network
    >>> try:
    ...     load_network("nowhere.pt")
    ... except ValueError as error:
    ...     print(error)
    nowhere.pt is not a readable file; check the path
    """
    file = as_file(path)
    with reading(path, "network"):
        # Torch does not verify check sums, and before 2.6 its reader of older formats could execute code.
        with zipfile.ZipFile(file) as archive:
            # Torch writes no compressed entries; a small compressed file could expand to more than the memory.
            if any(info.compress_type for info in archive.infolist()) or archive.testzip() is not None:
                raise ValueError("damaged")
        with warnings.catch_warnings():
            # Torch warns about files of other kinds.
            warnings.simplefilter("ignore")
            return _restored(torch.load(file, map_location="cpu", weights_only=True))


def _restored(content: Any) -> GatedNetwork:
    if content["format"] != FORMAT:
        raise KeyError(content["format"])
    config, state = content["config"], content["state"]
    tensors = [value for value in state.values() if isinstance(value, torch.Tensor)]
    # With strides, tensors may have fewer numbers in memory than their shape suggests.
    held = {value.untyped_storage().data_ptr(): value.untyped_storage().nbytes() for value in tensors if value.is_cpu}
    if _size(config) > sum(held.values()):
        raise InputError("its shape has more weights than the file contains")
    network = named_class(content["class"], networks, GatedNetwork).from_config(config)
    # load_state_dict would convert any type, even complex numbers.
    (dtype,) = {value.dtype for value in tensors}
    if not dtype.is_floating_point:
        raise TypeError(dtype)
    network.to(dtype)
    network.load_state_dict(state)
    if not _finite(network):
        raise InputError("its weights contain NaN or infinity")
    return network


def _size(config: dict[str, Any]) -> int:
    """Return a lower bound of the number of weights of a network with this `config`."""
    layers = [(units, 1) for units in [*config.get("units", []), config.get("outputs", 1)]]
    if "gates" in config:
        layers = [(gates["units"], gates["contexts"]) for gates in config["gates"]]
        layers += [(config.get("outputs", 1), 1)] if config.get("readout") else []
    widths = [config["inputs"], *(units for units, _ in layers)]
    sizes = [
        as_count(width, "inputs") * as_count(units, "units") * as_count(contexts, "contexts")
        for width, (units, contexts) in zip(widths, layers, strict=False)
    ]
    # Chains have at least one weight per unit in every further layer.
    return sum(sizes) + (as_count(config.get("layers", 1), "layers") - 1) * layers[0][0]


def _finite(network: GatedNetwork) -> bool:
    return all(bool(torch.isfinite(value).all()) for value in [*network.parameters(), *network.buffers()])
