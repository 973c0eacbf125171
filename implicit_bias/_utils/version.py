"""The version of the package, and those of other packages."""

from importlib.metadata import PackageNotFoundError, version

__version__ = "0.1.0"


def installed_version(package: str) -> str | None:
    """Return the version of a package, or None if it is not installed.

    >>> installed_version("no-such-package") is None
    True
    """
    try:
        return version(package)
    except PackageNotFoundError:
        return None
