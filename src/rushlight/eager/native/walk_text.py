"""The walk of a backward pass, as LLVM IR: `autodiff.backward.walk` from roots to leaves, or to given places.

A step without hooks runs natively where it can (`step_text`); any other one by `Pass.take`. A pass that has steps with
folds, merges or a rest is declined before anything has happened, and Python walks.
"""

PYTHON_SYMBOLS = ("PyErr_CheckSignals",)
NAME = "walk_tape"

OBJECTS = ("learn_step", "learn_sink")
"""Objects that the text refers to."""

WALK = """
declare i32 @PyErr_CheckSignals()

; A gradient, borrowed, arrives at an output of a visit, where it may meet others: whether there was no error.
define internal i1 @arrive(ptr %walk, i64 %number, i64 %output, ptr %gradient) {
entry:
  %arguments = alloca [2 x ptr]
  %none = load ptr, ptr @none
  %visit = call ptr @visit(ptr %walk, i64 %number)
  %list.before = call ptr @pointer(ptr %visit, i64 VISIT_GRADIENTS)
  %unmade = icmp eq ptr %list.before, null
  br i1 %unmade, label %make, label %extend
make:
  %made = call ptr @PyList_New(i64 0)
  %failed = icmp eq ptr %made, null
  br i1 %failed, label %error, label %keep
keep:
  call void @set_pointer(ptr %visit, i64 VISIT_GRADIENTS, ptr %made)
  br label %extend
extend:
  %list = phi ptr [ %list.before, %entry ], [ %made, %keep ], [ %list, %append ]
  %size = call i64 @PyList_Size(ptr %list)
  %long = icmp sgt i64 %size, %output
  br i1 %long, label %is.there, label %append
append:
  %status = call i32 @PyList_Append(ptr %list, ptr %none)
  %bad = icmp ne i32 %status, 0
  br i1 %bad, label %error, label %extend
is.there:
  %nothing = icmp eq ptr %gradient, %none
  br i1 %nothing, label %done, label %meet
meet:
  %before = call ptr @PyList_GetItem(ptr %list, i64 %output)
  %first = icmp eq ptr %before, %none
  br i1 %first, label %put, label %add
put:
  call void @Py_IncRef(ptr %gradient)
  br label %set
add:
  %second = getelementptr ptr, ptr %arguments, i64 1
  store ptr %before, ptr %arguments
  store ptr %gradient, ptr %second
  %adder = call ptr @pointer(ptr %walk, i64 WALK_ADD)
  %sum = call ptr @PyObject_Vectorcall(ptr %adder, ptr %arguments, i64 2, ptr null)
  %no.sum = icmp eq ptr %sum, null
  br i1 %no.sum, label %error, label %set
set:
  %total = phi ptr [ %gradient, %put ], [ %sum, %add ]
  %stored = call i32 @PyList_SetItem(ptr %list, i64 %output, ptr %total)
  br label %done
done:
  ret i1 true
error:
  ret i1 false
}

; A gradient, borrowed, goes where an edge goes, if that leads; it is then waited for once less.
define internal i1 @deliver(ptr %walk, ptr %edge, ptr %gradient) {
entry:
  %none = load ptr, ptr @none
  %constant = icmp eq ptr %edge, %none
  br i1 %constant, label %done, label %lead
lead:
  %step = call ptr @PyTuple_GetItem(ptr %edge, i64 0)
  %output.object = call ptr @PyTuple_GetItem(ptr %edge, i64 1)
  %output = call i64 @PyLong_AsLongLong(ptr %output.object)
  %number = call i64 @find_visit(ptr %walk, ptr %step)
  %unreached = icmp slt i64 %number, 0
  br i1 %unreached, label %misuse, label %ask
misuse:
  call void @PyErr_BadInternalCall()
  ret i1 false
ask:
  %asked = call ptr @visit(ptr %walk, i64 %number)
  %leads = call i64 @word(ptr %asked, i64 VISIT_LEADS)
  %aside = icmp eq i64 %leads, 0
  br i1 %aside, label %done, label %arrive
arrive:
  %good = call i1 @arrive(ptr %walk, i64 %number, i64 %output, ptr %gradient)
  br i1 %good, label %count, label %error
count:
  %visit = call ptr @visit(ptr %walk, i64 %number)
  %waiting = call i64 @word(ptr %visit, i64 VISIT_WAITING)
  %less = sub i64 %waiting, 1
  call void @set_word(ptr %visit, i64 VISIT_WAITING, i64 %less)
  %ready = icmp eq i64 %less, 0
  br i1 %ready, label %push, label %done
push:
  call void @push(ptr %walk, i64 %number)
  br label %done
done:
  ret i1 true
error:
  ret i1 false
}

; Runs a step by Python, which is to learn how it may run natively by the function `learner`, if that is not null.
define internal i1 @take_by_python(ptr %walk, ptr %step, ptr %gradients, ptr %learner) {
entry:
  %arguments = alloca [3 x ptr]
  %one = call ptr @pointer(ptr %walk, i64 WALK_PASS)
  %second = getelementptr ptr, ptr %arguments, i64 1
  %third = getelementptr ptr, ptr %arguments, i64 2
  store ptr %one, ptr %arguments
  store ptr %step, ptr %second
  store ptr %gradients, ptr %third
  %known = icmp eq ptr %learner, null
  br i1 %known, label %take, label %learn
learn:
  %taught = call ptr @PyObject_Vectorcall(ptr %learner, ptr %arguments, i64 3, ptr null)
  br label %give
take:
  %taker = call ptr @pointer(ptr %walk, i64 WALK_TAKE)
  %taken = call ptr @PyObject_Vectorcall(ptr %taker, ptr %second, i64 2, ptr null)
  br label %give
give:
  %results = phi ptr [ %taught, %learn ], [ %taken, %take ]
  %failed = icmp eq ptr %results, null
  br i1 %failed, label %error, label %begin
begin:
  %edges = call ptr @get(ptr %step, ptr @step_edges)
  %count = call i64 @PyTuple_Size(ptr %edges)
  br label %next
next:
  %i = phi i64 [ 0, %begin ], [ %i.next, %delivered ]
  %all = icmp sge i64 %i, %count
  br i1 %all, label %done, label %one.edge
one.edge:
  %edge = call ptr @PyTuple_GetItem(ptr %edges, i64 %i)
  %gradient = call ptr @PyTuple_GetItem(ptr %results, i64 %i)
  %missing = icmp eq ptr %gradient, null
  br i1 %missing, label %drop, label %send
send:
  %good = call i1 @deliver(ptr %walk, ptr %edge, ptr %gradient)
  br i1 %good, label %delivered, label %drop
delivered:
  %i.next = add i64 %i, 1
  br label %next
done:
  call void @Py_DecRef(ptr %results)
  ret i1 true
drop:
  call void @Py_DecRef(ptr %results)
  ret i1 false
error:
  ret i1 false
}

; Sends the gradients that a step has given to where its edges lead; their references are given away.
define internal i1 @deliver_all(ptr %walk, ptr %step, ptr %given, i64 %count) {
entry:
  %edges = call ptr @get(ptr %step, ptr @step_edges)
  br label %next
next:
  %i = phi i64 [ 0, %entry ], [ %i.next, %sent ]
  %good = phi i1 [ true, %entry ], [ %good.next, %sent ]
  %all = icmp eq i64 %i, %count
  br i1 %all, label %done, label %one
one:
  %given.at = getelementptr ptr, ptr %given, i64 %i
  %gradient = load ptr, ptr %given.at
  br i1 %good, label %send, label %sent
send:
  %edge = call ptr @PyTuple_GetItem(ptr %edges, i64 %i)
  %delivered = call i1 @deliver(ptr %walk, ptr %edge, ptr %gradient)
  br label %sent
sent:
  %good.next = phi i1 [ false, %one ], [ %delivered, %send ]
  call void @Py_DecRef(ptr %gradient)
  %i.next = add i64 %i, 1
  br label %next
done:
  ret i1 %good
}

; Whether a gradient has arrived.
define internal i1 @has_arrived(ptr %gradients) {
entry:
  %none = load ptr, ptr @none
  %count = call i64 @PyList_Size(ptr %gradients)
  br label %next
next:
  %i = phi i64 [ 0, %entry ], [ %i.next, %look ]
  %all = icmp sge i64 %i, %count
  br i1 %all, label %no, label %look
look:
  %gradient = call ptr @PyList_GetItem(ptr %gradients, i64 %i)
  %there = icmp ne ptr %gradient, %none
  %i.next = add i64 %i, 1
  br i1 %there, label %yes, label %next
yes:
  ret i1 true
no:
  ret i1 false
}

; Runs a step on what has arrived: whether there was no error.
define internal i1 @take_turn(ptr %walk, ptr %step, ptr %gradients) {
entry:
  %given = alloca [MOST_ARGUMENTS x ptr]
  %why = alloca i64
  %owned = call ptr @pointer(ptr %walk, i64 WALK_OWNED)
  %plain = call i1 @is_plain(ptr %step)
  br i1 %plain, label %arrived, label %python
arrived:
  %some = call i1 @has_arrived(ptr %gradients)
  br i1 %some, label %classify, label %python
classify:
  %class = call ptr @class_of(ptr %step)
  %step.class = load ptr, ptr @step_class
  %operator = icmp eq ptr %class, %step.class
  br i1 %operator, label %find, label %is.sink
find:
  %record = call ptr @find_step(ptr %step, ptr %gradients, ptr %why)
  %unknown = icmp eq ptr %record, null
  br i1 %unknown, label %learn.step, label %run
run:
  %context = call ptr @pointer(ptr %walk, i64 WALK_CONTEXT)
  %keep.word = call i64 @word(ptr %walk, i64 WALK_KEEP)
  %keep = icmp ne i64 %keep.word, 0
  %count = call i64 @run_step(ptr %record, ptr %step, ptr %gradients, ptr %owned, ptr %context, i1 %keep, ptr %given)
  %ran = icmp sge i64 %count, 0
  br i1 %ran, label %send, label %failed
send:
  %sent = call i1 @deliver_all(ptr %walk, ptr %step, ptr %given, i64 %count)
  ret i1 %sent
failed:
  %problem = call ptr @PyErr_Occurred()
  %clean = icmp eq ptr %problem, null
  br i1 %clean, label %python, label %error
learn.step:
  %step.reason = load i64, ptr %why
  %step.learner = load ptr, ptr @learn_step
  %step.missed = icmp eq i64 %step.reason, MISSED
  br i1 %step.missed, label %learn, label %python
is.sink:
  %sink.class = load ptr, ptr @sink_class
  %sink = icmp eq ptr %class, %sink.class
  br i1 %sink, label %take, label %python
take:
  %taken = call i1 @take_gradient(ptr %step, ptr %gradients, ptr %owned, ptr %why)
  br i1 %taken, label %done, label %learn.sink
learn.sink:
  %sink.reason = load i64, ptr %why
  %sink.learner = load ptr, ptr @learn_sink
  %sink.missed = icmp eq i64 %sink.reason, MISSED
  br i1 %sink.missed, label %learn, label %python
learn:
  %learner = phi ptr [ %step.learner, %learn.step ], [ %sink.learner, %learn.sink ]
  %learned = call i1 @take_by_python(ptr %walk, ptr %step, ptr %gradients, ptr %learner)
  ret i1 %learned
python:
  %by.python = call i1 @take_by_python(ptr %walk, ptr %step, ptr %gradients, ptr null)
  ret i1 %by.python
done:
  ret i1 true
error:
  ret i1 false
}

; Runs steps until none is left: whether there was no error.
define internal i1 @run_all(ptr %walk) {
entry:
  br label %next
next:
  %ready = call i64 @word(ptr %walk, i64 WALK_READY)
  %ended = icmp eq i64 %ready, 0
  br i1 %ended, label %done, label %signals
signals:
  %signal = call i32 @PyErr_CheckSignals()
  %interrupted = icmp ne i32 %signal, 0
  br i1 %interrupted, label %error, label %turn
turn:
  %number = call i64 @pop(ptr %walk)
  %visit = call ptr @visit(ptr %walk, i64 %number)
  %step = call ptr @pointer(ptr %visit, i64 VISIT_STEP)
  %arrived = call ptr @pointer(ptr %visit, i64 VISIT_GRADIENTS)
  call void @set_pointer(ptr %visit, i64 VISIT_GRADIENTS, ptr null)
  %nothing = icmp eq ptr %arrived, null
  br i1 %nothing, label %make, label %take
make:
  %empty = call ptr @PyList_New(i64 0)
  %failed = icmp eq ptr %empty, null
  br i1 %failed, label %error, label %take
take:
  %gradients = phi ptr [ %arrived, %turn ], [ %empty, %make ]
  %wanted = call i64 @word(ptr %visit, i64 VISIT_WANTED)
  %is.target = icmp ne i64 %wanted, 0
  br i1 %is.target, label %target, label %step.on
target:
  %kept = call i1 @take_target(ptr %walk, ptr %visit, ptr %step, ptr %gradients)
  br label %taken
step.on:
  %stepped = call i1 @take_turn(ptr %walk, ptr %step, ptr %gradients)
  br label %taken
taken:
  %good = phi i1 [ %kept, %target ], [ %stepped, %step.on ]
  call void @Py_DecRef(ptr %gradients)
  br i1 %good, label %next, label %error
done:
  ret i1 true
error:
  ret i1 false
}

; Visits for the roots, a list of (edge, gradient): whether there was no error.
define internal i1 @visit_roots(ptr %walk, ptr %roots) {
entry:
  %count = call i64 @PyList_Size(ptr %roots)
  br label %next
next:
  %i = phi i64 [ 0, %entry ], [ %i.next, %one ]
  %all = icmp sge i64 %i, %count
  br i1 %all, label %done, label %one
one:
  %root = call ptr @PyList_GetItem(ptr %roots, i64 %i)
  %edge = call ptr @PyTuple_GetItem(ptr %root, i64 0)
  %step = call ptr @PyTuple_GetItem(ptr %edge, i64 0)
  %number = call i64 @visit_for(ptr %walk, ptr %step)
  %failed = icmp slt i64 %number, 0
  %i.next = add i64 %i, 1
  br i1 %failed, label %error, label %next
done:
  ret i1 true
error:
  ret i1 false
}

; Lets the pass begin: gradients arrive at the roots, and those that wait for nobody are ready. The roots are the first
; visits, in their order.
define internal i1 @begin(ptr %walk, ptr %roots, i64 %distinct) {
entry:
  %count = call i64 @PyList_Size(ptr %roots)
  br label %next
next:
  %i = phi i64 [ 0, %entry ], [ %i.next, %one ]
  %all = icmp sge i64 %i, %count
  br i1 %all, label %ready, label %one
one:
  %root = call ptr @PyList_GetItem(ptr %roots, i64 %i)
  %edge = call ptr @PyTuple_GetItem(ptr %root, i64 0)
  %gradient = call ptr @PyTuple_GetItem(ptr %root, i64 1)
  %step = call ptr @PyTuple_GetItem(ptr %edge, i64 0)
  %output.object = call ptr @PyTuple_GetItem(ptr %edge, i64 1)
  %output = call i64 @PyLong_AsLongLong(ptr %output.object)
  %number = call i64 @find_visit(ptr %walk, ptr %step)
  %good = call i1 @arrive(ptr %walk, i64 %number, i64 %output, ptr %gradient)
  %i.next = add i64 %i, 1
  br i1 %good, label %next, label %error
ready:
  %r = phi i64 [ 0, %next ], [ %r.next, %passed ]
  %looked = icmp eq i64 %r, %distinct
  br i1 %looked, label %done, label %look
look:
  %visit = call ptr @visit(ptr %walk, i64 %r)
  %waiting = call i64 @word(ptr %visit, i64 VISIT_WAITING)
  %leads = call i64 @word(ptr %visit, i64 VISIT_LEADS)
  %free = icmp eq i64 %waiting, 0
  %on = icmp ne i64 %leads, 0
  %begins = and i1 %free, %on
  br i1 %begins, label %push, label %passed
push:
  call void @push(ptr %walk, i64 %r)
  br label %passed
passed:
  %r.next = add i64 %r, 1
  br label %ready
done:
  ret i1 true
error:
  ret i1 false
}

; Makes the heap, which has room for all visits: whether there was memory.
define internal i1 @make_heap(ptr %walk) {
entry:
  %visits = call i64 @word(ptr %walk, i64 WALK_COUNT)
  %words = mul i64 %visits, TURN_WORDS
  %bytes = mul i64 %words, 8
  %heap = call ptr @PyMem_Malloc(i64 %bytes)
  call void @set_pointer(ptr %walk, i64 WALK_HEAP, ptr %heap)
  %no.heap = icmp eq ptr %heap, null
  br i1 %no.heap, label %memory, label %done
done:
  ret i1 true
memory:
  %ignored = call ptr @PyErr_NoMemory()
  ret i1 false
}

; Gives up what a walk holds.
define internal void @end_walk(ptr %walk) {
entry:
  %count = call i64 @word(ptr %walk, i64 WALK_COUNT)
  br label %next
next:
  %i = phi i64 [ 0, %entry ], [ %i.next, %one ]
  %all = icmp eq i64 %i, %count
  br i1 %all, label %free, label %one
one:
  %visit = call ptr @visit(ptr %walk, i64 %i)
  %gradients = call ptr @pointer(ptr %visit, i64 VISIT_GRADIENTS)
  %step = call ptr @pointer(ptr %visit, i64 VISIT_STEP)
  call void @drop(ptr %gradients)
  call void @Py_DecRef(ptr %step)
  %i.next = add i64 %i, 1
  br label %next
free:
  %visits = call ptr @pointer(ptr %walk, i64 WALK_VISITS)
  %places = call ptr @pointer(ptr %walk, i64 WALK_PLACES)
  %heap = call ptr @pointer(ptr %walk, i64 WALK_HEAP)
  %chain = call ptr @pointer(ptr %walk, i64 WALK_CHAIN)
  call void @PyMem_Free(ptr %chain)
  call void @PyMem_Free(ptr %visits)
  call void @PyMem_Free(ptr %places)
  call void @PyMem_Free(ptr %heap)
  ret void
}

; Whether this thread's keys are the operands' own.
define internal i1 @includes_none(ptr %words) {
  %zero = load ptr, ptr @zero
  %name = load ptr, ptr @included_name
  %object = call ptr @scope(ptr %words, ptr %name, ptr %zero)
  %included = call i64 @PyLong_AsLongLong(ptr %object)
  %none = icmp eq i64 %included, 0
  ret i1 %none
}

; walk_tape(pass, roots, owned, keep, add, take, targets, arrived): walks, and says whether it did. Of two lists, the
; second gets what arrives at the places in the first, which the pass leads to alone if there are any.
define ptr @walk_tape(ptr %self, ptr %arguments, i64 %count) {
entry:
  %walk = alloca [WALK_WORDS x i64], align 16
  store [WALK_WORDS x i64] zeroinitializer, ptr %walk
  %enabled = load i64, ptr @enabled
  %fits = icmp eq i64 %count, 8
  %on = icmp ne i64 %enabled, 0
  %may = and i1 %fits, %on
  br i1 %may, label %thread, label %declined
thread:
  %words = call ptr @thread_words()
  %stranger = icmp eq ptr %words, null
  br i1 %stranger, label %declined, label %keys
keys:
  %usual = call i1 @includes_none(ptr %words)
  br i1 %usual, label %prepare, label %declined
prepare:
  %roots = call ptr @pointer(ptr %arguments, i64 1)
  %one = call i64 @word(ptr %arguments, i64 0)
  %owned = call i64 @word(ptr %arguments, i64 2)
  %keep.object = call ptr @pointer(ptr %arguments, i64 3)
  %keep.truth = call i32 @PyObject_IsTrue(ptr %keep.object)
  %keep = zext i32 %keep.truth to i64
  %add = call i64 @word(ptr %arguments, i64 4)
  %take = call i64 @word(ptr %arguments, i64 5)
  %targets = call ptr @pointer(ptr %arguments, i64 6)
  %arrived = call ptr @pointer(ptr %arguments, i64 7)
  %target.count = call i64 @PyList_Size(ptr %targets)
  call void @set_pointer(ptr %walk, i64 WALK_TARGETS, ptr %targets)
  call void @set_pointer(ptr %walk, i64 WALK_ARRIVED, ptr %arrived)
  call void @set_pointer(ptr %walk, i64 WALK_CONTEXT, ptr %words)
  call void @set_word(ptr %walk, i64 WALK_PASS, i64 %one)
  call void @set_word(ptr %walk, i64 WALK_OWNED, i64 %owned)
  call void @set_word(ptr %walk, i64 WALK_KEEP, i64 %keep)
  call void @set_word(ptr %walk, i64 WALK_ADD, i64 %add)
  call void @set_word(ptr %walk, i64 WALK_TAKE, i64 %take)
  %room = call i1 @make_room(ptr %walk, i64 FIRST_VISITS)
  br i1 %room, label %roots.first, label %failed
roots.first:
  %rooted = call i1 @visit_roots(ptr %walk, ptr %roots)
  br i1 %rooted, label %reach, label %failed
reach:
  %distinct = call i64 @word(ptr %walk, i64 WALK_COUNT)
  %reached = call i1 @collect(ptr %walk)
  br i1 %reached, label %heap, label %failed
heap:
  %ordered = call i1 @make_heap(ptr %walk)
  br i1 %ordered, label %aim, label %failed
aim:
  %everywhere = icmp eq i64 %target.count, 0
  br i1 %everywhere, label %start, label %lead
lead:
  %leading = call i1 @lead_to_targets(ptr %walk)
  br i1 %leading, label %start, label %failed
start:
  %begun = call i1 @begin(ptr %walk, ptr %roots, i64 %distinct)
  br i1 %begun, label %run, label %failed
run:
  %ran = call i1 @run_all(ptr %walk)
  br i1 %ran, label %done, label %failed
done:
  call void @end_walk(ptr %walk)
  %true = load ptr, ptr @true
  call void @Py_IncRef(ptr %true)
  ret ptr %true
failed:
  call void @end_walk(ptr %walk)
  %problem = call ptr @PyErr_Occurred()
  %clean = icmp eq ptr %problem, null
  br i1 %clean, label %declined, label %error
declined:
  %false = load ptr, ptr @false
  call void @Py_IncRef(ptr %false)
  ret ptr %false
error:
  ret ptr null
}
"""
