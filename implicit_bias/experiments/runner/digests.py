"""Digests: of plain content, and of the code behind a function, so that a stored result is known to be still true."""

from __future__ import annotations

import ast
import hashlib
import inspect
import json
import threading
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import implicit_bias
from implicit_bias.ground.checks import InputError

#: Statements that a module runs for their effect, whatever names they bind.
EFFECTS = (ast.Expr, ast.For, ast.While, ast.With, ast.Try, ast.Match)


def digest(content: Any) -> str:
    """Twelve digits of plain JSON content, in whatever order its names are.

    >>> from implicit_bias.experiments.runner.digests import digest
    >>> digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1})
    True
    """
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:12]


def code_version(*functions: Callable[..., Any]) -> str:
    """A digest of the code behind some functions: comments, docstrings, type hints and layout play no part.

    It covers what the functions reach by name in their own modules, and all modules of this package that this imports,
    wholly, and those that they import, and so on; imports inside of functions count too. Of a package's `__init__` it
    covers what the names imported from there reach, and what the import of anything in the package runs.

    Raises
    ------
    InputError
        For functions without a source file.

    Examples
    --------
    >>> from implicit_bias.experiments.paper import gln
    >>> from implicit_bias.experiments.runner.digests import code_version
    >>> len(code_version(gln.STUDY.rows))
    12
    """
    # Python's parser does not stand several threads at once, which Dask's workers may have.
    with _PARSING:
        return _code_version(functions)


_PARSING = threading.Lock()


@lru_cache(maxsize=256)
def _code_version(functions: tuple[Callable[..., Any], ...]) -> str:
    return digest(closure_of(*functions).dump())


def closure_of(*functions: Callable[..., Any]) -> Closure:
    """What `code_version` covers."""
    closure = Closure(Path(implicit_bias.__file__).parent)
    for function in functions:
        try:
            file = Path(inspect.getsourcefile(inspect.unwrap(function)) or "")
            closure.begin(function.__module__, function.__qualname__.partition(".")[0], file)
        except (TypeError, AttributeError, OSError):
            raise InputError(f"{function!r} has no source file; let a plain function of a module do its work") from None
    return closure


class Closure:
    """The statements of a package that some names reach: `parts` are the statements by module.

    >>> from pathlib import Path
    >>> import implicit_bias
    >>> from implicit_bias.experiments.runner.digests import Closure
    >>> closure = Closure(Path(implicit_bias.__file__).parent)
    >>> closure.take("implicit_bias.ground.blocks")
    >>> sorted(closure.parts)
    ['implicit_bias', 'implicit_bias.ground.blocks', 'implicit_bias.ground.checks']
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.parts: dict[str, list[ast.stmt]] = {}
        self._names: dict[str, set[str]] = {}
        self._whole: set[str] = set()

    def begin(self, module: str, name: str, file: Path) -> None:
        """Add what a name reaches of a module, which may stand outside of the package."""
        names = self._names.setdefault(module, set())
        if module in self._whole or name in names:
            return
        body = _parsed(file)
        # What is not bound in plain sight (a lambda, a name made on demand) may come from any statement.
        names |= {name} if any(name in _bound(statement) for statement in body) else set().union(*map(_bound, body))
        names.add(name)
        self._pass_through(module)
        self._add(module, _reached(body, names))

    def take(self, module: str) -> None:
        """Add a module of the package wholly, and all that it imports."""
        file = self._file(module)
        if file is not None and module not in self._whole:
            self._whole.add(module)
            self._pass_through(module)
            self._add(module, _parsed(file))

    def dump(self) -> list[tuple[str, list[str]]]:
        """All of it as text, in the order of the modules' names."""
        return [(name, [ast.dump(statement) for statement in self.parts[name]]) for name in sorted(self.parts)]

    def _pass_through(self, module: str) -> None:
        parents = module.split(".")[:-1]
        for depth in range(1, len(parents) + 1):
            name = ".".join(parents[:depth])
            file = self._file(name)
            if file is not None and name not in self.parts:
                self._add(name, _reached(_parsed(file), set()))

    def _add(self, module: str, statements: list[ast.stmt]) -> None:
        self.parts[module] = statements
        file = self._file(module)
        for wanted, name in _imports(statements, module, _is_package(file)):
            source = self._file(wanted)
            if name and self._file(f"{wanted}.{name}"):
                self.take(f"{wanted}.{name}")
            elif name and name != "*" and source and _is_package(source):
                self.begin(wanted, name, source)
            else:
                self.take(wanted)

    def _file(self, module: str) -> Path | None:
        """The file of a module of the package."""
        first, *rest = module.split(".")
        if first != self.folder.name:
            return None
        place = self.folder.joinpath(*rest)
        files = (place / "__init__.py", place.with_suffix(".py"))
        return next((file for file in files if file.is_file()), None)


def _is_package(file: Path | None) -> bool:
    return file is not None and file.name == "__init__.py"


@lru_cache(maxsize=1024)
def _parsed(file: Path) -> list[ast.stmt]:
    """A file's statements, without docstrings and the type hints of functions, one name an import."""
    tree = ast.parse(file.read_text("utf-8"))
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        first = body[0] if isinstance(body, list) and body else None
        if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
            first.value.value = ""
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            node.returns = None
        elif isinstance(node, ast.arg):
            node.annotation = None
    return [part for statement in tree.body for part in _split(statement)]


def _split(statement: ast.stmt) -> list[ast.stmt]:
    if isinstance(statement, ast.Import):
        return [ast.Import([alias]) for alias in statement.names]
    if isinstance(statement, ast.ImportFrom):
        return [ast.ImportFrom(statement.module, [alias], statement.level) for alias in statement.names]
    return [statement]


def _bound(statement: ast.stmt) -> set[str]:
    """The names that a statement of a module may bind, as far as they can be told."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return {statement.name}
    if isinstance(statement, ast.Import | ast.ImportFrom):
        return {(alias.asname or alias.name).partition(".")[0] for alias in statement.names} - {"*"}
    if isinstance(statement, ast.If):
        return set().union(*map(_bound, [*statement.body, *statement.orelse]))
    stored = (node for node in ast.walk(statement) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store))
    return {node.id for node in stored}


def _reached(body: list[ast.stmt], names: set[str]) -> list[ast.stmt]:
    """The statements run for their effect, those that bind the names, and those that bind what these name."""
    kept = [isinstance(statement, EFFECTS) or not _bound(statement) for statement in body]
    wanted, before = set(names), -1
    while sum(kept) > before:
        before = sum(kept)
        for statement, keep in zip(body, kept, strict=True):
            wanted |= {node.id for node in ast.walk(statement) if keep and isinstance(node, ast.Name)}
        kept = [keep or bool(wanted & _bound(statement)) for keep, statement in zip(kept, body, strict=True)]
    return [statement for statement, keep in zip(body, kept, strict=True) if keep]


def _imports(statements: Iterable[ast.stmt], module: str, is_package: bool) -> Iterator[tuple[str, str | None]]:
    """What some statements of a module import: modules, and names of them."""
    for statement in statements:
        for node in ast.walk(statement):
            if isinstance(node, ast.Import):
                yield from ((alias.name, None) for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                base = module.split(".")
                above = base[: len(base) - node.level + is_package] if node.level else []
                whole = ".".join([*above, *([node.module] if node.module else [])])
                yield from ((whole, alias.name) for alias in node.names)
