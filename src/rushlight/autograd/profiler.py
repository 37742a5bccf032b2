"""How long named parts of a program take: `profile` collects what `record_function` measures within it."""

from __future__ import annotations

import functools
import json
import threading
import time
from collections.abc import Callable, Iterable
from typing import TypeVar

from rushlight.eager.boundary import checked
from rushlight.support.errors import require
from rushlight.support.frozen import frozen
from rushlight.support.peer_names import absent_name

__all__ = ["EventList", "FunctionEvent", "profile", "record_function"]

F = TypeVar("F", bound=Callable[..., object])
_profiles: list[profile] = []


@frozen
class FunctionEvent:
    """One measured part: its name, when it began and how long it took, in microseconds."""

    name: str
    start: float
    cpu_time_total: float
    thread: int
    count: int = 1

    @property
    def key(self) -> str:
        """The name."""
        return self.name


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
        self._begun: list[int] = []

    def __enter__(self) -> record_function:
        self._begun.append(time.perf_counter_ns())
        return self

    def __exit__(self, *error: object) -> None:
        start, end = self._begun.pop(), time.perf_counter_ns()
        event = FunctionEvent(self.name, start / 1e3, (end - start) / 1e3, threading.get_ident())
        for one in tuple(_profiles):
            one.events.append(event)

    def __call__(self, function: F) -> F:
        """The function, measured under this name."""

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
        return sum(event.cpu_time_total for event in self)

    def key_averages(self) -> EventList:
        """Return the sum over parts of one name, the longest first."""
        events: dict[str, FunctionEvent] = {}
        for event in self:
            before = events.get(event.name)
            total = event.cpu_time_total + (0 if before is None else before.cpu_time_total)
            count = 1 if before is None else before.count + 1
            events[event.name] = FunctionEvent(event.name, event.start, total, event.thread, count)
        return EventList(sorted(events.values(), key=lambda event: -event.cpu_time_total))

    @checked
    def table(self, sort_by: str | None = None, row_limit: int = 100) -> str:
        """Return the parts as text, a line for each; `sort_by` is "cpu_time_total" or "count"."""
        valid = sort_by in (None, "cpu_time_total", "count")
        require(valid, "A006", "table: parts are sorted by cpu_time_total or count", sort_by=sort_by)
        rows = self if sort_by is None else sorted(self, key=lambda event: -float(getattr(event, sort_by)))
        width = max([len(event.name) for event in self], default=4)
        lines = [f"{'name':{width}} {'calls':>8} {'total us':>14} {'mean us':>14}"]
        for event in rows[: row_limit if row_limit > 0 else None]:
            mean = event.cpu_time_total / event.count
            lines.append(f"{event.name:{width}} {event.count:>8} {event.cpu_time_total:>14.1f} {mean:>14.1f}")
        return "\n".join(lines)

    def export_chrome_trace(self, path: str) -> None:
        """Write the parts for a browser's viewer of traces."""
        events = [
            {
                "name": event.name,
                "ph": "X",
                "ts": event.start,
                "dur": event.cpu_time_total,
                "pid": 0,
                "tid": event.thread,
            }
            for event in self
        ]
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"traceEvents": events}, file)


class profile:  # noqa: N801 - PyTorch's name
    """Collects what `record_function` measures in the scope. Operators are not measured one by one.

    Other devices, and options that ask for more than times, are error A006.
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
        more = record_shapes or with_flops or profile_memory or with_stack or with_modules
        require(not more and use_cpu and not use_kineto, "A006", "profile: nothing but times is measured")
        self.enabled = enabled
        self.events = EventList()

    def __enter__(self) -> profile:
        if self.enabled:
            _profiles.append(self)
        return self

    def __exit__(self, *error: object) -> None:
        if self in _profiles:
            _profiles.remove(self)

    @property
    def function_events(self) -> EventList:
        """What was measured, in the order in which it ended."""
        return self.events

    @property
    def self_cpu_time_total(self) -> float:
        """The sum of what the parts took, in microseconds."""
        return self.events.self_cpu_time_total

    @checked
    def key_averages(self, group_by_input_shape: bool = False, group_by_stack_n: int = 0) -> EventList:
        """Return the sum over parts of one name, the longest first."""
        plain = not group_by_input_shape and group_by_stack_n == 0
        require(plain, "A006", "key_averages: neither shapes nor stacks are recorded")
        return self.events.key_averages()

    def table(self, sort_by: str | None = None, row_limit: int = 100) -> str:
        """Return the parts as text, a line for each."""
        return self.events.table(sort_by, row_limit)

    def export_chrome_trace(self, path: str) -> None:
        """Write the parts for a browser's viewer of traces."""
        self.events.export_chrome_trace(path)


def __getattr__(name: str) -> object:
    raise absent_name(__name__, name, __all__)
