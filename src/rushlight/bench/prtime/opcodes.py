"""Counting what Python does, by the standard library alone: this text also runs where Rushlight is not imported yet."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any, Protocol

Trace = Callable[[FrameType, str, Any], Any]


class Counter(Protocol):
    """Counts while a function runs."""

    def count(self, work: Callable[[], object]) -> int:
        """How much `work` takes."""
        ...


class Bytecodes:
    """Counts the instructions of Python's that run in this thread, by its trace function."""

    def __init__(self) -> None:
        self.number = 0

    def trace(self, frame: FrameType, event: str, argument: object) -> Trace:
        """Called at each event of a frame."""
        frame.f_trace_lines, frame.f_trace_opcodes = False, True
        if event == "opcode":
            self.number += 1
        return self.trace

    def count(self, work: Callable[[], object]) -> int:
        """How many instructions `work` takes."""
        gc.collect()
        gc.disable()
        before, self.number = sys.gettrace(), 0
        sys.settrace(self.trace)
        try:
            work()
        finally:
            sys.settrace(before)
            gc.enable()
        return self.number


class Gate:
    """Runs functions inside `a @= b`, during which callgrind counts, as its command line says."""

    def __imatmul__(self, work: Callable[[], object]) -> Gate:
        work()
        return self

    def count(self, work: Callable[[], object]) -> int:
        """0: the number is in callgrind's file."""
        gc.collect()
        gc.disable()
        gate = self
        gate @= work
        gc.enable()
        return 0


COUNTERS: dict[str, Callable[[], Counter]] = {"bytecodes": Bytecodes, "callgrind": Gate}
