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
  %class = call ptr @class_of(ptr %counter)
  %version.class = load ptr, ptr @version_class
  %plain = icmp eq ptr %class, %version.class
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
  %saved.class = load ptr, ptr @saved_class
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
  %class = call ptr @class_of(ptr %member)
  %is.saved = icmp eq ptr %class, %saved.class
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
  %offset = mul i64 %i, ARGUMENT_WORDS
  %at = add i64 %offset, ARGUMENTS
  %argument = getelementptr i64, ptr %record, i64 %at
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
  store [KEY_WORDS x i64] zeroinitializer, ptr %key
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
  %word.at = getelementptr i64, ptr %key, i64 %key.at
  store i64 %word, ptr %word.at
  %i.next = add i64 %i, 1
  br label %next
search:
  store i64 %count, ptr %key
  %recipe = call ptr @get(ptr %step, ptr @step__recipe)
  %recipe.word = ptrtoint ptr %recipe to i64
  %recipe.at = getelementptr i64, ptr %key, i64 OPERATOR
  store i64 %recipe.word, ptr %recipe.at
  %settings = call i64 @settings_word()
  %settings.at = getelementptr i64, ptr %key, i64 SETTINGS
  store i64 %settings, ptr %settings.at
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

; The gradient for one edge, by the word of its source: a new reference.
define internal ptr @gradient_from(i64 %source, ptr %flat, ptr %fresh, ptr %owned) {
entry:
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
  call void @Py_IncRef(ptr %value)
  ret ptr %value
nothing:
  call void @Py_IncRef(ptr %none)
  ret ptr %none
}

; Frees what a step saved, as `OperatorNode.release`.
define internal void @release_step(ptr %record, ptr %step) {
entry:
  %true = load ptr, ptr @true
  call void @replace(ptr %step, ptr @step__released, ptr %true)
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
  %owner.word = call i64 @word(ptr %record, i64 OWNER)
  %owner = inttoptr i64 %owner.word to ptr
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
  %i = phi i64 [ 0, %spread ], [ %i.next, %one ]
  %all = icmp eq i64 %i, %edges
  br i1 %all, label %forget, label %one
one:
  %source.at = add i64 %i, GRADIENTS
  %source = call i64 @word(ptr %record, i64 %source.at)
  %gradient = call ptr @gradient_from(i64 %source, ptr %flat, ptr %fresh, ptr %owned)
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
  store [KEY_WORDS x i64] zeroinitializer, ptr %key
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
  store i64 2, ptr %key
  %leaf.at = getelementptr i64, ptr %key, i64 OPERANDS
  store i64 %leaf.word, ptr %leaf.at
  %gradient.at = getelementptr i64, ptr %leaf.at, i64 1
  store i64 %gradient.word, ptr %gradient.at
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
