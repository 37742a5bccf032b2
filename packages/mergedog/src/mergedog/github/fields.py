"""Typed entries of JSON answers; what is missing or of another type is `Malformed`."""

from datetime import datetime
from typing import cast

from mergedog.errors import Malformed
from mergedog.secrets import scrub
from mergedog.untrusted import Untrusted

Table = dict[str, object]


def table(value: object, *path: str) -> Table:
    """Return the JSON object at a path of keys."""
    for key in path:
        value = table(value).get(key)
    if not isinstance(value, dict):
        raise Malformed(f"the forge's answer has no object {'.'.join(path)}")
    return cast("Table", value)


def rows(value: object, what: str) -> list[Table]:
    """Return a JSON list of objects."""
    if not isinstance(value, list):
        raise Malformed(f"the forge's answer has no list of {what}")
    return [table(row) for row in cast("list[object]", value)]


def text(row: Table, key: str) -> str:
    """Return a text."""
    value = row.get(key)
    if not isinstance(value, str):
        raise Malformed(f"the forge's answer has no text {key}")
    return value


def untrusted(row: Table, key: str, source: str) -> Untrusted:
    """Return a text of outsiders, without secrets; no text is an empty one."""
    return Untrusted("" if row.get(key) is None else scrub(text(row, key)), source)


def number(row: Table, key: str) -> int:
    """Return an integer that is not negative."""
    value = row.get(key)
    if type(value) is not int or value < 0:
        raise Malformed(f"the forge's answer has no number {key}")
    return value


def flag(row: Table, key: str) -> bool:
    """Return a truth value."""
    value = row.get(key)
    if not isinstance(value, bool):
        raise Malformed(f"the forge's answer has no truth value {key}")
    return value


def moment(row: Table, key: str) -> float:
    """Return a time, 0 if it is null."""
    if row.get(key) is None:
        return 0.0
    try:
        stamp = datetime.fromisoformat(text(row, key).replace("Z", "+00:00"))
    except ValueError:
        stamp = None
    if stamp is None or stamp.tzinfo is None:
        raise Malformed(f"the forge's answer has no time {key}")
    return stamp.timestamp()
