"""Jobs: what is computed, stored and resumed as a whole, on whatever engine; and their results."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self

from implicit_bias.experiments.runner.digests import code_version


class Job(ABC):
    """A piece of work: immutable, hashable, and sent to other processes as it is.

    >>> from implicit_bias.experiments.runner.figure_jobs import jobs_of
    >>> from implicit_bias.experiments.galu.norms import EXPERIMENT
    >>> job = jobs_of(EXPERIMENT, quick=True)[0]
    >>> sorted(job.key()), job.code == job.key()["code"]
    (['code', 'figure', 'settings'], True)
    """

    @property
    @abstractmethod
    def name(self) -> str:
        """A part of its file's name, the same whatever the code's version."""

    @property
    @abstractmethod
    def cost(self) -> float:
        """About how many seconds it takes on one core."""

    @property
    @abstractmethod
    def functions(self) -> tuple[Callable[..., Any], ...]:
        """The functions whose code decides the rows."""

    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """Everything else that decides the rows, as plain JSON."""

    @abstractmethod
    def rows(self) -> list[dict[str, Any]]:
        """Compute it."""

    @property
    def code(self) -> str:
        """The version of the code that decides the rows."""
        return code_version(*self.functions)

    def key(self) -> dict[str, Any]:
        """Everything that decides the rows."""
        return self.settings() | {"code": self.code}

    @property
    def order(self) -> tuple[float, ...]:
        """Jobs are begun from the least of this; so: the longest first, so that none ends late."""
        return (-self.cost,)

    @classmethod  # noqa: B027
    def prepare(cls, jobs: Sequence[Self]) -> None:
        """Refuse, before any work, what these jobs will not find; for most there is nothing to find."""


@dataclass(frozen=True)
class Result:
    """A finished job: its rows, the seconds it took, and where."""

    rows: list[dict[str, Any]]
    seconds: float
    machine: str
