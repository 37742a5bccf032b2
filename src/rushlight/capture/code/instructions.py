"""Decodes a code object: its instructions with resolved operands, its exception table, and its lines.

Goes in: a `types.CodeType` of the running Python, 3.11 to 3.13. Comes out: a `Code`, whose instructions have the names
of 3.13 where versions differ, and whose operands are what an instruction means: a constant, a name, the number of a
local variable, or the number of the instruction to jump to. So the interpreter does not know the versions.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from opcode import opname
from types import CodeType
from typing import NamedTuple

_CACHE = 0
_EXTENDED_ARG = opname.index("EXTENDED_ARG")
_GLOBALS = frozenset(
    {"LOAD_FROM_DICT_OR_GLOBALS"}
    | {f"{verb}_{place}" for verb in ("LOAD", "STORE", "DELETE") for place in ("GLOBAL", "NAME")}
)
_RELATIVE = ("JUMP", "POP_JUMP", "FOR_ITER", "SEND")
AFTER_LOOP = {11: 0, 12: 1, 13: 2}  # instructions at the end of a loop that `FOR_ITER` skips where it pops the iterator
VERSION = sys.version_info[1]
NULL_FIRST = VERSION < 13
COMPARISON_SHIFT = {11: 0, 12: 4, 13: 5}
COMPARISONS = ("<", "<=", "==", "!=", ">", ">=")


class Handler(NamedTuple):
    """Where an exception goes: the instruction, how much of the stack stays, and whether its origin is pushed too."""

    target: int
    depth: int
    pushes_origin: bool


class Instruction(NamedTuple):
    """One instruction: its name, its operand, where it stands in the code's bytes, and its line."""

    name: str
    operand: object
    offset: int
    line: int | None


@dataclass(slots=True, eq=False)
class Code:
    """A decoded code object.

    `locals` are the names of all local variables, cells and free variables included, in CPython's order. `handlers` has
    one entry for each instruction, None where nothing catches.
    """

    raw: CodeType
    instructions: tuple[Instruction, ...]
    handlers: tuple[Handler | None, ...]
    locals: tuple[str, ...]


def decode(code: CodeType) -> Code:
    """The instructions of a code object."""
    names = (*code.co_varnames, *[name for name in code.co_cellvars if name not in code.co_varnames], *code.co_freevars)
    raw = list(raw_instructions(code.co_code))
    index = {start: at for at, (start, _, _, _, _) in enumerate(raw)}
    lines = _lines(code)
    instructions: list[Instruction] = []
    for _, offset, after, name, arg in raw:
        renamed, operand = _meaning(code, name, arg, after, index)
        instructions.append(Instruction(renamed, operand, offset, lines.get(offset)))
    _attach_keyword_names(instructions)
    handlers = _handlers(code, index, [instruction.offset for instruction in instructions])
    return Code(code, tuple(instructions), handlers, names)


def globals_in(code: CodeType) -> tuple[str, ...]:
    """The names of variables that code looks up, sets or deletes outside of it: globals, those of a class's body."""
    found = [
        code.co_names[arg >> 1 if name == "LOAD_GLOBAL" else arg]
        for _, _, _, name, arg in raw_instructions(code.co_code)
        if name in _GLOBALS
    ]
    return tuple(dict.fromkeys(found))


def raw_instructions(text: bytes) -> Iterator[tuple[int, int, int, str, int]]:
    """For each instruction: where it starts with its prefixes, its own offset, that after it, its name and argument."""
    offset, size, extended, start = 0, len(text), 0, 0
    while offset < size:
        operation, arg = text[offset], text[offset + 1] | extended
        after = offset + 2
        if operation == _EXTENDED_ARG:
            extended = arg << 8
        else:
            while after < size and text[after] == _CACHE:
                after += 2
            yield start, offset, after, opname[operation], arg
            extended, start = 0, after
        offset = after


def _lines(code: CodeType) -> dict[int, int | None]:
    return {offset: line for start, end, line in code.co_lines() for offset in range(start, end, 2)}


def _meaning(code: CodeType, name: str, arg: int, after: int, index: dict[int, int]) -> tuple[str, object]:
    """An instruction's name in 3.13, and its operand."""
    if name.startswith(_RELATIVE):
        step = -2 * arg if "BACKWARD" in name else 2 * arg
        target = index[after + step]
        if name == "FOR_ITER":
            target += AFTER_LOOP[VERSION]
        return RENAMED.get(name, name), target
    rule = _OPERANDS.get(name)
    return RENAMED.get(name, name), arg if rule is None else rule(code, arg)


def _constant(code: CodeType, arg: int) -> object:
    return code.co_consts[arg]


def _name(code: CodeType, arg: int) -> str:
    return code.co_names[arg]


def _pair(code: CodeType, arg: int) -> tuple[int, int]:
    return arg >> 4, arg & 15


def _global(code: CodeType, arg: int) -> tuple[str, bool]:
    """A global's name, and whether a null is pushed with it."""
    return code.co_names[arg >> 1], bool(arg & 1)


def _attribute(code: CodeType, arg: int) -> tuple[str, bool]:
    """An attribute's name, and whether it is loaded to be called."""
    return (code.co_names[arg], False) if VERSION < 12 else (code.co_names[arg >> 1], bool(arg & 1))


def _method(code: CodeType, arg: int) -> tuple[str, bool]:
    return code.co_names[arg], True


def _super_attribute(code: CodeType, arg: int) -> tuple[str, bool]:
    return code.co_names[arg >> 2], bool(arg & 1)


def _comparison(code: CodeType, arg: int) -> tuple[str, bool]:
    """A comparison, and whether its result is turned into a bool."""
    return COMPARISONS[arg >> COMPARISON_SHIFT[VERSION]], VERSION > 12 and bool(arg & 16)


Rule = Callable[[CodeType, int], object]
_OPERANDS: dict[str, Rule] = {
    **dict.fromkeys(("LOAD_CONST", "KW_NAMES", "RETURN_CONST"), _constant),
    **dict.fromkeys(("LOAD_NAME", "STORE_NAME", "DELETE_NAME", "STORE_GLOBAL", "DELETE_GLOBAL"), _name),
    **dict.fromkeys(("STORE_ATTR", "DELETE_ATTR", "IMPORT_NAME", "IMPORT_FROM", "LOAD_FROM_DICT_OR_GLOBALS"), _name),
    "LOAD_GLOBAL": _global,
    "LOAD_ATTR": _attribute,
    "LOAD_METHOD": _method,
    "LOAD_SUPER_ATTR": _super_attribute,
    "COMPARE_OP": _comparison,
    "LOAD_FAST_LOAD_FAST": _pair,
    "STORE_FAST_LOAD_FAST": _pair,
    "STORE_FAST_STORE_FAST": _pair,
}
RENAMED = {
    "JUMP_FORWARD": "JUMP",
    "JUMP_BACKWARD": "JUMP",
    "JUMP_BACKWARD_NO_INTERRUPT": "JUMP",
    "POP_JUMP_FORWARD_IF_FALSE": "POP_JUMP_IF_FALSE",
    "POP_JUMP_FORWARD_IF_TRUE": "POP_JUMP_IF_TRUE",
    "POP_JUMP_FORWARD_IF_NONE": "POP_JUMP_IF_NONE",
    "POP_JUMP_FORWARD_IF_NOT_NONE": "POP_JUMP_IF_NOT_NONE",
    "POP_JUMP_BACKWARD_IF_FALSE": "POP_JUMP_IF_FALSE",
    "POP_JUMP_BACKWARD_IF_TRUE": "POP_JUMP_IF_TRUE",
    "POP_JUMP_BACKWARD_IF_NONE": "POP_JUMP_IF_NONE",
    "POP_JUMP_BACKWARD_IF_NOT_NONE": "POP_JUMP_IF_NOT_NONE",
    "LOAD_METHOD": "LOAD_ATTR",
    "LOAD_FAST_CHECK": "LOAD_FAST",
    "PRECALL": "NOP",
    "ENTER_EXECUTOR": "NOP",
}


def _attach_keyword_names(instructions: list[Instruction]) -> None:
    """Gives each `CALL` the names of its keywords, in an instruction before it until 3.12."""
    names: tuple[str, ...] = ()
    for at, instruction in enumerate(instructions):
        if instruction.name == "KW_NAMES":
            names = instruction.operand  # pyright: ignore[reportAssignmentType] - a constant of the code
            instructions[at] = instruction._replace(name="NOP", operand=0)
        elif instruction.name == "CALL":
            instructions[at] = instruction._replace(operand=(instruction.operand, names))
            names = ()


def _handlers(code: CodeType, index: dict[int, int], offsets: list[int]) -> tuple[Handler | None, ...]:
    """For each instruction the handler of what it raises."""
    entries = list(exception_entries(code.co_exceptiontable))
    handlers: list[Handler | None] = []
    for offset in offsets:
        handler = None
        for start, end, target, depth, pushes in entries:
            if start <= offset < end:
                handler = Handler(index[target], depth, pushes)
                break
        handlers.append(handler)
    return tuple(handlers)


def exception_entries(table: bytes) -> Iterator[tuple[int, int, int, int, bool]]:
    """Start, end and target in bytes, depth, and whether the origin is pushed, of each entry.

    Numbers are big-endian in groups of six bits; a set bit 6 says that another follows.
    """
    numbers: list[int] = []
    value = 0
    for byte in table:
        value = value << 6 | byte & 63
        if not byte & 64:
            numbers.append(value)
            value = 0
    for at in range(0, len(numbers), 4):
        start, length, target, depth = numbers[at : at + 4]
        yield 2 * start, 2 * (start + length), 2 * target, depth >> 1, bool(depth & 1)
