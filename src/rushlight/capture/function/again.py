"""Functions whose entries another process has made, traced here after all: a backward pass asks for other gradients."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from rushlight.capture.entry.entry import Entry
from rushlight.capture.function.building import differentiated
from rushlight.capture.gradients.joint import ArgumentNode
from rushlight.capture.gradients.orders import Order
from rushlight.capture.signals import held_signals
from rushlight.capture.stored.programs import is_same_code, layout_of
from rushlight.capture.values import is_tuple, like_tuple
from rushlight.eager.autograd.history import attach, requires
from rushlight.eager.dispatch import STATE
from rushlight.eager.dispatch import Scope as StateScope
from rushlight.eager.handle import Handle, allocate, mark_required
from rushlight.eager.tensor_meta import TensorMeta
from rushlight.runtime.native import run_or_undo
from rushlight.support import clock, events, garbage
from rushlight.support.errors import fail
from rushlight.sym import Scope
from rushlight.sym.memo import forgetting

if TYPE_CHECKING:
    from rushlight.capture.options import Options
    from rushlight.capture.program import Program


class Traceable(Protocol):
    """A compiled function that can be traced anew."""

    options: Options

    def traced_program(
        self, args: tuple[object, ...], kwargs: dict[str, object], prepared: list[Callable[[], None]]
    ) -> tuple[Program, object, object, object]:
        """What is traced of a call, of which no entry is made, and what belongs to that."""
        ...


_FIELDS = ("grad", "included", "excluded", "device", "devices", "autocast", "ranks", "tracer", "builder", "interpreter")
"""What a trace depends on of the state of a thread: guards hold for these, or nothing is traced under others."""


class Loose(NamedTuple):
    """A tensor among the arguments, as long as others hold it, and what stands for it afterwards."""

    tensor: weakref.ref[Handle]
    form: TensorMeta
    recorded: bool | None

    @staticmethod
    def of(tensor: Handle) -> Loose:
        """A hold of a tensor that does not keep it; `recorded` is None where no gradients are wanted."""
        record = tensor.gradient if requires(tensor) else None
        return Loose(weakref.ref(tensor), tensor.form, None if record is None else record.node is not None)

    def found(self) -> Handle:
        """The tensor, or one like it whose elements nobody asks for."""
        tensor = self.tensor()
        if tensor is None:
            tensor = allocate(self.form)
            if self.recorded is False:
                mark_required(tensor)
            elif self.recorded:
                attach(tensor, ArgumentNode(), 0)
        return tensor


class Call:
    """The arguments of a call, and the state in which it was made."""

    def __init__(self, args: tuple[object, ...], kwargs: dict[str, object]) -> None:
        self._arguments = _loose((args, kwargs))
        self._state = {name: getattr(STATE, name) for name in _FIELDS}

    def arguments(self) -> tuple[tuple[object, ...], dict[str, object]]:
        """The arguments."""
        return _firm(self._arguments)

    def state(self) -> StateScope:
        """A context in which the state is that of the call."""
        return StateScope(**self._state)


def _loose(value: Any) -> Any:
    if isinstance(value, Handle):
        return Loose.of(value)
    if type(value) is dict:
        return {key: _loose(part) for key, part in value.items()}
    return _each(_loose, value)


def _firm(value: Any) -> Any:
    if type(value) is Loose:
        return value.found()
    if type(value) is dict:
        return {key: _firm(part) for key, part in value.items()}
    return _each(_firm, value)


def _each(change: Callable[[Any], Any], value: Any) -> Any:
    if type(value) is list:
        return [*map(change, value)]
    return like_tuple(value, map(change, value)) if is_tuple(value) else value


def traced_again(make: Callable[[], Traceable], entry: Entry, call: Call) -> tuple[Order, Scope]:
    """The gradients of a call whose entry another process has made, and the scope of their sizes.

    Errors: G015 where the trace is another one now.
    """
    events.record("cache_miss", "captured", "a backward pass that no process has run")
    function, prepared = make(), list[Callable[[], None]]()

    def traced() -> tuple[Order, Scope] | None:
        with held_signals(), call.state(), garbage.uncollected(), forgetting(), clock.stage("capture"):
            program = function.traced_program(*call.arguments(), prepared)[0]
            if program.backward is None:
                return None
            _, forward, part = differentiated(program, program.backward, function.options)
            same, order = part.layout == layout_of(entry) and is_same_code(forward, entry), part.order
            return (order, program.scope) if same and isinstance(order, Order) else None

    def undo() -> None:
        for take_away in prepared:
            take_away()

    made = run_or_undo(traced, undo)
    if made is None:
        hint = "call backward() before what the function reads is changed, or set RUSHLIGHT_CACHE_CAPTURED=0"
        fail("G015", "backward: the function that was found on disk is another one now", hint=hint)
    return made
