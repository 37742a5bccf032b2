"""What capture costs by bytecode: the processor's time of each instruction, and how many operators it adds to a graph.

`answer` runs in a worker. Nothing here knows which framework is measured: a `Capturer` does.
"""

from __future__ import annotations

import importlib.util
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

import numpy as np

from rushlight.bench import programs
from rushlight.bench.cases_models import GPT2, Transformer, gpt_forward, gpt_step
from rushlight.bench.programs.pytorch_ops import Function, Modes
from rushlight.bench.records import Case, Record, Work

SAMPLES = 200  # empty intervals that the clock's own cost is the median of
CALLS, ROUNDS = 200, 9
WIDTH = 4
# GPT-2's layers, narrow: capture does not look at widths, and the calls around it are over soon.
NARROW = Transformer(GPT2.layers, 2, 32, 100, 64, GPT2.gelu)
NETWORKS: dict[str, Case] = {
    "gpt2-forward": gpt_forward("gpt2-forward", NARROW, 8),
    "gpt2-step": gpt_step("gpt2-step", NARROW, 2, 8, 1e-4),
}


class Meter:
    """The processor's nanoseconds of instructions, each without those that run inside it.

    `python` are those of instructions without an operator; `calls` of others, which made `operators` of them.
    """

    def __init__(self) -> None:
        self.python: list[int] = []
        self.calls: list[int] = []
        self.operators = 0
        self._inside = (0, 0)  # nanoseconds and operators of the instructions inside the one that runs
        starts = [(time.thread_time_ns(), time.thread_time_ns()) for _ in range(SAMPLES)]
        self._own = round(statistics.median([end - start for start, end in starts]))

    def measure(self, run: Callable[..., Any], args: tuple[Any, ...], operators: Callable[[], int]) -> Any:
        """What an instruction gives. `operators` says how many there are in the graph."""
        outer, self._inside = self._inside, (0, 0)
        before, start = operators(), time.thread_time_ns()
        try:
            return run(*args)
        finally:
            spent = time.thread_time_ns() - start - self._own
            added = operators() - before
            own, made = spent - self._inside[0], added - self._inside[1]
            (self.calls if made > 0 else self.python).append(max(own, 0))
            self.operators += max(made, 0)
            self._inside = outer[0] + spent + self._own, outer[1] + added

    def record(self) -> Record:
        """Counts, and microseconds of each."""
        if not self.python:
            return {}
        return {
            "bytecodes": len(self.python) + len(self.calls),
            "operators": self.operators,
            "median_us": statistics.median(self.python) / 1e3,
            "mean_us": statistics.fmean(self.python) / 1e3,
            "python_s": sum(self.python) / 1e9,
            "operators_s": sum(self.calls) / 1e9,
            "operator_us": sum(self.calls) / 1e3 / max(self.operators, 1),
        }


class Capturer(Protocol):
    """A framework that captures, as a worker sees it."""

    version: str

    def modes(self) -> Modes:
        """What compiles functions here, by a backend that makes no native code."""
        ...

    def capture_seconds(self, work: Work) -> float:
        """The processor's seconds that capture takes of a call; what was captured before is forgotten."""
        ...

    def meter(self, work: Work) -> Meter:
        """The instructions of a call that captures. It measures nothing where functions are not interpreted."""
        ...

    def compile_natively(self, function: Any) -> Any:
        """A function compiled to native code."""
        ...

    def guards(self, compiled: Any, function: Any, operands: Sequence[Any]) -> Callable[[], object]:
        """Checks the guards of a compiled function once."""
        ...


def as_users(name: str) -> ModuleType:
    """A module of `programs` as a module of the user's: frameworks treat their own in other ways."""
    path = Path(programs.__file__).with_name(f"{name}.py")
    spec = importlib.util.spec_from_file_location(f"users_{name}", path)
    assert spec is not None and spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def answer(capturer: Capturer, tensor: Callable[..., Any], program: str, size: int) -> Record:
    """Measures a program: its capture, and its call if it is a small one. `tensor` makes one of a numpy array."""
    modes = capturer.modes()
    if program in NETWORKS:
        case = NETWORKS[program]
        tensors = {name: tensor(value, case.dtype) for name, value in case.inputs().items()}
        work: Work = as_users("pytorch_models").MODELS[case.program](modes, tensors, **case.options)
        return captured(capturer, work)
    function = as_users("captured").MODULES[program](*[size] * (size > 0))
    count = 3 if program in ("parameters", "pointwise") else 1
    operands = [tensor(np.ones(WIDTH, np.float32), "float32") for _ in range(count)]
    compiled = modes.function(function)
    record = captured(capturer, lambda: compiled(*operands))
    if count == 1:
        return record
    check = capturer.guards(compiled, function, operands)
    record["guards_us"] = microseconds(check)
    if program == "pointwise":
        native = capturer.compile_natively(function)
        record |= {
            "call_us": microseconds(lambda: native(*operands)),
            "eager_us": microseconds(lambda: function(*operands)),
        }
    return record


def captured(capturer: Capturer, work: Work) -> Record:
    """Seconds of capture in a new process and again, and the instructions of a third one."""
    first = capturer.capture_seconds(work)
    again = min([capturer.capture_seconds(work) for _ in range(2)])
    return {
        "status": "ready",
        "version": capturer.version,
        "first_s": first,
        "again_s": again,
        **capturer.meter(work).record(),
    }


def microseconds(call: Work) -> float:
    """The processor's microseconds of a short call: the least mean of some rounds."""
    means: list[float] = []
    for _ in range(ROUNDS):
        start = time.thread_time_ns()
        for _ in range(CALLS):
            call()
        means.append((time.thread_time_ns() - start) / 1e3 / CALLS)
    return min(means)


def compiling(compile_function: Callable[..., Any], whole_steps: bool) -> Modes:
    """Modes with one way to compile, of whole steps or of their parts."""

    def as_is(function: Function) -> Function:
        return function

    step, part = (compile_function, as_is) if whole_steps else (as_is, compile_function)
    return Modes(compile_function, compile_function, step, part, compile_function)
