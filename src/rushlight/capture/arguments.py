"""The arguments of a call: their leaves, how a generated function takes them apart, and the names in it."""

from __future__ import annotations

from collections.abc import Sized
from typing import Any

from rushlight.capture.guard import Guard
from rushlight.support.errors import error


class Names:
    """Names in a generated function for the objects that it mentions; `space` are those that there are."""

    def __init__(self, space: dict[str, object] | None = None) -> None:
        self.space: dict[str, Any] = {} if space is None else space
        self._names = {id(value): name for name, value in self.space.items() if name[0] == "v" and name[1:].isdigit()}

    def __call__(self, value: object) -> str:
        """The object's name; the same object has one."""
        name = self._names.get(id(value))
        if name is None:
            name = self._names[id(value)] = f"v{len(self._names)}"
            self.space[name] = value
        return name


class Arguments:
    """Unpacks nested arguments: lines of code that give each leaf a name, and the leaves' values."""

    def __init__(self, args: tuple[object, ...], kwargs: dict[str, object], names: Names) -> None:
        self.args = args
        self.kwargs = kwargs
        self.names = names
        self.lines: list[str] = []
        self.unpack: list[str] = []
        self.guards: list[Guard] = []
        self.leaves: list[tuple[str, Any]] = []
        try:
            self._open(args, "args")
            self._open(kwargs, "kwargs")
        except RecursionError as cause:
            raise error("A005", "an argument is nested too deeply, or contains itself") from cause

    def _open(self, value: Any, text: str) -> None:
        if type(value) in (tuple, list):
            self._guard("arguments", text, f"{type(value).__name__} of {len(value)}", self._shape_test(value, text))
            parts = [(f"{text}[{index}]", element) for index, element in enumerate(value)]
        elif type(value) is dict:
            test = self._shape_test(value, text)
            keys = [repr(key) if type(key) in (int, str) else self.names(key) for key in value]
            failed = f"{test} or list({text}) != [{', '.join(keys)}]" if value else test
            self._guard("arguments", text, f"dict with {list(value)}", failed)
            parts = [(f"{text}[{key}]", element) for key, element in zip(keys, value.values(), strict=True)]
        else:
            name = f"a{len(self.leaves)}"
            self.lines.append(f"{name} = {text}")
            self.unpack.append(f"{name} = {text}")
            self.leaves.append((name, value))
            return
        for part, entry in parts:
            self._open(entry, part)

    def _shape_test(self, value: Sized, text: str) -> str:
        return f"{text}.__class__ is not {self.names(type(value))} or len({text}) != {len(value)}"

    def _guard(self, kind: str, path: str, expected: str, failed: str) -> None:
        self.lines.append(f"if {failed}: return MISS")
        self.guards.append(Guard(kind, path, expected, failed))
