"""`implicit-bias info`: what the report of a fault needs, and what there is to choose from."""

from __future__ import annotations

import platform
import re
from argparse import Namespace
from importlib import import_module
from importlib.metadata import PackageNotFoundError, requires, version
from typing import TYPE_CHECKING, Any

from implicit_bias.cli.parsers import EXIT_CODES, Parser, add_data_root, add_json

if TYPE_CHECKING:
    from implicit_bias.cli.execution import Outcome


def declare(parser: Parser, command: str) -> None:
    """Declare the options of `info`."""
    parser.explain(
        "Say which versions run on which machine, where data files are found, and what there is to choose from.\n"
        "Nothing is downloaded.",
        [("", "as text"), ("--json", "to go with the report of a fault")],
        {code: EXIT_CODES[code] for code in (0, 2)},
    )
    add_data_root(parser)
    add_json(parser)
    parser.set_defaults(run=info, loads=("saving.models", "studies.runner.engines", "cli.execution"))


def info(options: Namespace) -> Outcome:
    """Gather and print."""
    from implicit_bias.cli.execution import Outcome
    from implicit_bias.cli.solve import FORMULATIONS
    from implicit_bias.datasets import dataset_names
    from implicit_bias.datasets.images import IMAGE_SETS, data_root, image_files
    from implicit_bias.saving import models as model_files
    from implicit_bias.saving import problems as problem_files
    from implicit_bias.saving import solutions as solution_files
    from implicit_bias.solvers import solver_names
    from implicit_bias.studies.runner.engines import ENGINES, machine_kind

    root, torch, network_files = data_root(options.data_root), _torch(), _network_files()
    document: dict[str, Any] = {
        "versions": versions(),
        "machine": machine_kind(),
        "torch_threads": torch.get_num_threads() if torch else None,
        "devices": devices(),
        "data_root": root,
        "data_sets": {name: image_files(name, root) if name in IMAGE_SETS else {} for name in dataset_names()},
        "solvers": solver_names(),
        "formulations": FORMULATIONS,
        "networks": _networks(),
        "engines": list(ENGINES),
        "formats": {
            "samples": "CSV or NPZ",
            "problem": f"implicit_bias {problem_files.KIND} (NPZ)",
            "solution": f"implicit_bias {solution_files.KIND} (NPZ)",
            "model": f"implicit_bias {model_files.KIND} (NPZ)",
            "network": network_files.FORMAT + " (torch)" if network_files else None,
        },
    }
    for name, value in document.items():
        print(f"{name.replace('_', ' '):14s} {'; '.join(_texts(name, value))}")
    return Outcome(0, document)


def versions() -> dict[str, str | None]:
    """Versions of Python, this package and every package that it requires; None for what is not installed."""
    from implicit_bias._utils.version import __version__

    found: dict[str, str | None] = {"python": platform.python_version(), "implicit-bias": __version__}
    for requirement in requires("implicit-bias") or ():
        if "extra ==" not in requirement:
            name = re.split(r"[^\w.-]", requirement, maxsplit=1)[0]
            try:
                found[name] = version(name)
            except PackageNotFoundError:
                found[name] = None
    return found


def devices() -> list[str]:
    """What `solve` can compute on: NumPy, and torch's GPUs.

    >>> devices()[0]
    'cpu'
    """
    torch = _torch()
    if torch is None:
        return ["cpu"]
    return ["cpu", *(f"cuda:{i} {torch.cuda.get_device_name(i)}" for i in range(torch.cuda.device_count()))]


def _torch() -> Any:
    """torch, or None where it is not installed."""
    try:
        import torch
    except ImportError:
        return None
    return torch


def _network_files() -> Any:
    """The module that saves networks, or None without torch."""
    return import_module("implicit_bias.saving.networks") if _torch() else None


def _networks() -> list[str]:
    if not _torch():
        return []
    from implicit_bias import networks
    from implicit_bias.saving.names import class_names

    return class_names(networks, networks.GatedNetwork)


def _texts(name: str, value: Any) -> list[str]:
    if name == "data_sets":
        return [f"{data_set} {_state(files)}" for data_set, files in value.items()]
    if isinstance(value, dict):
        return [f"{key} {item or 'not installed'}" for key, item in value.items()]
    if not value:
        # All else that can be missing comes with torch.
        return ["torch is not installed"]
    return [", ".join(value)] if isinstance(value, list | tuple) else [str(value)]


def _state(files: dict[str, str]) -> str:
    """One word for all files where it is one; else those that differ from 'found'."""
    states = set(files.values())
    if len(states) <= 1:
        return states.pop() if states else "embedded"
    return ", ".join(f"{path} {state}" for path, state in files.items() if state != "found")
