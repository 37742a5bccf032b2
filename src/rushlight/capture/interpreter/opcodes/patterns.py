"""The statement `match`."""

from __future__ import annotations

from rushlight.capture.code.instructions import VERSION
from rushlight.capture.interpreter.frame import Frame
from rushlight.capture.interpreter.loop import Interpreter
from rushlight.capture.interpreter.operations import operation
from rushlight.capture.interpreter.slots import attribute_of, length

_SEQUENCE, _MAPPING = 1 << 5, 1 << 6  # flags of classes, which the abstract classes give to what is registered
_MATCHES_ITSELF = (bool, bytearray, bytes, dict, float, frozenset, int, list, set, str, tuple)


@operation("GET_LEN")
def get_len(interpreter: Interpreter, frame: Frame, operand: int) -> None:
    """Pushes the length of the top of the stack."""
    frame.stack.append(length(interpreter, frame.stack[-1]))


@operation("MATCH_MAPPING")
def match_mapping(interpreter: Interpreter, frame: Frame, operand: int) -> None:
    """Pushes whether the top of the stack is a mapping."""
    frame.stack.append(bool(interpreter.class_of(frame.stack[-1]).__flags__ & _MAPPING))


@operation("MATCH_SEQUENCE")
def match_sequence(interpreter: Interpreter, frame: Frame, operand: int) -> None:
    """Pushes whether the top of the stack is a sequence, other than a string or bytes."""
    frame.stack.append(bool(interpreter.class_of(frame.stack[-1]).__flags__ & _SEQUENCE))


@operation("MATCH_KEYS")
def match_keys(interpreter: Interpreter, frame: Frame, operand: int) -> None:
    """Pushes the values of the keys on top in the mapping below, None if one is absent."""
    subject, keys = frame.stack[-2], frame.stack[-1]
    seen: set[object] = set()
    values: list[object] = []
    absent = object()
    for key in keys:
        if key in seen:
            raise ValueError(f"mapping pattern checks duplicate key ({key!r})")
        seen.add(key)
        value = interpreter.call(attribute_of(interpreter, subject, "get"), (key, absent))
        if value is absent:
            frame.stack.append(None)
            return
        values.append(value)
    frame.stack.append(tuple(values))


@operation("MATCH_CLASS")
def match_class(interpreter: Interpreter, frame: Frame, count: int) -> None:
    """Pushes the attributes that a class pattern asks for, None where the subject does not match."""
    subject, cls, names = frame.stack[-3:]
    matched = _class_match(interpreter, subject, cls, count, names)
    frame.stack[-3:] = [matched]


def _class_match(
    interpreter: Interpreter, subject: object, cls: object, count: int, names: tuple[str, ...]
) -> tuple[object, ...] | None:
    if not isinstance(cls, type):
        raise TypeError(f"called match pattern must be a {'type' if VERSION < 12 else 'class'}")
    if not interpreter.call(isinstance, (subject, cls)):
        return None
    values: list[object] = []
    seen: set[str] = set()
    if count:
        matched = _positional(interpreter, subject, cls, count, seen)
        if matched is None:
            return None
        values += matched
    for name in names:
        if not _append(interpreter, subject, cls, name, seen, values):
            return None
    return tuple(values)


def _positional(
    interpreter: Interpreter, subject: object, cls: type, count: int, seen: set[str]
) -> list[object] | None:
    names: object = ()
    has_names = True
    try:
        names = attribute_of(interpreter, cls, "__match_args__")
    except AttributeError:
        has_names = False
    if not has_names and issubclass(cls, _MATCHES_ITSELF):
        if count > 1:
            raise TypeError(f"{cls.__name__}() accepts 1 positional sub-pattern ({count} given)")
        return [subject]
    if not isinstance(names, tuple):
        raise TypeError(f"{cls.__name__}.__match_args__ must be a tuple (got {type(names).__name__})")
    if len(names) < count:
        plural = "" if len(names) == 1 else "s"
        raise TypeError(f"{cls.__name__}() accepts {len(names)} positional sub-pattern{plural} ({count} given)")
    values: list[object] = []
    for name in names[:count]:
        if not isinstance(name, str):
            raise TypeError(f"__match_args__ elements must be strings (got {type(name).__name__})")
        if not _append(interpreter, subject, cls, name, seen, values):
            return None
    return values


def _append(
    interpreter: Interpreter, subject: object, cls: type, name: str, seen: set[str], values: list[object]
) -> bool:
    if name in seen:
        raise TypeError(f"{cls.__name__}() got multiple sub-patterns for attribute {name!r}")
    seen.add(name)
    try:
        values.append(attribute_of(interpreter, subject, name))
    except AttributeError:
        return False
    return True
