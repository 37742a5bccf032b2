"""What native code knows of a call that was learned, and of this process: words that Python fills in.

The offsets of a class's slots are found by looking where a value lies in an instance after it was assigned, so that
nothing is assumed about how Python lays out objects. A class of which this does not work has no native calls.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

from rushlight.eager.execution.plan import MOST_ARGUMENTS, MOST_RESULTS
from rushlight.support.errors import fail

MOST_OPERANDS = 8  # of a call that is looked up, members of lists counted
MOST_SAVED = 8  # of a recorded call
MOST_VIEWS = 32  # of a call

# Words of a record: what identifies a call, then how it runs: by a kernel, as a view of its operand, or as the call of
# another operator on its operand. The key begins with how many operands there are and how many of its words count; a
# recorded call has the bits of the operands whose gradients are needed, and any call, from bit FIRST_SAME on, of those
# that are its first operand once more. The settings' key counts within a block that overrides some, 0 elsewhere. Words
# of operands and of attributes follow.
COUNT, LENGTH, OPERATOR, NEEDED, SETTINGS, OPERANDS = range(6)
KEY_WORDS = 40
FIRST_SAME = 16
OWNER, ENTRY, BARE, PASSES, FILLED, RESULTS, POINTER, WORDS, REALS = range(KEY_WORDS, KEY_WORDS + 9)
# Of views: where the addresses of their records are, 0 for other calls. Of each: how many elements it begins past its
# operand, the tuple of its one step (0 for none), whether that counts strides. Of what another operator gives: that
# operator and its attributes. Whether the first operand is written to.
DISTANCE, STEPS, STRIDED, INNER, INNER_ATTRIBUTES, WRITES, VIEWS = range(KEY_WORDS + 9, KEY_WORDS + 16)
ARGUMENTS = KEY_WORDS + 16
# Of each argument: what it is, the word that it fills in, its item size or bounds (of the bits of floats), the word and
# the number of its operand.
KIND, AT, SCALE, LOWEST, HIGHEST, EXPECTED, OPERAND = range(7)
ARGUMENT_WORDS = 7
OUTPUTS = ARGUMENTS + ARGUMENT_WORDS * MOST_ARGUMENTS
# Of each result: objects for the fields of a tensor and its storage, the capacity class, the word of its address.
FORM, KEYS, BYTES, CLASS, ADDRESS_AT = range(5)
OUTPUT_WORDS = 5
# What a recorded call writes on the tape: its recipe, how many operands are there, the bits of results that get a
# history, and for each thing that is saved where it is from, of which number, or the object.
TAPE = OUTPUTS + OUTPUT_WORDS * MOST_RESULTS
RECIPE, EDGE_COUNT, ATTACHED, SAVED_COUNT, SAVED = range(TAPE, TAPE + 5)
SOURCE, NUMBER, OBJECT = range(3)
SAVED_WORDS = 3
# What a step of a backward pass gives: how many gradients, whether it holds tensors, and for each edge 0 for none, n
# for result n - 1 of the kernel, -n for value n - 1 of those that the kernel is given; and for each edge the views that
# are made of that value, 0 for none.
STEP = SAVED + SAVED_WORDS * MOST_SAVED
GRADIENT_COUNT, HOLDS_TENSORS, GRADIENTS = range(STEP, STEP + 3)
PATHS = GRADIENTS + MOST_ARGUMENTS
RECORD_WORDS = PATHS + MOST_ARGUMENTS

# Words of a walk through the tape, of the visit of a step, and of a turn that a visit waits for.
WALK_VISITS, WALK_COUNT, WALK_CAPACITY, WALK_PLACES, WALK_MASK, WALK_HEAP, WALK_READY, WALK_ORDER = range(8)
WALK_PASS, WALK_OWNED, WALK_KEEP, WALK_ADD, WALK_TAKE, WALK_CONTEXT = range(8, 14)
WALK_TARGETS, WALK_ARRIVED, WALK_CHAIN, WALK_WORDS = range(14, 18)
VISIT_STEP, VISIT_WAITING, VISIT_GRADIENTS, VISIT_LEADS, VISIT_WANTED, VISIT_WORDS = range(6)
TURN_SEQUENCE, TURN_ORDER, TURN_VISIT, TURN_WORDS = range(4)
FIRST_VISITS = 128  # for which there is room at first

ABSENT, TENSOR, INTEGER, REAL = range(4)
"""Kinds of operands."""

FORMS, OPERAND_TENSOR, OPERAND_NUMBER, RESULT_TENSOR = range(4)
"""Where things come from that a recorded call saves."""

TABLE_WORDS = 1 << 14
HASH_FACTOR = 0x9E3779B97F4A7C15
HASH_SHIFT = 32


class _Sentinel:
    """A value that is nowhere else."""


def slot_offset(cls: type, name: str) -> int:
    """How many bytes after an instance's address the value of a slot lies. X001 if that cannot be found."""
    instance, sentinel = object.__new__(cls), _Sentinel()
    words = (ctypes.c_int64 * (cls.__basicsize__ // 8)).from_address(id(instance))
    before = list(words)
    setattr(instance, name, sentinel)
    found = [at for at, (old, new) in enumerate(zip(before, words, strict=True)) if old != new and new == id(sentinel)]
    if len(found) != 1:
        fail("X001", f"a value of {cls.__name__}.{name} does not lie in the instance", offsets=found)
    return 8 * found[0]


def place(key: Sequence[int]) -> int:
    """Where the search for a call with these words begins in the table."""
    code = 0
    for word in key:
        code = (code ^ word) * HASH_FACTOR & (1 << 64) - 1
        code ^= code >> HASH_SHIFT
    return code & TABLE_WORDS - 1
