"""The text of specifications.

    specification = [argument {"," argument}] ["where" fact {("," | "and") fact}]
    argument      = [name "="] item
    item          = tensor | "int" [name] | "float" | constant
                  | "(" [item {"," item}] ")" | "[" [item {"," item}] "]" | "{" [key ":" item {"," key ":" item}] "}"
    tensor        = dtype "[" [dim {"," dim}] "]" ["strides any"]
    dim           = "_" | expression
    fact          = expression relation expression {relation expression} | "hint" name "=" integer
    relation      = "<" | "<=" | ">" | ">=" | "==" | "!="
    constant      = "None" | "True" | "False" | number | quoted text
    key           = name | quoted text | integer

Expressions are made of integers, names, `+ - * // %`, `min(...)`, `max(...)` and parentheses. A dtype has its short or
its long name: `f32`, `float32`. A tuple of one is written `(f32[B],)`, as in Python.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from rushlight.ir.dtype import BY_NAME, SHORT_NAMES, DType
from rushlight.ir.spec.size import RESERVED, Assumption, ShapeExpr, ShapeVar, expression, symbol_named
from rushlight.support.errors import RushlightError, error
from rushlight.sym import Condition, Size, eq, ge, gt, le, lt, ne, parse_size

DTYPES: Mapping[str, DType] = {**BY_NAME, **{short: dtype for dtype, short in SHORT_NAMES.items()}}

_RELATIONS: dict[str, Callable[[Size, Size], bool | Condition]] = {
    "<=": le,
    ">=": ge,
    "==": eq,
    "!=": ne,
    "<": lt,
    ">": gt,
}
_SPACE = re.compile(r"\s*")
_NAME = re.compile(r"[A-Za-z_]\w*")
_NUMBER = re.compile(r"-?\d+(\.\d*)?([eE][-+]?\d+)?")
_INTEGER = re.compile(r"-?\d+")
_ESCAPE = r"\\(?:[\\'\"nrt]|x[0-9a-f]{2}|u[0-9a-f]{4}|U[0-9a-f]{8})"
_QUOTED = re.compile(rf"'(?:[^'\\]|{_ESCAPE})*'|\"(?:[^\"\\]|{_ESCAPE})*\"")
_RELATION = re.compile(r"<=|>=|==|!=|<|>")
_ASSIGNED = re.compile(r"([A-Za-z_]\w*)\s*=(?!=)")
_END_OF_EXPRESSION = re.compile(r"[,\[\]{}:<>=!]|\band\b|\bwhere\b")
_WORDS: dict[str, object] = {"None": None, "True": True, "False": False}
_DEEPEST = 32


class Makers(NamedTuple):
    """What the parts of a text become."""

    tensor: Callable[[DType, tuple[int | ShapeExpr | None, ...], str], Any]
    integer: Callable[[ShapeVar | None], object]
    number: Callable[[], object]
    constant: Callable[[object], object]


class SpecText(NamedTuple):
    """A text taken apart."""

    args: tuple[object, ...]
    kwargs: dict[str, object]
    assumptions: tuple[Assumption, ...]


class SpecReader:
    """Reads one text from the left; errors are C017 and name the column."""

    def __init__(self, text: str, makers: Makers) -> None:
        self.text = text
        self.makers = makers
        self.position = 0
        self.depth = 0
        self._skip()

    def specification(self) -> SpecText:
        """Arguments and facts, to the end of the text."""
        args: list[object] = []
        kwargs: dict[str, object] = {}
        while not self._at_end() and not self._at_word("where"):
            if args or kwargs:
                self._expect(",")
            assigned = _ASSIGNED.match(self.text, self.position)
            if assigned is None:
                self._refuse(bool(kwargs), "an argument without name follows one with a name")
                args.append(self.item())
                continue
            self._refuse(assigned[1] in kwargs, f"a second argument {assigned[1]}")
            self._move(assigned.end())
            kwargs[assigned[1]] = self.item()
        assumptions = self.facts() if self._took_word("where") else []
        self.finish()
        return SpecText(tuple(args), kwargs, tuple(assumptions))

    def facts(self) -> list[Assumption]:
        """Facts separated by commas or `and`."""
        facts = self._fact()
        while self._took(",") or self._took_word("and"):
            facts.extend(self._fact())
        return facts

    def item(self) -> object:
        """One argument, or a part of one."""
        self.depth += 1
        self._refuse(self.depth > _DEEPEST, "arguments are nested too deeply")
        try:
            for opening, read in (("(", self._tuple), ("[", self._list), ("{", self._dict)):
                if self._took(opening):
                    return read()
            return self._leaf()
        finally:
            self.depth -= 1

    def tensor(self) -> Any:
        """A tensor alone, to the end of the text."""
        type_ = self._tensor(self._name("a dtype"))
        self.finish()
        return type_

    def finish(self) -> None:
        """C017 unless all of the text was read."""
        self._refuse(not self._at_end(), "unexpected text")

    def _leaf(self) -> object:
        match = _QUOTED.match(self.text, self.position) or _NUMBER.match(self.text, self.position)
        if match is not None:
            self._move(match.end())
            return self.makers.constant(_literal(match[0]))
        name = self._name("an argument")
        if name in _WORDS:
            return self.makers.constant(_WORDS[name])
        if name == "float":
            return self.makers.number()
        if name != "int":
            return self._tensor(name)
        match = _NAME.match(self.text, self.position)
        named = match is not None and match[0] not in ("where", "and")
        return self.makers.integer(self._variable() if named else None)

    def _tensor(self, name: str) -> Any:
        if name not in DTYPES or not self.text.startswith("[", self.position):
            raise self._error(f"{name} is no dtype followed by [sizes]", self.position - len(name))
        self._expect("[")
        dims: list[int | ShapeExpr | None] = []
        while not self._took("]"):
            if dims:
                self._expect(",")
            dims.append(None if self._took_word("_") else self._expression())
        strides = "contiguous"
        if self._took_word("strides"):
            strides = self._name("a kind of strides")
            self._refuse(strides not in ("any", "contiguous"), f"strides are any or contiguous, not {strides}")
        return self.makers.tensor(DTYPES[name], tuple(dims), strides)

    def _tuple(self) -> object:
        items: list[object] = []
        comma = True
        while not self._took(")"):
            self._refuse(not comma, "a comma is missing")
            items.append(self.item())
            comma = self._took(",")
        return items[0] if len(items) == 1 and not comma else tuple(items)

    def _list(self) -> list[object]:
        items: list[object] = []
        while not self._took("]"):
            if items:
                self._expect(",")
            items.append(self.item())
        return items

    def _dict(self) -> dict[object, object]:
        items: dict[object, object] = {}
        while not self._took("}"):
            if items:
                self._expect(",")
            key = self._key()
            self._refuse(key in items, f"a second entry {key}")
            self._expect(":")
            items[key] = self.item()
        return items

    def _key(self) -> object:
        match = _QUOTED.match(self.text, self.position) or _INTEGER.match(self.text, self.position)
        if match is None:
            return self._name("a key")
        self._move(match.end())
        return _literal(match[0])

    def _fact(self) -> list[Assumption]:
        if self._took_word("hint"):
            name = self._variable().name
            self._expect("=")
            match = _INTEGER.match(self.text, self.position)
            if match is None:
                raise self._error("an integer is missing")
            self._move(match.end())
            return [Assumption(True, [ShapeVar(name, min=None, hint=int(match[0]))])]
        left = self._expression()
        facts: list[Assumption] = []
        while (match := _RELATION.match(self.text, self.position)) is not None:
            self._move(match.end())
            right = self._expression()
            sizes = [side.size if isinstance(side, ShapeExpr) else side for side in (left, right)]
            variables = [*_variables_of(left), *_variables_of(right)]
            facts.append(Assumption(_RELATIONS[match[0]](*sizes), variables))
            left = right
        self._refuse(not facts, "a relation is missing: < <= > >= == or !=")
        return facts

    def _expression(self) -> int | ShapeExpr:
        start, end = self.position, self._end_of_expression()
        piece = self.text[start:end]
        names = [name for name in dict.fromkeys(_NAME.findall(piece)) if name not in ("min", "max")]
        for name in names:
            self._refuse(name in RESERVED, f"{name} cannot be the name of a variable")
        try:
            size = parse_size(piece, {name: symbol_named(name) for name in names})
            result = expression(size, [ShapeVar(name, min=None) for name in names])
        except ZeroDivisionError as cause:
            raise self._error("a division by 0", start) from cause
        except RushlightError as cause:
            message = re.sub(r" at column \d+$", "", cause.message.partition(": ")[2])
            raise self._error(message, start) from cause
        self._move(end)
        return result

    def _end_of_expression(self) -> int:
        depth, position = 0, self.position
        while position < len(self.text):
            letter = self.text[position]
            if letter == ")" and not depth:
                break
            depth += (letter == "(") - (letter == ")")
            if not (depth and letter == ",") and _END_OF_EXPRESSION.match(self.text, position):
                break
            match = _NAME.match(self.text, position)
            position = position + 1 if match is None else match.end()
        return position

    def _variable(self) -> ShapeVar:
        start = self.position
        name = self._name("a variable")
        if name in RESERVED:
            raise self._error(f"{name} cannot be the name of a variable", start)
        return ShapeVar(name, min=None)

    def _name(self, wanted: str) -> str:
        match = _NAME.match(self.text, self.position)
        if match is None:
            raise self._error(f"{wanted} is missing")
        self._move(match.end())
        return match[0]

    def _at_end(self) -> bool:
        return self.position >= len(self.text)

    def _at_word(self, word: str) -> bool:
        match = _NAME.match(self.text, self.position)
        return match is not None and match[0] == word

    def _took_word(self, word: str) -> bool:
        if not self._at_word(word):
            return False
        self._move(self.position + len(word))
        return True

    def _took(self, mark: str) -> bool:
        if not self.text.startswith(mark, self.position):
            return False
        self._move(self.position + len(mark))
        return True

    def _expect(self, mark: str) -> None:
        self._refuse(not self._took(mark), f"{mark!r} is missing")

    def _move(self, position: int) -> None:
        self.position = position
        self._skip()

    def _skip(self) -> None:
        match = _SPACE.match(self.text, self.position)
        self.position = self.position if match is None else match.end()

    def _refuse(self, wrong: bool, message: str) -> None:
        if wrong:
            raise self._error(message)

    def _error(self, message: str, position: int | None = None) -> RushlightError:
        column = (self.position if position is None else position) + 1
        return error("C017", f"spec: {message} at column {column}", text=self.text)


def _literal(text: str) -> object:
    if text[0] in "'\"":
        return ast.literal_eval(text)
    return float(text) if set(text) & set(".eE") else int(text)


def _variables_of(value: int | ShapeExpr) -> tuple[ShapeVar, ...]:
    return value.variables if isinstance(value, ShapeExpr) else ()
