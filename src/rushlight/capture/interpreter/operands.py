"""Builtins that call methods of their operands: those that are written in Python are interpreted."""

from __future__ import annotations

import io
import operator
from collections.abc import Callable
from typing import Any

from rushlight.capture.interpreter import slots
from rushlight.capture.interpreter.frame import Evaluator
from rushlight.capture.interpreter.hooks import MISSING
from rushlight.capture.interpreter.library import Rule
from rushlight.capture.interpreter.slots import Native

_OF_PRINT = frozenset({"sep", "end", "file", "flush"})
_NOWHERE = io.StringIO()  # of which nobody reads
_PRINT: Native = print


def _print(interpreter: Evaluator, *values: object, **kwargs: Any) -> object:
    """`print`, which calls `write` of a file that it is given."""
    file = kwargs.get("file")
    if not kwargs.keys() <= _OF_PRINT:
        return _PRINT(*values, **kwargs)  # which is an error
    if file is None:
        return interpreter.native(print, values, kwargs)
    separator, end, flush = kwargs.get("sep"), kwargs.get("end"), kwargs.get("flush", False)
    print(sep=separator, end=end, file=_NOWHERE)  # an error for what is no text

    def called(name: str, *args: object) -> None:
        interpreter.call(slots.attribute_of(interpreter, interpreter.owner(file, name), name), args)

    for at, value in enumerate(values):
        if at:
            called("write", " " if separator is None else separator)
        called("write", interpreter.call(str, (value,)))
    called("write", "\n" if end is None else end)
    if slots.truth(interpreter, flush):
        called("flush")
    return None


def _sum(interpreter: Evaluator, source: object, start: object = 0) -> object:
    """`sum`: C adds numbers, from the first value on that is added in Python all are."""
    plain: list[object] = []
    iterator = slots.iterator_of(interpreter, source)
    while (value := slots.next_of(interpreter, iterator)) is not slots.STOPPED:
        if not isinstance(start, (str, bytes, bytearray)) and _is_added_in_python(interpreter, value):
            break
        plain.append(value)
    total = interpreter.native(sum, (plain, start), {})
    while value is not slots.STOPPED:
        total = slots.binary(interpreter, "add", operator.add, total, value)
        value = slots.next_of(interpreter, iterator)
    return total


def _is_added_in_python(interpreter: Evaluator, value: object) -> bool:
    return any(slots.python_method(interpreter, type(value), name) for name in ("__add__", "__radd__"))


def _int(interpreter: Evaluator, value: object) -> object:
    return _number(interpreter, int, value, ("__int__", "__index__"))


def _float(interpreter: Evaluator, value: object) -> object:
    return _number(interpreter, float, value, ("__float__", "__index__"))


def _number(interpreter: Evaluator, kind: Callable[[Any], object], value: object, names: tuple[str, ...]) -> object:
    """A number of a class of C, as the first of these methods gives it that the class of a value has."""
    cls = type(value)
    name = next((name for name in names if slots.lookup(cls, name) is not MISSING), names[0])
    method = slots.python_method(interpreter, cls, name)
    if method is None:
        return interpreter.native(kind, (value,), {})
    return kind(type(cls.__name__, (), {name: lambda self: interpreter.call(method, (value,))})())


def _from_keys(interpreter: Evaluator, cls: Any, keys: object, value: object = None) -> object:
    """`dict.fromkeys`, which calls the class, and puts each key as its methods do."""
    if not cls.__flags__ & slots.HEAP_TYPE:
        return interpreter.native(cls.fromkeys, (keys, value), {})
    made = interpreter.call(cls, ())
    iterator = slots.iterator_of(interpreter, keys)
    while (key := slots.next_of(interpreter, iterator)) is not slots.STOPPED:
        slots.store_item(interpreter, made, key, value)
    return made


RULES: dict[object, Rule] = {
    print: Rule(_print, 0, None),
    sum: Rule(_sum, 1, 2),
    int: Rule(_int, 1, 1),
    float: Rule(_float, 1, 1),
    vars(dict)["fromkeys"]: Rule(_from_keys, 2, 3),
}
"""The rules, by builtin function or class."""
