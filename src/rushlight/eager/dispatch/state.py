"""The user's dynamic scopes, per thread: included and excluded keys, grad mode, dispatch modes, the tracer.

This is the only module that holds such state.
"""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from rushlight.eager.dispatch.keys import Key, bit
from rushlight.support.errors import fail
from rushlight.support.interpreted import WITHIN
from rushlight.term import Op


class State(threading.local):
    """One thread's scopes. Class attributes are what a new thread starts with."""

    included: int = 0
    excluded: int = 0
    device: Any = None  # where new tensors are made unless a call says so; None for the CPU
    devices: tuple[Any, ...] = ()  # what it was outside each of the scopes of a device, outermost first
    grad: bool = True  # whether operators on tensors that require gradients are recorded
    silenced: bool = False  # whether it is a user's scope that they are not
    forward: str | None = None  # the innermost transform whose tangents are computed from what is recorded
    jacobian: bool = False  # whether a transform records that maps its derivatives
    inference: bool = False
    modes: tuple[Any, ...] = ()  # active dispatch modes, outermost first
    functions: tuple[Any, ...] = ()  # active modes of functions, outermost first
    overriding: bool = True  # whether the __torch_function__ of arguments is asked
    tracer: Any = None  # answers `call(op, operands, attrs)` for the TRACING key
    maps: tuple[Any, ...] = ()  # the active levels of vmap, outermost first
    builder: Any = None  # the GraphBuilder on which a rule runs right now
    saving: tuple[
        tuple[Callable[..., object], Callable[..., object]], ...
    ] = ()  # (pack, unpack) hooks for saved tensors, innermost last
    saving_refused: str | None = None  # why such hooks cannot be used now
    running: tuple[tuple[Op, Key], ...] = ()  # operators whose kernels redispatch, outermost first
    anomaly: bool = False  # backward passes name the forward's line of what fails
    anomaly_nan: bool = True  # and then a gradient of NaN fails
    autocast: Any = None  # the setting of autocast, one object per combination; None where it was never changed
    cast_weights: Any = None  # of the outermost autocast region: its number, and weights that were cast in it
    parametrized: Any = None  # parametrized tensors that the outermost region of `cached` has computed
    autocast_depth: int = 0  # regions within each other
    depth: int = 0  # scopes of the program's within each other
    duals: Any = None  # the active level of forward_ad
    engaged: Any = None  # the backward pass that this thread is in
    backward_compiler: Any = None  # what compiles backward passes; None for what the setting says
    backward_disabled: bool = False  # whether they are not compiled, whatever else is said
    profiles: tuple[Any, ...] = ()  # what measures this thread's operators, outermost first
    ranks: str | None = None  # the process groups that there are, where there are any, and this rank's places in them
    interpreter: Any = None  # `call(function, args, kwargs)` runs the program's functions while its bytecode is traced


STATE = State()
_TEXTS = frozenset({"__format__", "__repr__", "__str__"})
_OURS = re.compile(rf"{__name__.partition('.')[0]}\.(?!capture\.)")  # modules but for those that stand for the program


def call_user(function: Callable[..., Any], *args: object, **kwargs: object) -> Any:
    """What a function of the program's gives that one of ours calls back, as a hook."""
    interpreter = STATE.interpreter
    return function(*args, **kwargs) if interpreter is None else interpreter.call_back(function, args, kwargs)


def call_apart(function: Callable[..., Any], *args: object, **kwargs: object) -> Any:
    """`call_user`, of a function that a graph may run at another time, several times or not at all.

    What changes what was there before ends the graph.
    """
    interpreter = STATE.interpreter
    if interpreter is None:
        return function(*args, **kwargs)
    with interpreter.apart():
        return interpreter.call_back(function, args, kwargs)


def is_called_in_trace() -> bool:
    """Whether a function of ours calls who asks, as it is, while the program is interpreted."""
    return STATE.interpreter is not None


def _is_interpreted() -> bool:
    return False


setattr(is_called_in_trace, WITHIN, _is_interpreted)


def tell_made(value: object) -> None:
    """Tells who traces the program's bytecode of an object that is new: the program may change it."""
    if STATE.interpreter is not None:
        STATE.interpreter.makes(value)


def is_text_of_program() -> bool:
    """Whether a program that is interpreted asks for a text, and not a function of ours for a message."""
    if STATE.interpreter is None:
        return False
    frame, name = sys._getframe(1), ""
    while frame is not None and _OURS.match(frame.f_globals.get("__name__", "")):
        frame, name = frame.f_back, frame.f_code.co_name
    return name in _TEXTS


def refuse_in_graphs(name: str, reason: str = "") -> None:
    """C039 while a graph is traced: what a function does would be done once, and not at each call."""
    if STATE.tracer is not None:
        fail("C039", f"{name} is kept out of graphs" + (f": {reason}" if reason else ""))


def call_once(function: Callable[..., object], owner: object, *args: object, **kwargs: object) -> None:
    """Calls a function that gives the state of an owner its form, once for all calls of a program.

    One graph is traced once it has run, with tensors of the arguments' sizes. Other graphs end before it. Errors: C039
    where no interpreter traces.
    """
    if STATE.tracer is None:
        function(owner, *args, **kwargs)
    elif STATE.interpreter is None:
        refuse_in_graphs(f"the first call of a {type(owner).__name__}")
    else:
        STATE.interpreter.prepares(function, owner, args, kwargs)


class Scope:
    """A context manager that sets fields of the thread's state, and restores them on exit or error.

    Re-usable and re-entrant.
    """

    __slots__ = ("_before", "_values")

    def __init__(self, **values: object) -> None:
        self._values = values
        self._before: list[dict[str, object]] = []

    def __enter__(self) -> Self:
        self._before.append({name: getattr(STATE, name) for name in self._values})
        for name, value in self._values.items():
            setattr(STATE, name, value)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for name, value in self._before.pop().items():
            setattr(STATE, name, value)


class UserScope(Scope):
    """A scope that a program opens. It is known to be open also where it sets what is set: no graph ends within it."""

    __slots__ = ()

    def __enter__(self) -> Self:
        super().__enter__()
        STATE.depth += 1
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        STATE.depth -= 1
        super().__exit__(kind, error, trace)


def include_keys(keys: int) -> Scope:
    """A scope in which these keys are active whatever the operands are."""
    return Scope(included=STATE.included | keys, excluded=STATE.excluded & ~keys)


def exclude_keys(keys: int) -> Scope:
    """A scope in which these keys never answer."""
    return Scope(excluded=STATE.excluded | keys)


def reenter(key: Key) -> Scope:
    """A scope in which a kernel's own key may answer again: for kernels written in operators that may be themselves.

    A kernel's key is excluded while it runs, so that two kernels written in each other cannot loop.
    """
    return Scope(excluded=STATE.excluded & ~bit(key))
