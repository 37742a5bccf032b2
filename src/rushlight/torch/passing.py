"""What is accepted and passed through, and what is refused: each says so."""

from __future__ import annotations

import functools
from typing import NoReturn, TypeVar

from rushlight.support import events
from rushlight.support.errors import fail

T = TypeVar("T")


@functools.cache
def say_passed(name: str, reason: str) -> None:
    """Record one event for a function of torch that is accepted and does nothing of its own."""
    events.record("pass_through", "N001", f"{name}: {reason}")


def refuse(name: str, reason: str) -> NoReturn:
    """Raise A006: a function of torch that is known by name alone."""
    fail("A006", f"{name} is not supported: {reason}")


class Decorator:
    """A decorator, with or without arguments, that returns what it is given: `disable`, `disable()`, `disable(f)`."""

    def __init__(self, name: str, reason: str) -> None:
        self.name = name
        self.reason = reason

    def __call__(self, function: T | None = None, *args: object, **options: object) -> T | Decorator:
        """Return what is decorated; the decorator where nothing is."""
        say_passed(self.name, self.reason)
        return self if function is None or isinstance(function, (bool, str)) else function
