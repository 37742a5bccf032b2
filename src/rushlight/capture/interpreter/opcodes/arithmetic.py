"""Operators: unary, binary, comparisons, membership, and subscripts."""

from __future__ import annotations

import operator

from rushlight.capture.interpreter.frame import Frame
from rushlight.capture.interpreter.loop import Interpreter
from rushlight.capture.interpreter.operations import operation
from rushlight.capture.interpreter.slots import (
    Native,
    augmented,
    binary,
    compared,
    contains,
    delete_item,
    item_of,
    store_item,
    truth,
    unary,
)

_IMMUTABLE = frozenset({bool, int, float, complex, str, bytes, tuple, frozenset, type(None)})
_SYMBOLS = ["+", "&", "//", "<<", "@", "*", "%", "|", "**", ">>", "-", "/", "^"]
_METHODS = ["add", "and", "floordiv", "lshift", "matmul", "mul", "mod", "or", "pow", "rshift", "sub", "truediv", "xor"]
_FUNCTIONS: tuple[Native, ...] = (
    operator.add,
    operator.and_,
    operator.floordiv,
    operator.lshift,
    operator.matmul,
    operator.mul,
    operator.mod,
    operator.or_,
    operator.pow,
    operator.rshift,
    operator.sub,
    operator.truediv,
    operator.xor,
)
_IN_PLACE: tuple[Native, ...] = (
    operator.iadd,
    operator.iand,
    operator.ifloordiv,
    operator.ilshift,
    operator.imatmul,
    operator.imul,
    operator.imod,
    operator.ior,
    operator.ipow,
    operator.irshift,
    operator.isub,
    operator.itruediv,
    operator.ixor,
)


@operation("BINARY_OP")
def binary_op(interpreter: Interpreter, frame: Frame, which: int) -> None:
    """Applies a binary operator; from number 13 on those of augmented assignments."""
    stack = frame.stack
    left, right = stack[-2], stack[-1]
    if which < len(_METHODS):
        result = binary(interpreter, _METHODS[which], _FUNCTIONS[which], left, right)
    else:
        which -= len(_METHODS)
        if type(left) not in _IMMUTABLE:
            interpreter.augments(left, right)
        result = augmented(interpreter, _METHODS[which], _FUNCTIONS[which], _IN_PLACE[which], left, right)
    stack.pop()
    stack[-1] = result


def _unary(name: str, method: str, function: Native) -> None:
    def apply(interpreter: Interpreter, frame: Frame, operand: int) -> None:
        frame.stack[-1] = unary(interpreter, method, function, frame.stack[-1])

    operation(name)(apply)


_unary("UNARY_NEGATIVE", "__neg__", operator.neg)
_unary("UNARY_POSITIVE", "__pos__", operator.pos)
_unary("UNARY_INVERT", "__invert__", operator.invert)


@operation("UNARY_NOT")
def unary_not(interpreter: Interpreter, frame: Frame, operand: int) -> None:
    """Negates a truth value."""
    frame.stack[-1] = not truth(interpreter, frame.stack[-1])


@operation("TO_BOOL")
def to_bool(interpreter: Interpreter, frame: Frame, operand: int) -> None:
    """Takes the truth value."""
    frame.stack[-1] = truth(interpreter, frame.stack[-1])


@operation("COMPARE_OP")
def compare_op(interpreter: Interpreter, frame: Frame, operand: tuple[str, bool]) -> None:
    """Compares two values."""
    relation, as_bool = operand
    stack = frame.stack
    result = compared(interpreter, relation, stack[-2], stack[-1])
    if as_bool:
        result = truth(interpreter, result)
    stack.pop()
    stack[-1] = result


@operation("IS_OP")
def is_op(interpreter: Interpreter, frame: Frame, inverted: int) -> None:
    """Compares identities."""
    right = frame.stack.pop()
    frame.stack[-1] = interpreter.is_same(frame.stack[-1], right) != bool(inverted)


@operation("CONTAINS_OP")
def contains_op(interpreter: Interpreter, frame: Frame, inverted: int) -> None:
    """Asks for membership."""
    stack = frame.stack
    result = contains(interpreter, stack[-1], stack[-2]) != bool(inverted)
    stack.pop()
    stack[-1] = result


@operation("BINARY_SUBSCR")
def binary_subscr(interpreter: Interpreter, frame: Frame, operand: int) -> None:
    """Takes an item."""
    stack = frame.stack
    result = item_of(interpreter, stack[-2], stack[-1])
    stack.pop()
    stack[-1] = result


@operation("STORE_SUBSCR")
def store_subscr(interpreter: Interpreter, frame: Frame, operand: int) -> None:
    """Sets an item."""
    stack = frame.stack
    key = interpreter.key(stack[-1]) if type(stack[-2]) is dict else stack[-1]
    store_item(interpreter, stack[-2], key, stack[-3])
    del stack[-3:]


@operation("DELETE_SUBSCR")
def delete_subscr(interpreter: Interpreter, frame: Frame, operand: int) -> None:
    """Deletes an item."""
    stack = frame.stack
    delete_item(interpreter, stack[-2], stack[-1])
    del stack[-2:]


@operation("BINARY_SLICE")
def binary_slice(interpreter: Interpreter, frame: Frame, operand: int) -> None:
    """Takes a slice."""
    stack = frame.stack
    result = item_of(interpreter, stack[-3], slice(stack[-2], stack[-1]))
    del stack[-2:]
    stack[-1] = result


@operation("STORE_SLICE")
def store_slice(interpreter: Interpreter, frame: Frame, operand: int) -> None:
    """Sets a slice."""
    stack = frame.stack
    store_item(interpreter, stack[-3], slice(stack[-2], stack[-1]), stack[-4])
    del stack[-4:]


@operation("BUILD_SLICE")
def build_slice(interpreter: Interpreter, frame: Frame, count: int) -> None:
    """Makes a slice of two or three numbers."""
    parts = frame.stack[-count:]
    del frame.stack[-count:]
    frame.stack.append(slice(*parts))
