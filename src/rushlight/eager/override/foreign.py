"""Values that answer functions on tensors by a `__torch_function__` of their own, and who has one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from rushlight.eager.dispatch import STATE, Dispatched, Key, bit
from rushlight.eager.handle import Handle, adopted

FUNCTION = bit(Key.FUNCTION)


def _plainly(
    func: Callable[..., object], types: object, args: tuple[object, ...] = (), kwargs: dict[str, object] | None = None
) -> object:
    """Calls the function."""
    return func(*args, **(kwargs or {}))


disabled: Any = _plainly
"""The `__torch_function__` of classes of tensors that answer nothing, in place of a class method."""


def method_of(value: object) -> Any:
    """A value's `__torch_function__`, or None: plain tensors have none, and neither do classes that disable it."""
    cls = type(value)
    method = getattr(cls, "__torch_function__", None)
    return None if method is None or method is disabled or cls is adopted() else method


class Foreign(Dispatched):
    """An operand that is no tensor and has a `__torch_function__`."""

    __slots__ = ("value",)

    def __init__(self, value: object) -> None:
        self.value = value
        self.keys = FUNCTION


def plain(value: object) -> object:
    """The value as the user gave it."""
    return value.value if isinstance(value, Foreign) else value


def in_arguments(values: Iterable[object]) -> Iterator[object]:
    """Values with a `__torch_function__` among arguments and the members of lists and tuples."""
    for given in values:
        value = plain(given)
        members: Iterable[object] = value if isinstance(value, (list, tuple)) else (value,)
        yield from (member for member in map(plain, members) if method_of(member) is not None)


def foreign_in(values: Iterable[object]) -> bool:
    """Whether one of them that is no tensor is asked."""
    return STATE.overriding and any(not isinstance(value, Handle) for value in in_arguments(values))
