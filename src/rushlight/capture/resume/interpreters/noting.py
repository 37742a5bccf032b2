"""The interpreter that writes down what instructions make, and when its life ends."""

from __future__ import annotations

import gc
import re
import sys
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any

from rushlight.capture.interpreter.frame import Body, Frame
from rushlight.capture.interpreter.operations import Operation
from rushlight.capture.interpreter.slots import HEAP_TYPE
from rushlight.capture.resume import breaks
from rushlight.capture.resume.blueprint import is_of_program
from rushlight.capture.resume.breaks import Break
from rushlight.capture.resume.interpreters.cautious import is_mutable
from rushlight.capture.resume.interpreters.looking import LookingInterpreter, looking
from rushlight.capture.resume.opaque import Life
from rushlight.capture.resume.reached import ReachedObjects

_CREATING = frozenset(
    {"BUILD_LIST", "BUILD_SET", "BUILD_MAP", "BUILD_CONST_KEY_MAP", "BUILD_SLICE", "MAKE_FUNCTION", "GET_ITER"}
    | {"SET_FUNCTION_ATTRIBUTE"}
)
_NUMBER = re.compile("0x([0-9a-f]{6,16})")  # of an object, as C writes it where a class says nothing else


class NotingInterpreter(LookingInterpreter):
    """Writes down the objects that instructions make."""

    __slots__ = ("_deaths", "_lives")

    def __init__(self, reached: ReachedObjects) -> None:
        super().__init__(reached)
        self._lives: list[weakref.ref[Life]] = []
        self._deaths: deque[weakref.ref[Life]] = deque()

    def watch(self, life: Life) -> None:
        """Write down when a life ends."""
        self._lives.append(weakref.ref(life, self._deaths.append))

    def operations_of(self, body: Body) -> list[Operation]:
        """What carries out the instructions of a body, and writes down what they make."""
        if body.noting is None:
            names = [instruction.name for instruction in body.code.instructions]
            body.noting = [_and_note(*pair) for pair in zip(names, body.operations, strict=True)]
        return body.noting

    def note_top(self, frame: Frame, operand: object) -> None:
        """Writes down what was made on top of the stack."""
        if self._lives and type(frame.stack[-1]) in (list, set, dict):
            self.keeps(gc.get_referents(frame.stack[-1]))
        self.note(frame.stack[-1])

    def note_fresh(self, frame: Frame, operand: object) -> None:
        """Writes down what is on top, but for plain values, if nothing else refers to it.

        Breaks for numbers of objects.
        """
        if frame.stack and type(frame.stack[-1]) is str and "0x" in frame.stack[-1]:
            self._look_for_numbers(frame.stack[-1])
        if not frame.stack or sys.getrefcount(frame.stack[-1]) > 2:
            return
        kind = type(frame.stack[-1])
        if is_mutable(kind) or (kind.__flags__ & HEAP_TYPE and is_of_program(kind)):  # ours makes it, called as it is
            self.note(frame.stack[-1])
        elif kind is tuple:
            self.note_parts(frame.stack[-1])

    def _look_for_numbers(self, text: str) -> None:
        """Breaks where a text names an object that the trace has made by its number: each call makes another one."""
        if any(int(number, 16) in self.made for number in _NUMBER.findall(text)):
            raise Break(breaks.IDENTITY, "a text has the number of an object in it")

    def note_cell(self, frame: Frame, operand: int) -> None:
        """Writes down the cell of a variable."""
        self.note(frame.locals[operand])

    def note_rest(self, frame: Frame, operand: int) -> None:
        """Writes down the list that an unpacking with a star has made."""
        for value in frame.stack[-1 - (operand & 255) :]:
            if type(value) is list:
                self.note(value)

    def note_generator(self, frame: Frame, operand: object) -> None:
        """Writes down the generator that the caller has got."""
        self.note(self.frames[-1].stack[-1] if len(self.frames) > self.base else self.result)


_NOTES: dict[str, Callable[..., None]] = {
    **dict.fromkeys(_CREATING, NotingInterpreter.note_top),
    "MAKE_CELL": NotingInterpreter.note_cell,
    "UNPACK_EX": NotingInterpreter.note_rest,
    "RETURN_GENERATOR": NotingInterpreter.note_generator,
}


def _and_note(name: str, operation: Operation) -> Operation:
    """What carries out an instruction, and then writes down what it has made."""
    note = _NOTES.get(name, NotingInterpreter.note_fresh)
    operation = looking(name, operation)

    def carry_out(interpreter: NotingInterpreter, frame: Frame, operand: Any) -> object:
        try:
            changed = operation(interpreter, frame, operand)
        finally:
            if interpreter.stubs:
                interpreter.stubs.lift()
        note(interpreter, frame, operand)
        return changed

    return carry_out
