"""How programs steer the compiler: functions that are kept out of graphs or taken as they are."""

from __future__ import annotations

import functools
from collections.abc import Callable
from inspect import CO_ASYNC_GENERATOR, CO_COROUTINE, CO_GENERATOR
from types import FunctionType, MethodType
from typing import Any

from rushlight.capture.interpreter.slots import lookup
from rushlight.capture.resume.breaks import APART, NATIVE
from rushlight.capture.resume.graphless import is_leaf
from rushlight.eager.dispatch import STATE, Key, Scope, bit, refuse_in_graphs
from rushlight.support import events
from rushlight.support.errors import fail, require

_NAMES = tuple([name for name in functools.WRAPPER_ASSIGNMENTS if name != "__module__"])


def disable(fn: Any = None, recursive: bool = True, reason: str | None = None) -> Any:
    """Keeps a function out of graphs: it runs as it is, with all that it calls. Also a decorator.

    The graph of a caller ends before the call, and another begins after it. With `fullgraph=True` the call is error
    C039, which tells the `reason`. A module runs uncompiled where it is called, a class where it is made and called.
    `recursive` is accepted: what the function calls is compiled where it is compiled itself. `rl.compile` of the result
    gives it back.
    """
    if fn is None:
        return functools.partial(disable, recursive=recursive, reason=reason)
    if isinstance(fn, (staticmethod, classmethod)):
        return type(fn)(disable(fn.__func__, recursive, reason))
    if isinstance(fn, type):
        cls: Any = fn
        for name in ("__init__", "__call__", "forward"):
            if callable(vars(cls).get(name)):
                setattr(cls, name, disable(vars(cls)[name], recursive, reason))
        return fn
    if hasattr(type(fn), "forward"):
        fn.forward = disable(fn.forward, recursive, reason)
        return fn
    require(callable(fn), "A002", "disable: a function, a module or a class is expected", given=type(fn).__name__)
    return fn if hasattr(fn, APART) else _kept_apart(getattr(fn, "_uncompiled", fn), reason)


def _kept_apart(function: Callable[..., Any], reason: str | None) -> Callable[..., Any]:
    @functools.wraps(function)
    def disabled(*args: Any, **kwargs: Any) -> Any:
        refuse_in_graphs(getattr(disabled, "__qualname__", repr(function)), reason or "")
        return function(*args, **kwargs)

    setattr(disabled, APART, function)
    return disabled


def suspends(function: object) -> bool:
    """Whether calls of a function give a generator or coroutine, which runs later."""
    begun = begun_by(function)
    return begun is not None and bool(begun.__code__.co_flags & (CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR))


def wrapped_by(function: Any) -> Any:
    """What is called by partial functions and bound methods around it; another callable itself."""
    while True:
        if type(function) is functools.partial:
            function = function.func
        elif type(function) in (MethodType, staticmethod):
            function = function.__func__
        else:
            return function


def begun_by(function: object) -> FunctionType | None:
    """The Python function that a call of a callable begins with; None where C or a class is called."""
    called: Any = wrapped_by(function)
    if type(called) is not FunctionType:
        called = lookup(type(called), "__call__")
    return called if type(called) is FunctionType else None


def as_function(function: Callable[..., Any]) -> Callable[..., Any]:
    """A callable that begins with a function that is looked into.

    Around a class, what C calls and what is ours there is one.
    """
    begun = begun_by(function)
    if begun is not None and not is_leaf(begun):
        return function

    def call(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return FunctionType(call.__code__, {"__name__": call.__name__}, call.__name__, None, call.__closure__)


def run_as_it_is(function: Any, fullgraph: bool) -> Any:
    """Gives back a generator or coroutine function, which no graph can hold; C041 where it must be one."""
    name = getattr(function, "__qualname__", None) or repr(function)
    if fullgraph:
        fail(
            "C041", f"compile: {name} is a generator or coroutine function", hint="compile the functions that it calls"
        )
    events.record("graph_break", NATIVE.code, f"{name} runs as it is", hint=NATIVE.hint)
    return function


@functools.partial(disable, reason="the program asks for the end of the graph")
def graph_break(msg: str = "") -> None:
    """Ends the graph where it is called; with `fullgraph=True` that is error C039."""


def allow_in_graph(fn: Any) -> Any:
    """A function whose tensor operators are traced without a look at how it is written. Also for a list of functions.

    What it does to other objects is done once, while it is traced; calls of compiled code do not repeat it. A class
    is returned as it is, and graphs look into it.
    """
    if isinstance(fn, (list, tuple)):
        return [allow_in_graph(one) for one in fn]
    if isinstance(fn, type):
        return fn
    require(callable(fn), "A002", "allow_in_graph: a function is expected", given=type(fn).__name__)

    @functools.wraps(fn, assigned=_NAMES)
    def allowed(*args: Any, **kwargs: Any) -> Any:
        return fn(*args, **kwargs)

    return allowed


nonstrict_trace = allow_in_graph


def assume_constant_result(fn: Any) -> Any:
    """A function whose result is a constant of what is compiled: it runs once for each graph, uncompiled."""
    require(callable(fn), "A002", "assume_constant_result: a function is expected", given=type(fn).__name__)

    @functools.wraps(fn, assigned=_NAMES)
    def constant(*args: Any, **kwargs: Any) -> Any:
        with Scope(tracer=None, included=STATE.included & ~bit(Key.TRACING)):
            return fn(*args, **kwargs)

    return constant


def cudagraph_mark_step_begin() -> None:
    """Does nothing: a step needs no mark, since results never share the memory of an earlier call's."""


def substitute_in_graph(
    original_fn: Any, *, can_constant_fold_through: bool = False, skip_signature_check: bool = False
) -> Callable[[Any], Any]:
    """A decorator that gives back what it is given: a function of C that no graph can hold runs between graphs."""
    name = getattr(original_fn, "__qualname__", repr(original_fn))
    events.record("pass_through", "N001", f"substitute_in_graph: {name} runs as it is")
    return lambda traced_fn: traced_fn
