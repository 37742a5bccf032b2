"""Counted events: fallbacks, cache hits and misses, recompiles, graph breaks, missed fusions.

The last events are kept in a ring; the counters know all of them. `rushlight explain` prints both.
"""

from _thread import allocate_lock
from collections import deque
from typing import Literal, get_args

from rushlight.support import log, settings
from rushlight.support.errors import fail
from rushlight.support.log import Topic
from rushlight.support.provenance import Frame, user_frame

Kind = Literal[
    "fallback",
    "compile",
    "recompile",
    "cache_hit",
    "cache_miss",
    "cache_bypass",
    "cache_eviction",
    "graph_break",
    "guard_failure",
    "fusion",
    "missed_fusion",
    "undecided_write",
    "unproven_write",
    "specialization",
    "pass_through",
    "tuning",
]

CAPACITY = 1024  # events kept, some 300 bytes each; a training step records a few
_LISTENERS: dict[str, Topic] = {
    "fallback": log.DISPATCH,
    "recompile": log.RECOMPILE,
    "cache_hit": log.CACHE,
    "cache_miss": log.CACHE,
    "cache_bypass": log.CACHE,
    "cache_eviction": log.CACHE,
    "graph_break": log.BREAK,
    "guard_failure": log.GUARDS,
    "fusion": log.FUSION,
    "missed_fusion": log.FUSION,
    "undecided_write": log.MEMORY,
    "unproven_write": log.MEMORY,
    "specialization": log.GUARDS,
    "pass_through": log.DISPATCH,
    "tuning": log.TUNE,
}


class Event:
    """One event: its kind and code, the reason, the user's line, and a remedy."""

    __slots__ = ("code", "frame", "hint", "kind", "reason")

    def __init__(self, kind: Kind, code: str, reason: str, frame: Frame | None, hint: str | None) -> None:
        self.kind: Kind = kind
        self.code = code
        self.reason = reason
        self.frame = frame
        self.hint = hint

    def __str__(self) -> str:
        lines = [f"{self.kind} {self.code}: {self.reason}"]
        if self.frame is not None:
            lines.append(f"  {self.frame}")
        if self.hint is not None:
            lines.append(f"  hint: {self.hint}")
        return "\n".join(lines)


_lock = allocate_lock()
_ring: deque[Event] = deque(maxlen=CAPACITY)
_counters: dict[tuple[Kind, str], int] = {}


def record(kind: Kind, code: str, reason: str, *, frame: Frame | None = None, hint: str | None = None) -> Event:
    """Count an event, keep it in the ring and write it to its log topic. `frame` defaults to the user's line."""
    event = Event(kind, code, reason, frame or user_frame(), hint)
    with _lock:
        _ring.append(event)
        _counters[kind, code] = _counters.get((kind, code), 0) + 1
    listener = _LISTENERS.get(kind)
    if listener is not None and listener.enabled:
        listener.write("%s", event)
    return event


def fallback(code: str, reason: str, *, hint: str | None = None, frame: Frame | None = None) -> None:
    """Record that a slower path is taken; under `rl.strict()` this is the error of `code` as well."""
    event = record("fallback", code, reason, frame=frame, hint=hint)
    if settings.get().strict_fallbacks:
        fail(code, reason, frame=event.frame, hint=hint)


def counters() -> dict[tuple[Kind, str], int]:
    """Return how often each (kind, code) has happened since the last reset."""
    with _lock:
        return dict(_counters)


def count(kind: Kind) -> int:
    """Return how often a kind has happened since the last reset."""
    return sum(times for (one, _), times in counters().items() if one == kind)


def events(kind: Kind | None = None) -> tuple[Event, ...]:
    """Return the events of a kind (all by default) that are still in the ring, oldest first."""
    if kind is not None and kind not in get_args(Kind):
        fail("A002", f"events: {kind} is not a kind of event", hint=", ".join(get_args(Kind)))
    with _lock:
        return tuple(event for event in _ring if kind is None or event.kind == kind)


def reset() -> None:
    """Forget all events and counters."""
    with _lock:
        _ring.clear()
        _counters.clear()
