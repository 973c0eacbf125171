"""Saving and loading networks: weights, gates and cutoffs together; loading executes no code."""

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
    """Write a network to `path`, gates and cutoffs included, so that it predicts the same when loaded.

    Raises
    ------
    InputError
        If `path` cannot be written, the network is of a class unknown to `load_network`, or its weights are not finite.

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
    """A network's class and shape."""
    kind = class_name(type(network), networks)
    if kind is None or not isinstance(network, GatedNetwork):
        raise InputError(f"cannot save a {type(network).__name__}; take a network of this package")
    if not _finite(network):
        raise InputError("the network's weights hold NaN or infinity; train with smaller steps")
    return {"class": kind, "config": network.config()}


def network_parts(network: Any) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return a network as a JSON dictionary and arrays."""
    about = _content(network)
    return about, {name: value.cpu().numpy() for name, value in network.state_dict().items()}


def network_of(about: dict[str, Any], arrays: Mapping[str, np.ndarray]) -> GatedNetwork:
    """The network of what `network_parts` gave."""
    state = {name: torch.as_tensor(values) for name, values in arrays.items()}
    return _restored({"format": FORMAT, **about, "state": state})


def load_network(path: str | os.PathLike[str]) -> GatedNetwork:
    """The network that `save_network` wrote to `path`, on the CPU, in the dtype it was saved with.

    Errors as for `load_solution`.

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
        # Torch does not look at check sums, and reads older formats, through whose reader code could slip before 2.6.
        with zipfile.ZipFile(file) as archive:
            # It compresses nothing either: compressed, little could hold more than fits.
            if any(info.compress_type for info in archive.infolist()) or archive.testzip() is not None:
                raise ValueError("damaged")
        with warnings.catch_warnings():
            # Warnings about other kinds of files.
            warnings.simplefilter("ignore")
            return _restored(torch.load(file, map_location="cpu", weights_only=True))


def _restored(content: Any) -> GatedNetwork:
    """The network of a file's content; any exception for another content."""
    if content["format"] != FORMAT:
        raise KeyError(content["format"])
    config, state = content["config"], content["state"]
    tensors = [value for value in state.values() if isinstance(value, torch.Tensor)]
    # Tensors may stride over fewer numbers than they announce, or over none.
    held = {value.untyped_storage().data_ptr(): value.untyped_storage().nbytes() for value in tensors if value.is_cpu}
    if _size(config) > sum(held.values()):
        raise InputError("it announces more weights than it holds")
    network = named_class(content["class"], networks, GatedNetwork).from_config(config)
    # load_state_dict would convert whatever is there, complex numbers too.
    (dtype,) = {value.dtype for value in tensors}
    if not dtype.is_floating_point:
        raise TypeError(dtype)
    network.to(dtype)
    network.load_state_dict(state)
    if not _finite(network):
        raise InputError("its weights hold NaN or infinity")
    return network


def _size(config: dict[str, Any]) -> int:
    """Number of weights of a network of this shape, without biases."""
    layers = [(units, 1) for units in [*config.get("units", []), config.get("outputs", 1)]]
    if "gates" in config:
        layers = [(gates["units"], gates["contexts"]) for gates in config["gates"]]
        layers += [(config.get("outputs", 1), 1)] if config.get("readout") else []
    widths = [config["inputs"], *(units for units, _ in layers)]
    sizes = [
        as_count(width, "inputs") * as_count(units, "units") * as_count(contexts, "contexts")
        for width, (units, contexts) in zip(widths, layers, strict=False)
    ]
    # Chains have a weight or more for each unit in every further layer.
    return sum(sizes) + (as_count(config.get("layers", 1), "layers") - 1) * layers[0][0]


def _finite(network: GatedNetwork) -> bool:
    return all(bool(torch.isfinite(value).all()) for value in [*network.parameters(), *network.buffers()])
