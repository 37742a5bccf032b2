"""Loops that CPython runs in place of the interpreter: from the middle of a function to what is behind the loop.

The code of the function is copied: before it stands what fills in variables and stack and jumps to the loop, behind it
what gives them back. Where the loop is left a jump leads there. So lines, handlers and jumps stay what they are.
"""

from __future__ import annotations

import sys
from bisect import bisect_right
from collections.abc import Sequence
from dis import HAVE_ARGUMENT, stack_effect
from inspect import CO_ASYNC_GENERATOR, CO_COROUTINE, CO_GENERATOR, CO_VARARGS, CO_VARKEYWORDS
from opcode import opmap
from types import CodeType, FunctionType
from typing import Any, NamedTuple

from rushlight.capture.code.assembling import UNIT, emitted, filled, handlers_encoded, units_of, unlocated
from rushlight.capture.code.instructions import (
    AFTER_LOOP,
    VERSION,
    Code,
    exception_entries,
    raw_instructions,
)
from rushlight.capture.interpreter.frame import NULL, UNBOUND, Body, Frame
from rushlight.capture.interpreter.generators import Resumable
from rushlight.capture.interpreter.suspended import as_of_python, closure_of

_ENDING = frozenset({"RETURN_VALUE", "RETURN_CONST", "RAISE_VARARGS", "RERAISE"})
_QUIET = frozenset({"PUSH_EXC_INFO", "POP_EXCEPT", "COPY", "SWAP", "NOP", "LOAD_CONST"})  # what raises nothing
_RETURNING = frozenset({"RETURN_VALUE", "RETURN_CONST"})
_REFUSED = frozenset(
    {"YIELD_VALUE", "SEND", "RETURN_GENERATOR", "RESUME", "MAKE_CELL", "COPY_FREE_VARS", "LOAD_NAME", "STORE_NAME"}
)
"""What a copy of the code as a plain function cannot do in a loop."""
_TAIL = 8  # at most so many units give back what a loop leaves
_KIND = CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR | CO_VARARGS | CO_VARKEYWORDS


class Left(NamedTuple):
    """Where a loop was left: the instruction, and the variables by name."""

    position: int
    variables: dict[str, object]


class _Leaving:
    """Among the constants of a loop's code: what it asks where it leaves the loop."""

    __slots__ = ("position",)

    def __init__(self, position: int) -> None:
        self.position = position

    def __invert__(self) -> Left:
        return Left(self.position, dict(sys._getframe(1).f_locals))


class _Handed:
    """Values that are unpacked once, the last first. It lets go of them."""

    __slots__ = ("values",)

    def __init__(self, values: list[Any]) -> None:
        self.values = values

    def __iter__(self) -> _Handed:
        return self

    def __next__(self) -> object:
        if not self.values:
            raise StopIteration
        return self.values.pop()


class _Flow:
    """What a loop runs: the instructions `inside`, and behind which of them it is left.

    It `is_loop` if its first instruction is reached again: a jump back from a handler may lead to code that does not
    lead to the handler. `states` has for each instruction how high the stack is, and how many exceptions are being
    handled. An instruction at which an exception is handled is inside, and so is what raises it again.
    """

    def __init__(self, code: Code, head: int, depth: int, inside: set[int]) -> None:
        self.code, self.head, self.inside = code, head, inside
        raw = list(raw_instructions(code.raw.co_code))
        self.raw = [(name, arg) for _, _, _, name, arg in raw]
        self.starts = [start for start, *_ in raw]
        self.origins: set[int] = set()  # handlers that are told where the error was raised
        self.states: dict[int, tuple[int, int]] = {}
        self.exits: set[int] = set()
        self.is_consistent, self.is_loop = True, False
        self._pending: list[int] = []
        self._reach(head, depth, 0)
        while self._pending and self.is_consistent:
            self._follow(self._pending.pop())

    def crowded(self, units: int) -> set[int]:
        """The exits at which there is no room for a jump of so many units: others begin within it."""
        begin = [self.starts[at] for at in self.states]
        for at in self.states.keys() - self.exits:
            if self.raw[at][0] == "FOR_ITER":  # which knows what stands at its end
                target = following(self.code, at)[1]
                begin += self.starts[target - AFTER_LOOP[VERSION] : target]
        begin.sort()
        return {at for at in self.exits if self._room(begin, self.starts[at]) < UNIT * units}

    @staticmethod
    def _room(begin: Sequence[int], start: int) -> int:
        """The bytes up to the next of some places."""
        behind = bisect_right(begin, start)
        return begin[behind] - start if behind < len(begin) else sys.maxsize

    def _reach(self, at: int, depth: int, handled: int) -> None:
        state = depth, handled
        self.is_loop |= at == self.head and at in self.states
        if at in self.states:
            self.is_consistent &= self.states[at] == state
            return
        self.states[at] = state
        if at not in self.inside and not handled and self.code.instructions[at].name != "RERAISE":
            self.exits.add(at)
            return
        self.inside.add(at)
        self._pending.append(at)

    def _follow(self, at: int) -> None:
        depth, handled = self.states[at]
        name, arg = self.raw[at]
        operation = opmap[name]
        given = arg if operation >= HAVE_ARGUMENT else None
        level = handled + (name == "PUSH_EXC_INFO") - (name == "POP_EXCEPT")
        for to in following(self.code, at):
            is_jump = to != at + 1 or self.code.instructions[at].name == "JUMP"
            effect = -1 if name == "FOR_ITER" and is_jump else stack_effect(operation, given, jump=is_jump)
            self._reach(to, depth + effect, level)
        handler = self.code.handlers[at]
        if handler is not None and name not in _QUIET:
            self._reach(handler.target, handler.depth + handler.pushes_origin + 1, handled)
            self.origins |= {handler.target} if handler.pushes_origin else set()


def following(code: Code, at: int) -> Sequence[int]:
    """The instructions that may come after one, handlers apart."""
    name, operand, _, _ = code.instructions[at]
    if name in _ENDING:
        return ()
    if name == "JUMP":
        return (operand,)  # pyright: ignore[reportReturnType] - the operands of jumps are numbers
    if name.startswith(("POP_JUMP", "JUMP_IF", "FOR_ITER", "SEND")):
        return at + 1, operand  # pyright: ignore[reportReturnType] - so are these
    return (at + 1,)


def _natural(code: Code, head: int) -> set[int]:
    """The instructions of the loop that begins at one: those that lead back to it. Empty if there is no loop."""
    before: dict[int, list[int]] = {}
    for at in range(len(code.instructions)):
        handler = code.handlers[at]
        for to in (*following(code, at), *([handler.target] if handler else ())):
            before.setdefault(to, []).append(at)
    pending = [at for at in before.get(head, ()) if at >= head]
    members = {head} if pending else set[int]()
    while pending:
        at = pending.pop()
        if at not in members:
            members.add(at)
            pending += before.get(at, ())
    return members


class NativeLoop:
    """A loop of a function as code of CPython's."""

    def __init__(self, flow: _Flow, units: int) -> None:
        self._flow = flow
        self._units = units  # of a jump to what gives variables and stack back
        self._made: dict[object, tuple[CodeType, int]] = {}
        self._exits = sorted(flow.exits)
        code = flow.code
        shared = {*code.raw.co_cellvars, *code.raw.co_freevars}
        self._cells = {at for at, name in enumerate(code.locals) if name in shared}
        self.inside = frozenset(flow.states.keys() - flow.exits)
        self.returns = any(code.instructions[at].name in _RETURNING for at in self.inside)

    def run(self, frame: Frame) -> tuple[bool, Any]:
        """Has CPython run the loop from a frame that is at its first instruction.

        True if the function returned, and the value; else the frame is behind the loop. Errors: what leaves the
        function.
        """
        raw, stack = self._flow.code.raw, frame.stack
        for values in (frame.locals, stack):
            hand_over(values)
        nulls = [at for at, value in enumerate(stack) if value is NULL or value is UNBOUND]
        ends = zip([-1, *nulls], [*nulls, len(stack)], strict=True)
        handed = [[value for value in reversed(frame.locals) if value is not UNBOUND]]
        handed += [stack[null + 1 : end] for null, end in ends]
        names = tuple([at for at, value in enumerate(frame.locals) if value is not UNBOUND])
        counts = tuple(map(len, handed[1:]))
        code, before = self._made.get((names, counts)) or self._made.setdefault(
            (names, counts), self._code(names, counts)
        )
        constants = [*map(_Handed, handed), *map(_Leaving, self._exits)]
        function: Any = FunctionType(
            code.replace(co_consts=(*raw.co_consts, *constants)), frame.globals, None, None, tuple(closure_of(frame))
        )
        cells = {at: frame.locals[at] for at in self._cells}
        frame.locals = []
        del stack[len(stack) - counts[-1] :], handed, constants
        result = function(*[None] * code.co_argcount)
        if not (type(result) is tuple and len(result) == 2 and type(result[1]) is Left):
            return True, result
        stack += result[0]
        self._go_on(frame, result[1], cells, before)
        return False, None

    def _go_on(self, frame: Frame, left: Left, cells: dict[int, Any], before: int) -> None:
        """Puts a frame behind the loop; its code had so many bytes `before` that of the function."""
        code, variables = self._flow.code, left.variables
        frame.locals = [
            cells[at] if at in cells else variables.get(name, UNBOUND) for at, name in enumerate(code.locals)
        ]
        frame.position = left.position
        if left.position in self._flow.origins:
            offset = UNIT * frame.stack[-2] - before
            frame.stack[-2] = next(at for at, each in enumerate(code.instructions) if each.offset == offset)

    def _code(self, names: Sequence[int], counts: Sequence[int]) -> tuple[CodeType, int]:
        """The code for a frame with such variables and stack, and how many bytes stand before the function's.

        Its constants are to be followed by what is unpacked, and what leaves it.
        """
        flow, raw = self._flow, self._flow.code.raw
        first = len(raw.co_consts)
        argument_count = min(raw.co_argcount, 1)  # `super()` asks for the first
        entry = bytearray(emitted("RESUME", 0))
        if argument_count and 0 not in names:
            entry += bytes(emitted("DELETE_FAST", 0))
        entry += bytes(filled(names, counts, first))
        entry += bytes(emitted("JUMP_FORWARD", flow.starts[flow.head] // UNIT))
        text, tails = bytearray(raw.co_code), bytearray()
        size = max([len(text), *[flow.starts[at] + UNIT * self._units for at in self._exits]])
        text += bytes([opmap["NOP"], 0]) * ((size - len(text)) // UNIT)
        below = sum(counts[:-1]) + len(counts) - 1  # values up to the last null
        for number, at in enumerate(self._exits, first + 1 + len(counts)):
            start, end = flow.starts[at], flow.starts[at] + UNIT * self._units
            text[start:end] = bytes(emitted("JUMP_FORWARD", (size + len(tails) - end) // UNIT, self._units))
            tails += bytes(emitted("BUILD_TUPLE", flow.states[at][0] - below))
            tails += bytes(emitted("LOAD_CONST", number)) + bytes(emitted("UNARY_INVERT", 0))
            tails += bytes(emitted("BUILD_TUPLE", 2)) + bytes(emitted("RETURN_VALUE", 0))
        before, behind = len(entry), size - len(raw.co_code) + len(tails)
        lines = bytes(unlocated(before // UNIT)) + raw.co_linetable + bytes(unlocated(behind // UNIT))
        handlers = [
            (start + before, end + before, target + before, depth, pushes)
            for start, end, target, depth, pushes in exception_entries(raw.co_exceptiontable)
        ]
        made = raw.replace(
            co_code=bytes(entry + text + tails),
            co_linetable=lines,
            co_exceptiontable=handlers_encoded(handlers),
            co_stacksize=raw.co_stacksize + len(names) + 2,
            co_flags=raw.co_flags & ~_KIND,
            co_argcount=argument_count,
            co_posonlyargcount=min(raw.co_posonlyargcount, argument_count),
            co_kwonlyargcount=0,
        )
        return made, before


def hand_over(values: list[Any]) -> None:
    """Generators that nobody else has become CPython's own."""
    for at in range(len(values)):  # `enumerate` would have a reference
        value = values[at]
        if issubclass(type(value), Resumable):
            values[at] = as_of_python(value, 2)


def loop_at(body: Body, head: int, depth: int) -> NativeLoop | None:
    """The loop that begins at an instruction, where the stack has `depth` values. None if CPython cannot run it."""
    if head not in body.loops:
        body.loops[head] = _loop_at(body.code, head, depth)
    return body.loops[head]


def _loop_at(code: Code, head: int, depth: int) -> NativeLoop | None:
    inside = _natural(code, head)
    while inside:
        flow = _Flow(code, head, depth, set(inside))
        names = {code.instructions[at].name for at in flow.states}
        if not (flow.is_consistent and flow.is_loop) or not names.isdisjoint(_REFUSED):
            return None
        units = units_of(len(code.raw.co_code) // UNIT + _TAIL * len(flow.exits))
        crowded = flow.crowded(units)
        if not crowded:
            return NativeLoop(flow, units)
        inside |= crowded
    return None
