"""Names of this package's public classes in files; user-defined classes have none."""

from importlib import import_module
from inspect import isabstract
from pathlib import Path
from pkgutil import iter_modules
from types import ModuleType
from typing import Any

#: Package of the extensions; each is imported only if a file or an object refers to it.
EXTENSIONS = "implicit_bias.extensions"


def class_name(kind: type, package: ModuleType) -> str | None:
    """Return the name in files of a class of `package` or an extension ("GaLUNetwork of galu"), None for others."""
    name = kind.__name__
    if getattr(package, name, None) is kind:
        return name
    for extension in _extensions():
        if kind.__module__.startswith(f"{EXTENSIONS}.{extension}."):
            return f"{name} of {extension}" if getattr(_imported(extension), name, None) is kind else None
    return None


def named_class(name: str, package: ModuleType, base: type) -> Any:
    """Return the subclass of `base` with this `class_name`; raise KeyError if there is none."""
    public, _, extension = name.partition(" of ")
    if extension and extension not in _extensions():
        raise KeyError(name)
    home = _imported(extension) if extension else package
    kind = getattr(home, public) if public in dir(home) else None
    if not (isinstance(kind, type) and issubclass(kind, base)):
        raise KeyError(name)
    return kind


def class_names(package: ModuleType, base: type) -> list[str]:
    """Return the `class_name` of every concrete public subclass of `base` in a core package and all extensions."""
    homes = {"": package} | {f" of {extension}": _imported(extension) for extension in _extensions()}
    public = {name + suffix: getattr(home, name) for suffix, home in homes.items() for name in home.__all__}
    classes = {name: kind for name, kind in public.items() if isinstance(kind, type) and issubclass(kind, base)}
    return [name for name, kind in classes.items() if not isabstract(kind)]


def _extensions() -> list[str]:
    return [module.name for module in iter_modules([str(Path(__file__).parents[1] / "extensions")])]


def _imported(extension: str) -> ModuleType:
    return import_module(f"{EXTENSIONS}.{extension}")
