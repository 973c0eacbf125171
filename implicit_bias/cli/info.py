"""`implicit-bias info`: versions and machine, for bug reports, and the available choices of options."""

from __future__ import annotations

import platform
import re
from argparse import Namespace
from importlib.metadata import requires
from typing import Any

from implicit_bias._utils.version import __version__, installed_version
from implicit_bias.cli.execution import Output
from implicit_bias.cli.parsers import SHORT_CODES, Parser
from implicit_bias.cli.solve import FORMULATIONS
from implicit_bias.datasets import dataset_names
from implicit_bias.datasets.images import IMAGE_SETS, data_root, image_files


def declare(parser: Parser, command: str) -> None:
    parser.explain(
        "Print versions, machine, data files and the available choices of options.\nNothing is downloaded.",
        [("", "as text"), ("--json", "as JSON, for a bug report")],
        SHORT_CODES,
    )
    parser.add_shared("--data-root")
    parser.set_defaults(run=info, loads=("saving.models", "studies.runner.engines"))


def info(options: Namespace) -> Output:
    from implicit_bias.saving import models, problems, solutions
    from implicit_bias.solvers import SOLVERS
    from implicit_bias.studies.runner.engines import installed_engines, machine_kind

    root, with_torch = data_root(options.data_root), _torch()
    document: dict[str, Any] = {
        "versions": _versions(),
        "machine": machine_kind(),
        "torch_threads": with_torch.pop("threads"),
        "devices": with_torch.pop("devices"),
        "data_root": root,
        "data_sets": {name: image_files(name, root) if name in IMAGE_SETS else {} for name in dataset_names()},
        "solvers": [name for name, solver in SOLVERS.items() if solver.installed],
        "formulations": list(FORMULATIONS),
        "networks": with_torch.pop("networks"),
        "engines": installed_engines(),
        "formats": {
            "samples": "CSV, Parquet, xlsx or NPZ",
            "problem": f"implicit_bias {problems.KIND} (NPZ)",
            "solution": f"implicit_bias {solutions.KIND} (NPZ)",
            "model": f"implicit_bias {models.KIND} (NPZ)",
        }
        | with_torch,
    }
    for name, value in document.items():
        print(f"{name.replace('_', ' '):14s} {'; '.join(_texts(name, value))}")
    return Output(0, document, "add these lines to a bug report, or use a name in them as an option")


def _versions() -> dict[str, str | None]:
    versions: dict[str, str | None] = {"python": platform.python_version(), "implicit-bias": __version__}
    for requirement in requires("implicit-bias") or ():
        if "extra ==" not in requirement:
            name = re.split(r"[^\w.-]", requirement, maxsplit=1)[0]
            versions[name] = installed_version(name)
    return versions


def _torch() -> dict[str, Any]:
    try:
        import torch
    except ImportError:
        return {"threads": None, "devices": ["cpu"], "networks": [], "network": None}
    from implicit_bias import networks
    from implicit_bias.saving.names import class_names
    from implicit_bias.saving.networks import FORMAT

    return {
        "threads": torch.get_num_threads(),
        "devices": ["cpu", *(f"cuda:{i} {torch.cuda.get_device_name(i)}" for i in range(torch.cuda.device_count()))],
        "networks": class_names(networks, networks.GatedNetwork),
        "network": f"{FORMAT} (torch)",
    }


def _texts(name: str, value: Any) -> list[str]:
    if name == "data_sets":
        return [f"{data_set} {_state(files)}" for data_set, files in value.items()]
    if isinstance(value, dict):
        return [f"{key} {item or 'not installed'}" for key, item in value.items()]
    if not value:
        # All other values that can be missing depend on torch.
        return ["torch is not installed"]
    return [", ".join(value)] if isinstance(value, list | tuple) else [str(value)]


def _state(files: dict[str, str]) -> str:
    states = set(files.values())
    if len(states) <= 1:
        return states.pop() if states else "embedded"
    return ", ".join(f"{path} {state}" for path, state in files.items() if state != "found")
