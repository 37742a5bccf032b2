"""Values that cross the border of the harness, as JSON and back: records, paths, untrusted text, errors."""

import dataclasses
from enum import Enum
from pathlib import Path
from typing import cast

from mergedog import errors, records
from mergedog.agent import Ending, How
from mergedog.errors import MergedogError, RateLimited, StateError
from mergedog.untrusted import Untrusted, reveal

RECORDS: dict[str, type] = {
    kind.__name__: kind
    for kind in (
        *(records.Pull, records.Review, records.Comment, records.Run, records.Job, records.Patch),
        *(records.Change, records.Work, records.Judgement, Ending, How),
    )
}
ERRORS: dict[str, type[MergedogError]] = {
    kind.__name__: kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, MergedogError)
}


def encode(value: object) -> object:
    """Return a value as JSON; what is no plain value is an object with a kind."""
    match value:
        case None | bool() | int() | float() | str():
            return value
        case Untrusted():
            return {"kind": "Untrusted", "text": reveal(value, "written to a tape"), "source": value.source}
        case Path():
            return {"kind": "Path", "text": str(value)}
        case Enum():
            return {"kind": type(value).__name__, "value": value.value}
        case tuple() | list():
            return [encode(item) for item in cast("tuple[object, ...]", value)]
        case RateLimited():
            return {"kind": "RateLimited", "until": value.until}
        case MergedogError():
            return {"kind": type(value).__name__, "text": str(value)}
        case _ if dataclasses.is_dataclass(value):
            names = [item.name for item in dataclasses.fields(value)]
            return {"kind": type(value).__name__, "fields": {name: encode(getattr(value, name)) for name in names}}
        case _:
            raise StateError(f"a {type(value).__name__} cannot be recorded")


def decode(value: object) -> object:
    """Return the value of its JSON; lists are tuples, as in records."""
    if isinstance(value, list):
        return tuple(decode(item) for item in cast("list[object]", value))
    if not isinstance(value, dict):
        return value
    table = cast("dict[str, object]", value)
    kind = str(table.get("kind"))
    if kind == "Untrusted":
        return Untrusted(str(table["text"]), str(table["source"]))
    if kind == "Path":
        return Path(str(table["text"]))
    if kind == "RateLimited":
        return RateLimited(float(cast("float", table["until"])))
    if kind in ERRORS:
        return ERRORS[kind](str(table["text"]))
    if kind not in RECORDS:
        raise StateError(f"the record has a value of kind {kind}, which this version does not know")
    if "value" in table:
        return RECORDS[kind](table["value"])
    fields = cast("dict[str, object]", table["fields"])
    return RECORDS[kind](**{name: decode(item) for name, item in fields.items()})
