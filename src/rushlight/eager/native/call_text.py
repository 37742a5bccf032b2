"""Native eager calls, as LLVM IR: `eager_dispatch`, which takes the place of `dispatch` for callers.

A call goes this way; wherever something is not as expected, Python's own `dispatch` gets the same arguments, before
anything has happened:

    operands -> words of the signature, and keys     form of a tensor, class of a number
    thread   -> included and excluded keys           words of the thread's context, its dict of scopes
    words    -> record                               one table; empty after a registration
    record   -> blocks, storages, tensors            objects first: making them may run Python code
    operands -> argument block -> kernel             nothing in between runs Python code, so each record has one block
    results  -> tape                                 of a recorded call: a step, what it saves, histories

`learn` (`learning.py`) answers calls without a record.
"""

from __future__ import annotations

import re

from rushlight.eager.native import (
    history_text,
    layout,
    object_text,
    plan_text,
    run_text,
    signature_text,
    step_text,
    tape_text,
    targets_text,
    views_text,
    visits_text,
    walk_text,
    writes_text,
)

PYTHON_SYMBOLS = (
    "PyCapsule_GetPointer",
    "PyContextVar_Get",
    "PyDict_GetItemWithError",
    "PyDict_Size",
    "PyDict_SetItem",
    "PyErr_BadInternalCall",
    "PyErr_Clear",
    "PyErr_Occurred",
    "PyFloat_AsDouble",
    "PyLong_AsLongLong",
    "PyLong_FromLongLong",
    "PyObject_Type",
    "PyObject_Vectorcall",
    "PySequence_GetItem",
    "PyThreadState_GetDict",
    "PyTuple_GetItem",
    "PyTuple_New",
    "PyTuple_SetItem",
    "PyTuple_Size",
    "Py_DecRef",
    "Py_IncRef",
    *signature_text.PYTHON_SYMBOLS,
    *tape_text.PYTHON_SYMBOLS,
    *views_text.PYTHON_SYMBOLS,
    *step_text.PYTHON_SYMBOLS,
    *visits_text.PYTHON_SYMBOLS,
    *walk_text.PYTHON_SYMBOLS,
)
NAMES = ("eager_dispatch", "eager_below", "join_thread", walk_text.NAME)

OBJECTS = (
    "tensor_class",
    "parameter_class",
    "storage_class",
    "version_class",
    "float_class",
    "int_class",
    "bool_class",
    "none",
    "false",
    "zero",
    "no_arguments",
    "thread_key",
    "included_name",
    "excluded_name",
    "grad_name",
    "forward_name",
    "saving_name",
    "key_of_block",
    "python_dispatch",
    "learn",
    "python_below",
    "learn_below",
    "lend",
    *signature_text.OBJECTS,
    *history_text.OBJECTS,
    *tape_text.OBJECTS,
    *visits_text.OBJECTS,
    *targets_text.OBJECTS,
    *walk_text.OBJECTS,
)
"""Objects that the text refers to."""

OFFSETS = {
    "tensor": ("backing", "offset", "form", "keys", "version", "view_of", "gradient", "node"),
    "storage": ("address", "block", "nbytes", "owner"),
    "version": ("value",),
    **history_text.OFFSETS,
    **tape_text.OFFSETS,
}
"""Slots that the text reads and writes, by class."""

WORDS = (
    "enabled",
    "generation_at",
    "generation",
    "blocks_at",
    "table",
    "new_object",
    "cpu_key",
    "autograd_key",
    "standing_at",
)

MISSED, DECLINED = 1, 0

_DISPATCH = """
; The record of a call, given by the address of (operator, operands, attributes). Its operands go into `flat`. Null
; where there is none, and then in `why` whether the call should be learned. A `below` that is not 0 has the active keys
; of a call that autograd has taken; `given` those of one without tensors.
define internal ptr @find_call(ptr %call, i64 %below, i64 %given, ptr %flat, ptr %words.at, ptr %why) {
entry:
  %op = load ptr, ptr %call
  %operands.at = getelementptr ptr, ptr %call, i64 1
  %operands = load ptr, ptr %operands.at
  %attributes.at = getelementptr ptr, ptr %call, i64 2
  %attributes = load ptr, ptr %attributes.at
  %key = alloca [KEY_WORDS x i64], align 16
  %keys = alloca [MOST_OPERANDS x i64], align 16
  store i64 DECLINED, ptr %why
  %enabled = load i64, ptr @enabled
  %off = icmp eq i64 %enabled, 0
  br i1 %off, label %python, label %identify
identify:
  %begun = call i64 @add_operands(ptr %operands, ptr %key, ptr %flat, ptr %keys)
  %strange = icmp slt i64 %begun, 0
  br i1 %strange, label %clear, label %add.attributes
add.attributes:
  %length = call i64 @add_attributes(ptr %attributes, ptr %key, i64 %begun)
  %odd = icmp slt i64 %length, 0
  br i1 %odd, label %clear, label %join
join:
  call void @set_word(ptr %key, i64 LENGTH, i64 %length)
  %count = call i64 @word(ptr %key, i64 COUNT)
  %operands.keys = call i64 @own_keys(ptr %keys, i64 %count)
  %no.keys = icmp eq i64 %operands.keys, 0
  %own.keys = select i1 %no.keys, i64 %given, i64 %operands.keys
  %same = call i64 @same_as_first(ptr %flat, i64 %count)
  br label %thread
thread:
  %words = call ptr @thread_words()
  %stranger = icmp eq ptr %words, null
  br i1 %stranger, label %missed, label %active
active:
  store ptr %words, ptr %words.at
  %cpu = load i64, ptr @cpu_key
  %top = icmp eq i64 %below, 0
  br i1 %top, label %scopes, label %lower
lower:
  %autograd = load i64, ptr @autograd_key
  %above = xor i64 %autograd, -1
  %rest = and i64 %below, %above
  %alone = icmp eq i64 %rest, %cpu
  br i1 %alone, label %search, label %python
scopes:
  %active.keys = call i64 @active_keys(ptr %words, i64 %own.keys)
  %wanted = call i64 @recorded_for(ptr %words, i64 %active.keys, ptr %flat, ptr %keys, i64 %count)
  %unclear = icmp slt i64 %wanted, 0
  br i1 %unclear, label %python, label %search
search:
  %reached = phi i64 [ %cpu, %lower ], [ %active.keys, %scopes ]
  %needed = phi i64 [ 0, %lower ], [ %wanted, %scopes ]
  %bits = or i64 %needed, %same
  call void @set_word(ptr %key, i64 NEEDED, i64 %bits)
  call void @set_pointer(ptr %key, i64 OPERATOR, ptr %op)
  %settings = call i64 @settings_word()
  call void @set_word(ptr %key, i64 SETTINGS, i64 %settings)
  %record = call ptr @find(ptr %key)
  %unknown = icmp eq ptr %record, null
  br i1 %unknown, label %missed, label %runs
runs:
  %entry.word = call i64 @word(ptr %record, i64 ENTRY)
  %views.word = call i64 @word(ptr %record, i64 VIEWS)
  %inner.word = call i64 @word(ptr %record, i64 INNER)
  %own.way = or i64 %entry.word, %views.word
  %ways = or i64 %own.way, %inner.word
  %never = icmp eq i64 %ways, 0
  br i1 %never, label %python, label %passes
passes:
  %direct = icmp eq i64 %reached, %cpu
  %passed = call i64 @word(ptr %record, i64 PASSES)
  %through = icmp ne i64 %passed, 0
  %may = or i1 %direct, %through
  br i1 %may, label %found, label %python
found:
  ret ptr %record
missed:
  store i64 MISSED, ptr %why
  ret ptr null
clear:
  call void @PyErr_Clear()
  ret ptr null
python:
  ret ptr null
}

; The result of a record; where Python has to make it, of `python` with the arguments.
define internal ptr @run_or_ask(ptr %record, ptr %flat, ptr %words, ptr %python, ptr %arguments, i64 %count) {
entry:
  ; What the record refers to stays alive, whatever code the collector runs meanwhile.
  %owner = call ptr @pointer(ptr %record, i64 OWNER)
  call void @Py_IncRef(ptr %owner)
  %views = call i64 @word(ptr %record, i64 VIEWS)
  %computes = icmp eq i64 %views, 0
  br i1 %computes, label %compute, label %share
compute:
  %writes = call i64 @word(ptr %record, i64 WRITES)
  %fresh = icmp eq i64 %writes, 0
  br i1 %fresh, label %make, label %write
make:
  %computed = call ptr @run(ptr %record, ptr %flat, ptr %words)
  br label %drop
write:
  %written = call ptr @run_write(ptr %record, ptr %flat, ptr %words)
  br label %drop
share:
  %shared = call ptr @run_views(ptr %record, ptr %flat, ptr %words)
  br label %drop
drop:
  %result = phi ptr [ %computed, %make ], [ %written, %write ], [ %shared, %share ]
  call void @Py_DecRef(ptr %owner)
  %nothing = icmp eq ptr %result, null
  br i1 %nothing, label %failed, label %done
done:
  ret ptr %result
failed:
  %problem = call ptr @PyErr_Occurred()
  %clean = icmp eq ptr %problem, null
  br i1 %clean, label %ask, label %error
ask:
  %given = call ptr @PyObject_Vectorcall(ptr %python, ptr %arguments, i64 %count, ptr null)
  ret ptr %given
error:
  ret ptr null
}

; The keys that count for a call without tensors, as `dispatch` is given them: its fourth argument.
define internal i64 @given_keys(i64 %below, ptr %arguments, i64 %count) {
entry:
  %top = icmp eq i64 %below, 0
  %four = icmp eq i64 %count, 4
  %given = and i1 %top, %four
  br i1 %given, label %read, label %none
read:
  %keys.at = getelementptr ptr, ptr %arguments, i64 3
  %keys.object = load ptr, ptr %keys.at
  %keys = call i64 @PyLong_AsLongLong(ptr %keys.object)
  ret i64 %keys
none:
  ret i64 0
}

; The result of a call, by Python's `python` or `learner` where native code has none.
define internal ptr @answer(ptr %call, i64 %below, ptr %python, ptr %learner, ptr %arguments, i64 %count) {
entry:
  %flat = alloca [MOST_OPERANDS x ptr]
  %why = alloca i64
  %words.at = alloca ptr
  %fallback = call i64 @given_keys(i64 %below, ptr %arguments, i64 %count)
  %record = call ptr @find_call(ptr %call, i64 %below, i64 %fallback, ptr %flat, ptr %words.at, ptr %why)
  %missing = icmp eq ptr %record, null
  br i1 %missing, label %ask, label %to.run
to.run:
  %inner = call i64 @word(ptr %record, i64 INNER)
  %direct = icmp eq i64 %inner, 0
  br i1 %direct, label %run, label %other
other:
  %others = call ptr @call_inner(ptr %record, ptr %call)
  ret ptr %others
run:
  %words = load ptr, ptr %words.at
  %result = call ptr @run_or_ask(ptr %record, ptr %flat, ptr %words, ptr %python, ptr %arguments, i64 %count)
  ret ptr %result
ask:
  %reason = load i64, ptr %why
  %missed = icmp eq i64 %reason, MISSED
  %function = select i1 %missed, ptr %learner, ptr %python
  %given = call ptr @PyObject_Vectorcall(ptr %function, ptr %arguments, i64 %count, ptr null)
  ret ptr %given
}

; A call of an operator, as callers of `eager_dispatch` make it.
define internal ptr @call_operator(ptr %op, ptr %operands, ptr %attributes) {
entry:
  %arguments = alloca [3 x ptr]
  %second = getelementptr ptr, ptr %arguments, i64 1
  %third = getelementptr ptr, ptr %arguments, i64 2
  store ptr %op, ptr %arguments
  store ptr %operands, ptr %second
  store ptr %attributes, ptr %third
  %python = load ptr, ptr @python_dispatch
  %learner = load ptr, ptr @learn
  %result = call ptr @answer(ptr %arguments, i64 0, ptr %python, ptr %learner, ptr %arguments, i64 3)
  ret ptr %result
}

; The call of the operator that gives what a composite gives, on the same operand.
define internal ptr @call_inner(ptr %record, ptr %call) {
entry:
  %owner = call ptr @pointer(ptr %record, i64 OWNER)
  call void @Py_IncRef(ptr %owner)
  %op = call ptr @pointer(ptr %record, i64 INNER)
  %attributes = call ptr @pointer(ptr %record, i64 INNER_ATTRIBUTES)
  %operands.at = getelementptr ptr, ptr %call, i64 1
  %operands = load ptr, ptr %operands.at
  %result = call ptr @call_operator(ptr %op, ptr %operands, ptr %attributes)
  call void @Py_DecRef(ptr %owner)
  ret ptr %result
}

define ptr @eager_dispatch(ptr %self, ptr %arguments, i64 %count) {
entry:
  %python = load ptr, ptr @python_dispatch
  %learner = load ptr, ptr @learn
  %past.three = sub i64 %count, 3
  %fits = icmp ule i64 %past.three, 1
  br i1 %fits, label %read, label %misfit
read:
  %result = call ptr @answer(ptr %arguments, i64 0, ptr %python, ptr %learner, ptr %arguments, i64 %count)
  ret ptr %result
misfit:
  %given = call ptr @PyObject_Vectorcall(ptr %python, ptr %arguments, i64 %count, ptr null)
  ret ptr %given
}

; eager_below(active, operator, operands, attributes): the call below autograd, as `below_autograd`.
define ptr @eager_below(ptr %self, ptr %arguments, i64 %count) {
entry:
  %python = load ptr, ptr @python_below
  %learner = load ptr, ptr @learn_below
  %four = icmp eq i64 %count, 4
  br i1 %four, label %read, label %misfit
read:
  %active.object = load ptr, ptr %arguments
  %active = call i64 @PyLong_AsLongLong(ptr %active.object)
  %call = getelementptr ptr, ptr %arguments, i64 1
  %result = call ptr @answer(ptr %call, i64 %active, ptr %python, ptr %learner, ptr %arguments, i64 %count)
  ret ptr %result
misfit:
  %given = call ptr @PyObject_Vectorcall(ptr %python, ptr %arguments, i64 %count, ptr null)
  ret ptr %given
}

; join_thread(address of the words of the thread's context, the dict of its scopes)
define ptr @join_thread(ptr %self, ptr %arguments, i64 %count) {
entry:
  %two = icmp eq i64 %count, 2
  br i1 %two, label %read, label %misuse
read:
  %address = load ptr, ptr %arguments
  %dict.at = getelementptr ptr, ptr %arguments, i64 1
  %dict = load ptr, ptr %dict.at
  %word = call i64 @PyLong_AsLongLong(ptr %address)
  %words = inttoptr i64 %word to ptr
  %scopes.at = getelementptr ptr, ptr %words, i64 SCOPES_WORD
  store ptr %dict, ptr %scopes.at
  %thread = call ptr @PyThreadState_GetDict()
  %no.thread = icmp eq ptr %thread, null
  br i1 %no.thread, label %misuse, label %join
join:
  %key = load ptr, ptr @thread_key
  %status = call i32 @PyDict_SetItem(ptr %thread, ptr %key, ptr %address)
  %bad = icmp ne i32 %status, 0
  br i1 %bad, label %failed, label %done
done:
  %result = call ptr @PyLong_FromLongLong(i64 0)
  ret ptr %result
misuse:
  call void @PyErr_BadInternalCall()
  ret ptr null
failed:
  ret ptr null
}
"""


def call_text(scopes_word: int) -> str:
    """The functions. `scopes_word` is the word of a thread's context that has the dict of its scopes."""
    numbers = {name: value for name, value in vars(layout).items() if name.isupper() and isinstance(value, int)}
    numbers |= {"SCOPES_WORD": scopes_word, "TABLE_MASK": layout.TABLE_WORDS - 1}
    numbers |= {"MISSED": MISSED, "DECLINED": DECLINED, "LAST_PAIR": layout.KEY_WORDS - 2}
    signatures = (signature_text.OPERANDS, history_text.NEEDED, signature_text.FIND)
    parts = (
        object_text.HEAD,
        *signatures,
        object_text.RESULTS,
        tape_text.TAPE,
        run_text.RESULTS,
        views_text.VIEWS,
        run_text.RUN,
        writes_text.WRITES,
        _DISPATCH,
        plan_text.PLAN,
    )
    parts += (step_text.STEP, visits_text.VISITS, targets_text.TARGETS, walk_text.WALK)
    text = re.sub(r"\b[A-Z][A-Z_]*[A-Z]\b", lambda word: str(numbers.get(word[0], word[0])), "".join(parts))
    return _variables() + text


def _variables() -> str:
    slots = [f"{owner}_{name}" for owner, names in OFFSETS.items() for name in names]
    return "".join([f"@{name} = global i64 0\n" for name in (*OBJECTS, *WORDS, *slots)])
