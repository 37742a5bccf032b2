"""Builds and takes apart tuples, lists, sets, dicts and strings."""

from __future__ import annotations

from typing import Any

from rushlight.capture.code.instructions import NULL_FIRST
from rushlight.capture.interpreter.frame import Frame
from rushlight.capture.interpreter.loop import Interpreter
from rushlight.capture.interpreter.operations import operation
from rushlight.capture.interpreter.slots import (
    STOPPED,
    is_iterable,
    iterator_of,
    listed,
    next_of,
)


def _taken(frame: Frame, count: int) -> list[Any]:
    """The topmost values, taken from the stack."""
    if not count:
        return []
    values = frame.stack[-count:]
    del frame.stack[-count:]
    return values


@operation("BUILD_TUPLE")
def build_tuple(interpreter: Interpreter, frame: Frame, count: int) -> None:
    """Makes a tuple of the topmost values."""
    frame.stack.append(tuple(_taken(frame, count)))


@operation("BUILD_LIST")
def build_list(interpreter: Interpreter, frame: Frame, count: int) -> None:
    """Makes a list of the topmost values."""
    frame.stack.append(_taken(frame, count))


@operation("BUILD_SET")
def build_set(interpreter: Interpreter, frame: Frame, count: int) -> None:
    """Makes a set of the topmost values."""
    made = {interpreter.key(value) for value in frame.stack[-count:]} if count else set()
    _taken(frame, count)
    frame.stack.append(made)


@operation("BUILD_MAP")
def build_map(interpreter: Interpreter, frame: Frame, count: int) -> None:
    """Makes a dict of the topmost keys and values."""
    items = frame.stack[-2 * count :] if count else []
    made = dict(zip(map(interpreter.key, items[::2]), items[1::2], strict=True))
    _taken(frame, 2 * count)
    frame.stack.append(made)


@operation("BUILD_CONST_KEY_MAP")
def build_const_key_map(interpreter: Interpreter, frame: Frame, count: int) -> None:
    """Makes a dict of the topmost values, whose keys are a constant."""
    keys = frame.stack.pop()
    frame.stack.append(dict(zip(keys, _taken(frame, count), strict=True)))


@operation("BUILD_STRING")
def build_string(interpreter: Interpreter, frame: Frame, count: int) -> None:
    """Joins the topmost strings."""
    frame.stack.append("".join(_taken(frame, count)))


@operation("LIST_APPEND")
def list_append(interpreter: Interpreter, frame: Frame, depth: int) -> None:
    """Adds a value to a comprehension's list."""
    interpreter.writes(frame.stack[-1 - depth], frame.stack[-1])
    value = frame.stack.pop()
    frame.stack[-depth].append(value)


@operation("SET_ADD")
def set_add(interpreter: Interpreter, frame: Frame, depth: int) -> None:
    """Adds a value to a comprehension's set."""
    value = interpreter.key(frame.stack[-1])
    interpreter.writes(frame.stack[-1 - depth], value)
    frame.stack.pop()
    frame.stack[-depth].add(value)


@operation("MAP_ADD")
def map_add(interpreter: Interpreter, frame: Frame, depth: int) -> None:
    """Adds an entry to a comprehension's dict."""
    key, value = interpreter.key(frame.stack[-2]), frame.stack[-1]
    interpreter.writes(frame.stack[-2 - depth], key, value)
    del frame.stack[-2:]
    frame.stack[-depth][key] = value


@operation("LIST_EXTEND")
def list_extend(interpreter: Interpreter, frame: Frame, depth: int) -> None:
    """Adds the values of an iterable to a list. Errors: TypeError as in a call or a display."""
    values = frame.stack[-1]
    target = frame.stack[-1 - depth]
    if not is_iterable(values):
        raise TypeError(f"Value after * must be an iterable, not {type(values).__name__}")
    target.extend(listed(interpreter, values))
    frame.stack.pop()


@operation("SET_UPDATE")
def set_update(interpreter: Interpreter, frame: Frame, depth: int) -> None:
    """Adds the values of an iterable to a set."""
    values = frame.stack[-1]
    frame.stack[-1 - depth].update(listed(interpreter, values))
    frame.stack.pop()


@operation("DICT_UPDATE")
def dict_update(interpreter: Interpreter, frame: Frame, depth: int) -> None:
    """Adds the entries of a mapping to a dict display."""
    entries = frame.stack[-1]
    if not hasattr(entries, "keys"):
        raise TypeError(f"'{type(entries).__name__}' object is not a mapping")
    frame.stack[-1 - depth].update(entries)
    frame.stack.pop()


@operation("DICT_MERGE")
def dict_merge(interpreter: Interpreter, frame: Frame, depth: int) -> None:
    """Adds the keywords of a `**` argument to those of a call. Errors: TypeError for one that is there twice."""
    stack = frame.stack
    entries, target = stack[-1], stack[-1 - depth]
    name = _called_name(stack[-depth - 3 if NULL_FIRST else -depth - 4])
    if not hasattr(entries, "keys"):
        raise TypeError(f"{name} argument after ** must be a mapping, not {type(entries).__name__}")
    for key in entries.keys():  # noqa: SIM118 - as the protocol has it
        if key in target:
            raise TypeError(f"{name} got multiple values for keyword argument '{key}'")
        if not isinstance(key, str):
            raise TypeError("keywords must be strings")
        target[key] = entries[key]
    stack.pop()


def _called_name(function: object) -> str:
    """What an error calls a function."""
    name = getattr(function, "__qualname__", None)
    if not isinstance(name, str):
        return str(function)
    module = getattr(function, "__module__", None)
    prefix = f"{module}." if module is not None and module != "builtins" else ""
    return f"{prefix}{name}()"


@operation("LIST_TO_TUPLE")
def list_to_tuple(interpreter: Interpreter, frame: Frame, operand: int) -> None:
    """Turns a list into a tuple."""
    frame.stack[-1] = tuple(frame.stack[-1])


@operation("UNPACK_SEQUENCE")
def unpack_sequence(interpreter: Interpreter, frame: Frame, count: int) -> None:
    """Pushes the values of an iterable, of which there must be so many."""
    values = _unpacked(interpreter, frame.stack[-1], count, None)
    frame.stack.pop()
    frame.stack += reversed(values)


@operation("UNPACK_EX")
def unpack_ex(interpreter: Interpreter, frame: Frame, operand: int) -> None:
    """Pushes the values of an iterable, with a list of those in the middle."""
    before, after = operand & 255, operand >> 8
    values = _unpacked(interpreter, frame.stack[-1], before, after)
    frame.stack.pop()
    middle = values[before : len(values) - after]
    frame.stack += reversed([*values[:before], middle, *values[len(values) - after :]])


def _unpacked(interpreter: Interpreter, source: Any, count: int, after: int | None) -> list[object]:
    """The values of an iterable that is unpacked. Errors: TypeError, ValueError as CPython's."""
    if type(source) in (tuple, list):
        values = list(source)
        if after is None and len(values) == count:
            return values
    else:
        if not is_iterable(source):
            raise TypeError(f"cannot unpack non-iterable {type(source).__name__} object")
        iterator: Any = iterator_of(interpreter, source)
        values = []
        while after is not None or len(values) <= count:
            value = next_of(interpreter, iterator)
            if value is STOPPED:
                break
            values.append(value)
    if after is None:
        if len(values) > count:
            raise ValueError(f"too many values to unpack (expected {count})")
        if len(values) < count:
            raise ValueError(f"not enough values to unpack (expected {count}, got {len(values)})")
    elif len(values) < count + after:
        raise ValueError(f"not enough values to unpack (expected at least {count + after}, got {len(values)})")
    return values
