"""Finished jobs on disk: written atomically one by one, keyed by settings and code, so that runs resume."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from implicit_bias.experiments.runner.digests import digest
from implicit_bias.experiments.runner.jobs import Job, Result
from implicit_bias.ground.files import write_atomically


class Store:
    """A folder of finished jobs, one JSON file each: {"key", "rows", "seconds", "machine", "digest"}.

    A file that cannot be read back is named in a warning and kept aside as `….damaged`.

    >>> import tempfile
    >>> from implicit_bias.experiments.paper.gln import STUDY
    >>> from implicit_bias.experiments.runner.jobs import Result
    >>> from implicit_bias.experiments.runner.store import Store
    >>> from implicit_bias.experiments.paper.sweep import jobs_of
    >>> store, (job, *_) = Store(tempfile.mkdtemp()), jobs_of(STUDY, STUDY.defaults)
    >>> store.put(job, Result([{"model": "SVM-GLN", "error": 0.1}], 2.0, "here"))
    >>> store.get(job).rows
    [{'model': 'SVM-GLN', 'error': 0.1}]
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)

    def path(self, job: Job) -> Path:
        """The job's file."""
        return self.folder / f"{job.name}-{digest(job.key())}.json"

    def get(self, job: Job) -> Result | None:
        """The stored result; None if there is none that can be read."""
        path = self.path(job)
        try:
            content = json.loads(path.read_text())
            if content["key"] != job.key() or content["digest"] != digest(content["rows"]):
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
        write_atomically(self.path(job), json.dumps(content | {"digest": digest(rows)}, indent=1).encode())

    def warn_of_others(self, jobs: Iterable[Job]) -> None:
        """Warn of stored cells that these jobs would have used, had settings and code been the same."""
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
    names: set[str] = set()
    for name, value in asked.items():
        if isinstance(value, dict):
            names |= _differences(stored[name], value)
        elif stored.get(name) != value:
            names.add("the code's version" if name == "code" else name)
    return names
