"""Finished cells on disk: written atomically one by one, keyed by configuration and code, so that runs resume."""

from __future__ import annotations

import ast
import hashlib
import json
import re
import threading
import warnings
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from fnmatch import fnmatch
from functools import lru_cache
from pathlib import Path
from typing import Any

import implicit_bias
from implicit_bias.experiments.study import Cell, Config, Study
from implicit_bias.files import write_atomically

#: Modules (patterns of them) that arrange, draw or report results but do not make them; every other module's code is
#: part of the key.
IRRELEVANT = (
    *("__init__.py", "homogeneous.py", "limit.py", "limit_figure.py", "paper_figures.py", "plots.py", "public.py"),
    *("__main__.py", "command_line/*.py", "version.py", "estimators/*.py", "archives.py", "problem_files.py"),
    *(
        "experiments/contrasts.py",
        "experiments/descent_to_limit.py",
        "experiments/engines.py",
    ),
    *("experiments/findings.py", "experiments/paper.py", "experiments/report.py"),
    *("experiments/store.py", "experiments/sweep.py"),
)


def code_version() -> str:
    """A digest of the package's code as far as it makes results: comments, docstrings and layout play no part.

    >>> from implicit_bias.experiments.store import code_version
    >>> len(code_version())
    12
    """
    # Python's parser does not stand several threads at once, which Dask's workers may have.
    with _PARSING:
        return _code_version()


@lru_cache(maxsize=1)
def _code_version() -> str:
    digest = hashlib.sha256()
    folder = Path(implicit_bias.__file__).parent
    for path in sorted(folder.rglob("*.py")):
        name = path.relative_to(folder).as_posix()
        if any(fnmatch(name, pattern) for pattern in IRRELEVANT):
            continue
        tree = ast.parse(path.read_text())
        for node in ast.walk(tree):
            body = getattr(node, "body", None)
            first = body[0] if isinstance(body, list) and body else None
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                first.value.value = ""
        digest.update(f"{name}\n{ast.dump(tree)}\n".encode())
    return digest.hexdigest()[:12]


_PARSING = threading.Lock()


@dataclass(frozen=True)
class Job:
    """One cell of a study under a configuration: what is computed, stored and resumed as a whole."""

    study: Study
    config: Config
    cell: Cell

    def __str__(self) -> str:
        return f"{self.study.name.removeprefix('compare_')} {self.cell}, {self.config.cutoff} cutoffs"

    @property
    def name(self) -> str:
        """The cell, as a part of a file's name."""
        cell = self.cell
        cutoff = re.sub(r"[^\w.]+", "_", str(self.config.cutoff))
        return f"{self.study.name}-n{cell.train_size}-H{cell.units}-C{cell.contexts}-{cutoff}-seed{cell.seed}"

    @property
    def cost(self) -> float:
        """About how many seconds it takes on one core."""
        return self.study.cost(self.config, self.cell)

    def key(self) -> dict[str, Any]:
        """Everything that decides the rows: study, cell, the rest of the configuration, and the code's version."""
        apart = {"train_size", "units", "contexts", "seeds", "data_root"}
        rest = {name: value for name, value in asdict(self.config).items() if name not in apart}
        key = {"study": self.study.name, "cell": asdict(self.cell), "config": rest, "code": code_version()}
        plain: dict[str, Any] = json.loads(json.dumps(key))
        return plain


def jobs_of(study: Study, config: Config) -> list[Job]:
    """The jobs of a configuration, refused if it makes no sense for the study."""
    study.check(config)
    return [Job(study, config, cell) for cell in config.cells()]


@dataclass(frozen=True)
class Result:
    """A finished job: its rows, the seconds it took, and where."""

    rows: list[dict[str, Any]]
    seconds: float
    machine: str


class Store:
    """A folder of finished cells, one JSON file each: {"key", "rows", "seconds", "machine", "digest"}.

    A file that cannot be read back is named in a warning and kept aside as `….damaged`.

    >>> import tempfile
    >>> from implicit_bias.experiments.gln import STUDY
    >>> from implicit_bias.experiments.store import Result, Store, jobs_of
    >>> store, (job, *_) = Store(tempfile.mkdtemp()), jobs_of(STUDY, STUDY.defaults)
    >>> store.put(job, Result([{"model": "SVM-GLN", "error": 0.1}], 2.0, "here"))
    >>> store.get(job).rows
    [{'model': 'SVM-GLN', 'error': 0.1}]
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)

    def path(self, job: Job) -> Path:
        """The job's file."""
        return self.folder / f"{job.name}-{_digest(job.key())}.json"

    def get(self, job: Job) -> Result | None:
        """The stored result; None if there is none that can be read."""
        path = self.path(job)
        try:
            content = json.loads(path.read_text())
            if content["key"] != job.key() or content["digest"] != _digest(content["rows"]):
                raise ValueError
            return Result(content["rows"], float(content["seconds"]), str(content["machine"]))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError):
            aside = path.with_suffix(".damaged")
            path.replace(aside)
            warnings.warn(f"{path} is damaged; it is kept as {aside.name}, and its cell computed anew", stacklevel=2)
            return None

    def put(self, job: Job, result: Result) -> None:
        """Store a result; raises InputError if the disk does not take it, and then changes nothing."""
        rows = json.loads(json.dumps(result.rows))
        content = {"key": job.key(), "rows": rows, "seconds": result.seconds, "machine": result.machine}
        write_atomically(self.path(job), json.dumps(content | {"digest": _digest(rows)}, indent=1).encode())

    def warn_of_others(self, jobs: Iterable[Job]) -> None:
        """Warn of stored cells that these jobs would have used, had configuration and code been the same."""
        asked = {job.name: job for job in jobs}
        current = {self.path(job) for job in asked.values()}
        differing: set[str] = set()
        count = 0
        for path in sorted(self.folder.glob("*.json")):
            job = asked.get(path.stem.rpartition("-")[0])
            if job is None or path in current:
                continue
            try:
                stored = json.loads(path.read_text())["key"]
                named = _differences(stored, job.key())
            except (OSError, ValueError, KeyError, TypeError):
                continue
            differing |= named
            count += 1
        if count:
            warnings.warn(
                f"{self.folder} holds {count} cells that differ in {', '.join(sorted(differing))}; "
                "they stay there and are not used",
                stacklevel=2,
            )


def _differences(stored: dict[str, Any], asked: dict[str, Any]) -> set[str]:
    """The names of the settings in which two keys differ."""
    rest = {name for name in asked["config"] if stored["config"].get(name) != asked["config"][name]}
    return rest | ({"the code's version"} if stored["code"] != asked["code"] else set())


def _digest(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:12]
