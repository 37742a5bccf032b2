"""Rushlight's capture: of whole functions by their calls, or of bytecode in parts."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import rushlight as rl
from rushlight.bench.bytecodes import Meter, answer, compiling
from rushlight.bench.hosts.pytorch import tensor_of
from rushlight.bench.programs.pytorch_ops import Modes
from rushlight.bench.records import Record, Work
from rushlight.capture import explain_entries
from rushlight.capture.interpreter.frame import Body
from rushlight.capture.interpreter.operations import Operation
from rushlight.capture.resume.interpreters.tracing import TracingInterpreter
from rushlight.eager.dispatch import STATE
from rushlight.support import clock

STAGES = ("capture", "partition")


class Capture:
    """Captures whole functions, or functions in parts."""

    version: str = rl.__version__

    def __init__(self, in_parts: bool) -> None:
        self.in_parts = in_parts
        self.compile = functools.partial(rl.compile, backend="reference", fullgraph=not in_parts)

    def modes(self) -> Modes:
        """See `Capturer`."""
        self.compile(lambda x: x + 1)(rl.ones(2))
        return compiling(self.compile, whole_steps=True)

    def capture_seconds(self, work: Work) -> float:
        """See `Capturer`."""
        rl.compiler.reset()
        clock.reset()
        work()
        return sum([clock.spent_ms().get(name, 0.0) for name in STAGES]) / 1e3

    def meter(self, work: Work) -> Meter:
        """See `Capturer`."""
        meter = Meter()
        plain, timed = TracingInterpreter.operations_of, dict[Body, list[Operation]]()

        def operators() -> int:
            return len(STATE.tracer.builder.calls)

        def measured(operation: Operation) -> Operation:
            return lambda *args: meter.measure(operation, args, operators)

        def operations_of(self: TracingInterpreter, body: Body) -> list[Operation]:
            if body not in timed:
                timed[body] = [measured(operation) for operation in plain(self, body)]
            return timed[body]

        rl.compiler.reset()
        TracingInterpreter.operations_of = operations_of
        try:
            work()
        finally:
            TracingInterpreter.operations_of = plain
        return meter

    def compile_natively(self, function: Any) -> Any:
        """See `Capturer`."""
        return rl.compile(function, fullgraph=not self.in_parts)

    def guards(self, compiled: Any, function: Any, operands: Sequence[Any]) -> Callable[[], object]:
        """See `Capturer`. They are the lines of an entry before it asks for the plan of its inputs' forms."""
        whole = rl.compile(function, backend="reference", fullgraph=True)  # its entry takes the arguments as they are
        whole(*operands)
        (entry,) = explain_entries(whole)
        lines, found, _ = entry.text.partition("    key = (")
        assert found
        call: Any = entry.call
        space = dict(call.__globals__)
        exec(f"{lines}    return None", space)  # noqa: S102 - our own text
        call, args, kwargs = space["call"], tuple(operands), dict[str, object]()
        assert call(args, kwargs) is None
        return lambda: call(args, kwargs)


def make_answer(mode: str, program: str, size: int) -> Record:
    """A program's measurements; `mode` is "whole" or "parts"."""
    return answer(Capture(mode == "parts"), tensor_of, program, size)
