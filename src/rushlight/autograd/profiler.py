"""How long operators, compiled calls and named parts of a program take: `profile` measures what runs within it.

`rl.profiler` has the interface with schedules; both give the same events.
"""

from __future__ import annotations

import functools
import itertools
import json
import os
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TypeVar

from rushlight.capture.entry import measuring
from rushlight.capture.function.whole import compiled_functions
from rushlight.eager.boundary import checked
from rushlight.eager.execution.measuring import Measured, Part, Recording
from rushlight.support.errors import require
from rushlight.support.frozen import frozen
from rushlight.support.interpreted import interpreted
from rushlight.support.peer_names import absent_name

__all__ = ["EventList", "FunctionEvent", "Session", "kineto_available", "profile", "record_function"]

F = TypeVar("F", bound=Callable[..., object])
_TIMES = ("cpu_time", "cpu_time_total", "self_cpu_time_total")
_MEMORY = ("cpu_memory_usage", "self_cpu_memory_usage")
_NAME_WIDTH = 55
_CATEGORIES = {"user": "user_annotation", "operator": "cpu_op", "backward": "cpu_op", "compiled": "compiled"}


def kineto_available() -> bool:
    """Return False: there is no tracer of devices here."""
    return False


@frozen
class FunctionEvent:
    """One measured part, or the sum of several of one name: times in microseconds, memory in bytes.

    `kind` is "operator", "backward", "compiled" or "user"; `self_` times are those without the parts within.
    """

    name: str
    kind: str
    start: float
    cpu_time_total: float
    self_cpu_time_total: float
    thread: int
    count: int = 1
    cpu_memory_usage: int = 0
    self_cpu_memory_usage: int = 0
    input_shapes: tuple[tuple[int, ...], ...] = ()
    stack: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """The name."""
        return self.name

    @property
    def cpu_time(self) -> float:
        """The mean of what calls took."""
        return self.cpu_time_total / self.count


class record_function:  # noqa: N801 - PyTorch's name
    """Measures the statements of a `with`, or the calls of a function that it decorates.

    ```python
    with record_function("forward"):
        y = model(x)
    ```
    """

    @checked
    def __init__(self, name: str, args: str | None = None) -> None:
        self.name = name
        self.args = args
        self._begun: list[Part] = []

    def __enter__(self) -> record_function:
        self._begun.append(Part(self.name, "user").__enter__())
        return self

    def __exit__(self, *error: object) -> None:
        self._begun.pop().__exit__(None, None, None)

    def __call__(self, function: F) -> F:
        """The function, measured under this name."""

        @interpreted
        @functools.wraps(function)
        def run(*args: object, **kwargs: object) -> object:
            with record_function(self.name, self.args):
                return function(*args, **kwargs)

        return run  # pyright: ignore[reportReturnType] - of the same signature


class EventList(list[FunctionEvent]):
    """Measured parts of a program."""

    def __init__(self, events: Iterable[FunctionEvent] = ()) -> None:
        super().__init__(events)

    @property
    def self_cpu_time_total(self) -> float:
        """The sum of what the parts took, in microseconds."""
        return sum([event.self_cpu_time_total for event in self])

    @checked
    def key_averages(self, group_by_input_shape: bool = False, group_by_stack_n: int = 0) -> EventList:
        """Return the sum over parts of one name, the longest first.

        Parts of other shapes, or that were called from other places, may be apart.
        """
        groups: dict[tuple[object, ...], FunctionEvent] = {}
        for event in self:
            shapes = event.input_shapes if group_by_input_shape else ()
            stack = event.stack[:group_by_stack_n]
            key = (event.name, shapes, stack)
            before = groups.get(key)
            groups[key] = replace(event, input_shapes=shapes, stack=stack) if before is None else _sum(before, event)
        return EventList(sorted(groups.values(), key=lambda event: -event.cpu_time_total))

    def total_average(self) -> FunctionEvent:
        """Return the sum over all parts."""
        empty = FunctionEvent("Total", "", 0.0, 0.0, 0.0, 0, 0)
        return functools.reduce(_sum, self, empty)

    @checked
    def table(
        self,
        sort_by: str | None = None,
        row_limit: int = 100,
        max_src_column_width: int = 75,
        max_name_column_width: int = _NAME_WIDTH,
        max_shapes_column_width: int = 80,
        header: str | None = None,
        top_level_events_only: bool = False,
    ) -> str:
        """Return the parts as text, a line for each; `sort_by` names a time, a use of memory, or "count"."""
        valid = sort_by in (None, "count", *_TIMES, *_MEMORY)
        known = ", ".join(["count", *_TIMES, *_MEMORY])
        require(valid, "A006", f"table: parts are sorted by one of {known}", sort_by=sort_by)
        rows = self if sort_by is None else sorted(self, key=lambda event: -float(getattr(event, sort_by)))
        total = self.self_cpu_time_total
        columns = _columns(self, total, max_name_column_width, max_shapes_column_width)
        texts = [[title for title, _ in columns]]
        texts += [[text(event) for _, text in columns] for event in rows[: row_limit if row_limit > 0 else None]]
        widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
        rule = "  ".join(["-" * width for width in widths])
        lines = ["  ".join([text.rjust(width) for text, width in zip(row, widths, strict=True)]) for row in texts]
        head = [] if header is None else [header]
        sum_line = f"Self CPU time total: {_time(total)}"
        return "\n".join([*head, rule, lines[0], rule, *lines[1:], rule, sum_line, ""])

    def export_chrome_trace(self, path: str) -> None:
        """Write the parts for a browser's viewer of traces."""
        events = [
            {
                "name": event.name,
                "cat": _CATEGORIES.get(event.kind, event.kind),
                "ph": "X",
                "ts": event.start,
                "dur": event.cpu_time_total,
                "pid": os.getpid(),
                "tid": event.thread,
                "args": {"Input Dims": event.input_shapes, "Call stack": ";".join(event.stack)},
            }
            for event in self
        ]
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"schemaVersion": 1, "traceEvents": events}, file)

    @checked
    def export_stacks(self, path: str, metric: str = "self_cpu_time_total") -> None:
        """Write a line for each stack, outermost first, and its time in microseconds: the format of flame graphs."""
        known = ", ".join([*_TIMES, *_MEMORY])
        require(metric in (*_TIMES, *_MEMORY), "A006", f"export_stacks: the metric is one of {known}", metric=metric)
        sums: dict[tuple[str, ...], float] = {}
        for event in self:
            if event.stack:
                sums[event.stack] = sums.get(event.stack, 0.0) + float(getattr(event, metric))
        with open(path, "w", encoding="utf-8") as file:
            for stack, value in sums.items():
                file.write(f"{';'.join(reversed(stack))} {int(value)}\n")


def _sum(a: FunctionEvent, b: FunctionEvent) -> FunctionEvent:
    return replace(
        a,
        cpu_time_total=a.cpu_time_total + b.cpu_time_total,
        self_cpu_time_total=a.self_cpu_time_total + b.self_cpu_time_total,
        count=a.count + b.count,
        cpu_memory_usage=a.cpu_memory_usage + b.cpu_memory_usage,
        self_cpu_memory_usage=a.self_cpu_memory_usage + b.self_cpu_memory_usage,
    )


def _columns(
    events: EventList, total: float, name_width: int, shapes_width: int
) -> list[tuple[str, Callable[[FunctionEvent], str]]]:
    """The titles of a table and what each says of an event. Memory and shapes are there if they were measured."""
    whole = total or 1.0
    columns: list[tuple[str, Callable[[FunctionEvent], str]]] = [
        ("Name", lambda event: _cut(event.name, name_width)),
        ("Self CPU %", lambda event: f"{event.self_cpu_time_total / whole:.2%}"),
        ("Self CPU", lambda event: _time(event.self_cpu_time_total)),
        ("CPU total %", lambda event: f"{event.cpu_time_total / whole:.2%}"),
        ("CPU total", lambda event: _time(event.cpu_time_total)),
        ("CPU time avg", lambda event: _time(event.cpu_time)),
    ]
    if any(event.cpu_memory_usage for event in events):
        columns.append(("CPU Mem", lambda event: _size(event.cpu_memory_usage)))
        columns.append(("Self CPU Mem", lambda event: _size(event.self_cpu_memory_usage)))
    columns.append(("# of Calls", lambda event: str(event.count)))
    if any(event.input_shapes for event in events):
        columns.append(("Input Shapes", lambda event: _cut(_shapes(event), shapes_width)))
    if any(event.stack for event in events):
        columns.append(("Source Location", lambda event: event.stack[0] if event.stack else ""))
    return columns


def _shapes(event: FunctionEvent) -> str:
    return str([list(shape) for shape in event.input_shapes])


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width or width < len("...") else f"{text[: width - 3]}..."


def _time(microseconds: float) -> str:
    if microseconds >= 1e6:
        return f"{microseconds / 1e6:.3f}s"
    return f"{microseconds / 1e3:.3f}ms" if microseconds >= 1e3 else f"{microseconds:.3f}us"


def _size(nbytes: int) -> str:
    for unit, factor in (("GB", 1 << 30), ("MB", 1 << 20), ("KB", 1 << 10)):
        if abs(nbytes) >= factor:
            return f"{nbytes / factor:.2f} {unit}"
    return f"{nbytes} B"


class Session:
    """What is measured from `begin` to `end`: this thread's operators, and the compiled calls that it makes."""

    def __init__(self, *, shapes: bool, stacks: bool, memory: bool) -> None:
        self._recording = Recording(shapes=shapes, stacks=stacks, memory=memory)
        self._runs = False

    def begin(self) -> None:
        """Begins to measure."""
        self._runs = True
        measuring.begin(itertools.chain.from_iterable([function.traces() for function in compiled_functions()]))
        self._recording.begin()

    def end(self) -> None:
        """Measures nothing more; the second time nothing happens."""
        if self._runs:
            self._runs = False
            self._recording.end()
            measuring.end()

    def events(self) -> EventList:
        """What was measured, in the order in which it ended."""
        return EventList(map(_event, self._recording.parts))


def _event(part: Measured) -> FunctionEvent:
    took = part.end - part.begin
    return FunctionEvent(
        part.name,
        part.kind,
        part.begin / 1e3,
        took / 1e3,
        (took - part.inner) / 1e3,
        part.thread,
        1,
        part.nbytes,
        part.nbytes - part.inner_bytes,
        part.shapes,
        tuple([f"{frame.filename}({frame.line}): {frame.function}" for frame in part.frames]),
    )


class profile:  # noqa: N801 - PyTorch's name
    """Measures operators, compiled calls, and what `record_function` names, in the scope.

    Other devices and counts of operations are error A006.
    """

    @checked
    def __init__(
        self,
        enabled: bool = True,
        *,
        use_cuda: bool = False,
        use_device: str | None = None,
        record_shapes: bool = False,
        with_flops: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_modules: bool = False,
        use_kineto: bool = False,
        use_cpu: bool = True,
    ) -> None:
        require(not use_cuda and use_device in (None, "cpu"), "A006", "profile: other devices are not measured")
        refused = with_flops or with_modules or use_kineto or not use_cpu
        require(not refused, "A006", "profile: neither operations nor modules are counted")
        self.enabled = enabled
        self._session = Session(shapes=record_shapes, stacks=with_stack, memory=profile_memory)

    def __enter__(self) -> profile:
        if self.enabled:
            self._session.begin()
        return self

    def __exit__(self, *error: object) -> None:
        self._session.end()

    @property
    def function_events(self) -> EventList:
        """What was measured, in the order in which it ended."""
        return self._session.events()

    @property
    def self_cpu_time_total(self) -> float:
        """The sum of what the parts took, in microseconds."""
        return self.function_events.self_cpu_time_total

    def key_averages(self, group_by_input_shape: bool = False, group_by_stack_n: int = 0) -> EventList:
        """Return the sum over parts of one name, the longest first."""
        return self.function_events.key_averages(group_by_input_shape, group_by_stack_n)

    def total_average(self) -> FunctionEvent:
        """Return the sum over all parts."""
        return self.function_events.total_average()

    def table(self, sort_by: str | None = None, row_limit: int = 100, header: str | None = None) -> str:
        """Return the parts as text, a line for each."""
        return self.function_events.table(sort_by, row_limit, header=header)

    def export_chrome_trace(self, path: str) -> None:
        """Write the parts for a browser's viewer of traces."""
        self.function_events.export_chrome_trace(path)

    def export_stacks(self, path: str, metric: str = "self_cpu_time_total") -> None:
        """Write the stacks with their times, for flame graphs."""
        self.function_events.export_stacks(path, metric)


def __getattr__(name: str) -> object:
    raise absent_name(__name__, name, __all__)
