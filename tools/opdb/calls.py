"""Calls as data: arguments that need neither PyTorch nor Rushlight, and the statement that makes the call."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from tools.fuzz.program import Input, Program


@dataclass(frozen=True)
class Name:
    """A constant of the namespace, such as `float32`; if `called`, what the class of that name makes of `fields`."""

    text: str
    called: bool = False
    fields: tuple[tuple[str, object], ...] = ()

    def __repr__(self) -> str:
        given = ", ".join([f"{name}={value!r}" for name, value in self.fields])
        return f"torch.{self.text}" + (f"({given})" if self.called else "")

    def of(self, module: Any) -> Any:
        """What it stands for in PyTorch or in Rushlight."""
        found = attrgetter(self.text)(module)
        return found(**dict(self.fields)) if self.called else found


@dataclass(frozen=True)
class Call:
    """Arguments of one call; leaves are Inputs, Names and plain values."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    @property
    def inputs(self) -> tuple[Input, ...]:
        """The tensors in order."""
        return tuple([leaf for leaf in leaves([self.args, self.kwargs]) if isinstance(leaf, Input)])

    def program(self, name: str, number: int = 0) -> Program:
        """The program of this call alone; `name` is a path such as `nn.functional.linear`, or `.add_` of a method."""
        count = len(self.inputs)
        return Program(0, number, self.inputs, (f"v{count} = {self.text(name)}",), (f"v{count}",))

    def text(self, name: str) -> str:
        """The call in PyTorch's words, of tensors `v0`, `v1`, ..."""
        numbers = iter(range(len(self.inputs)))
        args, kwargs = mapped(
            [self.args, self.kwargs], lambda leaf: _Text(f"v{next(numbers)}" if isinstance(leaf, Input) else leaf)
        )
        parts = [*map(repr, args), *(f"{key}={value!r}" for key, value in kwargs.items())]
        if name.startswith("."):
            return f"{parts[0]}{name}({', '.join(parts[1:])})"
        head = re.sub(r"^torch\.nn\.functional\.", "F.", f"torch.{name}")
        return f"{head}({', '.join(parts)})"

    def __str__(self) -> str:
        shapes = [f"v{number}: {described(given)}" for number, given in enumerate(self.inputs)]
        return f"{self.text('f').removeprefix('torch.f')} of {', '.join(shapes)}"


class _Text:
    """A leaf whose representation is Python's text for it."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __repr__(self) -> str:
        text = self.value if isinstance(self.value, str) and re.fullmatch(r"v\d+", self.value) else repr(self.value)
        return re.sub(r"(?<![\w.'\"])(nan|inf)\b(?!j)", r'float("\1")', text)


def described(given: Input) -> str:
    """A short text of a tensor."""
    return f"{given.dtype}{list(given.shape)} strides {list(given.strides)}"


def mapped(value: Any, change: Callable[[Any], Any]) -> Any:
    """`value` with every leaf changed; lists and tuples keep their type."""
    if isinstance(value, (list, tuple)):
        parts = [mapped(part, change) for part in value]
        return tuple(parts) if isinstance(value, tuple) else parts
    if isinstance(value, dict):
        return {name: mapped(part, change) for name, part in value.items()}
    return change(value)


def leaves(value: Any) -> Iterator[Any]:
    """Every leaf in order."""
    if isinstance(value, (list, tuple)):
        for part in value:
            yield from leaves(part)
    elif isinstance(value, dict):
        for part in value.values():
            yield from leaves(part)
    else:
        yield value
