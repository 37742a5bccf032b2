"""Writes to Python objects that belong to a native call, as LLVM IR: `commit_all(commit, first)`, `commit` for Python.

`run_or_undo(function, undo)` takes back what Python code has done where it fails.

Python runs signal handlers, and lets other threads run, between its own instructions alone. So writes that one native
function makes happen together: an interrupt comes before the first or after the last.

A commit is a tuple of four sequences:

    calls       tuples (function, arguments, target, key): target[key] = function(*arguments)
    items       objects in threes: target, key, value: target[key] = value
    attributes  objects in threes: target, name, value: setattr(target, name, value)
    versions    objects whose `value` is counted up

Where a write runs Python code, as a setter of a user's class does, an interrupt may come there: it is tried again, a
few times. All other writes are made nevertheless, and then the first error is raised.
"""

NAMES = ("commit", "run_or_undo")
WRITE_TRIES = 8  # of a setter that raises
UNDO_TRIES = 1000  # how often signals may interrupt what takes back; each does so once

PYTHON_SYMBOLS = (
    "PyErr_Fetch",
    "PyErr_Restore",
    "PyNumber_Add",
    "PyObject_CallObject",
    "PyObject_GetAttr",
    "PyObject_SetAttr",
    "PyObject_SetItem",
    "PySequence_GetItem",
    "PySequence_Size",
    "PyTuple_GetItem",
    "PyUnicode_InternFromString",
)

_PARTS = ("calls", "items", "attributes", "versions")

_HEAD = """
declare void @PyErr_Fetch(ptr, ptr, ptr)
declare void @PyErr_Restore(ptr, ptr, ptr)
declare ptr @PyNumber_Add(ptr, ptr)
declare ptr @PyObject_CallObject(ptr, ptr)
declare ptr @PyObject_GetAttr(ptr, ptr)
declare i32 @PyObject_SetAttr(ptr, ptr, ptr)
declare i32 @PyObject_SetItem(ptr, ptr, ptr)
declare ptr @PySequence_GetItem(ptr, i64)
declare i64 @PySequence_Size(ptr)
declare ptr @PyTuple_GetItem(ptr, i64)
declare ptr @PyUnicode_InternFromString(ptr)

@value_name = internal constant [6 x i8] c"value\\00"

; Takes the error that is set, and keeps it if it is the first.
define internal void @note_error(ptr %first) noinline {
entry:
  %error = alloca [3 x ptr]
  %value.at = getelementptr ptr, ptr %error, i64 1
  %trace.at = getelementptr ptr, ptr %error, i64 2
  call void @PyErr_Fetch(ptr %error, ptr %value.at, ptr %trace.at)
  %known = load ptr, ptr %first
  %fresh = icmp eq ptr %known, null
  br i1 %fresh, label %keep, label %drop
keep:
  %parts = load [3 x ptr], ptr %error
  store [3 x ptr] %parts, ptr %first
  ret void
drop:
  call void @drop_error(ptr %error)
  ret void
}

define internal void @raise_error(ptr %error) {
  %value.at = getelementptr ptr, ptr %error, i64 1
  %trace.at = getelementptr ptr, ptr %error, i64 2
  %class = load ptr, ptr %error
  %value = load ptr, ptr %value.at
  %trace = load ptr, ptr %trace.at
  call void @PyErr_Restore(ptr %class, ptr %value, ptr %trace)
  ret void
}

define internal void @drop_error(ptr %error) {
  %value.at = getelementptr ptr, ptr %error, i64 1
  %trace.at = getelementptr ptr, ptr %error, i64 2
  %class = load ptr, ptr %error
  %value = load ptr, ptr %value.at
  %trace = load ptr, ptr %trace.at
  call void @Py_DecRef(ptr %class)
  call void @Py_DecRef(ptr %value)
  call void @Py_DecRef(ptr %trace)
  ret void
}

define internal void @set_with(ptr %setter, ptr %target, ptr %key, ptr %value, ptr %first) {
entry:
  br label %try
try:
  %tries = phi i64 [ 0, %entry ], [ %tries.next, %again ]
  %status = call i32 %setter(ptr %target, ptr %key, ptr %value)
  %good = icmp eq i32 %status, 0
  br i1 %good, label %done, label %again
again:
  call void @note_error(ptr %first)
  %tries.next = add i64 %tries, 1
  %more = icmp slt i64 %tries.next, WRITE_TRIES
  br i1 %more, label %try, label %done
done:
  ret void
}

define internal void @commit_call(ptr %list, i64 %i, ptr %first) {
entry:
  %item = call ptr @PySequence_GetItem(ptr %list, i64 %i)
  %function = call ptr @PyTuple_GetItem(ptr %item, i64 0)
  %arguments = call ptr @PyTuple_GetItem(ptr %item, i64 1)
  %target = call ptr @PyTuple_GetItem(ptr %item, i64 2)
  %key = call ptr @PyTuple_GetItem(ptr %item, i64 3)
  %value = call ptr @PyObject_CallObject(ptr %function, ptr %arguments)
  %failed = icmp eq ptr %value, null
  br i1 %failed, label %wrong, label %right
wrong:
  call void @note_error(ptr %first)
  br label %done
right:
  call void @set_with(ptr @PyObject_SetItem, ptr %target, ptr %key, ptr %value, ptr %first)
  call void @Py_DecRef(ptr %value)
  br label %done
done:
  call void @Py_DecRef(ptr %item)
  ret void
}

define internal void @commit_three(ptr %setter, ptr %list, i64 %i, ptr %first) {
  %i.key = add i64 %i, 1
  %i.value = add i64 %i, 2
  %target = call ptr @PySequence_GetItem(ptr %list, i64 %i)
  %key = call ptr @PySequence_GetItem(ptr %list, i64 %i.key)
  %value = call ptr @PySequence_GetItem(ptr %list, i64 %i.value)
  call void @set_with(ptr %setter, ptr %target, ptr %key, ptr %value, ptr %first)
  call void @Py_DecRef(ptr %target)
  call void @Py_DecRef(ptr %key)
  call void @Py_DecRef(ptr %value)
  ret void
}

define internal void @commit_version(ptr %list, i64 %i, ptr %first) {
entry:
  %name = call ptr @PyUnicode_InternFromString(ptr @value_name)
  %one = call ptr @PyLong_FromLongLong(i64 1)
  %version = call ptr @PySequence_GetItem(ptr %list, i64 %i)
  %before = call ptr @PyObject_GetAttr(ptr %version, ptr %name)
  %missing = icmp eq ptr %before, null
  br i1 %missing, label %wrong, label %count
count:
  %after = call ptr @PyNumber_Add(ptr %before, ptr %one)
  call void @set_with(ptr @PyObject_SetAttr, ptr %version, ptr %name, ptr %after, ptr %first)
  call void @Py_DecRef(ptr %after)
  call void @Py_DecRef(ptr %before)
  br label %done
wrong:
  call void @note_error(ptr %first)
  br label %done
done:
  call void @Py_DecRef(ptr %version)
  call void @Py_DecRef(ptr %one)
  call void @Py_DecRef(ptr %name)
  ret void
}
"""

_LOOP = """
define internal void @commit_PART(ptr %commit, ptr %first) {
entry:
  %list = call ptr @PyTuple_GetItem(ptr %commit, i64 NUMBER)
  %size = call i64 @PySequence_Size(ptr %list)
  br label %next
next:
  %i = phi i64 [ 0, %entry ], [ %i.next, %member ]
  %more = icmp slt i64 %i, %size
  br i1 %more, label %member, label %over
member:
  STEP
  %i.next = add i64 %i, WIDTH
  br label %next
over:
  ret void
}
"""

_STEPS = {
    "calls": ("call void @commit_call(ptr %list, i64 %i, ptr %first)", 1),
    "items": ("call void @commit_three(ptr @PyObject_SetItem, ptr %list, i64 %i, ptr %first)", 3),
    "attributes": ("call void @commit_three(ptr @PyObject_SetAttr, ptr %list, i64 %i, ptr %first)", 3),
    "versions": ("call void @commit_version(ptr %list, i64 %i, ptr %first)", 1),
}

_TAIL = """
; Whether all went well; else the first error is set.
define internal i1 @commit_all(ptr %commit) {
entry:
  %first = alloca [3 x ptr]
  store [3 x ptr] zeroinitializer, ptr %first
  PARTS
  %class = load ptr, ptr %first
  %good = icmp eq ptr %class, null
  br i1 %good, label %done, label %raise
raise:
  call void @raise_error(ptr %first)
  br label %done
done:
  ret i1 %good
}

define ptr @commit(ptr %self, ptr %arguments, i64 %count) {
entry:
  %one = icmp eq i64 %count, 1
  br i1 %one, label %run, label %misuse
run:
  %commit = load ptr, ptr %arguments
  %good = call i1 @commit_all(ptr %commit)
  br i1 %good, label %done, label %failed
done:
  %result = call ptr @PyBool_FromLong(i64 1)
  ret ptr %result
misuse:
  call void @PyErr_BadInternalCall()
  ret ptr null
failed:
  ret ptr null
}
"""

_RUN_OR_UNDO = """
; function(); where it raises, undo(), again whenever an interrupt comes in between: nothing runs between two tries.
; Raises the first error of undo, so that no interrupt is lost, or else that of the function.
define ptr @run_or_undo(ptr %self, ptr %arguments, i64 %count) {
entry:
  %failure = alloca [3 x ptr]
  %first = alloca [3 x ptr]
  store [3 x ptr] zeroinitializer, ptr %failure
  store [3 x ptr] zeroinitializer, ptr %first
  %two = icmp eq i64 %count, 2
  br i1 %two, label %run, label %misuse
run:
  %function = load ptr, ptr %arguments
  %undo.at = getelementptr ptr, ptr %arguments, i64 1
  %undo = load ptr, ptr %undo.at
  %result = call ptr @PyObject_CallObject(ptr %function, ptr null)
  %failed = icmp eq ptr %result, null
  br i1 %failed, label %wrong, label %done
done:
  ret ptr %result
wrong:
  call void @note_error(ptr %failure)
  br label %try
try:
  %tries = phi i64 [ 0, %wrong ], [ %tries.next, %again ]
  %undone = call ptr @PyObject_CallObject(ptr %undo, ptr null)
  %interrupted = icmp eq ptr %undone, null
  br i1 %interrupted, label %again, label %over
again:
  call void @note_error(ptr %first)
  %tries.next = add i64 %tries, 1
  %more = icmp slt i64 %tries.next, UNDO_TRIES
  br i1 %more, label %try, label %raise
over:
  call void @Py_DecRef(ptr %undone)
  br label %raise
raise:
  %class = load ptr, ptr %first
  %clean = icmp eq ptr %class, null
  %error = select i1 %clean, ptr %failure, ptr %first
  %other = select i1 %clean, ptr %first, ptr %failure
  call void @raise_error(ptr %error)
  call void @drop_error(ptr %other)
  ret ptr null
misuse:
  call void @PyErr_BadInternalCall()
  ret ptr null
}
"""


def commit_text() -> str:
    """The functions. The module also needs `call_text` and `containers_text`, which declare what they share."""
    loops: list[str] = []
    for number, part in enumerate(_PARTS):
        step, width = _STEPS[part]
        loop = _LOOP.replace("PART", part).replace("NUMBER", str(number))
        loops.append(loop.replace("STEP", step).replace("WIDTH", str(width)))
    parts = "\n  ".join([f"call void @commit_{part}(ptr %commit, ptr %first)" for part in _PARTS])
    undo = _RUN_OR_UNDO.replace("UNDO_TRIES", str(UNDO_TRIES))
    return "".join([_HEAD.replace("WRITE_TRIES", str(WRITE_TRIES)), *loops, _TAIL.replace("PARTS", parts), undo])
