"""Names by which files refer to classes of this package; a class of other code has none."""

from importlib import import_module
from inspect import isabstract
from pathlib import Path
from pkgutil import iter_modules
from types import ModuleType
from typing import Any

#: A room is loaded only when a file or an object refers to it.
EXTENSIONS = "implicit_bias.extensions"


def class_name(kind: type, package: ModuleType) -> str | None:
    """Return the name of a public class of a core package, "GaLUNetwork of galu" for one of an extension, else None."""
    name = kind.__name__
    if getattr(package, name, None) is kind:
        return name
    for room in _rooms():
        if kind.__module__.startswith(f"{EXTENSIONS}.{room}."):
            return f"{name} of {room}" if getattr(_room(room), name, None) is kind else None
    return None


def named_class(name: str, package: ModuleType, base: type) -> Any:
    """Return the class with this `class_name`, a subclass of `base`; raise KeyError for any other name."""
    public, _, room = name.partition(" of ")
    if room and room not in _rooms():
        raise KeyError(name)
    home = _room(room) if room else package
    kind = getattr(home, public) if public in dir(home) else None
    if not (isinstance(kind, type) and issubclass(kind, base)):
        raise KeyError(name)
    return kind


def class_names(package: ModuleType, base: type) -> list[str]:
    """Return the `class_name` of every concrete public subclass of `base` in the core package and all extensions."""
    homes = {"": package} | {f" of {room}": _room(room) for room in _rooms()}
    found = {name + suffix: getattr(home, name) for suffix, home in homes.items() for name in home.__all__}
    return [
        name
        for name, kind in found.items()
        if isinstance(kind, type) and issubclass(kind, base) and not isabstract(kind)
    ]


def _rooms() -> list[str]:
    return [module.name for module in iter_modules([str(Path(__file__).parents[1] / "extensions")])]


def _room(name: str) -> ModuleType:
    return import_module(f"{EXTENSIONS}.{name}")
