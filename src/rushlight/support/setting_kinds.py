"""Kinds of settings: each checks a Python value or parses the text of an environment variable."""

import os
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Generic, TypeVar, cast

from rushlight.support.errors import error
from rushlight.support.names import did_you_mean

LOG_TOPICS: Mapping[str, str] = MappingProxyType(
    {
        "guards": "what each compiled graph assumes, and which guard refused a call",
        "fusion": "which kernels were fused, and why others were not",
        "code": "generated LLVM IR",
        "cache": "cache hits, misses and evictions, with their keys",
        "recompile": "why a function was compiled again",
        "break": "graph breaks, with the user's line",
        "memory": "allocations, arena plans and reuse",
        "dispatch": "every operator call with its active keys",
        "tune": "candidates, measurements and choices",
    }
)

MECHANISMS: Mapping[str, str] = MappingProxyType(
    {
        "epilogues": "pointwise work on a product's tiles while they are in the cache",
        "rows": "reductions of rows in one kernel with what reads them",
        "row_reuse": "expensive elements of a reduction that wait in the result's memory",
        "row_sums": "sums per column, and products of few rows, that walk whole rows in memory order",
        "splits": "long sums to few results that threads share",
        "chains": "kernels of blocks of rows in a chain, as attention",
    }
)
"""What the compiler can leave out, to measure what it gains."""

T = TypeVar("T")


class Kind(Generic[T]):
    """A kind of setting: `allowed` in words, and `read`, which checks a value or parses its text."""

    __slots__ = ("allowed", "read")

    def __init__(self, allowed: str, read: Callable[[object], T]) -> None:
        self.allowed = allowed
        self.read = read


def choice(*names: str) -> Kind[str]:
    """One of the given names."""

    def read(value: object) -> str:
        if value not in names:
            raise ValueError
        return str(value)

    return Kind(", ".join(names), read)


def whole_number(smallest: int, largest: int | None = None) -> Kind[int]:
    """An int of at least `smallest`, and at most `largest` if that is given."""

    def read(value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int | str):
            raise ValueError
        number = int(value)
        if number < smallest or (largest is not None and number > largest):
            raise ValueError
        return number

    return Kind(f"an int, {smallest} {'or more' if largest is None else f'to {largest}'}", read)


def share() -> Kind[float]:
    """A number from 0 to 1."""

    def read(value: object) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            raise ValueError
        number = float(value)
        if not 0 <= number <= 1:
            raise ValueError
        return number

    return Kind("a number from 0 to 1", read)


def flag() -> Kind[bool]:
    """On or off."""
    texts = {"1": True, "on": True, "true": True, "yes": True, "0": False, "off": False, "false": False, "no": False}

    def read(value: object) -> bool:
        if isinstance(value, bool):
            return value
        parsed = texts.get(str(value).lower())
        if parsed is None:
            raise ValueError
        return parsed

    return Kind("1 or 0 (on or off, true or false, yes or no)", read)


def text(allowed: str) -> Kind[str]:
    """A text; `allowed` describes it."""

    def read(value: object) -> str:
        if not isinstance(value, str):
            raise ValueError
        return value

    return Kind(allowed, read)


def folder() -> Kind[str]:
    """A path; empty for none."""

    def read(value: object) -> str:
        if not isinstance(value, str | os.PathLike):
            raise ValueError
        path = os.fspath(cast("str | os.PathLike[str]", value))
        return os.path.expanduser(path) if path else path

    return Kind("a folder", read)


def _names(value: object) -> tuple[str, ...]:
    """Names in a tuple, or in a text that separates them by commas."""
    parts = value.split(",") if isinstance(value, str) else cast(tuple[str, ...], value)
    return tuple(part.strip() for part in parts if part.strip())


def mechanisms() -> Kind[tuple[str, ...]]:
    """Names of mechanisms of the compiler."""

    def read(value: object) -> tuple[str, ...]:
        names = set(_names(value))
        if not names <= set(MECHANISMS):
            raise ValueError
        return tuple(sorted(names))

    return Kind("names separated by commas, of " + ", ".join(MECHANISMS), read)


def topics() -> Kind[tuple[str, ...]]:
    """Names of log topics."""

    def read(value: object) -> tuple[str, ...]:
        names = _names(value)
        for name in names:
            if name not in LOG_TOPICS:
                allowed = "topics are " + ", ".join(LOG_TOPICS)
                raise error(
                    "T003", f"settings: {name} is not a log topic", hint=did_you_mean(name, LOG_TOPICS) or allowed
                )
        return names

    return Kind("topics separated by commas: " + ", ".join(LOG_TOPICS), read)
