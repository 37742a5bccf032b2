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
    signature_text,
    step_text,
    tape_text,
    visits_text,
    walk_text,
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
    *tape_text.PYTHON_SYMBOLS,
    *step_text.PYTHON_SYMBOLS,
    *visits_text.PYTHON_SYMBOLS,
    *walk_text.PYTHON_SYMBOLS,
)
NAMES = ("eager_dispatch", "eager_below", "join_thread", walk_text.NAME)
RUN_PLAN = "run_plan"

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
    *history_text.OBJECTS,
    *tape_text.OBJECTS,
    *visits_text.OBJECTS,
    *walk_text.OBJECTS,
)
"""Objects that the text refers to."""

OFFSETS = {
    "tensor": ("storage", "offset", "form", "keys", "version", "view_of", "gradient", "node"),
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

_RUN = """
; Fills an operand into the argument block; whether that was possible.
define internal i1 @fill(ptr %argument, ptr %operand, ptr %words, ptr %reals) {
entry:
  %kind = call i64 @word(ptr %argument, i64 KIND)
  %at = call i64 @word(ptr %argument, i64 AT)
  switch i64 %kind, label %yes [
    i64 TENSOR, label %tensor
    i64 INTEGER, label %integer
    i64 REAL, label %real
  ]
tensor:
  %storage = call ptr @get(ptr %operand, ptr @tensor_storage)
  %storage.class = load ptr, ptr @storage_class
  %class = call ptr @class_of(ptr %storage)
  %has.data = icmp eq ptr %class, %storage.class
  br i1 %has.data, label %to.address, label %no
to.address:
  %address.object = call ptr @get(ptr %storage, ptr @storage_address)
  %address = call i64 @PyLong_AsLongLong(ptr %address.object)
  %offset.object = call ptr @get(ptr %operand, ptr @tensor_offset)
  %offset.class = call ptr @class_of(ptr %offset.object)
  %int = load ptr, ptr @int_class
  %is.int = icmp eq ptr %offset.class, %int
  br i1 %is.int, label %store, label %no
store:
  %offset = call i64 @PyLong_AsLongLong(ptr %offset.object)
  %scale = call i64 @word(ptr %argument, i64 SCALE)
  %bytes = mul i64 %offset, %scale
  %data = add i64 %address, %bytes
  %data.at = getelementptr i64, ptr %words, i64 %at
  store i64 %data, ptr %data.at
  br label %yes
integer:
  %number = call i64 @PyLong_AsLongLong(ptr %operand)
  %minus.one = icmp eq i64 %number, -1
  br i1 %minus.one, label %check, label %bounds
check:
  %problem = call ptr @PyErr_Occurred()
  %fits.word = icmp eq ptr %problem, null
  br i1 %fits.word, label %bounds, label %large
large:
  call void @PyErr_Clear()
  br label %no
bounds:
  %lowest = call i64 @word(ptr %argument, i64 LOWEST)
  %highest = call i64 @word(ptr %argument, i64 HIGHEST)
  %above = icmp sge i64 %number, %lowest
  %below = icmp sle i64 %number, %highest
  %within = and i1 %above, %below
  br i1 %within, label %integer.store, label %no
integer.store:
  %number.at = getelementptr i64, ptr %words, i64 %at
  store i64 %number, ptr %number.at
  br label %yes
real:
  %value = call double @PyFloat_AsDouble(ptr %operand)
  %lowest.bits = call i64 @word(ptr %argument, i64 LOWEST)
  %highest.bits = call i64 @word(ptr %argument, i64 HIGHEST)
  %lowest.real = bitcast i64 %lowest.bits to double
  %highest.real = bitcast i64 %highest.bits to double
  ; Infinity and NaN are left to Python where there are bounds, and pass infinite ones.
  %above.real = fcmp uge double %value, %lowest.real
  %below.real = fcmp ule double %value, %highest.real
  %within.real = and i1 %above.real, %below.real
  br i1 %within.real, label %real.store, label %no
real.store:
  %value.at = getelementptr double, ptr %reals, i64 %at
  store double %value, ptr %value.at
  br label %yes
yes:
  ret i1 true
no:
  ret i1 false
}

define internal void @drop_results(ptr %results, i64 %count) {
entry:
  br label %next
next:
  %i = phi i64 [ 0, %entry ], [ %i.next, %one ]
  %all = icmp eq i64 %i, %count
  br i1 %all, label %done, label %one
one:
  %result.at = getelementptr ptr, ptr %results, i64 %i
  %result = load ptr, ptr %result.at
  call void @Py_DecRef(ptr %result)
  %i.next = add i64 %i, 1
  br label %next
done:
  ret void
}

; Computes a record's results into `results`: whether that was done. If not, Python has to do it, or there is an error.
define internal i1 @compute(ptr %record, ptr %operands, ptr %context, ptr %results) {
entry:
  %addresses = alloca [MOST_RESULTS x i64]
  %count = call i64 @word(ptr %record, i64 RESULTS)
  %outputs = getelementptr i64, ptr %record, i64 OUTPUTS
  br label %make
make:
  %i = phi i64 [ 0, %entry ], [ %i.next, %made ]
  %done = icmp eq i64 %i, %count
  br i1 %done, label %fill.start, label %make.one
make.one:
  %output.at = mul i64 %i, OUTPUT_WORDS
  %output = getelementptr i64, ptr %outputs, i64 %output.at
  %address.at = getelementptr i64, ptr %addresses, i64 %i
  %result = call ptr @make_result(ptr %output, ptr %address.at)
  %failed = icmp eq ptr %result, null
  br i1 %failed, label %drop.start, label %made
made:
  %result.at = getelementptr ptr, ptr %results, i64 %i
  store ptr %result, ptr %result.at
  %i.next = add i64 %i, 1
  br label %make
fill.start:
  %words.word = call i64 @word(ptr %record, i64 WORDS)
  %words = inttoptr i64 %words.word to ptr
  %reals.word = call i64 @word(ptr %record, i64 REALS)
  %reals = inttoptr i64 %reals.word to ptr
  %arguments = getelementptr i64, ptr %record, i64 ARGUMENTS
  %operand.count = call i64 @word(ptr %record, i64 FILLED)
  br label %fill.next
fill.next:
  %j = phi i64 [ 0, %fill.start ], [ %j.next, %filled ]
  %all = icmp eq i64 %j, %operand.count
  br i1 %all, label %place, label %fill.one
fill.one:
  %argument.at = mul i64 %j, ARGUMENT_WORDS
  %argument = getelementptr i64, ptr %arguments, i64 %argument.at
  %operand.at = getelementptr ptr, ptr %operands, i64 %j
  %operand = load ptr, ptr %operand.at
  %good = call i1 @fill(ptr %argument, ptr %operand, ptr %words, ptr %reals)
  br i1 %good, label %filled, label %drop.start
filled:
  %j.next = add i64 %j, 1
  br label %fill.next
place:
  %k = phi i64 [ 0, %fill.next ], [ %k.next, %placed ]
  %placed.all = icmp eq i64 %k, %count
  br i1 %placed.all, label %launch, label %placed
placed:
  %place.at = mul i64 %k, OUTPUT_WORDS
  %placing = getelementptr i64, ptr %outputs, i64 %place.at
  %slot = call i64 @word(ptr %placing, i64 ADDRESS_AT)
  %known.at = getelementptr i64, ptr %addresses, i64 %k
  %known = load i64, ptr %known.at
  %slot.at = getelementptr i64, ptr %words, i64 %slot
  store i64 %known, ptr %slot.at
  %k.next = add i64 %k, 1
  br label %place
launch:
  %entry.word = call i64 @word(ptr %record, i64 ENTRY)
  %entry.fn = inttoptr i64 %entry.word to ptr
  %pointer.word = call i64 @word(ptr %record, i64 POINTER)
  %pointer = inttoptr i64 %pointer.word to ptr
  %status = call i64 @run_held(ptr %entry.fn, ptr %context, ptr %pointer)
  %ran = icmp eq i64 %status, 0
  br i1 %ran, label %done.all, label %drop.start
done.all:
  ret i1 true
drop.start:
  %made.count = phi i64 [ %i, %make.one ], [ %count, %fill.one ], [ %count, %launch ]
  call void @drop_results(ptr %results, i64 %made.count)
  ret i1 false
}

; Runs a record: the tensor, or the tuple of them. Null where Python has to do it, or has failed.
define internal ptr @run(ptr %record, ptr %operands, ptr %context) {
entry:
  %results = alloca [MOST_RESULTS x ptr]
  %count = call i64 @word(ptr %record, i64 RESULTS)
  %ran = call i1 @compute(ptr %record, ptr %operands, ptr %context, ptr %results)
  br i1 %ran, label %write, label %nothing
write:
  %written = call i1 @write_tape(ptr %record, ptr %operands, ptr %results)
  br i1 %written, label %give, label %drop
give:
  %bare = call i64 @word(ptr %record, i64 BARE)
  %is.bare = icmp ne i64 %bare, 0
  br i1 %is.bare, label %one, label %tuple
one:
  %only = load ptr, ptr %results
  ret ptr %only
tuple:
  %several = call ptr @PyTuple_New(i64 %count)
  %no.tuple = icmp eq ptr %several, null
  br i1 %no.tuple, label %drop, label %pack
pack:
  %m = phi i64 [ 0, %tuple ], [ %m.next, %pack.one ]
  %packed = icmp eq i64 %m, %count
  br i1 %packed, label %all.packed, label %pack.one
pack.one:
  %member.at = getelementptr ptr, ptr %results, i64 %m
  %member = load ptr, ptr %member.at
  %set = call i32 @PyTuple_SetItem(ptr %several, i64 %m, ptr %member)
  %m.next = add i64 %m, 1
  br label %pack
all.packed:
  ret ptr %several
drop:
  call void @drop_results(ptr %results, i64 %count)
  br label %nothing
nothing:
  ret ptr null
}
"""

_DISPATCH = """
; The record of a call, given by the address of (operator, operands, attributes). Its operands go into `flat`. Null
; where there is none, and then in `why` whether the call should be learned. A `below` that is not 0 has the active keys
; of a call that autograd has taken.
define internal ptr @find_call(ptr %call, i64 %below, ptr %flat, ptr %words.at, ptr %why) {
entry:
  %op = load ptr, ptr %call
  %operands.at = getelementptr ptr, ptr %call, i64 1
  %operands = load ptr, ptr %operands.at
  %attributes.at = getelementptr ptr, ptr %call, i64 2
  %attributes = load ptr, ptr %attributes.at
  %key = alloca [KEY_WORDS x i64], align 16
  %keys = alloca [MOST_OPERANDS x i64], align 16
  store i64 DECLINED, ptr %why
  store [KEY_WORDS x i64] zeroinitializer, ptr %key
  %enabled = load i64, ptr @enabled
  %off = icmp eq i64 %enabled, 0
  br i1 %off, label %python, label %size
size:
  %attribute.count = call i64 @PyDict_Size(ptr %attributes)
  %some = icmp ne i64 %attribute.count, 0
  br i1 %some, label %clear, label %count.operands
count.operands:
  %count = call i64 @PyTuple_Size(ptr %operands)
  %past.one = sub i64 %count, 1
  %few = icmp ult i64 %past.one, MOST_OPERANDS
  br i1 %few, label %next, label %clear
next:
  %i = phi i64 [ 0, %count.operands ], [ %i.next, %known ]
  %own.keys = phi i64 [ 0, %count.operands ], [ %own.keys.next, %known ]
  %all = icmp eq i64 %i, %count
  br i1 %all, label %thread, label %look
look:
  %operand = call ptr @PyTuple_GetItem(ptr %operands, i64 %i)
  %keys.at = getelementptr i64, ptr %keys, i64 %i
  %word = call i64 @word_of(ptr %operand, ptr %keys.at)
  %strange = icmp eq i64 %word, 0
  br i1 %strange, label %python, label %known
known:
  %flat.at = getelementptr ptr, ptr %flat, i64 %i
  store ptr %operand, ptr %flat.at
  %key.at = add i64 %i, OPERANDS
  %word.at = getelementptr i64, ptr %key, i64 %key.at
  store i64 %word, ptr %word.at
  %one.keys = load i64, ptr %keys.at
  %own.keys.next = or i64 %own.keys, %one.keys
  %i.next = add i64 %i, 1
  br label %next
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
  store i64 %count, ptr %key
  %needed.at = getelementptr i64, ptr %key, i64 NEEDED
  store i64 %needed, ptr %needed.at
  %op.word = ptrtoint ptr %op to i64
  %op.at = getelementptr i64, ptr %key, i64 OPERATOR
  store i64 %op.word, ptr %op.at
  %settings = call i64 @settings_word()
  %settings.at = getelementptr i64, ptr %key, i64 SETTINGS
  store i64 %settings, ptr %settings.at
  %record = call ptr @find(ptr %key)
  %unknown = icmp eq ptr %record, null
  br i1 %unknown, label %missed, label %runs
runs:
  %entry.word = call i64 @word(ptr %record, i64 ENTRY)
  %never = icmp eq i64 %entry.word, 0
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
  %owner.word = call i64 @word(ptr %record, i64 OWNER)
  %owner = inttoptr i64 %owner.word to ptr
  call void @Py_IncRef(ptr %owner)
  %result = call ptr @run(ptr %record, ptr %flat, ptr %words)
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

; The result of a call, by Python's `python` or `learner` where native code has none.
define internal ptr @answer(ptr %call, i64 %below, ptr %python, ptr %learner, ptr %arguments, i64 %count) {
entry:
  %flat = alloca [MOST_OPERANDS x ptr]
  %why = alloca i64
  %words.at = alloca ptr
  %record = call ptr @find_call(ptr %call, i64 %below, ptr %flat, ptr %words.at, ptr %why)
  %missing = icmp eq ptr %record, null
  br i1 %missing, label %ask, label %to.run
to.run:
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

define ptr @eager_dispatch(ptr %self, ptr %arguments, i64 %count) {
entry:
  %python = load ptr, ptr @python_dispatch
  %learner = load ptr, ptr @learn
  ; The fourth, keys, matters to calls without tensors alone.
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

; run_plan(operands): what a plan does, in place of the generated Python function that is its specification.
; `self` is (what owns the code, (address of the record, the Python function, the record)).
define ptr @run_plan(ptr %self, ptr %arguments, i64 %count) {
entry:
  %flat = alloca [MOST_ARGUMENTS x ptr]
  %owned = call ptr @PyTuple_GetItem(ptr %self, i64 1)
  %address = call ptr @PyTuple_GetItem(ptr %owned, i64 0)
  %python = call ptr @PyTuple_GetItem(ptr %owned, i64 1)
  %record.word = call i64 @PyLong_AsLongLong(ptr %address)
  %record = inttoptr i64 %record.word to ptr
  %enabled = load i64, ptr @enabled
  %off = icmp eq i64 %enabled, 0
  %one = icmp ne i64 %count, 1
  %ask = or i1 %off, %one
  br i1 %ask, label %to.python, label %thread
thread:
  %words = call ptr @thread_words()
  %stranger = icmp eq ptr %words, null
  br i1 %stranger, label %to.python, label %take
take:
  %operands = load ptr, ptr %arguments
  %wanted = call i64 @word(ptr %record, i64 FILLED)
  br label %next
next:
  %i = phi i64 [ 0, %take ], [ %i.next, %look ]
  %all = icmp eq i64 %i, %wanted
  br i1 %all, label %to.run, label %look
look:
  ; The sequence keeps its members alive.
  %operand = call ptr @PySequence_GetItem(ptr %operands, i64 %i)
  call void @Py_DecRef(ptr %operand)
  %flat.at = getelementptr ptr, ptr %flat, i64 %i
  store ptr %operand, ptr %flat.at
  %i.next = add i64 %i, 1
  br label %next
to.run:
  %result = call ptr @run_or_ask(ptr %record, ptr %flat, ptr %words, ptr %python, ptr %arguments, i64 %count)
  ret ptr %result
to.python:
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
    numbers |= {"MISSED": MISSED, "DECLINED": DECLINED}
    signatures = (signature_text.OPERANDS, history_text.NEEDED, signature_text.FIND)
    parts = (object_text.HEAD, *signatures, object_text.RESULTS, tape_text.TAPE, _RUN, _DISPATCH)
    parts += (step_text.STEP, visits_text.VISITS, walk_text.WALK)
    text = re.sub(r"\b[A-Z][A-Z_]*[A-Z]\b", lambda word: str(numbers.get(word[0], word[0])), "".join(parts))
    return _variables() + text


def _variables() -> str:
    slots = [f"{owner}_{name}" for owner, names in OFFSETS.items() for name in names]
    return "".join([f"@{name} = global i64 0\n" for name in (*OBJECTS, *WORDS, *slots)])
