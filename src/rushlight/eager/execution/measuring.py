"""What profiles measure: operators by a dispatch key, steps of backward passes, and parts that others name.

Where no profile is on the key is not included, and nobody asks.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any

from rushlight.eager.dispatch import STATE, Key, bit, call_without, register_fallback
from rushlight.eager.handle import Handle
from rushlight.runtime.allocator import CPU
from rushlight.support.provenance import Frame, user_frames
from rushlight.term import Op

PROFILE = bit(Key.PROFILE)
_FRAMES = 32
_every: list[Recording] = []
"""The recordings that are on, of any thread: what a program names is measured wherever it runs."""


class Measured:
    """One part of a run: when it began and ended in nanoseconds, and how much of that its own parts took.

    `kind` is "operator", "backward", "user" or "compiled". `nbytes` is the memory that was in use behind it and not
    before, of which its own parts took `inner_bytes`.
    """

    __slots__ = (
        "begin",
        "end",
        "frames",
        "inner",
        "inner_bytes",
        "kind",
        "name",
        "nbytes",
        "parent",
        "shapes",
        "thread",
    )

    def __init__(self, name: str, kind: str, parent: Measured | None) -> None:
        self.name = name
        self.kind = kind
        self.parent = parent
        self.thread = threading.get_ident()
        self.shapes: tuple[tuple[int, ...], ...] = ()
        self.frames: tuple[Frame, ...] = ()
        self.inner = self.inner_bytes = self.nbytes = self.begin = self.end = 0


class Recording:
    """What one profile has measured; parts are in the order in which they ended."""

    def __init__(self, *, shapes: bool = False, stacks: bool = False, memory: bool = False) -> None:
        self.parts: list[Measured] = []
        self._shapes, self._stacks, self._memory = shapes, stacks, memory
        self._open: dict[int, list[Measured]] = {}

    def open(self, name: str, kind: str, operands: Sequence[object] = (), at: int | None = None) -> Measured:
        """Begins a part of this thread, now unless a time is given."""
        within = self._open.setdefault(threading.get_ident(), [])
        part = Measured(name, kind, within[-1] if within else None)
        within.append(part)
        if self._shapes:
            part.shapes = tuple([_shape_of(operand) for operand in operands])
        if self._stacks:
            part.frames = user_frames(_FRAMES)
        if self._memory:
            part.nbytes = -_used()
        part.begin = time.perf_counter_ns() if at is None else at
        return part

    def close(self, part: Measured, at: int | None = None) -> None:
        """Ends a part, and those within it that nobody has ended."""
        part.end = time.perf_counter_ns() if at is None else at
        if self._memory:
            part.nbytes += _used()
        within = self._open[part.thread]
        while within and within.pop() is not part:
            pass
        if part.parent is not None:
            part.parent.inner += part.end - part.begin
            part.parent.inner_bytes += part.nbytes
        self.parts.append(part)

    def begin(self) -> None:
        """Measures this thread's operators from here on, and what any thread names."""
        _every.append(self)
        STATE.profiles = (*STATE.profiles, self)
        STATE.included |= PROFILE

    def end(self) -> None:
        """Measures nothing more; the second time nothing happens."""
        if self in _every:
            _every.remove(self)
        STATE.profiles = tuple([one for one in STATE.profiles if one is not self])
        if not STATE.profiles:
            STATE.included &= ~PROFILE


class Part:
    """A context manager: what runs in it is a part of all recordings that are on."""

    __slots__ = ("_kind", "_name", "_opened", "_operands")

    def __init__(self, name: str, kind: str, operands: Sequence[object] = ()) -> None:
        self._name = name
        self._kind = kind
        self._operands = operands
        self._opened: list[tuple[Recording, Measured]] = []

    def __enter__(self) -> Part:
        recordings = tuple(_every) if self._kind == "user" else STATE.profiles
        for one in recordings:
            self._opened.append((one, one.open(self._name, self._kind, self._operands)))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        while self._opened:
            recording, part = self._opened.pop()
            recording.close(part)


class Stages:
    """A context manager for a part in stages without gaps: each call of `begin` ends the stage before."""

    __slots__ = ("_first", "_name", "_opened")

    def __init__(self, name: str, first: str) -> None:
        self._name = name
        self._first = first
        self._opened: list[tuple[Recording, Measured, Measured]] = []

    def __enter__(self) -> Callable[[str], None]:
        for one in STATE.profiles:
            whole = one.open(self._name, "compiled")
            self._opened.append((one, whole, one.open(self._first, "compiled", at=whole.begin)))
        return self.begin

    def begin(self, name: str) -> None:
        """Begins the next stage."""
        now = time.perf_counter_ns()
        for at, (one, whole, stage) in enumerate(self._opened):
            one.close(stage, now)
            self._opened[at] = one, whole, one.open(name, "compiled", at=now)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        now = time.perf_counter_ns()
        while self._opened:
            one, whole, stage = self._opened.pop()
            one.close(stage, now)
            one.close(whole, now)


def measured(name: str, kind: str, function: Callable[..., Any], *args: object) -> Any:
    """What a function gives, as a part of this thread's recordings."""
    with Part(name, kind):
        return function(*args)


def _shape_of(operand: object) -> tuple[int, ...]:
    return tuple([int(size) for size in operand.form.shape]) if isinstance(operand, Handle) else ()


def _used() -> int:
    return CPU.statistics().used_bytes


def _answer(op: Op, active: int, operands: tuple[Any, ...], attrs: Mapping[str, Any]) -> Any:
    if STATE.tracer is not None:  # no operator runs
        return call_without(Key.PROFILE, op, active, operands, attrs)
    with Part(op.name, "operator", operands):
        return call_without(Key.PROFILE, op, active, operands, attrs)


register_fallback(Key.PROFILE, _answer, leaf=True)
