"""A worker's answers: lines of JSON in, lines of JSON out. Nothing here knows which framework is measured."""

from __future__ import annotations

import gc
import json
import time
import traceback
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, TextIO

import numpy as np

from rushlight.bench.catalog import CASES
from rushlight.bench.checking import worst_difference
from rushlight.bench.records import Array, Case, Inputs, Record, Work
from rushlight.bench.timing import Turn
from rushlight.support import clock

Change = Callable[[list[Array]], list[Array]]
MORE_CALLS = 3
SHORT = 0.1  # seconds: shorter calls are called again before their time is estimated


class Absent(Exception):
    """The framework cannot do this, or there is no program for it."""


class Host(Protocol):
    """A framework as a worker sees it."""

    version: str

    def prepare(self, case: Case, inputs: Inputs) -> Work:
        """The case's program, ready to be called. Raises `Absent` where there is none."""
        ...

    def arrays(self, result: object) -> list[Array]:
        """A call's results as numpy arrays."""
        ...


class Caught:
    """Keeps the exception that its block ended with, whatever it is, and goes on."""

    def __init__(self) -> None:
        self.answer: Record = {}

    def __enter__(self) -> Caught:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, _: TracebackType | None) -> bool:
        if kind is None or value is None or not issubclass(kind, Exception):
            return False
        status = "absent" if issubclass(kind, Absent) else "error"
        reason = str(value) if status == "absent" else "".join(traceback.format_exception_only(value)).strip()
        self.answer = {"status": status, "reason": reason, "trace": "".join(traceback.format_exception(value))}
        value.__traceback__ = None  # frames hold the inputs
        return True


class Server:
    """One framework, and the case that it is ready for."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.work: Work | None = None

    def answers(self) -> Mapping[str, Callable[..., Record]]:
        """What it can be asked, and who answers."""
        return {"hello": self.hello, "prepare": self.prepare, "sample": self.sample, "forget": self.forget}

    def answer(self, question: Record) -> Record:
        """The answer to a question."""
        with Caught() as caught:
            return {"status": "ready", **self.answers()[question.pop("do")](**question)}
        self.work = None
        return caught.answer

    def hello(self) -> Record:
        """The framework's version."""
        return {"version": self.host.version}

    def prepare(self, case: str, folder: str) -> Record:
        """Makes the case ready, checks the results of its first calls, and estimates how long a call takes."""
        self.forget()
        work = self.host.prepare(CASES[case], load(folder, "inputs"))
        answer = self.check(work, folder, CASES[case].allowed, CASES[case].calls)
        return answer if self.work is None else {**answer, "call_s": estimate(work)}

    def check(self, work: Work, folder: str, allowed: float, calls: int = 1, change: Change = list) -> Record:
        """Be ready for the work if its first calls give what is expected. `change` alters results before that."""
        self.work = work
        started = time.perf_counter()
        arrays = self.host.arrays(work())
        first = time.perf_counter() - started
        for _ in range(calls - 1):
            arrays += self.host.arrays(work())
        worst, where = worst_difference(change(arrays), list(load(folder, "expected").values()))
        answer = {"first_call_s": first, "difference": worst}
        if not worst <= allowed:
            self.forget()
            return {**answer, "status": "wrong", "reason": where}
        return answer

    def sample(self, repeat: int, warm: bool) -> Record:
        """Seconds of one call, as the mean of `repeat` calls; if `warm`, after an untimed call."""
        assert self.work is not None
        if warm:
            self.work()
        return {"seconds": time_calls(self.work, repeat)}

    def forget(self) -> Record:
        """Lets go of the case's memory."""
        self.work = None
        gc.collect()
        return {}


def load(folder: str, name: str) -> Inputs:
    """The arrays of a file that the harness wrote."""
    with np.load(Path(folder) / f"{name}.npz") as stored:
        return {key: stored[key] for key in stored.files}


def estimate(work: Work) -> float:
    """Seconds of one call."""
    seconds = time_calls(work, 1)
    return min([time_calls(work, 1) for _ in range(MORE_CALLS)]) if seconds < SHORT else seconds


def time_calls(work: Work, repeat: int, clock: Callable[[], float] = time.perf_counter) -> float:
    """Seconds of one call by a clock, as the mean of several."""
    started = clock()
    for _ in range(repeat):
        work()
    return (clock() - started) / repeat


class Artifact:
    """Calls of this process as an entrant that gives samples."""

    def __init__(self, name: str, work: Work, clock: Callable[[], float] = time.perf_counter) -> None:
        self.name = name
        self._work = work
        self._clock = clock

    def ask(self, do: str, **values: Any) -> Record:
        """A sample."""
        assert do == "sample"
        if values["warm"]:
            self._work()
        return {"status": "ready", "seconds": time_calls(self._work, values["repeat"], self._clock)}

    def turn(self) -> Turn:
        """Ready to be sampled."""
        return Turn(self, estimate(self._work))


def first(host: Host, case: str, inputs: Inputs) -> Record:
    """Prepares a case and calls it once. Returns the seconds of that call, and of our compiler's stages."""
    with Caught() as caught:
        work = host.prepare(CASES[case], inputs)
        clock.reset()
        cpu, started = time.process_time(), time.perf_counter()
        work()
        took = {"call_s": time.perf_counter() - started, "call_cpu_s": time.process_time() - cpu}
        stages = clock.spent_ms()
        later = [time_calls(work, 1) for _ in range(CASES[case].later)]
        return {"status": "ready", "version": host.version, **took, "stages_ms": stages, "later_s": later}
    return caught.answer


def serve(server: Server, questions: Iterable[str], answers: TextIO) -> None:
    """Answers until there are no more questions."""
    for line in questions:
        answers.write(json.dumps(server.answer(json.loads(line))) + "\n")
        answers.flush()
