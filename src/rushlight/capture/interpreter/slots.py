"""CPython's slot protocols: operators, comparisons, truth, items, iteration, attributes.

Methods written in Python are interpreted; what C implements is called as it is. The order of attempts is that of
`Objects/abstract.c`, `Objects/object.c` and `Objects/typeobject.c`.
"""

from __future__ import annotations

import operator
import typing
from collections import defaultdict, deque
from collections.abc import Callable, Iterable
from types import FunctionType, MemberDescriptorType
from typing import Any

from rushlight.capture.interpreter.frame import Evaluator
from rushlight.capture.interpreter.generators import InterpretedGenerator, Resumable
from rushlight.capture.interpreter.hooks import ANY_METHOD, COMPARING, ITERATING, LOOKING_UP, MISSING

Native = Callable[..., object]
"""A function of C that does what an instruction does."""
STOPPED = object()
"""In place of the next value of an iterator that has none."""
HEAP_TYPE = 1 << 9  # flag of classes that statements made; others never change
_SEQUENCES = (list, tuple, str, bytes, bytearray, deque)  # whose + and * come after the other operand's
_OF_DICTS = LOOKING_UP | {"getitem", "missing"}  # of a dict whose items C gets, and of its keys
_OF_SEQUENCES = frozenset({"getitem"})  # of others, and not of what they hold
_NAMES = ("__name__", "__qualname__")  # of a generator
_REFLECTED = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "==": "==", "!=": "!="}
_COMPARISONS: dict[str, tuple[str, Native]] = {
    "<": ("__lt__", operator.lt),
    "<=": ("__le__", operator.le),
    "==": ("__eq__", operator.eq),
    "!=": ("__ne__", operator.ne),
    ">": ("__gt__", operator.gt),
    ">=": ("__ge__", operator.ge),
}


def lookup(cls: type, name: str) -> object:
    """What a class or its bases have under a name, unbound; MISSING if nothing."""
    for base in cls.__mro__:
        entries = base.__dict__
        if name in entries:
            return entries[name]
    return MISSING


def is_data_descriptor(kind: type) -> bool:
    """Whether objects of a class, found in another class, come before what an instance has itself."""
    return lookup(kind, "__set__") is not MISSING or lookup(kind, "__delete__") is not MISSING


def slot_value(slot: MemberDescriptorType, owner: object) -> object:
    """What an object has in a slot; MISSING if nothing."""
    try:
        return slot.__get__(owner)
    except AttributeError:
        return MISSING


def python_method(interpreter: Evaluator, cls: type, name: str) -> FunctionType | None:
    """The method of a class that is to be interpreted; None where C implements it, or nobody."""
    if not cls.__flags__ & HEAP_TYPE:
        return None
    interpreter.looks_into(cls)
    method = lookup(cls, name)
    if type(method) is not FunctionType:
        return None
    if interpreter.is_leaf(method):
        interpreter.calls_leaf(method, cls)
        return None
    return method


def truth(interpreter: Evaluator, value: Any) -> bool:
    """The truth value, by `__bool__`, then by length. Errors: TypeError, ValueError as CPython's."""
    if value is True or value is False:
        return value
    cls = type(value)
    method = python_method(interpreter, cls, "__bool__")
    if method is not None:
        result = interpreter.call(method, (value,))
        if type(result) is not bool:
            raise TypeError(f"__bool__ should return bool, returned {type(result).__name__}")
        return result
    if lookup(cls, "__bool__") is MISSING:
        method = python_method(interpreter, cls, "__len__")
        if method is not None:
            return length(interpreter, value) > 0
    interpreter.tells(value)
    return bool(value)


def length(interpreter: Evaluator, value: Any) -> int:
    """The length. Errors: TypeError, ValueError, OverflowError as CPython's."""
    method = python_method(interpreter, type(value), "__len__")
    if method is None:
        interpreter.tells(value)
        return len(value)
    return len(_Sized(interpreter.call(method, (value,))))


class _Sized:
    """Has CPython check a length that a method gave."""

    def __init__(self, size: Any) -> None:
        self._size = size

    def __len__(self) -> int:
        return self._size


def unary(interpreter: Evaluator, name: str, function: Native, value: object) -> object:
    """A unary operator."""
    method = python_method(interpreter, type(value), name)
    if method is not None:
        return interpreter.call(method, (value,))
    interpreter.tells(value)
    return function(value)


def _applied(interpreter: Evaluator, cls: type, name: str, value: object, other: object) -> object:
    """What a class's method of two operands gives; NotImplemented where there is none."""
    method = lookup(cls, name)
    if method is MISSING:
        return NotImplemented
    if type(method) is FunctionType and not interpreter.is_leaf(method):
        return interpreter.call(method, (value, other))
    bind = getattr(type(method), "__get__", None)
    return interpreter.call(method if bind is None else bind(method, value, cls), (other,))


def binary(interpreter: Evaluator, name: str, function: Native, left: object, right: object) -> object:
    """A binary operator, the reflected method of a subclass first."""
    result = _attempted(interpreter, name, function, left, right)
    if result is NotImplemented:
        raise _unsupported(interpreter, _symbol(name, False), left, right)
    return result


def augmented(
    interpreter: Evaluator,
    name: str,
    function: Native,
    in_place: Native,
    left: object,
    right: object,
) -> object:
    """An augmented assignment's operator: in place, or else the binary one."""
    cls, other = type(left), type(right)
    method = python_method(interpreter, cls, f"__i{name}__")
    if method is not None:
        result = interpreter.call(method, (left, right))
        if result is not NotImplemented:
            return result
    elif not _interpreted(interpreter, cls, other, name):
        interpreter.runs(left, right, asked=_asked_by(cls, other))
        return in_place(left, right)
    elif lookup(cls, f"__i{name}__") is not MISSING:
        reflected = _applied(interpreter, other, f"__r{name}__", right, left)
        return in_place(left, right) if reflected is NotImplemented else reflected
    result = _attempted(interpreter, name, function, left, right)
    if result is NotImplemented:
        raise _unsupported(interpreter, _symbol(name, True), left, right)
    return result


def _interpreted(interpreter: Evaluator, cls: type, other: type, name: str) -> bool:
    return (
        python_method(interpreter, cls, f"__{name}__") is not None
        or python_method(interpreter, other, f"__r{name}__") is not None
    )


def _asked_by(cls: type, other: type) -> frozenset[str]:
    """The methods that C asks operands for: joining sequences asks nothing of what they hold."""
    return ITERATING if cls in (list, tuple, deque) and other in (cls, int) else ANY_METHOD


def _attempted(interpreter: Evaluator, name: str, function: Native, left: object, right: object) -> object:
    cls, other = type(left), type(right)
    if not _interpreted(interpreter, cls, other, name):
        interpreter.runs(left, right, asked=_asked_by(cls, other))
        return function(left, right)
    forward, backward = f"__{name}__", f"__r{name}__"
    after = issubclass(cls, _SEQUENCES) and python_method(interpreter, cls, forward) is None
    kind = interpreter.class_of(left)  # that of a number, where another object stands for it
    overridden = (
        cls is not other
        and issubclass(other, kind)
        and lookup(other, backward) is not MISSING
        and lookup(other, backward) is not lookup(kind, backward)
    )
    if overridden or (after and cls is not other):
        result = _applied(interpreter, other, backward, right, left)
        if result is not NotImplemented:
            return result
        return _applied(interpreter, cls, forward, left, right)
    result = _applied(interpreter, cls, forward, left, right)
    if result is NotImplemented and cls is not other:
        return _applied(interpreter, other, backward, right, left)
    return result


_SYMBOLS = {
    "add": "+",
    "and": "&",
    "floordiv": "//",
    "lshift": "<<",
    "matmul": "@",
    "mul": "*",
    "mod": "%",
    "or": "|",
    "pow": "** or pow()",
    "rshift": ">>",
    "sub": "-",
    "truediv": "/",
    "xor": "^",
}


def _symbol(name: str, in_place: bool) -> str:
    if not in_place:
        return _SYMBOLS[name]
    return "**=" if name == "pow" else f"{_SYMBOLS[name]}="


def _unsupported(interpreter: Evaluator, symbol: str, left: object, right: object) -> TypeError:
    mine, other = interpreter.class_of(left).__name__, interpreter.class_of(right).__name__
    return TypeError(f"unsupported operand type(s) for {symbol}: '{mine}' and '{other}'")


def compared(interpreter: Evaluator, relation: str, left: object, right: object) -> object:
    """A comparison, a subclass's reflected method first; `==` and `!=` fall back on identity."""
    name, function = _COMPARISONS[relation]
    mirrored = _COMPARISONS[_REFLECTED[relation]][0]
    cls, other = type(left), type(right)
    if not (_compares(interpreter, cls, name) or _compares(interpreter, other, mirrored)):
        interpreter.runs(left, right, asked=COMPARING)
        return function(left, right)
    attempts = [(name, left, right), (mirrored, right, left)]
    if cls is not other and issubclass(interpreter.class_of(right), interpreter.class_of(left)):
        attempts.reverse()
    for method, value, against in attempts:
        result = _compared_by(interpreter, method, value, against)
        if result is not NotImplemented:
            return result
    if relation == "==":
        return left is right
    if relation == "!=":
        return left is not right
    mine, others = interpreter.class_of(left).__name__, interpreter.class_of(right).__name__
    text = f"'{relation}' not supported between instances of '{mine}' and '{others}'"
    raise TypeError(text)


def _compares(interpreter: Evaluator, cls: type, name: str) -> bool:
    if python_method(interpreter, cls, name) is not None:
        return True
    return name == "__ne__" and python_method(interpreter, cls, "__eq__") is not None


def _compared_by(interpreter: Evaluator, name: str, value: object, other: object) -> object:
    cls, kind = type(value), interpreter.class_of(value)
    if kind is not cls:  # what stands for a number: its own method would ask the other's natively
        return getattr(kind, name)(kind(value), other) if isinstance(other, (int, float)) else NotImplemented
    if name == "__ne__" and lookup(cls, name) is object.__ne__:  # which inverts `__eq__`
        result = _applied(interpreter, cls, "__eq__", value, other)
        return result if result is NotImplemented else not truth(interpreter, result)
    return _applied(interpreter, cls, name, value, other)


def contains(interpreter: Evaluator, container: Any, value: object) -> bool:
    """Membership: `__contains__`, or else a search by iteration."""
    cls = type(container)
    method = python_method(interpreter, cls, "__contains__")
    if method is not None:
        return truth(interpreter, interpreter.call(method, (container, value)))
    searched = type(container) is InterpretedGenerator or (
        lookup(cls, "__contains__") is MISSING and python_method(interpreter, cls, "__iter__") is not None
    )
    if not searched:
        looks_up = issubclass(cls, (dict, set, frozenset))
        if looks_up:
            interpreter.hashes(value, container)
        interpreter.runs(container, value, asked=(LOOKING_UP if looks_up else COMPARING) | {"contains"})
        return value in container
    iterator = iterator_of(interpreter, container)
    while (element := next_of(interpreter, iterator)) is not STOPPED:
        if element is value or truth(interpreter, compared(interpreter, "==", element, value)):
            return True
    return False


def item_of(interpreter: Evaluator, container: Any, key: object) -> object:
    """An item."""
    method = python_method(interpreter, type(container), "__getitem__")
    if _is_of_types(method):
        return container[key]
    if method is not None:
        return interpreter.call(method, (container, key))
    if issubclass(type(container), dict):
        interpreter.hashes(key, container)
        interpreter.finds(container, key)
    if type(container) is defaultdict:
        interpreter.runs(key, asked=LOOKING_UP)
        if container.default_factory is not None and key not in container:
            return _made_item(interpreter, container, key)
        return container[key]
    missing = python_method(interpreter, type(container), "__missing__")
    if missing is not None and lookup(type(container), "__getitem__") is dict.__getitem__:
        interpreter.runs(key, *dict.__iter__(container), asked=LOOKING_UP)
        if not dict.__contains__(container, key):
            return interpreter.call(missing, (container, key))
        return dict.__getitem__(container, key)
    if issubclass(type(container), type) and lookup(type(container), "__getitem__") is MISSING:
        of_class = lookup(container, "__class_getitem__")
        function = getattr(of_class, "__func__", of_class)
        if _is_of_types(function):
            return container[key]
        if type(function) is FunctionType:
            return interpreter.call(attribute_of(interpreter, container, "__class_getitem__"), (key,))
    key = _index(interpreter, container, key)
    interpreter.runs(container, asked=_OF_DICTS if issubclass(type(container), dict) else _OF_SEQUENCES)
    interpreter.runs(key, asked=LOOKING_UP)
    return container[key]


def _is_of_types(method: object) -> bool:
    """Whether a function makes annotations of others, as `Optional[int]` asks for one."""
    return isinstance(method, FunctionType) and method.__module__ == typing.__name__


def _index(interpreter: Evaluator, container: object, key: Any) -> object:
    """A key of a sequence as C gets it: the numbers that stand for objects, also in a slice."""
    if issubclass(type(container), (dict, type)):
        return key
    if type(key) is slice:
        return slice(*[_number(interpreter, part) for part in (key.start, key.stop, key.step)])
    return _number(interpreter, key)


def _number(interpreter: Evaluator, value: object) -> object:
    kind = type(value)
    method = None if issubclass(kind, int) else python_method(interpreter, kind, "__index__")
    return value if method is None else operator.index(_Number(interpreter.call(method, (value,))))


class _Number:
    """Has CPython check a number that a method gave."""

    def __init__(self, number: Any) -> None:
        self._number = number

    def __index__(self) -> int:
        return self._number


def _made_item(interpreter: Evaluator, container: defaultdict[object, object], key: object) -> object:
    """The item of a key that a dict does not have, by its factory."""
    value = interpreter.call(container.default_factory, ())
    interpreter.replaces(container, key, value)
    container[key] = value
    return value


def store_item(interpreter: Evaluator, container: Any, key: object, value: object) -> None:
    """Sets an item."""
    method = python_method(interpreter, type(container), "__setitem__")
    if method is None:
        key = _index(interpreter, container, key)
        if issubclass(type(container), dict):
            interpreter.hashes(key, container)
        interpreter.runs(container, asked=LOOKING_UP if issubclass(type(container), dict) else _OF_SEQUENCES)
        interpreter.runs(key, asked=LOOKING_UP)
        if type(key) is slice:
            interpreter.runs(value, asked=ITERATING)
        interpreter.replaces(container, key, value)
        container[key] = value
    else:
        interpreter.call(method, (container, key, value))


def delete_item(interpreter: Evaluator, container: Any, key: object) -> None:
    """Deletes an item."""
    method = python_method(interpreter, type(container), "__delitem__")
    if method is None:
        key = _index(interpreter, container, key)
        if issubclass(type(container), dict):
            interpreter.hashes(key, container)
        interpreter.runs(container, asked=LOOKING_UP if issubclass(type(container), dict) else _OF_SEQUENCES)
        interpreter.runs(key, asked=LOOKING_UP)
        interpreter.writes(container)
        del container[key]
    else:
        interpreter.call(method, (container, key))


def iterator_of(interpreter: Evaluator, value: Any) -> object:
    """An iterator. Errors: TypeError as CPython's."""
    method = python_method(interpreter, type(value), "__iter__")
    if method is None:
        interpreter.tells(value, ITERATING)
        made = iter(value)
        if made is not value:
            interpreter.makes(made)
        return made
    iterator = interpreter.call(method, (value,))
    if lookup(type(iterator), "__next__") is MISSING:
        raise TypeError(f"iter() returned non-iterator of type '{type(iterator).__name__}'")
    return iterator


def next_of(interpreter: Evaluator, iterator: Any) -> object:
    """The next value of an iterator, STOPPED at its end."""
    interpreter.advances(iterator)
    method = python_method(interpreter, type(iterator), "__next__")
    if method is None:
        return next(iterator, STOPPED)
    try:
        return interpreter.call(method, (iterator,))
    except StopIteration:
        return STOPPED


def is_iterable(value: object) -> bool:
    """Whether the class of a value has a protocol of iteration."""
    cls = type(value)
    return lookup(cls, "__iter__") not in (MISSING, None) or lookup(cls, "__getitem__") is not MISSING


def listed(interpreter: Evaluator, values: Any) -> Iterable[object]:
    """The values of an iterable; one whose methods are interpreted is run to its end here."""
    if python_method(interpreter, type(values), "__iter__") is None:
        interpreter.runs(values, asked=ITERATING)
        return values
    iterator = iterator_of(interpreter, values)
    made: list[object] = []
    while (value := next_of(interpreter, iterator)) is not STOPPED:
        made.append(value)
    return made


def attribute_of(interpreter: Evaluator, owner: object, name: str) -> object:
    """An attribute: data descriptors, the instance's own, other descriptors, `__getattr__`."""
    cls = type(owner)
    if not (cls.__flags__ & HEAP_TYPE or issubclass(cls, type)):
        return interpreter.attribute(owner, name, getattr)
    getter = python_method(interpreter, cls, "__getattribute__")
    hook = python_method(interpreter, cls, "__getattr__")
    if getter is None and hook is None:
        return _plain_attribute(interpreter, owner, cls, name)
    try:
        if getter is not None:
            return interpreter.call(getter, (owner, name))
        return _plain_attribute(interpreter, owner, cls, name)
    except AttributeError as error:
        if hook is None:
            _say_which(error, owner, name)
            raise
    try:
        return interpreter.call(hook, (owner, name))
    except AttributeError as error:
        _say_which(error, owner, name)
        raise


def _say_which(error: AttributeError, owner: object, name: str) -> None:
    """Notes the attribute that a method did not find, as CPython does where the method has not said it."""
    if type(error) is AttributeError and error.name is None and error.obj is None:
        error.name, error.obj = name, owner


def generic_attribute(interpreter: Evaluator, owner: object, name: str) -> object:
    """An attribute as `object.__getattribute__` finds it."""
    value = _by_descriptor(interpreter, owner, type(owner), name)
    return interpreter.attribute(owner, name, object.__getattribute__) if value is MISSING else value


def _plain_attribute(interpreter: Evaluator, owner: object, cls: type, name: str) -> object:
    """An attribute without the hooks of its class."""
    value = _by_descriptor(interpreter, owner, cls, name)
    if value is not MISSING:
        return value
    native = lookup(cls, "__getattribute__")
    if python_method(interpreter, cls, "__getattr__") is None or type(native) is FunctionType or not callable(native):
        return interpreter.attribute(owner, name, getattr)
    return interpreter.attribute(owner, name, native)  # without `__getattr__`, which is interpreted


def _by_descriptor(interpreter: Evaluator, owner: object, cls: type, name: str) -> object:
    """An attribute that a descriptor written in Python gives; MISSING if none does."""
    class_attribute = lookup(cls, name)
    if issubclass(cls, type):
        return _of_class(interpreter, owner, cls, name, class_attribute)
    kind = type(class_attribute)
    if class_attribute is MISSING or kind is FunctionType:
        return MISSING
    comes_first = kind is property or is_data_descriptor(kind)
    if not comes_first and python_method(interpreter, kind, "__get__") is not None:
        own = interpreter.own_attribute(owner, name)
        if own is not MISSING:
            return own
    return _got(interpreter, class_attribute, owner, cls)


def _of_class(interpreter: Evaluator, owner: Any, meta: type, name: str, of_meta: object) -> object:
    """An attribute of a class that a descriptor written in Python gives: of its metaclass, or its own."""
    interpreter.looks_into(owner)
    own = MISSING if is_data_descriptor(type(of_meta)) else lookup(owner, name)
    if own is not MISSING:
        return _got(interpreter, own, None, owner)
    return MISSING if of_meta is MISSING else _got(interpreter, of_meta, owner, meta)


def _got(interpreter: Evaluator, descriptor: Any, instance: object, owner: type) -> object:
    """What a descriptor written in Python gives, for an instance or for its class; or MISSING."""
    kind = type(descriptor)
    if kind is property:
        called = instance is not None and descriptor.fget is not None  # which may be of C, as an `attrgetter`
        return interpreter.call(descriptor.fget, (instance,)) if called else MISSING
    method = None if kind is FunctionType else python_method(interpreter, kind, "__get__")
    return MISSING if method is None else interpreter.call(method, (descriptor, instance, owner))


def store_attribute(interpreter: Evaluator, owner: object, name: str, value: object) -> None:
    """Sets an attribute."""
    cls = type(owner)
    if issubclass(cls, Resumable) and name in _NAMES and not isinstance(value, str):
        raise TypeError(f"{name} must be set to a string object")
    method = python_method(interpreter, cls, "__setattr__")
    if method is not None:
        interpreter.call(method, (owner, name, value))
    else:
        set_attribute(interpreter, owner, name, value)


def set_attribute(interpreter: Evaluator, owner: object, name: str, value: object, native: Native = setattr) -> None:
    """Sets an attribute by a data descriptor, or in the instance by what is `native`."""
    cls = type(owner)
    class_attribute = lookup(cls, name)
    if type(class_attribute) is property and type(class_attribute.fset) is FunctionType:
        interpreter.call(class_attribute.fset, (owner, value))
        return
    setter = python_method(interpreter, type(class_attribute), "__set__")
    if setter is not None:
        interpreter.call(setter, (class_attribute, owner, value))
    elif not interpreter.sets(owner, name, value):
        native(owner, name, value)


def delete_attribute(interpreter: Evaluator, owner: object, name: str) -> None:
    """Deletes an attribute."""
    cls = type(owner)
    if issubclass(cls, Resumable) and name in _NAMES:
        raise TypeError(f"{name} must be set to a string object")
    method = python_method(interpreter, cls, "__delattr__")
    if method is not None:
        interpreter.call(method, (owner, name))
    else:
        unset_attribute(interpreter, owner, name)


def unset_attribute(interpreter: Evaluator, owner: object, name: str, native: Native = delattr) -> None:
    """Deletes an attribute by a data descriptor, or in the instance by what is `native`."""
    cls = type(owner)
    class_attribute = lookup(cls, name)
    if type(class_attribute) is property and type(class_attribute.fdel) is FunctionType:
        interpreter.call(class_attribute.fdel, (owner,))
        return
    deleter = python_method(interpreter, type(class_attribute), "__delete__")
    if deleter is not None:
        interpreter.call(deleter, (class_attribute, owner))
    elif not interpreter.sets(owner, name, MISSING):
        native(owner, name)
