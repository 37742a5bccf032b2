"""Bounded memo tables of functions of sizes."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import wraps
from typing import TypeVar

from rushlight.term import forget_dead

A = TypeVar("A")
B = TypeVar("B")
R = TypeVar("R")

_LIMIT = 1 << 14
_clears: list[Callable[[], None]] = []


def forget() -> None:
    """Empties all tables, and so lets go of sizes that nothing else refers to."""
    for clear in _clears:
        clear()
    forget_dead()


@contextmanager
def forgetting() -> Generator[None]:
    """A scope after which nothing is remembered: what has sizes of its own, as a compilation, leaves none behind."""
    try:
        yield
    finally:
        forget()


def memo_of_two(compute: Callable[[A, B], R]) -> Callable[[A, B], R]:
    """Remembers a pure function of two sizes in a table that is emptied when it is full.

    The table keeps its keys alive. Sizes hash by identity, so a look-up costs a tenth of a microsecond.
    """
    table: dict[tuple[A, B], R] = {}
    _clears.append(table.clear)

    @wraps(compute)
    def look_up(a: A, b: B) -> R:
        key = (a, b)
        try:
            return table[key]
        except KeyError:
            pass
        result = compute(a, b)
        if len(table) >= _LIMIT:
            table.clear()
        table[key] = result
        return result

    return look_up
