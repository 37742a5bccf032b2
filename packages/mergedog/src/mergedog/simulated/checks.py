"""Workflows in memory: jobs that look at the files, and runs whose status follows the clock."""

import zlib
from collections.abc import Callable
from dataclasses import dataclass, field

from mergedog.simulated.objects import Files


@dataclass(frozen=True, slots=True)
class Result:
    """How a job ends, in the forge's word, and its log."""

    conclusion: str = "success"
    log: str = ""


Behaviour = Callable[[Files, int], Result]


def passes(files: Files, attempt: int) -> Result:
    """Succeed."""
    return Result(log="ok\n")


def fails(log: str, conclusion: str = "failure") -> Behaviour:
    """Return a job that always fails."""
    return lambda files, attempt: Result(conclusion, log)


def flaky(log: str, attempts: int = 1, conclusion: str = "failure") -> Behaviour:
    """Return a job that fails in its first attempts, and then passes."""
    return lambda files, attempt: Result(conclusion, log) if attempt <= attempts else Result()


def fails_if(path: str, text: str, log: str) -> Behaviour:
    """Return a job that fails while a file contains a text."""
    return lambda files, attempt: Result("failure", log) if text in files.get(path, "") else Result()


@dataclass(frozen=True, slots=True)
class Workflow:
    """A workflow: its jobs, what starts it (`push` or `full`), and how long it takes to appear and to run."""

    name: str
    jobs: dict[str, Behaviour] = field(default_factory=lambda: {"job": passes})
    on: str = "push"
    delay: float = 5.0
    duration: float = 60.0
    gated: bool = False
    file: str = ""

    @property
    def id(self) -> int:
        """A number for the file of the workflow, by default one of its name."""
        return zlib.crc32((self.file or self.name).encode("utf-8", "surrogatepass"))


@dataclass(slots=True)
class SimRun:
    """One run of a workflow; `started` is when its newest attempt began."""

    id: int
    workflow: Workflow
    sha: str
    files: Files
    created: float
    started: float
    attempt: int = 1
    gated: bool = False

    def results(self) -> dict[str, Result]:
        """Return how each job of the newest attempt ends."""
        return {name: job(self.files, self.attempt) for name, job in self.workflow.jobs.items()}

    def status(self, now: float) -> str:
        """Return `approval`, `running`, `passed` or `failed`."""
        if self.gated:
            return "approval"
        if now < self.started + self.workflow.duration:
            return "running"
        return "passed" if all(result.conclusion == "success" for result in self.results().values()) else "failed"
