"""The contents of a store, and what is done with them. An operation that has to wait gives `WAITS`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from rushlight.support.errors import error

WAITS: Final = "waits"


@dataclass
class Table:
    """Values and queues by their keys."""

    values: dict[str, bytes] = field(default_factory=dict)
    queues: dict[str, list[bytes]] = field(default_factory=dict)

    def has(self, key: str) -> bool:
        """Whether there is a value, or a queue that is not empty."""
        return key in self.values or bool(self.queues.get(key))


def _set(table: Table, key: str, value: bytes) -> None:
    table.values[key] = value


def _append(table: Table, key: str, value: bytes) -> None:
    table.values[key] = table.values.get(key, b"") + value


def _get(table: Table, *keys: str) -> list[bytes] | str:
    return [table.values[key] for key in keys] if all(key in table.values for key in keys) else WAITS


def _wait(table: Table, *keys: str) -> str | None:
    return None if all(table.has(key) for key in keys) else WAITS


def _check(table: Table, *keys: str) -> bool:
    return all(table.has(key) for key in keys)


def _add(table: Table, key: str, amount: int) -> int:
    before = table.values.get(key, b"0")
    try:
        total = int(before) + amount
    except ValueError as cause:
        raise error("A002", f"add: {key} has a value that is no number", value=before[:50]) from cause
    table.values[key] = str(total).encode()
    return total


def _compare_set(table: Table, key: str, expected: bytes, desired: bytes) -> bytes:
    """The value afterwards; what was expected where there is none."""
    before = table.values.get(key)
    if before == expected or (before is None and not expected):
        table.values[key] = desired
    return table.values.get(key, expected)


def _delete(table: Table, key: str) -> bool:
    return table.values.pop(key, None) is not None


def _keys(table: Table) -> list[str]:
    return [*table.values, *[key for key, queue in table.queues.items() if queue]]


def _push(table: Table, key: str, value: bytes) -> None:
    table.queues.setdefault(key, []).append(value)


def _pop(table: Table, key: str) -> bytes | str:
    return table.queues[key].pop(0) if table.queues.get(key) else WAITS


def _length(table: Table, key: str) -> int:
    return len(table.queues.get(key, ()))


OPERATIONS: Mapping[str, Callable[..., object]] = {
    "set": _set,
    "append": _append,
    "get": _get,
    "wait": _wait,
    "check": _check,
    "add": _add,
    "compare_set": _compare_set,
    "delete": _delete,
    "keys": _keys,
    "push": _push,
    "pop": _pop,
    "length": _length,
}
READERS = frozenset({"get", "wait", "check", "keys", "length"})


def to_json(value: object) -> object:
    """Return an argument or result as JSON has it: bytes as a dict of text."""
    if isinstance(value, bytes):
        return {"bytes": value.decode("latin-1")}
    return [to_json(one) for one in value] if isinstance(value, Sequence) and not isinstance(value, str) else value


def from_json(value: object) -> object:
    """Return what `to_json` was given."""
    if isinstance(value, dict):
        return str(value["bytes"]).encode("latin-1")
    return [from_json(one) for one in value] if isinstance(value, list) else value
