"""What a call does: a frame for a Python function, an object for a class, or a native call."""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Callable
from types import BuiltinFunctionType, FunctionType, MethodType, MethodWrapperType, WrapperDescriptorType
from typing import Any

from rushlight.capture.interpreter.binding import bind
from rushlight.capture.interpreter.frame import Evaluator
from rushlight.capture.interpreter.hooks import MISSING
from rushlight.capture.interpreter.library import (
    BUILTINS,
    CALLING_BACK,
    ITERATING,
    OF_SORT,
    ONE,
    Callback,
    Called,
    Rule,
)
from rushlight.capture.interpreter.operands import RULES
from rushlight.capture.interpreter.reduction import METHODS
from rushlight.capture.interpreter.slots import HEAP_TYPE, attribute_of, item_of, iterator_of, lookup, python_method

_CALL = type.__dict__["__call__"]
_OF_CLASSES = type.__dict__["__init__"]  # which looks at how many arguments there are


def begin(interpreter: Evaluator, function: Any, args: tuple[object, ...], kwargs: dict[str, object]) -> object:
    """The Frame of a call that is to be interpreted, or the value of any other call."""
    function = interpreter.callee(function)
    kind = type(function)
    if kind is FunctionType:
        if interpreter.is_leaf(function):
            return interpreter.native(function, args, kwargs)
        return bind(interpreter, function, args, kwargs)
    if kind is MethodType:
        return begin(interpreter, function.__func__, (function.__self__, *args), kwargs)
    if kind is BuiltinFunctionType:
        return _native(interpreter, function, args, kwargs)
    if issubclass(kind, type):
        return _made(interpreter, function, args, kwargs)
    if kind is MethodWrapperType or kind is WrapperDescriptorType:
        return _slot_called(interpreter, function, args, kwargs)
    if kind is staticmethod:
        return begin(interpreter, function.__func__, args, kwargs)
    if kind is functools.partial:
        return begin(interpreter, function.func, (*function.args, *args), {**function.keywords, **kwargs})
    if kind in _GETTERS and len(args) == 1 and not kwargs:
        return _GETTERS[kind](interpreter, function.__reduce__(), args[0])
    method = python_method(interpreter, type(function), "__call__")
    if method is not None:
        return bind(interpreter, method, (function, *args), kwargs)
    called: Any = lookup(kind, "__call__") if kind.__flags__ & HEAP_TYPE else MISSING
    if type(called) in (staticmethod, classmethod):
        return begin(interpreter, called.__get__(function, kind), args, kwargs)
    if type(called).__flags__ & HEAP_TYPE and not hasattr(type(called), "__get__"):
        return begin(interpreter, called, args, kwargs)  # an object in place of a method, which is not bound
    return interpreter.native(function, args, kwargs)


def _attributes(interpreter: Evaluator, made: tuple[Any, ...], owner: object) -> object:
    """What an `attrgetter` gives."""
    found: list[object] = []
    for path in made[1]:
        value = owner
        for name in path.split("."):
            value = attribute_of(interpreter, interpreter.owner(value, name), name)
        found.append(value)
    return found[0] if len(found) == 1 else tuple(found)


def _items(interpreter: Evaluator, made: tuple[Any, ...], container: object) -> object:
    """What an `itemgetter` gives."""
    found = [item_of(interpreter, container, key) for key in made[1]]
    return found[0] if len(found) == 1 else tuple(found)


def _method_called(interpreter: Evaluator, made: tuple[Any, ...], owner: object) -> object:
    """What a `methodcaller` gives: its class, or a partial of it, is made of the name and the arguments."""
    maker, given = made[0], made[1]
    kwargs = maker.keywords if type(maker) is functools.partial else {}
    name, *args = (*maker.args, *given) if type(maker) is functools.partial else given
    return interpreter.call(attribute_of(interpreter, interpreter.owner(owner, name), name), tuple(args), kwargs)


_GETTERS: dict[type, Callable[[Evaluator, tuple[Any, ...], object], object]] = {
    operator.attrgetter: _attributes,
    operator.itemgetter: _items,
    operator.methodcaller: _method_called,
}


def _slot_called(interpreter: Evaluator, function: Any, args: tuple[object, ...], kwargs: dict[str, object]) -> object:
    """The frame or the value of a call of what C does for a class: `super().__setattr__`, `type.__call__`."""
    slot, given = function, args
    if type(function) is MethodWrapperType:
        slot, given = vars(function.__objclass__)[function.__name__], (function.__self__, *args)
    rule = BUILTINS.get(slot) if type(slot) is WrapperDescriptorType else None
    if rule is None or not _fits(rule, given, kwargs):
        return interpreter.native(function, args, kwargs)
    return rule.apply(interpreter, *given, **kwargs)


def _native(
    interpreter: Evaluator, function: BuiltinFunctionType, args: tuple[object, ...], kwargs: dict[str, object]
) -> object:
    """The value of a function of C. What it calls back is interpreted, where it is known to do that."""
    rule, given = BUILTINS.get(function), args
    if rule is None and issubclass(type(function.__self__), type) and isinstance(function.__self__, type):
        rule, given = BUILTINS.get(lookup(function.__self__, function.__name__)), (function.__self__, *args)
    elif rule is None and function.__name__ in METHODS:
        method, of_method = METHODS[function.__name__]
        if lookup(type(function.__self__), function.__name__) is method:
            rule, given = of_method, (function.__self__, *args)
    if rule is not None and _fits(rule, given, kwargs):
        return rule.apply(interpreter, *given, **kwargs)
    is_sort = function.__name__ == "sort" and type(function.__self__) is list
    called = OF_SORT if is_sort else CALLING_BACK.get(function)
    if called is not None:
        args, kwargs = _with_callback(interpreter, called, args, kwargs)
    if function in ITERATING:
        args = _with_iterators(interpreter, function, args)
    return interpreter.native(function, args, kwargs)


def _with_callback(
    interpreter: Evaluator, called: Called, args: tuple[object, ...], kwargs: dict[str, object]
) -> tuple[tuple[object, ...], dict[str, object]]:
    """Arguments of a function of C, with what it calls interpreted."""
    if interpreter.hands_over:
        return args, kwargs
    at = called.position
    if 0 <= at < len(args):
        args = (*args[:at], _callback(interpreter, args[at]), *args[at + 1 :])
    if called.name in kwargs:
        kwargs = kwargs | {called.name: _callback(interpreter, kwargs[called.name])}
    return args, kwargs


def _with_iterators(interpreter: Evaluator, function: Any, args: tuple[object, ...]) -> tuple[object, ...]:
    """Arguments of a function of C, with the iterators of those whose classes make them in Python."""
    first, count = ITERATING[function]
    if function in ONE and len(args) > 1:
        return args
    taken = args[first : None if count is None else first + count]
    if all(python_method(interpreter, type(value), "__iter__") is None for value in taken):
        return args
    made = [_iterated(interpreter, value, lazily=function is itertools.chain) for value in taken]
    return (*args[:first], *made, *args[first + len(made) :])


def _iterated(interpreter: Evaluator, value: object, *, lazily: bool) -> object:
    """The iterator of a value; the value itself where C makes it, and, if `lazily`, where that fails."""
    if python_method(interpreter, type(value), "__iter__") is None:
        return value
    try:
        return iterator_of(interpreter, value)
    except TypeError:
        if lazily:
            return value
        raise


def _fits(rule: Rule, args: tuple[object, ...], kwargs: dict[str, object]) -> bool:
    return rule.most is None or (not kwargs and rule.fewest <= len(args) <= rule.most)


def _callback(interpreter: Evaluator, value: object) -> object:
    """What C calls in place of a function, a class or an object: the program may have it do anything."""
    return Callback(interpreter, value) if callable(value) else value


def _made(interpreter: Evaluator, cls: Any, args: tuple[object, ...], kwargs: dict[str, object]) -> object:
    """The frame or the value of a call of a class."""
    rule = BUILTINS.get(cls) if type(cls) is type else None
    if rule is not None and _fits(rule, args, kwargs):
        return rule.apply(interpreter, *args, **kwargs)
    meta = python_method(interpreter, type(cls), "__call__")
    if meta is not None:
        return bind(interpreter, meta, (cls, *args), kwargs)
    if lookup(type(cls), "__call__") is not _CALL:
        return interpreter.native(cls, args, kwargs)
    return _instance(interpreter, cls, *args, **kwargs)


def _instance(interpreter: Evaluator, cls: Any, /, *args: object, **kwargs: object) -> object:
    """The frame or the value of a call of `type.__call__`: an object that is made, and then initialised."""
    is_plain = type(cls) is type
    if is_plain and cls in ITERATING:
        args = _with_iterators(interpreter, cls, args)
    called = CALLING_BACK.get(cls) if is_plain else None
    if called is not None:
        return interpreter.native(cls, *_with_callback(interpreter, called, args, kwargs))
    new, init = _maker(interpreter, cls), python_method(interpreter, cls, "__init__")
    if new is None and init is None and not issubclass(cls, type):
        return interpreter.native(cls, args, kwargs)
    if new is not None or issubclass(cls, type):
        made = interpreter.call(new or cls.__new__, (cls, *args), kwargs)
    else:
        plain = cls.__new__ is object.__new__  # which leaves the arguments to `__init__`
        made = interpreter.native(cls.__new__, (cls,) if plain else (cls, *args), {} if plain else kwargs)
    if not issubclass(type(made), cls):
        return made
    if init is None or type(made) is not cls:
        init = python_method(interpreter, type(made), "__init__")
    if init is None:
        initialise = lookup(type(made), "__init__")
        idle = initialise is _OF_CLASSES and len(args) == 3
        if not idle and initialise is not object.__dict__["__init__"]:
            interpreter.call(initialise, (made, *args), kwargs)
        return made
    frame = bind(interpreter, init, (made, *args), kwargs)
    frame.then = functools.partial(_initialised, made)
    return frame


def _maker(interpreter: Evaluator, cls: type) -> FunctionType | None:
    """A `__new__` that is to be interpreted."""
    new = lookup(cls, "__new__")
    function = getattr(new, "__func__", new)
    return function if type(function) is FunctionType and not interpreter.is_leaf(function) else None


def _initialised(made: object, result: object) -> object:
    if result is not None:
        raise TypeError(f"__init__() should return None, not '{type(result).__name__}'")
    return made


BUILTINS.update(RULES)
BUILTINS[_CALL] = Rule(_instance, 1, None)
