"""Why a call does not fit an entry: the guard that fails, or what its tensors and sizes are, and how to keep to one."""

from __future__ import annotations

import re
from collections.abc import Mapping

from rushlight.capture.entry.entry import Entry
from rushlight.capture.guard import Guard
from rushlight.support.frozen import frozen

_HINTS = {
    "size": "tensors of one number of dims share a graph, but for sizes that the program compares or fixes",
    "number": "use the number in arithmetic alone, or pass it as a tensor",
    "constant": "each value of it is a program of its own: pass few, or a tensor",
    "type": "pass numbers of one class: an int and a float are programs of their own",
    "tensor": "pass tensors of one dtype, device, number of dims and requires_grad",
    "object": "keep what the function reads the same from call to call",
}


_NAMING = ("memory", "object")  # kinds of guards that expect other leaves, and not values


@frozen
class Miss:
    """Why a call does not fit an entry. `guard` is the one that fails, if one does.

    `kind` is the guard's, or "tensor" or "size". `nearness` grows with what holds: whether all guards do, and how many
    of these, or of the questions about tensors and sizes. `numbers` are the paths of all numbers that differ where the
    first of them is why.
    """

    kind: str
    reason: str
    nearness: tuple[bool, int]
    guard: Guard | None = None
    numbers: tuple[str, ...] = ()

    @property
    def hint(self) -> str:
        """How calls keep from it."""
        return _HINTS.get(self.kind, _HINTS["object"])


UNDEFINED = Miss("number", "a number that it computes with is not defined", (False, 0))
"""Why a call misses for which all guards hold, and whose tensors fit."""


def miss_of(
    entry: Entry, args: tuple[object, ...], kwargs: dict[str, object], written: Mapping[str, str] | None = None
) -> Miss | None:
    """Why a call does not fit an entry; None if it does. `written` is what users write for leaves, by their names."""
    space = entry.call.__globals__  # pyright: ignore[reportFunctionMemberAccess] - a function
    local: dict[str, object] = {"args": args, "kwargs": kwargs}
    _run(entry.unpack, space, local)
    holds = entry.state.snapshot.is_empty or entry.state.snapshot.holds()
    guards = entry.first if holds else entry.guards
    for passed, guard in enumerate(guards):
        if _fails(guard, space, local):
            others = guards[passed:] if guard.kind == "number" else ()
            numbers = [other.path for other in others if other.kind == "number" and _fails(other, space, local)]
            return Miss(guard.kind, _said(guard, written or {}), (False, passed), guard, tuple(numbers))
    _run(entry.key, space, local)
    key = local.get("key")
    misfit = entry.misfit(key, {}) if isinstance(key, tuple) else None
    if misfit is None:
        return None
    name = (written or {}).get(misfit.name, misfit.name)
    return Miss(misfit.kind, f"{name}{misfit.reason}", (True, misfit.passed))


def _fails(guard: Guard, space: dict[str, object], local: dict[str, object]) -> bool:
    """Whether a guard fails for a call."""
    try:
        return bool(eval(guard.failed, space, local))  # noqa: S307 - our own text
    except Exception:  # noqa: BLE001 - an object of the caller's may raise anything
        return True


def _run(lines: tuple[str, ...], space: dict[str, object], local: dict[str, object]) -> None:
    """Runs lines of a generated function, up to one that fails."""
    for line in lines:
        try:
            exec(line, space, local)  # noqa: S102 - our own text
        except Exception:  # noqa: BLE001 - an object of the caller's may raise anything
            return


def _said(guard: Guard, written: Mapping[str, str]) -> str:
    """What a guard that fails says, with the names of leaves that users know."""
    expected = _named(guard.expected, written) if guard.kind in _NAMING else guard.expected
    return f"{_named(guard.path, written)} is not {expected}"


def _named(text: str, written: Mapping[str, str]) -> str:
    names = re.compile("|".join([rf"\b{name}(?!\w)" for name in written]) or "(?!)")
    return names.sub(lambda match: written[match[0]], text)
