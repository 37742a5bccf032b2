"""Generators and coroutines of CPython's own, made of interpreted ones.

For one that has begun, the code of the function is extended: its bytes stay where they are, and so do lines, jumps and
handlers; behind them stands what fills in variables and stack and jumps to the `yield` at which the frame waits. The
first step of a generator of that code leads there.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from inspect import CO_ASYNC_GENERATOR, CO_COROUTINE, CO_VARARGS, CO_VARKEYWORDS
from types import CellType, CodeType, FunctionType
from typing import Any, NamedTuple

from rushlight.capture.code.assembling import UNIT, emitted, filled, unlocated
from rushlight.capture.code.instructions import Code
from rushlight.capture.interpreter.binding import parameter_count
from rushlight.capture.interpreter.frame import NULL, UNBOUND, Frame, contents_of
from rushlight.capture.interpreter.generators import InterpretedGenerator, Resumable

_MOST = 1 << 16  # what a jump with one prefix reaches
_BACK = 3  # units of the jump to the `yield`


def can_be_suspended(value: Resumable) -> bool:
    """Whether code can be made for one that waits. Others drive the steps of an asynchronous generator."""
    return not value.code.co_flags & CO_ASYNC_GENERATOR and len(value.code.co_code) // UNIT < _MOST


def closure_of(frame: Frame) -> list[Any]:
    """The cells of the function's closure, which are the last variables of a frame."""
    return frame.locals[len(frame.locals) - len(frame.body.raw.co_freevars) :]


class Call(NamedTuple):
    """What a function is called with that makes a generator: its globals and closure, and the arguments."""

    variables: dict[str, Any]
    closure: Sequence[Any]
    given: Sequence[object]
    rest: Iterable[object]
    by_name: Mapping[str, object]

    @staticmethod
    def of(code: CodeType, frame: Frame | None) -> Call:
        """The call whose generator has not begun; where there is no frame, some call: its generator has ended."""
        count = code.co_argcount + code.co_kwonlyargcount
        if frame is None:
            return Call({}, [CellType() for _ in code.co_freevars], [None] * count, (), {})
        values = [contents_of(part) for part in frame.locals[: count + 2]]
        given, others = values[:count], values[count:]
        rest: Any = others.pop(0) if code.co_flags & CO_VARARGS else ()
        by_name: Any = others.pop(0) if code.co_flags & CO_VARKEYWORDS else {}
        return Call(frame.globals, closure_of(frame), given, rest, by_name)

    def made(self, code: CodeType, names: tuple[str, str]) -> Any:
        """The generator, coroutine or asynchronous generator."""
        function: Any = FunctionType(code, self.variables, None, None, tuple(self.closure))
        count = code.co_argcount
        named = zip(code.co_varnames[count : count + code.co_kwonlyargcount], self.given[count:], strict=True)
        made = function(*self.given[:count], *self.rest, **dict(named), **self.by_name)
        made.__name__, made.__qualname__ = names
        return made


class SuspendedCode:
    """The code of generators that wait where a frame does.

    It unpacks lists among its constants: one with the variables, and the stack from the bottom, which is cut where a
    null stands, since that is no object.
    """

    __slots__ = ("_code", "_count", "_globals", "_names", "_parts", "_set")

    def __init__(self, frame: Frame, names: tuple[str, str]) -> None:
        raw = frame.body.raw
        self._names, self._globals, self._count = names, frame.globals, len(frame.locals)
        own = frame.locals[: self._count - len(raw.co_freevars)]  # the others are those of `closure_of`
        self._set = [at for at, value in enumerate(own) if value is not UNBOUND]
        self._parts: list[list[int]] = [[]]  # the places of the stack's values, from the top of each part
        for at, value in enumerate(frame.stack, self._count):
            if value is NULL or value is UNBOUND:
                self._parts.append([])
            else:
                self._parts[-1].insert(0, at)
        unset = [at for at in range(parameter_count(raw)) if own[at] is UNBOUND]
        behind = bytes(self._filling(len(raw.co_consts), unset))
        target = frame.body.code.instructions[frame.position - 1]
        assert target.name == "YIELD_VALUE", target
        distance = (len(raw.co_code) + len(behind) - target.offset) // UNIT + _BACK
        behind += bytes(emitted("JUMP_BACKWARD_NO_INTERRUPT", distance, _BACK))
        self._code = raw.replace(
            co_code=_entered(frame.body.code) + behind,
            co_linetable=raw.co_linetable + bytes(unlocated(len(behind) // UNIT)),
            co_stacksize=raw.co_stacksize + len(self._set) + 1,
        )

    def _filling(self, constant: int, unset: Sequence[int]) -> Iterator[int]:
        """What fills in variables and stack; the lists are the constants from number `constant` on."""
        yield from emitted("POP_TOP", 0)
        for at in unset:
            yield from emitted("DELETE_FAST", at)
        yield from filled(self._set, map(len, self._parts), constant)
        yield from emitted("LOAD_CONST", constant + len(self._parts) + 1)  # what the first step gives

    def unsuspended(self, closure: Sequence[CellType]) -> Any:
        """A generator or coroutine whose first step leads to the place."""
        lists: list[list[object]] = [[] for _ in range(1 + len(self._parts))]
        code = self._code.replace(co_consts=(*self._code.co_consts, *lists, None))
        given = [None] * (code.co_argcount + code.co_kwonlyargcount)
        return Call(self._globals, closure, given, (), {}).made(code, self._names)

    def suspend(self, made: Any, values: Sequence[object]) -> None:
        """Leads a generator to the place; `values` are those of the variables and of the stack."""
        code: CodeType = made.cr_code if self._code.co_flags & CO_COROUTINE else made.gi_code
        lists: Sequence[Any] = code.co_consts[-2 - len(self._parts) : -1]
        for each, part in zip(lists, [self._set, *self._parts], strict=True):
            each[:] = [values[at] for at in part]
        made.send(None)
        for each in lists:
            each.clear()


def as_of_python(result: Any, holders: int = 1, seen: set[int] | None = None) -> Any:
    """A result whose generators are CPython's own where it alone has them, in containers too.

    The caller has `holders` references to it. Who else has a generator would be left with another object: then it
    stays, and is run by its interpreter. Containers that were `seen` are not looked into again.
    """
    kind = type(result)
    is_alone = sys.getrefcount(result) <= holders + 2  # a variable here, and the count's own
    if issubclass(kind, Resumable):
        return of_python(result) if is_alone else result
    if kind not in (tuple, list, dict):
        return result
    seen = set() if seen is None else seen
    if id(result) in seen or (kind is tuple and not is_alone):
        return result
    seen.add(id(result))
    made: Any = list(result) if kind is tuple else result
    changed = False
    for key in list(result) if kind is dict else range(len(result)):
        part = result[key]
        instead = as_of_python(part, 3 if kind is tuple else 2, seen)
        if instead is not part:
            made[key], changed = instead, True
    return tuple(made) if changed and kind is tuple else result


def of_python(value: Resumable) -> Any:
    """CPython's own in place of an interpreted one, or that one where it runs, or handles an error."""
    frame, names = value.frame, (value.__name__, value.__qualname__)
    instead = value.instead if isinstance(value, InterpretedGenerator) else None
    if instead is not None:
        value.discard()
        return instead
    if value.has_ended:
        made = Call.of(value.code, None).made(value.code, names)
        made.close()
        return made
    if frame is None:
        return value
    if not value.is_begun:
        made = Call.of(value.code, frame).made(value.code, names)
    elif can_be_suspended(value):
        as_of_python(frame.stack)  # what it delegates to
        code = SuspendedCode(frame, names)
        made = code.unsuspended(closure_of(frame))
        code.suspend(made, [*frame.locals, *frame.stack])
    else:
        return value
    value.discard()
    return made


def _entered(code: Code) -> bytes:
    """The bytes of code that go on behind its end where it begins to run."""
    text = code.raw.co_code
    at = next(each.offset for each in code.instructions if each.name == "RETURN_GENERATOR") + UNIT
    behind = at + 2 * UNIT  # a POP_TOP and a RESUME make place for a jump with its prefix
    return text[:at] + bytes(emitted("JUMP_FORWARD", (len(text) - behind) // UNIT, 2)) + text[behind:]
