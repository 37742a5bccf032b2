"""Why a call does not fit an entry: the guard that fails, and what would keep it from failing."""

from __future__ import annotations

from rushlight.capture.entry.entry import Entry
from rushlight.capture.guard import Guard

_HINTS = {
    "size": "tensors of one number of dims share a graph, but for sizes that the program compares or fixes",
    "number": "use the number in arithmetic alone, or pass it as a tensor",
    "constant": "each value of it is a program of its own: pass few, or a tensor",
    "tensor": "pass tensors of one dtype, device, number of dims and requires_grad",
    "object": "keep what the function reads the same from call to call",
}


def hint_of(kind: str) -> str:
    """What keeps guards of a kind from failing; "size" is no guard, but what follows from sizes."""
    return _HINTS.get(kind, _HINTS["object"])


def why_missed(entry: Entry, args: tuple[object, ...], kwargs: dict[str, object]) -> Guard | None:
    """The first guard of an entry that fails for a call. None if all hold, or if only the sizes do not fit."""
    return nearest_miss(entry, args, kwargs)[0]


def nearest_miss(entry: Entry, args: tuple[object, ...], kwargs: dict[str, object]) -> tuple[Guard | None, int]:
    """The first guard of an entry that fails for a call, if one does, and how many hold before it."""
    space = entry.call.__globals__  # pyright: ignore[reportFunctionMemberAccess] - a function
    local: dict[str, object] = {"args": args, "kwargs": kwargs}
    for line in entry.unpack:
        try:
            exec(line, space, local)  # noqa: S102 - our own text
        except Exception:  # noqa: BLE001 - an object of the caller's may raise anything
            break
    guards = entry.guards
    for passed, guard in enumerate(guards):
        try:
            if eval(guard.failed, space, local):  # noqa: S307 - our own text
                return guard, passed
        except Exception:  # noqa: BLE001 - as above
            return guard, passed
    return None, len(guards)
