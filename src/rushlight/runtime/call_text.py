"""Calls from Python into native entries, as LLVM IR with the interpreter's own calling convention.

A function that Python calls directly (METH_FASTCALL) costs a tenth of a ctypes call. Each takes three integers, the
addresses of the entry, of the context and of the descriptor pointers, and returns the entry's status. A fourth argument
is a commit (`commit_text`): writes to Python objects that are made where the status is 0, before Python goes on.

    call_held      keeps the interpreter lock: for calls shorter than handing it over
    call_released  hands the lock over
    call_watched   also lets Ctrl-C set the interrupt byte: the main thread's long calls

Python's own signal handler only notes that a signal came, where native code cannot see it. So a watched call puts a
handler of its own in front for as long as it runs, which sets the byte and then calls Python's.
"""

SIGINT = 2

PYTHON_SYMBOLS = (
    "PyLong_AsLongLong",
    "PyLong_FromLongLong",
    "PyErr_BadInternalCall",
    "PyEval_SaveThread",
    "PyEval_RestoreThread",
    "PyOS_getsig",
    "PyOS_setsig",
)

_CALLS = f"""
declare i64 @PyLong_AsLongLong(ptr)
declare ptr @PyLong_FromLongLong(i64)
declare void @PyErr_BadInternalCall()
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
declare ptr @PyOS_getsig(i32)
declare ptr @PyOS_setsig(i32, ptr)

@interrupt_byte = global i64 0
@no_interrupt_byte = global i64 0
@python_handler = global ptr null

define internal void @on_interrupt(i32 %signal) {{
  store atomic i8 1, ptr @interrupt_byte seq_cst, align 1
  %handler = load ptr, ptr @python_handler
  call void %handler(i32 %signal)
  ret void
}}

define internal i64 @run_entry(ptr %entry.fn, ptr %ctx, ptr %descriptors) alwaysinline {{
  %saved = alloca i64
  call void @enter_environment(ptr %saved)
  %status = call i64 %entry.fn(ptr %ctx, ptr %descriptors)
  call void @leave_environment(ptr %saved)
  ret i64 %status
}}

; For other native functions that Python calls.
define i64 @run_held(ptr %entry.fn, ptr %ctx, ptr %descriptors) {{
  %status = call i64 @run_entry(ptr %entry.fn, ptr %ctx, ptr %descriptors)
  ret i64 %status
}}

define internal i64 @run_released(ptr %entry.fn, ptr %ctx, ptr %descriptors) {{
  %thread = call ptr @PyEval_SaveThread()
  %status = call i64 @run_entry(ptr %entry.fn, ptr %ctx, ptr %descriptors)
  call void @PyEval_RestoreThread(ptr %thread)
  ret i64 %status
}}

define internal i64 @run_watched(ptr %entry.fn, ptr %ctx, ptr %descriptors) {{
entry:
  store atomic i8 0, ptr @interrupt_byte seq_cst, align 1
  %known = load ptr, ptr @python_handler
  %current = call ptr @PyOS_getsig(i32 {SIGINT})
  ; Step aside for any handler but Python's: ignored, default, or some library's own.
  %python = icmp eq ptr %current, %known
  br i1 %python, label %watched, label %unwatched
unwatched:
  %status.plain = call i64 @run_released(ptr %entry.fn, ptr %ctx, ptr %descriptors)
  ret i64 %status.plain
watched:
  %replaced = call ptr @PyOS_setsig(i32 {SIGINT}, ptr @on_interrupt)
  %status = call i64 @run_released(ptr %entry.fn, ptr %ctx, ptr %descriptors)
  %ours = call ptr @PyOS_setsig(i32 {SIGINT}, ptr %known)
  ret i64 %status
}}
"""

_FROM_PYTHON = """
define ptr @call_NAME(ptr %self, ptr %arguments, i64 %count) {
entry:
  %past.three = sub i64 %count, 3
  %fits = icmp ule i64 %past.three, 1
  br i1 %fits, label %read, label %misuse
read:
  %entry.object = load ptr, ptr %arguments
  %ctx.at = getelementptr ptr, ptr %arguments, i64 1
  %ctx.object = load ptr, ptr %ctx.at
  %descriptors.at = getelementptr ptr, ptr %arguments, i64 2
  %descriptors.object = load ptr, ptr %descriptors.at
  %entry.word = call i64 @PyLong_AsLongLong(ptr %entry.object)
  %ctx.word = call i64 @PyLong_AsLongLong(ptr %ctx.object)
  %descriptors.word = call i64 @PyLong_AsLongLong(ptr %descriptors.object)
  ; -1 says that the argument was no integer, and the error is set.
  %entry.bad = icmp sle i64 %entry.word, 0
  %ctx.bad = icmp eq i64 %ctx.word, -1
  %descriptors.bad = icmp eq i64 %descriptors.word, -1
  %two.bad = or i1 %ctx.bad, %descriptors.bad
  br i1 %two.bad, label %failed, label %check
check:
  br i1 %entry.bad, label %bad.entry, label %run
run:
  %entry.fn = inttoptr i64 %entry.word to ptr
  %ctx = inttoptr i64 %ctx.word to ptr
  %descriptors = inttoptr i64 %descriptors.word to ptr
  %status = call i64 @run_RUNNER(ptr %entry.fn, ptr %ctx, ptr %descriptors)
  %done = icmp eq i64 %status, 0
  %four = icmp eq i64 %count, 4
  %commits = and i1 %done, %four
  br i1 %commits, label %commit, label %give
commit:
  %commit.at = getelementptr ptr, ptr %arguments, i64 3
  %commit.object = load ptr, ptr %commit.at
  %good = call i1 @commit_all(ptr %commit.object)
  br i1 %good, label %give, label %failed
give:
  %result = call ptr @PyLong_FromLongLong(i64 %status)
  ret ptr %result
bad.entry:
  %not.integer = icmp eq i64 %entry.word, -1
  br i1 %not.integer, label %failed, label %misuse
misuse:
  call void @PyErr_BadInternalCall()
  ret ptr null
failed:
  ret ptr null
}
"""

CALLS = {"call_held": "entry", "call_released": "released", "call_watched": "watched"}


def call_text() -> str:
    """The calls; the module also needs the pool's `environment_text`, and `commit_text`."""
    functions = [
        _FROM_PYTHON.replace("NAME", name.removeprefix("call_")).replace("RUNNER", runner)
        for name, runner in CALLS.items()
    ]
    return _CALLS + "".join(functions)
