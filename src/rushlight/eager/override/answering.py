"""The FUNCTION key: `__torch_function__` of modes, of tensor subclasses and of other objects, above everything else.

Plain tensors pay nothing: the key is that of operands. Where an operator meets it, what the user called is looked up on
the stack. That is the operator's own function, which is answered at once, or a function that is written in operators:
then the call is unwound to it by `Overridden`, which `boundary.checked` catches.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import CodeType, FrameType, FunctionType, TracebackType
from typing import Any, NamedTuple, Self

from rushlight.eager.dispatch import STATE, Key, Scope, UserScope, call_below, register_fallback
from rushlight.eager.handle import adopted, wrap
from rushlight.eager.mutation import Mutation, arguments_of
from rushlight.eager.override.foreign import FUNCTION, Foreign, in_arguments, method_of, plain
from rushlight.support.errors import error, fail
from rushlight.support.peer_names import peer_names
from rushlight.support.provenance import is_users
from rushlight.term import Op

_GENERATED = ("rushlight.eager.functions", "rushlight.eager.methods")


class Overridden(BaseException):
    """Unwinds to a frame, which then asks the overrides."""

    def __init__(self, frame: FrameType) -> None:
        super().__init__()
        self.frame = frame


class Call(NamedTuple):
    """A call of a public function."""

    function: Any
    args: tuple[object, ...]
    kwargs: Mapping[str, object]


_catching: set[CodeType] = set()


def catches(code: CodeType) -> None:
    """Declares that functions of this code have `args` and `kwargs`, and catch `Overridden`."""
    _catching.add(code)


def relevant(values: Iterable[object]) -> list[Any]:
    """Values whose `__torch_function__` is asked, one of each class: derived classes first, then in order."""
    arguments: list[object] = []
    for value in in_arguments(values) if STATE.overriding else ():
        kinds = [type(other) for other in arguments]
        if type(value) not in kinds:
            at = next(
                (position for position, kind in enumerate(kinds) if issubclass(type(value), kind)), len(arguments)
            )
            arguments.insert(at, value)
    return arguments


def answer(function: Any, asked: Sequence[object], args: tuple[object, ...], kwargs: Mapping[str, object]) -> Any:
    """What the innermost mode, or else the first of `asked` that does not decline, makes of a call.

    Errors: A001 where all decline, C036 in a trace.
    """
    types = tuple({type(value): None for value in asked})
    modes = STATE.functions
    if asked or modes:
        _refuse_traced(getattr(function, "__name__", ""))
    if modes:
        with _modes(modes[:-1]):
            result = modes[-1].__torch_function__(function, types, args, kwargs)
            return function(*args, **kwargs) if result is NotImplemented else result
    for value in asked:
        result = method_of(value)(function, types, args, kwargs)
        if result is not NotImplemented:
            return result
    if not asked:
        return function(*args, **kwargs)
    names = ", ".join([kind.__name__ for kind in types])
    raise error("A001", f"no implementation found for {getattr(function, '__name__', function)} on types {names}")


def _refuse_traced(name: str) -> None:
    """C036 where a trace would ask the program: what it answers, and does, is of each call."""
    tracer = STATE.tracer
    if tracer is not None and tracer.refuses_python and (STATE.functions or not tracer.takes_wrappers):
        fail("C036", f"{name}: __torch_function__ is asked while a function is compiled")


def _modes(modes: tuple[object, ...]) -> Scope:
    included = STATE.included | FUNCTION if modes else STATE.included & ~FUNCTION
    return Scope(functions=modes, included=included)


def intercept(op: Op, active: int, operands: tuple[object, ...], attrs: Mapping[str, object]) -> Any:
    """The boxed kernel that answers every operator at the FUNCTION key."""
    if not STATE.functions and not relevant(operands):
        foreign = next((value for value in operands if isinstance(value, Foreign)), None)
        if foreign is not None:
            fail("A001", f"{op.name}: a tensor or a number is expected", value=foreign.value)
        return call_below(Key.FUNCTION, op, active, operands, attrs)
    _refuse_traced(op.name)
    site, outer = _sites()
    if outer is not None:
        raise Overridden(outer)
    call = (site and _call_at(site)) or _call_of(op, operands, attrs)
    asked = relevant([*call.args, *call.kwargs.values()])
    if not asked and not STATE.functions:  # what is asked stands within an argument, as the batch in a mapped tensor
        call, asked = Call(op, *arguments_of(op, operands, attrs)), relevant(operands)
    return answer(call.function, asked, call.args, call.kwargs)


def _sites() -> tuple[FrameType | None, FrameType | None]:
    """The frame of the generated function that called the operator, and the outermost that catches."""
    site = outer = None
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and not is_users(frame.f_code.co_filename) and frame.f_code is not answer.__code__:
        if site is None and frame.f_globals.get("__name__") in _GENERATED:
            site = frame
        if frame.f_code in _catching:
            variables = frame.f_locals
            if STATE.functions or relevant([*variables["args"], *variables["kwargs"].values()]):
                outer = frame
        frame = frame.f_back
    return site, outer


def _call_at(frame: FrameType) -> Call | None:
    """The call of a generated function or method, by its frame."""
    code, variables = frame.f_code, frame.f_locals
    owner = adopted() if "self" in variables else sys.modules[_GENERATED[0]]
    function = getattr(owner, code.co_name, None)
    if function is None:
        return None
    if isinstance(function, property):  # `Tensor.mT.__get__`, as PyTorch names what reads it
        function = function.__get__
    names = code.co_varnames
    count, keywords = code.co_argcount, code.co_kwonlyargcount
    defaults = getattr(function, "__defaults__", None) or ()
    args = [plain(variables[name]) for name in names[:count]]
    while defaults and len(args) > count - len(defaults) and args[-1] is defaults[len(args) - 1 - count]:
        args.pop()
    options = getattr(function, "__kwdefaults__", None) or {}
    kwargs = {
        name: plain(variables[name])
        for name in names[count : count + keywords]
        if name not in options or variables[name] is not options[name]
    }
    rest = count + keywords
    if code.co_flags & 4:
        args += [plain(value) for value in variables[names[rest]]]
        rest += 1
    if code.co_flags & 8:
        kwargs |= variables[names[rest]]
    return Call(function, tuple([_listed(value) for value in args]), kwargs)


def _listed(value: object) -> object:
    if isinstance(value, tuple) and any(isinstance(element, Foreign) for element in value):
        return tuple([plain(element) for element in value])
    return value


def _call_of(op: Op, operands: tuple[object, ...], attrs: Mapping[str, object]) -> Call:
    """The call of an operator by other code than its function: that function, or the operator itself."""
    args, kwargs = arguments_of(op, operands, attrs)
    name, _, overload = op.name.partition(".")
    method = overload or (isinstance(op, Mutation) and not op.out)
    owner = adopted() if method else sys.modules[_GENERATED[0]]
    function = getattr(owner, name, None) or getattr(adopted(), name, op)
    if getattr(function, "__module__", None) not in _GENERATED:  # others take their arguments in another way
        function = op
    return Call(function, tuple([_listed(plain(value)) for value in args]), kwargs)


register_fallback(Key.FUNCTION, intercept, reenters=True)


class TorchFunctionMode:
    """Base of modes: within `with mode:` every call of a function on tensors comes to `__torch_function__`.

    The mode is off while it answers. Functions that are written in others are seen as they are called, not within.

    ```python
    class Log(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            print(func.__name__)
            return func(*args, **(kwargs or {}))
    ```
    """

    def __torch_function__(
        self,
        func: Callable[..., object],
        types: Iterable[type],
        args: tuple[object, ...] = (),
        kwargs: Mapping[str, object] | None = None,
    ) -> object:
        """Answer a call; the base calls the function."""
        return func(*args, **(kwargs or {}))

    def __enter__(self) -> Self:
        self._scopes = [*getattr(self, "_scopes", []), _modes((*STATE.functions, self))]
        self._scopes[-1].__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._scopes.pop().__exit__(kind, error, trace)


class DisableTorchFunctionSubclass(UserScope):
    """A scope in which no `__torch_function__` of arguments is asked; modes are."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(overriding=False, excluded=STATE.excluded | (0 if STATE.functions else FUNCTION))


class DisableTorchFunction(UserScope):
    """A scope in which no `__torch_function__` is asked, of arguments or of modes."""

    __slots__ = ()

    def __init__(self) -> None:
        included, excluded = STATE.included & ~FUNCTION, STATE.excluded | FUNCTION
        super().__init__(overriding=False, functions=(), included=included, excluded=excluded)


_SYNTAX = frozenset(
    [
        "__bool__",
        "__complex__",
        "__contains__",
        "__float__",
        "__getitem__",
        "__index__",
        "__int__",
        "__len__",
        "__setitem__",
    ]
)


def override_methods(cls: type[Any]) -> None:
    """Lets a class of tensors be asked for methods that are not one operator, which asks by itself."""
    for name in _SYNTAX | peer_names("rushlight.Tensor"):
        method: Any = getattr(adopted(), name, None)
        written = type(method) is FunctionType and method.__module__ != _GENERATED[1]
        if written and not name.startswith("__torch") and getattr(cls, name) is method:
            setattr(cls, name, _asking(method))


def _asking(method: Callable[..., object]) -> Callable[..., Any]:
    @functools.wraps(method)
    def call(*args: object, **kwargs: object) -> Any:
        asked = relevant((*args, *kwargs.values()))
        if not asked and not STATE.functions:
            return method(*args, **kwargs)
        _, outer = _sites()
        if outer is not None:
            raise Overridden(outer)
        return answer(method, asked, args, kwargs)

    return call


def answer_plainly(
    cls: type[Any],
    func: Callable[..., object],
    types: Iterable[type],
    args: tuple[object, ...],
    kwargs: Mapping[str, object] | None,
) -> object:
    """What tensors do by default: call the function as if all were plain, and make results tensors of the class."""
    if not all(issubclass(cls, kind) for kind in types):
        return NotImplemented
    with DisableTorchFunctionSubclass():
        result = func(*args, **(kwargs or {}))
        return _as_class(result, cls)


def _as_class(result: object, cls: type[Any]) -> Any:
    if isinstance(result, adopted()):
        answer: Any = result
        return result if cls is adopted() or isinstance(result, cls) else wrap(answer, cls)
    if isinstance(result, (tuple, list)):
        items = [_as_class(element, cls) for element in result]
        kind: Any = type(result)
        return kind(*items) if hasattr(result, "_fields") else kind(items)
    return result
