"""What a plan's `run` does where one short launch is all of it, as LLVM IR."""

NAME = "run_plan"

PLAN = """
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
"""
