"""Operator schemas: `name(Tensor a, int dim=-1, *, DType? dtype=None) -> Tensor`.

Types of operands: Tensor, Tensor?, Tensor[]. A Python number may stand for a Tensor.
Types of attributes: Size, Size[], Size?, StorageOffset?, Offset, int, int[], int?, float, float?, bool, str, str?,
DType, DType?, Device?, any, unbacked, unbacked[], unbacked_int.

A trace fixes an `int` to its value. A `Size` and an `Offset` may stay symbols. A user counts a `StorageOffset` from the
start of the storage; a rule receives its distance from the first operand's first element. `unbacked` and `unbacked[]`
are sizes of a result that depend on values; `unbacked_int` is the value of a result without dims.

`Tensor(a)` in an argument and in the result marks an alias (a view). `Tensor(a!)` marks an argument that is written to.
Results may be named: `-> (Tensor values, Tensor indices)`.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from rushlight.support.errors import fail
from rushlight.support.frozen import frozen

REQUIRED: Any = object()
_PARAMETER = re.compile(r"^(?P<type>\w+(?:\(\w+!?\))?(?:\[\])?\??)\s+(?P<name>\w+)(?:\s*=\s*(?P<default>.+))?$")
_SCHEMA = re.compile(r"^(?P<name>[\w:.]+)\((?P<parameters>.*)\)\s*->\s*(?P<returns>.+)$", re.DOTALL)


@frozen
class Parameter:
    """One parameter. `alias` names the storage it shares with a result; `written` says that it is mutated."""

    name: str
    type: str
    default: Any = REQUIRED
    keyword_only: bool = False
    alias: str | None = None
    written: bool = False

    @property
    def is_operand(self) -> bool:
        """Whether it is a tensor, an optional one or a list of them."""
        return self.type.startswith("Tensor")


@frozen
class Result:
    """One result: its name and the alias it carries."""

    name: str
    type: str
    alias: str | None = None


@frozen
class Schema:
    """A parsed schema; `text` is its source."""

    name: str
    parameters: tuple[Parameter, ...]
    results: tuple[Result, ...]
    text: str

    @property
    def operands(self) -> tuple[Parameter, ...]:
        """The tensor parameters, in order."""
        return tuple([parameter for parameter in self.parameters if parameter.is_operand])

    @property
    def attributes(self) -> tuple[Parameter, ...]:
        """The other parameters, in order."""
        return tuple([parameter for parameter in self.parameters if not parameter.is_operand])

    def bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Positional and keyword arguments as (operands, attributes), defaults filled in."""
        values: dict[str, Any] = {}
        parameters = self.parameters
        if len(args) > len(parameters):
            fail("A001", f"{self.name} takes {len(parameters)} arguments, {len(args)} given", hint=self.text)
        for parameter, value in zip(parameters, args, strict=False):
            if parameter.keyword_only:
                fail("A001", f"{self.name}: {parameter.name} must be given by name", hint=self.text)
            values[parameter.name] = value
        for name, value in kwargs.items():
            if name in values:
                fail("A001", f"{self.name}: {name} is given twice", hint=self.text)
            values[name] = value
        operands: list[Any] = []
        attrs: dict[str, Any] = {}
        for parameter in parameters:
            value = values.pop(parameter.name, parameter.default)
            if value is REQUIRED:
                fail("A001", f"{self.name}: {parameter.name} is missing", hint=self.text)
            if parameter.is_operand:
                operands.append(tuple(value) if isinstance(value, list) else value)
            else:
                attrs[parameter.name] = _as_attribute(parameter.type, value)
        if values:
            fail("A001", f"{self.name} has no parameter {next(iter(values))}", hint=self.text)
        return tuple(operands), attrs


_PLAIN = frozenset((bool, int, float, complex, str, type(None)))


def _as_attribute(type_: str, value: object) -> Any:
    if value.__class__ in _PLAIN:
        return (value,) if type_.endswith("[]") else value
    # By its elements, since a subclass of list may tell another length.
    if isinstance(value, (list, tuple)):
        return tuple(iter(value)) if _PLAIN.issuperset(map(type, value)) else tuple(map(_python_number, value))
    value = _python_number(value)
    return (value,) if type_.endswith("[]") else value


def _python_number(value: object) -> Any:
    """A number of numpy's as Python's: an attribute is compared, printed and computed with as one of these."""
    if isinstance(value, np.generic):
        return value.item()
    return tuple([_python_number(element) for element in value]) if isinstance(value, tuple) else value


def _alias(text: str) -> tuple[str, str | None, bool]:
    match = re.match(r"^(\w+)\((\w+)(!?)\)(.*)$", text)
    if match is None:
        return text, None, False
    return match[1] + match[4], match[2], match[3] == "!"


def _split(text: str) -> list[str]:
    parts: list[str] = []
    depth, start = 0, 0
    for position, mark in enumerate(text):
        depth += (mark in "([") - (mark in ")]")
        if mark == "," and depth == 0:
            parts.append(text[start:position].strip())
            start = position + 1
    last = text[start:].strip()
    return [*parts, last] if last else parts


def parse_schema(text: str) -> Schema:
    """The schema written in `text`; ValueError when it is malformed."""
    match = _SCHEMA.match(text.strip())
    if match is None:
        raise ValueError(f"malformed schema: {text!r}")
    parameters: list[Parameter] = []
    keyword_only = False
    for part in _split(match["parameters"]):
        if part == "*":
            keyword_only = True
            continue
        piece = _PARAMETER.match(part)
        if piece is None:
            raise ValueError(f"malformed parameter {part!r} in schema {text!r}")
        type_, alias, written = _alias(piece["type"])
        default = REQUIRED if piece["default"] is None else ast.literal_eval(piece["default"])
        parameters.append(Parameter(sys.intern(piece["name"]), type_, default, keyword_only, alias, written))
    returns = match["returns"].strip()
    inner = _split(returns[1:-1]) if returns.startswith("(") else [returns]
    results: list[Result] = []
    for position, part in enumerate(inner):
        words = part.split()
        type_, alias, _ = _alias(words[0])
        name = words[1] if len(words) > 1 else ("out" if len(inner) == 1 else f"out{position}")
        results.append(Result(name, type_, alias))
    return Schema(match["name"], tuple(parameters), tuple(results), text.strip())


class Signature(NamedTuple):
    """The names in a schema: of the operator, its parameters and its results."""

    name: str
    parameters: tuple[str, ...]
    results: tuple[str, ...]


_DEFAULT = re.compile(r"""=\s*(?:\([^()]*\)|\[[^\[\]]*\]|'[^']*'|"[^"]*"|[^,()]*)""")


def name_of(text: str) -> str:
    """The operator's name in a schema."""
    return text.partition("(")[0].strip()


def signature_of(text: str) -> Signature:
    """The names in a schema, read without parsing it: enough to check rules when they are attached."""
    before, _, after = text.partition("->")
    name, _, inside = before.partition("(")
    pieces = [piece.split() for piece in _DEFAULT.sub("", inside[: inside.rindex(")")]).split(",")]
    results = [part.split() for part in after.strip().strip("()").split(",")]
    names = [
        words[1] if len(words) > 1 else ("out" if len(results) == 1 else f"out{n}") for n, words in enumerate(results)
    ]
    return Signature(name.strip(), tuple([words[-1] for words in pieces if words and words != ["*"]]), tuple(names))
