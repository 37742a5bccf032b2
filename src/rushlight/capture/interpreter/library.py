"""Builtins that look at the caller's frame, or whose protocol calls methods written in Python."""

from __future__ import annotations
import __future__

import _thread
import bisect
import builtins
import collections
import functools
import inspect
import itertools
import math
import operator
import sys
import types
import warnings
from abc import ABCMeta
from collections.abc import Callable, MutableMapping
from types import CellType, FunctionType
from typing import Any, NamedTuple, TypeVar

from rushlight.capture.interpreter import slots
from rushlight.capture.interpreter.binding import take_closure
from rushlight.capture.interpreter.frame import UNBOUND, Evaluator, Frame, FrameView, body_of, contents_of
from rushlight.capture.interpreter.generators import Resumable
from rushlight.capture.interpreter.hooks import MISSING
from rushlight.capture.interpreter.slots import Native
from rushlight.capture.interpreter.tracebacks import outer_frame


def _itself(function: object) -> object:
    """The function of a callback that was pickled."""
    return function


class Callback:
    """A function that C calls back and that is interpreted."""

    __slots__ = ("_function", "_interpreter")

    def __init__(self, interpreter: Evaluator, function: object) -> None:
        self._interpreter = interpreter
        self._function = function

    @property
    def function(self) -> object:
        """The function itself."""
        return self._function

    def __call__(self, *args: object, **kwargs: object) -> object:
        """What an interpreted call gives."""
        return self._interpreter.hands(self._interpreter.call(self._function, args, kwargs))

    def __reduce__(self) -> tuple[Any, ...]:
        return _itself, (self._function,)

    def __eq__(self, other: object) -> bool:
        return self._function == (other._function if isinstance(other, Callback) else other)

    def __hash__(self) -> int:
        return hash(self._function)


class Called(NamedTuple):
    """Which argument a function of C calls: its position, or -1 where it has none, and its name."""

    position: int
    name: str


_BY_KEY = Called(-1, "key")
_FIRST = Called(0, "")
CACHED: Any = type(functools.lru_cache(_itself))
"""The class of functions whose results C keeps."""
COMPARED: type = type(functools.cmp_to_key(lambda one, other: 0))
"""The class of keys that a function compares, and of what makes them."""
CALLING_BACK: dict[object, Called] = {
    **dict.fromkeys([sorted, min, max], _BY_KEY),
    **dict.fromkeys([bisect.bisect_left, bisect.bisect_right, bisect.insort_left, bisect.insort_right], _BY_KEY),
    **dict.fromkeys([map, filter, functools.reduce, itertools.starmap], _FIRST),
    **dict.fromkeys([itertools.takewhile, itertools.dropwhile, itertools.filterfalse], _FIRST),
    itertools.accumulate: Called(1, "func"),
    itertools.groupby: Called(1, "key"),
    CACHED: _FIRST,
    functools.cmp_to_key: Called(0, "mycmp"),
}
"""Functions and classes of C that call a function among their arguments. So does `list.sort`."""
OF_SORT = _BY_KEY
ONE: set[object] = {min, max}
"""Functions of C that take the values of an iterable where it is the only argument."""
ITERATING: dict[object, tuple[int, int | None]] = {
    **dict.fromkeys([list, tuple, set, frozenset, enumerate, sum, any, all, sorted, math.prod, *ONE], (0, 1)),
    **dict.fromkeys([filter, functools.reduce, itertools.starmap, itertools.takewhile, itertools.dropwhile], (1, 1)),
    **dict.fromkeys([itertools.islice, itertools.cycle, itertools.accumulate, collections.deque], (0, 1)),
    **dict.fromkeys([zip, itertools.zip_longest, itertools.chain, itertools.product], (0, None)),
    map: (1, None),
}
"""Functions and classes of C that take values of iterables: the first of these arguments, and how many there are."""
_FUTURE_FLAGS = functools.reduce(
    operator.or_, [getattr(__future__, name).compiler_flag for name in __future__.all_feature_names]
)
_COMPILE = inspect.signature(compile)
_WARN = inspect.signature(lambda message, category=None, stacklevel=1, source=None, *, skip_file_prefixes=(): None)
_NATIVE_SUPER: Native = super  # the type checker knows the statement alone


_Applied = TypeVar("_Applied", bound=Native)


class Rule(NamedTuple):
    """What is done in place of a builtin's call with so many arguments and no keywords; `most` None: of any call."""

    apply: Native
    fewest: int
    most: int | None


BUILTINS: dict[object, Rule] = {}
"""The rules, by builtin function or class."""


def _in_place_of(builtin: object, fewest: int = 0, most: int | None = None) -> Callable[[_Applied], _Applied]:
    """Enters a function of the interpreter and the call's arguments as the rule of a builtin."""

    def enter(function: _Applied) -> _Applied:
        BUILTINS[builtin] = Rule(function, fewest, most)
        return function

    return enter


def _frame(interpreter: Evaluator) -> Frame:
    return interpreter.frames[-1]


@_in_place_of(super)
def _super(interpreter: Evaluator, *args: object) -> object:
    """`super()`: without arguments it reads the caller's first variable and its cell `__class__`."""
    if args:
        return _NATIVE_SUPER(*args)
    frame = _frame(interpreter)
    code = frame.body.code
    if not frame.body.raw.co_argcount:
        raise RuntimeError("super(): no arguments")
    first = frame.locals[0]
    if type(first) is CellType and code.locals[0] in frame.body.raw.co_cellvars:
        first = interpreter.contents(first)
    if first is UNBOUND:
        raise RuntimeError("super(): arg[0] deleted")
    if "__class__" not in code.raw.co_freevars:
        raise RuntimeError("super(): __class__ cell not found")
    cell: CellType = frame.locals[code.locals.index("__class__")]
    cls = interpreter.contents(cell)
    if cls is UNBOUND:
        raise RuntimeError("super(): empty __class__ cell")
    return _NATIVE_SUPER(cls, first)


@_in_place_of(type)
def _type(interpreter: Evaluator, *args: Any, **kwargs: object) -> object:
    if len(args) == 1 and not kwargs:
        kind = type(args[0])
        return args[0].__class__ if issubclass(kind, Resumable) else interpreter.class_of(args[0])
    return _new_class(interpreter, type, *args, **kwargs)


@_in_place_of(type.__new__)
def _new_class(interpreter: Evaluator, *args: Any, **kwargs: object) -> object:
    """`type.__new__`: a class whose namespace names no module is of the caller's."""
    parts = args[1:]
    if len(args) != 4 or not all(map(isinstance, args, (type, str, tuple, dict))):
        return type(*parts, **kwargs) if args[:1] == (type,) else interpreter.native(type.__new__, args, kwargs)
    kind, name, bases, namespace = args
    namespace = dict.copy(namespace)
    namespace.setdefault("__module__", _frame(interpreter).globals.get("__name__"))
    meta = _metaclass(kind, bases)
    if meta is not kind and slots.lookup(meta, "__new__") is not type.__dict__["__new__"]:
        return interpreter.call(meta.__new__, (meta, name, bases, namespace), kwargs)
    return interpreter.new_class(meta, name, bases, namespace, kwargs)


def _metaclass(kind: type, bases: tuple[object, ...]) -> type:
    """The metaclass that is derived from all others. Errors: TypeError where there is none."""
    for base in bases:
        other = type(base)
        if issubclass(kind, other):
            continue
        if not issubclass(other, kind):
            raise TypeError(
                "metaclass conflict: the metaclass of a derived class must be a (non-strict) subclass of the"
                " metaclasses of all its bases"
            )
        kind = other
    return kind


@_in_place_of(locals, 0, 0)
def _locals(interpreter: Evaluator) -> Any:
    frame = _frame(interpreter)
    return frame.variables(interpreter.contents) if frame.names is None else frame.names


@_in_place_of(globals, 0, 0)
def _globals(interpreter: Evaluator) -> dict[str, Any]:
    return _frame(interpreter).globals


_in_place_of(vars, 0, 0)(_locals)


@_in_place_of(dir, 0, 0)
def _dir(interpreter: Evaluator) -> object:
    names: list[str] = sorted(_locals(interpreter))
    return names


def _future_flags(interpreter: Evaluator) -> int:
    """The `__future__` features of the caller, which what it compiles has too."""
    return _frame(interpreter).body.raw.co_flags & _FUTURE_FLAGS


@_in_place_of(compile)
def _compile(interpreter: Evaluator, *args: Any, **kwargs: Any) -> object:
    given = _COMPILE.bind(*args, **kwargs)
    given.apply_defaults()
    if not given.arguments["dont_inherit"]:
        given.arguments["flags"] |= _future_flags(interpreter)
        given.arguments["dont_inherit"] = True
    return interpreter.native(compile, given.args, given.kwargs)


@_in_place_of(eval, 1, 3)
def _eval(interpreter: Evaluator, source: Any, globals_: Any = None, locals_: Any = None, /) -> object:
    if isinstance(source, str):
        source = source.lstrip(" \t")
    return _evaluated(interpreter, eval, source, globals_, locals_)


@_in_place_of(exec)
def _exec(interpreter: Evaluator, source: Any, globals_: Any = None, locals_: Any = None, /, **kwargs: Any) -> None:
    if kwargs:
        interpreter.native(exec, (source, globals_, locals_), kwargs)
    else:
        _evaluated(interpreter, exec, source, globals_, locals_)


def _evaluated(interpreter: Evaluator, function: Native, source: Any, globals_: Any, locals_: Any) -> object:
    """What code gives that a program compiles while it runs."""
    if globals_ is None:
        globals_ = _globals(interpreter)
        locals_ = _locals(interpreter) if locals_ is None else locals_
    locals_ = globals_ if locals_ is None else locals_
    if isinstance(source, str):
        kind = "eval" if function is eval else "exec"
        source = compile(source, "<string>", kind, _future_flags(interpreter), dont_inherit=True)
    fits = isinstance(globals_, dict) and hasattr(type(locals_), "__getitem__") and isinstance(source, types.CodeType)
    if not fits or source.co_freevars:
        return interpreter.native(function, (source, globals_, locals_), {})
    if "__builtins__" not in globals_:
        interpreter.replaces(globals_, "__builtins__", vars(builtins))
        globals_["__builtins__"] = _frame(interpreter).builtins
    body = body_of(source)
    return interpreter.run(Frame(body, [UNBOUND] * body.local_count, globals_, None, locals_))


@_in_place_of(sys.exc_info, 0, 0)
def _exc_info(interpreter: Evaluator) -> object:
    error = interpreter.current_error()
    return (None, None, None) if error is None else (type(error), error, error.__traceback__)


@_in_place_of(sys.exception, 0, 0)
def _exception(interpreter: Evaluator) -> object:
    return interpreter.current_error()


@_in_place_of(sys._getframe, 0, 1)
def _getframe(interpreter: Evaluator, depth: int = 0) -> FrameView | types.FrameType | None:
    frames = interpreter.frames
    outer = outer_frame()
    if depth < len(frames):
        view = FrameView(frames[:], interpreter.contents, len(frames) - 1 - max(depth, 0), outer)
        interpreter.makes(view)
        return view
    for _ in range(depth - len(frames)):
        outer = None if outer is None else outer.f_back
    if outer is None:
        raise ValueError("call stack is not deep enough")
    return outer


def _getframemodulename(interpreter: Evaluator, depth: int = 0) -> object:
    try:
        frame = _getframe(interpreter, depth)
    except ValueError:
        return None
    return None if frame is None else frame.f_globals.get("__name__")


if sys.version_info >= (3, 12):
    _in_place_of(sys._getframemodulename, 0, 1)(_getframemodulename)


@_in_place_of(warnings.warn)
def _warn(interpreter: Evaluator, *args: Any, **kwargs: Any) -> object:
    """`warnings.warn`, which names the line of the interpreted function that calls it, or of a caller."""
    given = _WARN.bind(*args, **kwargs)
    given.apply_defaults()
    message, category, level, source, prefixes = given.arguments.values()
    if isinstance(message, Warning):
        category = type(message)
    category = UserWarning if category is None else category
    if not (isinstance(category, type) and issubclass(category, Warning)):
        raise TypeError(f"category must be a Warning subclass, not '{type(category).__name__}'")
    frame = _getframe(interpreter)
    level = max(level, 2) - 1 if prefixes else level - 1
    while frame is not None and (level > 0 or frame.f_code.co_filename.startswith(prefixes or "\0")):
        frame = frame.f_back
        level -= 1
    scope: dict[str, Any] = sys.__dict__ if frame is None else frame.f_globals
    file, line = ("sys", 1) if frame is None else (frame.f_code.co_filename, frame.f_lineno)
    registry = scope.setdefault("__warningregistry__", {})
    module = scope.get("__name__", "<string>")
    explicit = (message, category, file, line, module, registry, None, source)
    return interpreter.native(warnings.warn_explicit, explicit, {})


_in_place_of(bool, 1, 1)(slots.truth)
_in_place_of(len, 1, 1)(slots.length)


@_in_place_of(iter, 1, 2)
def _iter(interpreter: Evaluator, source: Any, *sentinel: object) -> object:
    if not sentinel:
        return slots.iterator_of(interpreter, source)
    return iter(Callback(interpreter, source) if callable(source) else source, *sentinel)


@_in_place_of(next, 1, 2)
def _next(interpreter: Evaluator, iterator: Any, *default: object) -> object:
    method = slots.python_method(interpreter, type(iterator), "__next__")
    if method is None:
        if slots.lookup(type(iterator), "__next__") is not MISSING:
            interpreter.advances(iterator)
        return next(iterator, *default)
    try:
        return interpreter.call(method, (iterator,))
    except StopIteration:
        if not default:
            raise
        return default[0]


@_in_place_of(getattr, 2, 3)
def _getattr(interpreter: Evaluator, owner: object, name: Any, *default: object) -> object:
    if not isinstance(name, str):
        return getattr(owner, name, *default)
    try:
        return slots.attribute_of(interpreter, interpreter.owner(owner, name), name)
    except AttributeError:
        if not default:
            raise
        return default[0]


@_in_place_of(hasattr, 2, 2)
def _hasattr(interpreter: Evaluator, owner: object, name: Any) -> bool:
    if not isinstance(name, str):
        return hasattr(owner, name)
    try:
        slots.attribute_of(interpreter, interpreter.owner(owner, name), name)
    except AttributeError:
        return False
    return True


@_in_place_of(setattr, 3, 3)
def _setattr(interpreter: Evaluator, owner: object, name: Any, value: object) -> None:
    if isinstance(name, str):
        slots.store_attribute(interpreter, owner, name, value)
    else:
        setattr(owner, name, value)


@_in_place_of(delattr, 2, 2)
def _delattr(interpreter: Evaluator, owner: object, name: Any) -> None:
    if isinstance(name, str):
        slots.delete_attribute(interpreter, owner, name)
    else:
        delattr(owner, name)


@_in_place_of(object.__getattribute__, 2, 2)
def _get(interpreter: Evaluator, owner: object, name: str) -> object:
    if issubclass(type(owner), type) or type(name) is not str:
        return object.__getattribute__(owner, name)
    return slots.generic_attribute(interpreter, interpreter.owner(owner, name), name)


@_in_place_of(object.__setattr__, 3, 3)
def _set(interpreter: Evaluator, owner: object, name: str, value: object) -> None:
    if issubclass(type(owner), type) or type(name) is not str:
        object.__setattr__(owner, name, value)
    else:
        slots.set_attribute(interpreter, owner, name, value, object.__setattr__)


@_in_place_of(object.__delattr__, 2, 2)
def _delete(interpreter: Evaluator, owner: object, name: str) -> None:
    if issubclass(type(owner), type) or type(name) is not str:
        object.__delattr__(owner, name)
    else:
        slots.unset_attribute(interpreter, owner, name, object.__delattr__)


@_in_place_of(object.__init__, 1, 1)
@_in_place_of(type.__init__, 4, 4)
def _initialise(interpreter: Evaluator, *given: object) -> None:
    """`object.__init__`, and that of classes, which do nothing."""


@_in_place_of(isinstance, 2, 2)
def _isinstance(interpreter: Evaluator, value: object, classes: Any) -> bool:
    return _checked(interpreter, "__instancecheck__", isinstance, value, classes)


@_in_place_of(issubclass, 2, 2)
def _issubclass(interpreter: Evaluator, value: object, classes: Any) -> bool:
    return _checked(interpreter, "__subclasscheck__", issubclass, value, classes)


def _checked(interpreter: Evaluator, name: str, function: Callable[..., bool], value: object, classes: Any) -> bool:
    """Whether a value is of classes, asked of their metaclasses where those are written in Python."""
    if type(classes) is tuple:
        return any(_checked(interpreter, name, function, value, cls) for cls in classes)
    kind = interpreter.class_of(value) if function is isinstance else type(value)
    if kind is not type(value) and type(classes) is ABCMeta:  # which asks for the class alone
        return _checked(interpreter, "__subclasscheck__", issubclass, kind, classes)
    if type(value) is not classes or function is issubclass:
        method = slots.python_method(interpreter, type(classes), name)
        if method is not None:
            return slots.truth(interpreter, interpreter.call(method, (classes, value)))
    if kind is not type(value):
        return issubclass(kind, classes)
    return function(value, classes)


def _text(interpreter: Evaluator, value: object, name: str, function: Native) -> object:
    method = slots.python_method(interpreter, type(value), name)
    return function(value) if method is None else function(_Shown(interpreter.call(method, (value,))))


class _Shown:
    """Has CPython check the text that a method gave."""

    def __init__(self, text: Any) -> None:
        self._text = text

    def __str__(self) -> str:
        return self._text

    __repr__ = __str__

    def __format__(self, spec: str) -> str:
        return self._text


@_in_place_of(id, 1, 1)
def _id(interpreter: Evaluator, value: object) -> int:
    return interpreter.identity(value)


@_in_place_of(_thread.get_ident, 0, 0)
def _get_ident(interpreter: Evaluator) -> int:
    return interpreter.thread()


@_in_place_of(hash, 1, 1)
def _hash(interpreter: Evaluator, value: object) -> object:
    method = slots.python_method(interpreter, type(value), "__hash__")
    if method is None:
        return interpreter.native(hash, (value,), {})
    return hash(_Hashed(interpreter.call(method, (value,))))


class _Hashed:
    """Has CPython check a hash that a method gave."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def __hash__(self) -> int:
        return self._value


@_in_place_of(repr, 1, 1)
def _repr(interpreter: Evaluator, value: object) -> object:
    return _text(interpreter, value, "__repr__", repr)


@_in_place_of(str, 1, 1)
def _str(interpreter: Evaluator, value: object) -> object:
    if type(value) is str:
        return value
    if slots.lookup(type(value), "__str__") is object.__str__:
        return _text(interpreter, value, "__repr__", str)
    return _text(interpreter, value, "__str__", str)


@_in_place_of(format, 1, 2)
def _format(interpreter: Evaluator, value: object, spec: Any = "") -> object:
    cls = type(value)
    method = slots.python_method(interpreter, cls, "__format__")
    if method is not None:
        return format(_Shown(interpreter.call(method, (value, spec))))
    if spec == "" and slots.lookup(cls, "__format__") is object.__format__:
        return _str(interpreter, value)
    return format(value, spec)


@_in_place_of(builtins.__build_class__)
def _build_class(interpreter: Evaluator, function: FunctionType, name: str, *bases: object, **kwargs: object) -> object:
    """`__build_class__`: resolves bases and the metaclass, runs the body, and calls the metaclass."""
    resolved = _resolved(interpreter, bases)
    meta: Any = kwargs.pop("metaclass", type(resolved[0]) if resolved else type)
    if isinstance(meta, type):
        meta = _metaclass(meta, resolved)
    namespace = _prepared(interpreter, meta, (name, resolved), kwargs)
    if not isinstance(namespace, MutableMapping) and not hasattr(type(namespace), "__setitem__"):
        kind = meta.__name__ if isinstance(meta, type) else "<metaclass>"
        raise TypeError(f"{kind}.__prepare__() must return a mapping, not {type(namespace).__name__}")
    body = body_of(function.__code__)
    variables: list[object] = [UNBOUND] * body.local_count
    frame = Frame(body, variables, function.__globals__, function.__closure__, namespace)
    take_closure(frame)
    cell = interpreter.run(frame)
    if resolved is not bases and "__orig_bases__" not in namespace:
        namespace["__orig_bases__"] = bases
    made = interpreter.call(meta, (name, resolved, namespace), kwargs)
    if isinstance(made, type) and isinstance(cell, CellType):
        held = contents_of(cell)
        if held is UNBOUND:
            text = f"__class__ not set defining {name!r} as {made!r}. Was __classcell__ propagated to type.__new__?"
            raise RuntimeError(text)
        if held is not made:
            raise TypeError(f"__class__ set to {held!r} defining {name!r} as {made!r}")
    return made


def _resolved(interpreter: Evaluator, bases: tuple[object, ...]) -> tuple[object, ...]:
    """The bases of a class: those that are no classes say which classes they stand for."""
    if all(isinstance(base, type) for base in bases):
        return bases
    found: list[object] = []
    for base in bases:
        entries = None if isinstance(base, type) else getattr(base, "__mro_entries__", None)
        given: object = (base,) if entries is None else interpreter.call(entries, (bases,))
        if not isinstance(given, tuple):
            raise TypeError("__mro_entries__ must return a tuple")
        found += given
    return tuple(found)


def _prepared(interpreter: Evaluator, meta: object, given: tuple[object, ...], kwargs: dict[str, object]) -> Any:
    """The namespace in which a class body runs."""
    prepare = getattr(meta, "__prepare__", None)
    if prepare is None or type(prepare) is types.BuiltinFunctionType:
        namespace: dict[str, object] = {}
        interpreter.makes(namespace)
        return namespace
    return interpreter.call(prepare, given, dict(kwargs))
