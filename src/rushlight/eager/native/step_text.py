"""Steps of a backward pass, as LLVM IR: what `OperatorNode.run` and `AccumulateGrad.run` do where one kernel does it.

A recipe and the forms of the arrived gradients give a record, as signatures of calls do. It says how the gradients of
the operands come about: by the results of one short launch, or by being a gradient that arrived. Each result is
checked in as a gradient that nobody else refers to, in the set `owned` that Python's steps use too.
"""

PYTHON_SYMBOLS = (
    "PyList_Append",
    "PyList_GetItem",
    "PyList_Size",
    "PyLong_FromVoidPtr",
    "PySet_Add",
    "PySet_Contains",
    "PySet_Discard",
)

STEP = """
declare i32 @PyList_Append(ptr, ptr)
declare ptr @PyList_GetItem(ptr, i64)
declare i64 @PyList_Size(ptr)
declare ptr @PyLong_FromVoidPtr(ptr)
declare i32 @PySet_Add(ptr, ptr)
declare i32 @PySet_Contains(ptr, ptr)
declare i32 @PySet_Discard(ptr, ptr)

; Fills a slot that has a value.
define internal void @replace(ptr %object, ptr %slot, ptr %value) {
  %before = call ptr @get(ptr %object, ptr %slot)
  call void @share(ptr %object, ptr %slot, ptr %value)
  call void @Py_DecRef(ptr %before)
  ret void
}

; Says that nobody else refers to a gradient (1), or that somebody may (0); -1 asks which it is.
define internal i1 @own(ptr %owned, ptr %gradient, i64 %wanted) {
entry:
  %identity = call ptr @PyLong_FromVoidPtr(ptr %gradient)
  switch i64 %wanted, label %ask [
    i64 0, label %discard
    i64 1, label %add
  ]
discard:
  %gone = call i32 @PySet_Discard(ptr %owned, ptr %identity)
  br label %done
add:
  %added = call i32 @PySet_Add(ptr %owned, ptr %identity)
  br label %done
ask:
  %has = call i32 @PySet_Contains(ptr %owned, ptr %identity)
  br label %done
done:
  %answer = phi i32 [ %gone, %discard ], [ %added, %add ], [ %has, %ask ]
  call void @Py_DecRef(ptr %identity)
  %is.so = icmp eq i32 %answer, 1
  ret i1 %is.so
}

; Whether a step has no hooks, and keeps no gradient for a tensor.
define internal i1 @is_plain(ptr %step) {
  %none = load ptr, ptr @none
  %before = call ptr @get(ptr %step, ptr @step__before)
  %after = call ptr @get(ptr %step, ptr @step__after)
  %hooks = call ptr @get(ptr %step, ptr @step__tensor_hooks)
  %retained = call ptr @get(ptr %step, ptr @step__retained)
  %no.before = icmp eq ptr %before, %none
  %no.after = icmp eq ptr %after, %none
  %no.hooks = icmp eq ptr %hooks, %none
  %not.retained = icmp eq ptr %retained, %none
  %around = and i1 %no.before, %no.after
  %tensors = and i1 %no.hooks, %not.retained
  %plain = and i1 %around, %tensors
  ret i1 %plain
}

; The tensor that was saved, borrowed; null where Python has to look, or has to say what is wrong.
define internal ptr @unpack(ptr %saved) {
entry:
  %none = load ptr, ptr @none
  %hook = call ptr @get(ptr %saved, ptr @saved__unpack)
  %unhooked = icmp eq ptr %hook, %none
  br i1 %unhooked, label %count, label %python
count:
  %counter = call ptr @get(ptr %saved, ptr @saved__counter)
  %plain = call i1 @is_exactly(ptr %counter, ptr @version_class)
  br i1 %plain, label %compare, label %python
compare:
  %now.object = call ptr @get(ptr %counter, ptr @version_value)
  %then.object = call ptr @get(ptr %saved, ptr @saved__version)
  %now = call i64 @PyLong_AsLongLong(ptr %now.object)
  %then = call i64 @PyLong_AsLongLong(ptr %then.object)
  %unchanged = icmp eq i64 %now, %then
  br i1 %unchanged, label %give, label %python
give:
  %tensor = call ptr @get(ptr %saved, ptr @saved__tensor)
  ret ptr %tensor
python:
  ret ptr null
}

; Adds the members of a list to `flat`, saved tensors unpacked, None left out: the new length, or -1 for Python.
define internal i64 @flatten(ptr %list, ptr %flat, i64 %length) {
entry:
  %none = load ptr, ptr @none
  %count = call i64 @PyList_Size(ptr %list)
  br label %next
next:
  %i = phi i64 [ 0, %entry ], [ %i.next, %passed ]
  %at = phi i64 [ %length, %entry ], [ %at.next, %passed ]
  %all = icmp sge i64 %i, %count
  br i1 %all, label %done, label %look
look:
  %member = call ptr @PyList_GetItem(ptr %list, i64 %i)
  %absent = icmp eq ptr %member, %none
  br i1 %absent, label %passed, label %bound
bound:
  %full = icmp sge i64 %at, MOST_ARGUMENTS
  br i1 %full, label %python, label %classify
classify:
  %is.saved = call i1 @is_exactly(ptr %member, ptr @saved_class)
  br i1 %is.saved, label %open, label %put
open:
  %tensor = call ptr @unpack(ptr %member)
  %strange = icmp eq ptr %tensor, null
  br i1 %strange, label %python, label %put
put:
  %value = phi ptr [ %member, %classify ], [ %tensor, %open ]
  %value.at = getelementptr ptr, ptr %flat, i64 %at
  store ptr %value, ptr %value.at
  %at.after = add i64 %at, 1
  br label %passed
passed:
  %at.next = phi i64 [ %at, %look ], [ %at.after, %put ]
  %i.next = add i64 %i, 1
  br label %next
done:
  ret i64 %at
python:
  ret i64 -1
}

; Whether values are of the kinds that a record was made for, and of the CPU and autograd alone.
define internal i1 @fits(ptr %record, ptr %flat, i64 %count) {
entry:
  %keys = alloca i64
  %filled = call i64 @word(ptr %record, i64 FILLED)
  %same.count = icmp eq i64 %filled, %count
  %cpu = load i64, ptr @cpu_key
  %autograd = load i64, ptr @autograd_key
  %plain = or i64 %cpu, %autograd
  %others = xor i64 %plain, -1
  br i1 %same.count, label %next, label %no
next:
  %i = phi i64 [ 0, %entry ], [ %i.next, %passed ]
  %all = icmp eq i64 %i, %count
  br i1 %all, label %yes, label %look
look:
  %argument = call ptr @argument(ptr %record, i64 %i)
  %expected = call i64 @word(ptr %argument, i64 EXPECTED)
  %any = icmp eq i64 %expected, 0
  br i1 %any, label %passed, label %compare
compare:
  %value.at = getelementptr ptr, ptr %flat, i64 %i
  %value = load ptr, ptr %value.at
  %word = call i64 @word_of(ptr %value, ptr %keys)
  %same = icmp eq i64 %word, %expected
  %own = load i64, ptr %keys
  %more = and i64 %own, %others
  %few = icmp eq i64 %more, 0
  %good = and i1 %same, %few
  br i1 %good, label %passed, label %no
passed:
  %i.next = add i64 %i, 1
  br label %next
yes:
  ret i1 true
no:
  ret i1 false
}

; The record for a step with these gradients; null for Python, which is to learn it if `why` says so.
define internal ptr @find_step(ptr %step, ptr %gradients, ptr %why) {
entry:
  %key = alloca [KEY_WORDS x i64], align 16
  %keys = alloca i64
  store [OPERANDS x i64] zeroinitializer, ptr %key
  store i64 DECLINED, ptr %why
  %count = call i64 @PyList_Size(ptr %gradients)
  %few = icmp ule i64 %count, MOST_OPERANDS
  br i1 %few, label %next, label %python
next:
  %i = phi i64 [ 0, %entry ], [ %i.next, %known ]
  %all = icmp eq i64 %i, %count
  br i1 %all, label %search, label %look
look:
  %gradient = call ptr @PyList_GetItem(ptr %gradients, i64 %i)
  %word = call i64 @word_of(ptr %gradient, ptr %keys)
  %strange = icmp eq i64 %word, 0
  br i1 %strange, label %python, label %known
known:
  %key.at = add i64 %i, OPERANDS
  call void @set_word(ptr %key, i64 %key.at, i64 %word)
  %i.next = add i64 %i, 1
  br label %next
search:
  call void @set_word(ptr %key, i64 COUNT, i64 %count)
  %length = add i64 %count, OPERANDS
  call void @set_word(ptr %key, i64 LENGTH, i64 %length)
  %recipe = call ptr @get(ptr %step, ptr @step__recipe)
  call void @set_pointer(ptr %key, i64 OPERATOR, ptr %recipe)
  %settings = call i64 @settings_word()
  call void @set_word(ptr %key, i64 SETTINGS, i64 %settings)
  %record = call ptr @find(ptr %key)
  %unknown = icmp eq ptr %record, null
  br i1 %unknown, label %missed, label %runs
runs:
  %sources = call i64 @word(ptr %record, i64 GRADIENT_COUNT)
  %never = icmp eq i64 %sources, 0
  br i1 %never, label %python, label %found
found:
  ret ptr %record
missed:
  store i64 MISSED, ptr %why
  ret ptr null
python:
  ret ptr null
}

; What views make of a gradient, each of an operator with attributes: a new reference, null with an error.
define internal ptr @follow_path(ptr %path, ptr %gradient) {
entry:
  %count = call i64 @PyTuple_Size(ptr %path)
  call void @Py_IncRef(ptr %gradient)
  br label %next
next:
  %i = phi i64 [ 0, %entry ], [ %i.next, %made ]
  %shown = phi ptr [ %gradient, %entry ], [ %view, %made ]
  %all = icmp sge i64 %i, %count
  br i1 %all, label %done, label %one
one:
  %step = call ptr @PyTuple_GetItem(ptr %path, i64 %i)
  %op = call ptr @PyTuple_GetItem(ptr %step, i64 0)
  %attributes = call ptr @PyTuple_GetItem(ptr %step, i64 1)
  %operands = call ptr @PyTuple_New(i64 1)
  %failed = icmp eq ptr %operands, null
  br i1 %failed, label %drop, label %call
call:
  ; The tuple has the reference now.
  %put = call i32 @PyTuple_SetItem(ptr %operands, i64 0, ptr %shown)
  %view = call ptr @call_operator(ptr %op, ptr %operands, ptr %attributes)
  call void @Py_DecRef(ptr %operands)
  %bad = icmp eq ptr %view, null
  br i1 %bad, label %error, label %made
made:
  %i.next = add i64 %i, 1
  br label %next
done:
  ret ptr %shown
drop:
  call void @Py_DecRef(ptr %shown)
  br label %error
error:
  ret ptr null
}

; The gradient for edge `at` of a record: a new reference, null with an error.
define internal ptr @gradient_from(ptr %record, i64 %edge, ptr %flat, ptr %fresh, ptr %owned) {
entry:
  %source.at = add i64 %edge, GRADIENTS
  %source = call i64 @word(ptr %record, i64 %source.at)
  %path.at = add i64 %edge, PATHS
  %path.word = call i64 @word(ptr %record, i64 %path.at)
  %none = load ptr, ptr @none
  %computed = icmp sgt i64 %source, 0
  br i1 %computed, label %result, label %more
result:
  %number = sub i64 %source, 1
  %fresh.at = getelementptr ptr, ptr %fresh, i64 %number
  %made = load ptr, ptr %fresh.at
  ret ptr %made
more:
  %arrived = icmp slt i64 %source, 0
  br i1 %arrived, label %alias, label %nothing
alias:
  %position = sub i64 -1, %source
  %value.at = getelementptr ptr, ptr %flat, i64 %position
  %value = load ptr, ptr %value.at
  %ignored = call i1 @own(ptr %owned, ptr %value, i64 0)
  %whole = icmp eq i64 %path.word, 0
  br i1 %whole, label %same, label %shown
same:
  call void @Py_IncRef(ptr %value)
  ret ptr %value
shown:
  %path = inttoptr i64 %path.word to ptr
  %view = call ptr @follow_path(ptr %path, ptr %value)
  ret ptr %view
nothing:
  call void @Py_IncRef(ptr %none)
  ret ptr %none
}

; Frees what a step saved, as `OperatorNode.release`.
define internal void @release_step(ptr %record, ptr %step) {
entry:
  %holds = call i64 @word(ptr %record, i64 HOLDS_TENSORS)
  %keeps = icmp eq i64 %holds, 0
  br i1 %keeps, label %done, label %free
free:
  %none = load ptr, ptr @none
  call void @replace(ptr %step, ptr @step__saved, ptr %none)
  br label %done
done:
  ret void
}

; Drops the gradients of the first edges, which were given, and the kernel's results for those after the next one.
define internal void @abandon_gradients(ptr %record, i64 %edge, ptr %fresh, ptr %given) {
entry:
  call void @drop_results(ptr %given, i64 %edge)
  %edges = call i64 @word(ptr %record, i64 GRADIENT_COUNT)
  br label %next
next:
  %last = phi i64 [ %edge, %entry ], [ %i, %passed ]
  %i = add i64 %last, 1
  %ended = icmp sge i64 %i, %edges
  br i1 %ended, label %done, label %one
one:
  %source.at = add i64 %i, GRADIENTS
  %source = call i64 @word(ptr %record, i64 %source.at)
  %computed = icmp sgt i64 %source, 0
  br i1 %computed, label %drop, label %passed
drop:
  %number = sub i64 %source, 1
  %fresh.at = getelementptr ptr, ptr %fresh, i64 %number
  %result = load ptr, ptr %fresh.at
  call void @Py_DecRef(ptr %result)
  br label %passed
passed:
  br label %next
done:
  ret void
}

; Runs a step by its record: the gradients for its edges into `given`, as new references. Their number, or -1 for Python
; or an error.
define internal i64 @run_step(ptr %record, ptr %step, ptr %gradients, ptr %owned, ptr %context, i1 %keep, ptr %given) {
entry:
  %flat = alloca [MOST_ARGUMENTS x ptr]
  %fresh = alloca [MOST_RESULTS x ptr]
  %none = load ptr, ptr @none
  %saved = call ptr @get(ptr %step, ptr @step__saved)
  %freed = icmp eq ptr %saved, %none
  br i1 %freed, label %python, label %open
open:
  %begun = call i64 @flatten(ptr %gradients, ptr %flat, i64 0)
  %strange = icmp slt i64 %begun, 0
  br i1 %strange, label %python, label %open.saved
open.saved:
  %count = call i64 @flatten(ptr %saved, ptr %flat, i64 %begun)
  %odd = icmp slt i64 %count, 0
  br i1 %odd, label %python, label %check
check:
  %good = call i1 @fits(ptr %record, ptr %flat, i64 %count)
  br i1 %good, label %hold, label %python
hold:
  ; The collector may run while results are made: what they are made of stays until then.
  %owner = call ptr @pointer(ptr %record, i64 OWNER)
  call void @Py_IncRef(ptr %owner)
  call void @Py_IncRef(ptr %saved)
  %kernel = call i64 @word(ptr %record, i64 ENTRY)
  %views.alone = icmp eq i64 %kernel, 0
  br i1 %views.alone, label %spread, label %launch
launch:
  %ran = call i1 @compute(ptr %record, ptr %flat, ptr %context, ptr %fresh)
  br i1 %ran, label %take, label %failed
take:
  %results = call i64 @word(ptr %record, i64 RESULTS)
  br label %take.next
take.next:
  %r = phi i64 [ 0, %take ], [ %r.next, %take.one ]
  %taken = icmp eq i64 %r, %results
  br i1 %taken, label %spread, label %take.one
take.one:
  %result.at = getelementptr ptr, ptr %fresh, i64 %r
  %result = load ptr, ptr %result.at
  %ignored = call i1 @own(ptr %owned, ptr %result, i64 1)
  %r.next = add i64 %r, 1
  br label %take.next
spread:
  %edges = call i64 @word(ptr %record, i64 GRADIENT_COUNT)
  br label %next
next:
  %i = phi i64 [ 0, %spread ], [ %i.next, %give ]
  %all = icmp eq i64 %i, %edges
  br i1 %all, label %forget, label %one
one:
  %gradient = call ptr @gradient_from(ptr %record, i64 %i, ptr %flat, ptr %fresh, ptr %owned)
  %broken = icmp eq ptr %gradient, null
  br i1 %broken, label %abandon, label %give
give:
  %given.at = getelementptr ptr, ptr %given, i64 %i
  store ptr %gradient, ptr %given.at
  %i.next = add i64 %i, 1
  br label %next
forget:
  %arrived = call i64 @PyList_Size(ptr %gradients)
  br label %forget.next
forget.next:
  %g = phi i64 [ 0, %forget ], [ %g.next, %forget.one ]
  %forgotten = icmp eq i64 %g, %arrived
  br i1 %forgotten, label %end, label %forget.one
forget.one:
  %used = call ptr @PyList_GetItem(ptr %gradients, i64 %g)
  %discarded = call i1 @own(ptr %owned, ptr %used, i64 0)
  %g.next = add i64 %g, 1
  br label %forget.next
end:
  br i1 %keep, label %done, label %release
release:
  call void @release_step(ptr %record, ptr %step)
  br label %done
done:
  call void @Py_DecRef(ptr %saved)
  call void @Py_DecRef(ptr %owner)
  ret i64 %edges
abandon:
  call void @abandon_gradients(ptr %record, i64 %i, ptr %fresh, ptr %given)
  br label %failed
failed:
  call void @Py_DecRef(ptr %saved)
  call void @Py_DecRef(ptr %owner)
  br label %python
python:
  ret i64 -1
}

; Gives a leaf its first gradient, as `accumulate` does with one that nobody else has, and that is laid out as the leaf
; wants it: whether that was done. If not, Python does it, and learns the forms if `why` says so.
define internal i1 @take_gradient(ptr %sink, ptr %gradients, ptr %owned, ptr %why) {
entry:
  %key = alloca [KEY_WORDS x i64], align 16
  %keys = alloca i64
  store [OPERANDS x i64] zeroinitializer, ptr %key
  store i64 DECLINED, ptr %why
  %none = load ptr, ptr @none
  %leaf = call ptr @get(ptr %sink, ptr @sink_variable)
  %record = call ptr @get(ptr %leaf, ptr @tensor_gradient)
  %unmade = icmp eq ptr %record, %none
  br i1 %unmade, label %no, label %look
look:
  %before = call ptr @get(ptr %record, ptr @gradient_grad)
  %hooks = call ptr @get(ptr %record, ptr @gradient_hooks)
  %accumulated = call ptr @get(ptr %record, ptr @gradient_accumulated)
  %first = icmp eq ptr %before, %none
  %unhooked = icmp eq ptr %hooks, %none
  %unseen = icmp eq ptr %accumulated, %none
  %quiet = and i1 %unhooked, %unseen
  %plain = and i1 %first, %quiet
  br i1 %plain, label %forms, label %no
forms:
  %gradient = call ptr @PyList_GetItem(ptr %gradients, i64 0)
  %leaf.word = call i64 @word_of(ptr %leaf, ptr %keys)
  %gradient.word = call i64 @word_of(ptr %gradient, ptr %keys)
  %own.keys = load i64, ptr %keys
  %cpu = load i64, ptr @cpu_key
  %on.cpu = icmp eq i64 %own.keys, %cpu
  %odd.leaf = icmp eq i64 %leaf.word, 0
  %usual = xor i1 %odd.leaf, true
  %good = and i1 %usual, %on.cpu
  br i1 %good, label %owner, label %no
owner:
  %alone = call i1 @own(ptr %owned, ptr %gradient, i64 -1)
  br i1 %alone, label %search, label %no
search:
  call void @set_word(ptr %key, i64 COUNT, i64 2)
  %length = add i64 2, OPERANDS
  call void @set_word(ptr %key, i64 LENGTH, i64 %length)
  call void @set_word(ptr %key, i64 OPERANDS, i64 %leaf.word)
  %second = add i64 OPERANDS, 1
  call void @set_word(ptr %key, i64 %second, i64 %gradient.word)
  %known = call ptr @find(ptr %key)
  %unknown = icmp eq ptr %known, null
  br i1 %unknown, label %missed, label %is.taken
is.taken:
  %passes = call i64 @word(ptr %known, i64 PASSES)
  %taken = icmp ne i64 %passes, 0
  br i1 %taken, label %take, label %no
take:
  %discarded = call i1 @own(ptr %owned, ptr %gradient, i64 0)
  call void @replace(ptr %record, ptr @gradient_grad, ptr %gradient)
  ret i1 true
missed:
  store i64 MISSED, ptr %why
  ret i1 false
no:
  ret i1 false
}
"""
