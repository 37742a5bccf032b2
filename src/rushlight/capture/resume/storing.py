"""What functions of ours put into the state of a program: they are called as they are, and nothing tells of it before.

A commit writes what a template makes of a value, and a recipe builds what the frames hold. An object that both have
would be two after the call, and one whose class is the program's would be that of the trace.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rushlight.capture.resume.breaks import OUTSIDE, Break
from rushlight.capture.resume.reached import is_written
from rushlight.capture.state.reachable import MISSING, StateWalk, entries_of, variables_of

_MOST = 1 << 10  # values that are looked at


def refuse_shared(walk: StateWalk, made: object, owners: Sequence[object]) -> None:
    """Breaks behind what has put a new container into an object of the state, and returns it."""
    for owner in owners if id(made) not in walk.before else ():
        variables = variables_of(owner)
        if id(variables) in walk.before and any(value is made for value in (variables or {}).values()):
            raise Break(OUTSIDE, f"a {type(owner).__name__} changes that was there before")


def put_in(walk: StateWalk, made: Mapping[int, tuple[object, int]]) -> list[tuple[int, str]]:
    """What the program has made that the state holds now: when it was made, and its class."""
    found: list[tuple[int, str]] = []
    seen: set[int] = set()
    waiting: list[object] = []
    for container, _ in (*walk.containers, *walk.objects):
        before = walk.before[id(container)]
        entries = entries_of(container)
        waiting += [value for key, value in entries.items() if value is not before.get(key, MISSING)]
    while waiting and len(seen) < _MOST:
        value: Any = waiting.pop()
        kind = type(value)
        if is_written(value) or id(value) in seen or id(value) in walk.before:
            continue
        seen.add(id(value))
        if id(value) in made and kind is not tuple:
            found.append((made[id(value)][1], kind.__name__))
        held = value if kind in (list, tuple, set) else value.values() if kind is dict else ()
        waiting += [*held, *(variables_of(value) or {}).values()]
    return sorted(found)
