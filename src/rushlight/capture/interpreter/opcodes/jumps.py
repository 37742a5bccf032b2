"""Jumps and loops."""

from __future__ import annotations

from rushlight.capture.interpreter.frame import Frame
from rushlight.capture.interpreter.generators import InterpretedGenerator
from rushlight.capture.interpreter.loop import Interpreter
from rushlight.capture.interpreter.operations import operation
from rushlight.capture.interpreter.slots import STOPPED, iterator_of, next_of, truth


@operation("JUMP")
def jump(interpreter: Interpreter, frame: Frame, target: int) -> None:
    """Jumps."""
    frame.position = target


@operation("POP_JUMP_IF_FALSE")
def pop_jump_if_false(interpreter: Interpreter, frame: Frame, target: int) -> None:
    """Jumps where the top of the stack is false."""
    holds = truth(interpreter, frame.stack[-1])
    frame.stack.pop()
    if not holds:
        frame.position = target


@operation("POP_JUMP_IF_TRUE")
def pop_jump_if_true(interpreter: Interpreter, frame: Frame, target: int) -> None:
    """Jumps where the top of the stack is true."""
    holds = truth(interpreter, frame.stack[-1])
    frame.stack.pop()
    if holds:
        frame.position = target


@operation("POP_JUMP_IF_NONE")
def pop_jump_if_none(interpreter: Interpreter, frame: Frame, target: int) -> None:
    """Jumps where the top of the stack is None."""
    if frame.stack.pop() is None:
        frame.position = target


@operation("POP_JUMP_IF_NOT_NONE")
def pop_jump_if_not_none(interpreter: Interpreter, frame: Frame, target: int) -> None:
    """Jumps where the top of the stack is not None."""
    if frame.stack.pop() is not None:
        frame.position = target


@operation("JUMP_IF_FALSE_OR_POP")
def jump_if_false_or_pop(interpreter: Interpreter, frame: Frame, target: int) -> None:
    """Jumps and keeps the top of the stack where it is false; else drops it."""
    if truth(interpreter, frame.stack[-1]):
        frame.stack.pop()
    else:
        frame.position = target


@operation("JUMP_IF_TRUE_OR_POP")
def jump_if_true_or_pop(interpreter: Interpreter, frame: Frame, target: int) -> None:
    """Jumps and keeps the top of the stack where it is true; else drops it."""
    if truth(interpreter, frame.stack[-1]):
        frame.position = target
    else:
        frame.stack.pop()


@operation("GET_ITER")
def get_iter(interpreter: Interpreter, frame: Frame, operand: int) -> None:
    """Begins a loop."""
    frame.stack[-1] = iterator_of(interpreter, frame.stack[-1])


@operation("FOR_ITER")
def for_iter(interpreter: Interpreter, frame: Frame, target: int) -> bool:
    """Pushes the next value of a loop, or leaves it."""
    iterator = frame.stack[-1]
    interpreter.advances(iterator)
    if type(iterator) is InterpretedGenerator:

        def consume(value: object, finished: bool) -> None:
            if finished:
                frame.stack.pop()
                frame.position = target
            else:
                frame.stack.append(value)

        return iterator.resume(interpreter, None, consume)
    value = next_of(interpreter, iterator)
    if value is STOPPED:
        frame.stack.pop()
        frame.position = target
    else:
        frame.stack.append(value)
    return False
