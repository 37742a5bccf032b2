"""Passes that end at given places of the tape, as LLVM IR: which steps lead there, and what arrives.

A visit leads if gradients are wanted at its step, or if an edge of that goes to a visit that leads. Steps that do not
lead are neither run nor waited for. In a pass without targets all lead.
"""

OBJECTS = ("paths_name", "prepare_step", "run_prepared")
"""Objects that the text refers to."""

TARGETS = """
; Whether gradients of a step's outputs lead to where its edges do: others are Python's.
define internal i1 @has_usual_paths(ptr %step) {
entry:
  %class = call ptr @class_of(ptr %step)
  %step.class = load ptr, ptr @step_class
  %sink.class = load ptr, ptr @sink_class
  %operator = icmp eq ptr %class, %step.class
  %sink = icmp eq ptr %class, %sink.class
  %known = or i1 %operator, %sink
  br i1 %known, label %yes, label %ask
ask:
  %name = load ptr, ptr @paths_name
  %none = load ptr, ptr @none
  %paths = call ptr @PyObject_GetAttr(ptr %step, ptr %name)
  %absent = icmp eq ptr %paths, null
  br i1 %absent, label %no, label %compare
compare:
  %same = icmp eq ptr %paths, %none
  call void @Py_DecRef(ptr %paths)
  ret i1 %same
yes:
  ret i1 true
no:
  ret i1 false
}

; The visit to which an edge goes if that leads, null for others.
define internal ptr @leading_visit(ptr %walk, ptr %edge) {
entry:
  %none = load ptr, ptr @none
  %constant = icmp eq ptr %edge, %none
  br i1 %constant, label %no, label %look
look:
  %step = call ptr @PyTuple_GetItem(ptr %edge, i64 0)
  %number = call i64 @find_visit(ptr %walk, ptr %step)
  %unreached = icmp slt i64 %number, 0
  br i1 %unreached, label %no, label %ask
ask:
  %visit = call ptr @visit(ptr %walk, i64 %number)
  %leads = call i64 @word(ptr %visit, i64 VISIT_LEADS)
  %is.so = icmp ne i64 %leads, 0
  br i1 %is.so, label %yes, label %no
yes:
  ret ptr %visit
no:
  ret ptr null
}

; How many edges of a step go to steps that lead; each of these waits for `more` users more.
define internal i64 @count_leading(ptr %walk, ptr %step, i64 %more) {
entry:
  %edges = call ptr @get(ptr %step, ptr @step_edges)
  %count = call i64 @PyTuple_Size(ptr %edges)
  br label %next
next:
  %i = phi i64 [ 0, %entry ], [ %i.next, %passed ]
  %found = phi i64 [ 0, %entry ], [ %found.next, %passed ]
  %all = icmp sge i64 %i, %count
  br i1 %all, label %done, label %look
look:
  %edge = call ptr @PyTuple_GetItem(ptr %edges, i64 %i)
  %visit = call ptr @leading_visit(ptr %walk, ptr %edge)
  %elsewhere = icmp eq ptr %visit, null
  br i1 %elsewhere, label %passed, label %leads
leads:
  %waiting = call i64 @word(ptr %visit, i64 VISIT_WAITING)
  %waiting.next = add i64 %waiting, %more
  call void @set_word(ptr %visit, i64 VISIT_WAITING, i64 %waiting.next)
  br label %passed
passed:
  %one = phi i64 [ 0, %look ], [ 1, %leads ]
  %found.next = add i64 %found, %one
  %i.next = add i64 %i, 1
  br label %next
done:
  ret i64 %found
}

; Notes at the visits which targets are theirs: the last one's number past 0, and for each target the one before it.
; Whether there was memory.
define internal i1 @mark_targets(ptr %walk) {
entry:
  %targets = call ptr @pointer(ptr %walk, i64 WALK_TARGETS)
  %count = call i64 @PyList_Size(ptr %targets)
  %bytes = mul i64 %count, 8
  %chain = call ptr @PyMem_Malloc(i64 %bytes)
  call void @set_pointer(ptr %walk, i64 WALK_CHAIN, ptr %chain)
  %no.chain = icmp eq ptr %chain, null
  br i1 %no.chain, label %memory, label %next
next:
  %i = phi i64 [ 0, %entry ], [ %i.next, %passed ]
  %all = icmp sge i64 %i, %count
  br i1 %all, label %done, label %look
look:
  %edge = call ptr @PyList_GetItem(ptr %targets, i64 %i)
  %step = call ptr @PyTuple_GetItem(ptr %edge, i64 0)
  %number = call i64 @find_visit(ptr %walk, ptr %step)
  %i.next = add i64 %i, 1
  %unreached = icmp slt i64 %number, 0
  br i1 %unreached, label %passed, label %mark
mark:
  %visit = call ptr @visit(ptr %walk, i64 %number)
  %before = call i64 @word(ptr %visit, i64 VISIT_WANTED)
  call void @set_word(ptr %chain, i64 %i, i64 %before)
  call void @set_word(ptr %visit, i64 VISIT_WANTED, i64 %i.next)
  br label %passed
passed:
  br label %next
done:
  ret i1 true
memory:
  %ignored = call ptr @PyErr_NoMemory()
  ret i1 false
}

; Sorts all visits by the numbers of their steps, the earliest first, by letting them wait for a turn: whether Python
; need not walk. The turns stay where they were, past the end of the heap.
define internal i1 @sort_visits(ptr %walk) {
entry:
  %count = call i64 @word(ptr %walk, i64 WALK_COUNT)
  br label %next
next:
  %i = phi i64 [ 0, %entry ], [ %i.next, %wait ]
  %all = icmp eq i64 %i, %count
  br i1 %all, label %turns, label %one
one:
  %visit = call ptr @visit(ptr %walk, i64 %i)
  call void @set_word(ptr %visit, i64 VISIT_WAITING, i64 0)
  %wanted = call i64 @word(ptr %visit, i64 VISIT_WANTED)
  %is.target = icmp ne i64 %wanted, 0
  %leads = zext i1 %is.target to i64
  call void @set_word(ptr %visit, i64 VISIT_LEADS, i64 %leads)
  %step = call ptr @pointer(ptr %visit, i64 VISIT_STEP)
  %usual = call i1 @has_usual_paths(ptr %step)
  br i1 %usual, label %wait, label %no
wait:
  call void @push(ptr %walk, i64 %i)
  %i.next = add i64 %i, 1
  br label %next
turns:
  %left = call i64 @word(ptr %walk, i64 WALK_READY)
  %ended = icmp eq i64 %left, 0
  br i1 %ended, label %done, label %turn
turn:
  %number = call i64 @pop(ptr %walk)
  br label %turns
done:
  call void @set_word(ptr %walk, i64 WALK_ORDER, i64 0)
  ret i1 true
no:
  ret i1 false
}

; Finds the steps that lead to targets, and counts their users alone: whether native code can walk.
define internal i1 @lead_to_targets(ptr %walk) {
entry:
  %marked = call i1 @mark_targets(ptr %walk)
  br i1 %marked, label %sort, label %no
sort:
  %sorted = call i1 @sort_visits(ptr %walk)
  br i1 %sorted, label %begin, label %no
begin:
  %count = call i64 @word(ptr %walk, i64 WALK_COUNT)
  %heap = call ptr @pointer(ptr %walk, i64 WALK_HEAP)
  br label %next
next:
  %i = phi i64 [ 0, %begin ], [ %i.next, %looked ]
  %all = icmp eq i64 %i, %count
  br i1 %all, label %users, label %one
one:
  %turn.at = mul i64 %i, TURN_WORDS
  %turn = getelementptr i64, ptr %heap, i64 %turn.at
  %number = call i64 @word(ptr %turn, i64 TURN_VISIT)
  %visit = call ptr @visit(ptr %walk, i64 %number)
  %step = call ptr @pointer(ptr %visit, i64 VISIT_STEP)
  %on = call i64 @count_leading(ptr %walk, ptr %step, i64 0)
  %leads.on = icmp ne i64 %on, 0
  br i1 %leads.on, label %lead, label %looked
lead:
  call void @set_word(ptr %visit, i64 VISIT_LEADS, i64 1)
  br label %looked
looked:
  %i.next = add i64 %i, 1
  br label %next
users:
  %j = phi i64 [ 0, %next ], [ %j.next, %counted ]
  %ended = icmp eq i64 %j, %count
  br i1 %ended, label %done, label %user
user:
  %user.visit = call ptr @visit(ptr %walk, i64 %j)
  %user.step = call ptr @pointer(ptr %user.visit, i64 VISIT_STEP)
  %user.leads = call i64 @word(ptr %user.visit, i64 VISIT_LEADS)
  %counts = icmp ne i64 %user.leads, 0
  br i1 %counts, label %count.users, label %counted
count.users:
  %users.counted = call i64 @count_leading(ptr %walk, ptr %user.step, i64 1)
  br label %counted
counted:
  %j.next = add i64 %j, 1
  br label %users
done:
  ret i1 true
no:
  ret i1 false
}

; Whether no hook sees what arrives at a step: neither its own, nor one of a leaf.
define internal i1 @is_quiet(ptr %step) {
entry:
  %plain = call i1 @is_plain(ptr %step)
  br i1 %plain, label %classify, label %no
classify:
  %none = load ptr, ptr @none
  %sink = call i1 @is_exactly(ptr %step, ptr @sink_class)
  br i1 %sink, label %leaf, label %yes
leaf:
  %variable = call ptr @get(ptr %step, ptr @sink_variable)
  %record = call ptr @get(ptr %variable, ptr @tensor_gradient)
  %unmade = icmp eq ptr %record, %none
  br i1 %unmade, label %yes, label %look
look:
  %hooks = call ptr @get(ptr %record, ptr @gradient_hooks)
  %unhooked = icmp eq ptr %hooks, %none
  ret i1 %unhooked
yes:
  ret i1 true
no:
  ret i1 false
}

; Keeps what has arrived at a visit for the targets that it is.
define internal void @keep_arrived(ptr %walk, ptr %visit, ptr %gradients) {
entry:
  %none = load ptr, ptr @none
  %targets = call ptr @pointer(ptr %walk, i64 WALK_TARGETS)
  %kept = call ptr @pointer(ptr %walk, i64 WALK_ARRIVED)
  %chain = call ptr @pointer(ptr %walk, i64 WALK_CHAIN)
  %last = call i64 @word(ptr %visit, i64 VISIT_WANTED)
  %size = call i64 @PyList_Size(ptr %gradients)
  br label %next
next:
  %past = phi i64 [ %last, %entry ], [ %past.next, %put ]
  %ended = icmp eq i64 %past, 0
  br i1 %ended, label %done, label %one
one:
  %i = sub i64 %past, 1
  %past.next = call i64 @word(ptr %chain, i64 %i)
  %edge = call ptr @PyList_GetItem(ptr %targets, i64 %i)
  %output.object = call ptr @PyTuple_GetItem(ptr %edge, i64 1)
  %output = call i64 @PyLong_AsLongLong(ptr %output.object)
  %there = icmp slt i64 %output, %size
  br i1 %there, label %take, label %put
take:
  %gradient = call ptr @PyList_GetItem(ptr %gradients, i64 %output)
  br label %put
put:
  %value = phi ptr [ %none, %one ], [ %gradient, %take ]
  call void @Py_IncRef(ptr %value)
  %stored = call i32 @PyList_SetItem(ptr %kept, i64 %i, ptr %value)
  br label %next
done:
  ret void
}

; Keeps what has arrived at a target after its hooks have run, and runs it if it leads further: whether there was no
; error.
define internal i1 @take_target(ptr %walk, ptr %visit, ptr %step, ptr %gradients) {
entry:
  %arguments = alloca [4 x ptr]
  %quiet = call i1 @is_quiet(ptr %step)
  %on = call i64 @count_leading(ptr %walk, ptr %step, i64 0)
  %further = icmp ne i64 %on, 0
  br i1 %quiet, label %keep, label %prepare
prepare:
  %one = call ptr @pointer(ptr %walk, i64 WALK_PASS)
  %second = getelementptr ptr, ptr %arguments, i64 1
  %third = getelementptr ptr, ptr %arguments, i64 2
  store ptr %one, ptr %arguments
  store ptr %step, ptr %second
  store ptr %gradients, ptr %third
  %fourth = getelementptr ptr, ptr %arguments, i64 3
  %true = load ptr, ptr @true
  %false = load ptr, ptr @false
  %runs = select i1 %further, ptr %true, ptr %false
  store ptr %runs, ptr %fourth
  %preparer = load ptr, ptr @prepare_step
  %prepared = call ptr @PyObject_Vectorcall(ptr %preparer, ptr %arguments, i64 4, ptr null)
  %failed = icmp eq ptr %prepared, null
  br i1 %failed, label %error, label %ready
ready:
  call void @Py_DecRef(ptr %prepared)
  br label %keep
keep:
  call void @keep_arrived(ptr %walk, ptr %visit, ptr %gradients)
  br i1 %further, label %go, label %done
go:
  br i1 %quiet, label %run, label %run.prepared
run:
  %ran = call i1 @take_turn(ptr %walk, ptr %step, ptr %gradients)
  ret i1 %ran
run.prepared:
  %runner = load ptr, ptr @run_prepared
  %ran.prepared = call i1 @take_by_python(ptr %walk, ptr %step, ptr %gradients, ptr %runner)
  ret i1 %ran.prepared
done:
  ret i1 true
error:
  ret i1 false
}
"""
