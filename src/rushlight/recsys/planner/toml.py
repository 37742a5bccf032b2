"""Reading and writing TOML: values with their place in the text, and errors that name it."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import NoReturn, TypeVar

from rushlight.support.errors import fail

Value = TypeVar("Value")
Member = TypeVar("Member", bound=Enum)

Default = TypeVar("Default")


class _Missing:
    """Stands for no default: the value has to be there."""


_MISSING = _Missing()


class Section:
    """A table of a TOML text. Each value is asked for once by name and kind; what nobody asked for is an error."""

    def __init__(self, values: Mapping[str, object], where: str) -> None:
        self._values = dict(values)
        self._asked: set[str] = set()
        self.where = where

    def take(
        self, name: str, kind: Callable[[object], Value | None], what: str, default: Default | _Missing = _MISSING
    ) -> Value | Default:
        """Return a value that `kind` accepts, by giving it back as something else than None."""
        self._asked.add(name)
        if name not in self._values:
            if isinstance(default, _Missing):
                self.refuse(f"{name} is missing", what)
            return default
        value = kind(self._values[name])
        if value is None:
            self.refuse(f"{name} is not {what}", what, self._values[name])
        return value

    def integer(self, name: str, least: int = 0, default: Default | _Missing = _MISSING) -> int | Default:
        """Return an integer that is at least so great."""
        return self.take(name, lambda value: _integer(value, least), f"an integer of at least {least}", default)

    def number(self, name: str, default: Default | _Missing = _MISSING) -> float | Default:
        """Return a number that is not negative."""
        return self.take(name, _number, "a number that is not negative", default)

    def text(self, name: str, default: Default | _Missing = _MISSING) -> str | Default:
        """Return a string."""
        return self.take(name, lambda value: value if isinstance(value, str) else None, "a string", default)

    def flag(self, name: str, default: Default | _Missing = _MISSING) -> bool | Default:
        """Return true or false."""
        return self.take(name, lambda value: value if isinstance(value, bool) else None, "true or false", default)

    def numbers(self, name: str, default: Default | _Missing = _MISSING) -> tuple[float, ...] | Default:
        """Return a list of numbers that are not negative."""
        return self.take(name, lambda value: _each(value, _number), "a list of numbers, none negative", default)

    def integers(self, name: str, default: Default | _Missing = _MISSING) -> tuple[int, ...] | Default:
        """Return a list of integers, or one as a list."""
        return self.take(
            name,
            lambda value: _each([value] if isinstance(value, int) else value, lambda each: _integer(each, 0)),
            "an integer of at least 0, or a list of them",
            default,
        )

    def texts(self, name: str, default: Default | _Missing = _MISSING) -> tuple[str, ...] | Default:
        """Return a list of strings."""
        return self.take(
            name,
            lambda value: _each(value, lambda each: each if isinstance(each, str) else None),
            "a list of strings",
            default,
        )

    def member(self, name: str, kind: type[Member], default: Default | _Missing = _MISSING) -> Member | Default:
        """Return a member of an enum, by its value."""
        known = {str(member.value): member for member in kind}
        return self.take(name, lambda value: known.get(str(value)), f"one of {', '.join(known)}", default)

    def sections(self, name: str) -> list[Section]:
        """Return the tables of an array of tables."""
        given = self.take(name, lambda value: value if isinstance(value, list) else None, "an array of tables", [])
        found: list[Section] = []
        for position, each in enumerate(given):
            named = each.get("name") if isinstance(each, dict) else None
            where = f"{name} {named!r}" if isinstance(named, str) else f"{name} {position + 1}"
            if not isinstance(each, dict):
                self.refuse(f"{where} is no table", f"[[{name}]]")
            found.append(Section(each, where))
        return found

    def section(self, name: str) -> Section:
        """Return a table within this one; an empty one if there is none."""
        empty: dict[str, object] = {}
        given = self.take(name, lambda value: value if isinstance(value, dict) else None, f"a table [{name}]", empty)
        return Section(given, name if self.where == "the text" else f"{self.where}.{name}")

    def has(self, name: str) -> bool:
        """Whether there is such a value."""
        return name in self._values

    def end(self) -> None:
        """Refuse values that nobody asked for: a name that is misspelt would be without effect."""
        unknown = sorted(set(self._values) - self._asked)
        if unknown:
            self.refuse(f"there is nothing named {unknown[0]}", f"one of {', '.join(sorted(self._asked))}")

    def refuse(self, why: str, wanted: str, given: object = _MISSING) -> NoReturn:
        """Raise the error of a text that says something else than is wanted."""
        hint = f"expected: {wanted}"
        if isinstance(given, _Missing):
            fail("E023", f"{self.where}: {why}", hint=hint)
        fail("E023", f"{self.where}: {why}", hint=hint, given=given)


def _integer(value: object, least: int) -> int | None:
    whole = isinstance(value, int) and not isinstance(value, bool) and value >= least
    return value if whole and isinstance(value, int) else None


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < float("inf"):
        return None
    return float(value)


def _each(value: object, kind: Callable[[object], Value | None]) -> tuple[Value, ...] | None:
    if not isinstance(value, list) or not value:
        return None
    found = [kind(each) for each in value]
    return None if any(each is None for each in found) else tuple([each for each in found if each is not None])


def read(text: str, what: str) -> Section:
    """Return the values of a TOML text; what TOML itself refuses is an error with line and column."""
    try:
        values = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as problem:
        fail("E023", f"{what} is no TOML: {problem}", hint="`rushlight emb plan` writes plans; docs/recsys-planner.md")
    return Section(values, "the text")


def assignment(name: str, value: object) -> str:
    """Return a line `name = value`."""
    return f"{name} = {shown(value)}"


def shown(value: object) -> str:
    """Return a value as TOML."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Enum):
        return shown(value.value)
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, Sequence):
        return f"[{', '.join([shown(each) for each in value])}]"
    return repr(value)
