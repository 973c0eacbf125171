"""The public names, by the module that they are imported from."""

from importlib import import_module
from inspect import ismodule

import implicit_bias


def public_names() -> dict[str, list[str]]:
    """Those of the package itself, and of its folders that are public the ones that it does not have."""
    listed = import_module("implicit_bias").__all__
    own = [name for name in listed if not ismodule(getattr(implicit_bias, name))]
    folders = [getattr(implicit_bias, name) for name in listed if name not in own]
    return {"implicit_bias": own} | {
        folder.__name__: [name for name in folder.__all__ if name not in own] for folder in folders
    }
