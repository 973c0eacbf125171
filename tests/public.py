"""The public names, by the module that they are imported from."""

from importlib import import_module

#: The root, and what is imported from folders of the core and from extensions.
FOLDERS = ("datasets", "estimators", "features", "gates", "metrics", "networks", "norms", "solvers", "training")
ROOMS = ("best_networks", "galu", "gated_flow", "infinite")
MODULES = ("", *(f".{folder}" for folder in FOLDERS), *(f".extensions.{room}" for room in ROOMS))


def public_names() -> dict[str, list[str]]:
    """Return the public names by module, each once: a folder lists those that the root does not export."""
    listed = {f"implicit_bias{module}": import_module(f"implicit_bias{module}").__all__ for module in MODULES}
    root = listed["implicit_bias"]
    return {module: [name for name in names if names is root or name not in root] for module, names in listed.items()}
