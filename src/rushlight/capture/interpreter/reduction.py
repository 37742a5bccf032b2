"""What `copy` and `pickle` are told of an object, as C finds it: methods written in Python are interpreted."""

from __future__ import annotations

import copyreg
from typing import Any

from rushlight.capture.interpreter import slots
from rushlight.capture.interpreter.frame import Evaluator
from rushlight.capture.interpreter.hooks import MISSING
from rushlight.capture.interpreter.library import Rule

_OF_C: Any = vars(object)
_COPYREG: Any = copyreg  # the type checker knows its public functions alone
_NEWEST = 2  # of the protocols, the first whose objects are made by their class


def _attribute(interpreter: Evaluator, owner: object, name: str) -> object:
    try:
        return slots.attribute_of(interpreter, interpreter.owner(owner, name), name)
    except AttributeError:
        return MISSING


def _reduce_ex(interpreter: Evaluator, owner: object, protocol: object) -> object:
    """`object.__reduce_ex__`."""
    cls = type(owner)
    reduce = _attribute(interpreter, owner, "__reduce__")
    if reduce is not MISSING and slots.lookup(cls, "__reduce__") is not _OF_C["__reduce__"]:
        return interpreter.call(reduce, ())
    if not (_is_plain(cls) and type(protocol) is int and protocol >= _NEWEST):
        return interpreter.native(_OF_C["__reduce_ex__"], (owner, protocol), {})
    maker, given = _constructor(interpreter, owner, cls)
    return maker, given, _state(interpreter, owner), None, None


def _is_plain(cls: type) -> bool:
    """Whether all that objects of a class hold are variables."""
    of_python = all(base is object or base.__flags__ & slots.HEAP_TYPE for base in cls.__mro__)
    return of_python and not cls.__itemsize__ and not _COPYREG._slotnames(cls)


def _constructor(interpreter: Evaluator, owner: object, cls: type) -> tuple[object, tuple[object, ...]]:
    """What makes an object like another one, and of which arguments."""
    args, kwargs = _told(interpreter, owner, cls, "__getnewargs_ex__", ((), {}))
    if kwargs:
        return _COPYREG.__newobj_ex__, (cls, args, kwargs)
    return _COPYREG.__newobj__, (cls, *(args or _told(interpreter, owner, cls, "__getnewargs__", ())))


def _told(interpreter: Evaluator, owner: object, cls: type, name: str, default: Any) -> Any:
    """What a special method of the class gives, which is looked up as C does."""
    method: Any = slots.lookup(cls, name)
    return default if method is MISSING else interpreter.call(method.__get__(owner, cls), ())


def _state(interpreter: Evaluator, owner: object) -> object:
    """The state that an object tells, or else its variables."""
    told = _attribute(interpreter, owner, "__getstate__")
    if slots.lookup(type(owner), "__getstate__") is not _OF_C["__getstate__"]:
        return interpreter.call(told, ())
    try:
        variables = slots.generic_attribute(interpreter, interpreter.owner(owner, "__dict__"), "__dict__")
    except AttributeError:
        return None
    return variables or None


METHODS: dict[str, tuple[object, Rule]] = {"__reduce_ex__": (_OF_C["__reduce_ex__"], Rule(_reduce_ex, 2, 2))}
"""Methods of C and their rules, by name: those of objects, which call other methods of the same object."""
