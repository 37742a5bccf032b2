"""The tape of recorded calls, as LLVM IR: what `autograd.record` writes down after a call, without a frame of Python.

A record with a recipe has the needed operands in its key, and says what the recipe saves. All objects of a recorded
call are made after its kernel has run, as Python makes them; where one cannot be made the results are dropped, and
Python makes the call again.

The user's line is a place: the innermost code of the user's, and the instruction that runs. Lines are looked up when
somebody asks (`Node.frame`).
"""

PYTHON_SYMBOLS = (
    "PyEval_GetFrame",
    "PyFrame_GetBack",
    "PyFrame_GetCode",
    "PyFrame_GetLasti",
    "PyIter_Next",
    "PyList_New",
    "PyList_SetItem",
    "PyObject_GetAttr",
    "PyWeakref_NewRef",
)

OBJECTS = (
    "step_class",
    "gradient_class",
    "saved_class",
    "true",
    "sequence",
    "sink_class",
    "sink_sequence",
    "user_frame",
    "plain_files",
    "filename_name",
)
"""Objects that the text refers to."""

OFFSETS = {
    "form": ("keys",),
    "gradient": (
        "required",
        "grad",
        "node",
        "output",
        "rebases",
        "hooks",
        "accumulated",
        "retained",
        "sink",
    ),
    "step": (
        "edges",
        "sequence",
        "_place",
        "_metadata",
        "_before",
        "_after",
        "_tensor_hooks",
        "_retained",
        "_recipe",
        "_saved",
    ),
    "sink": ("variable",),
    "saved": ("form", "_counter", "_version", "_output", "_edge", "_unpack", "_packed", "_tensor"),
}
"""Slots that the text reads and writes, by class."""

TAPE = """
declare ptr @PyEval_GetFrame()
declare ptr @PyFrame_GetBack(ptr)
declare ptr @PyFrame_GetCode(ptr)
declare i32 @PyFrame_GetLasti(ptr)
declare ptr @PyIter_Next(ptr)
declare ptr @PyList_New(i64)
declare i32 @PyList_SetItem(ptr, i64, ptr)
declare ptr @PyObject_GetAttr(ptr, ptr)
declare ptr @PyWeakref_NewRef(ptr, ptr)

; Where the user's program is: (code, offset of the instruction), or what Python's `user_frame` says. A new reference.
define internal ptr @user_place() {
entry:
  %standing.at = load ptr, ptr @standing_at
  %standing = load i64, ptr %standing.at
  %others = icmp ne i64 %standing, 0
  br i1 %others, label %ask, label %begin
begin:
  %innermost = call ptr @PyEval_GetFrame()
  %nothing = icmp eq ptr %innermost, null
  br i1 %nothing, label %ask, label %hold
hold:
  call void @Py_IncRef(ptr %innermost)
  br label %look
look:
  %frame = phi ptr [ %innermost, %hold ], [ %back, %further ]
  %code = call ptr @PyFrame_GetCode(ptr %frame)
  %filename.name = load ptr, ptr @filename_name
  %filename = call ptr @PyObject_GetAttr(ptr %code, ptr %filename.name)
  %nameless = icmp eq ptr %filename, null
  br i1 %nameless, label %unknown, label %classify
classify:
  %files = load ptr, ptr @plain_files
  %whose = call ptr @PyDict_GetItemWithError(ptr %files, ptr %filename)
  call void @Py_DecRef(ptr %filename)
  %new.file = icmp eq ptr %whose, null
  br i1 %new.file, label %unknown, label %known
known:
  %true = load ptr, ptr @true
  %users = icmp eq ptr %whose, %true
  br i1 %users, label %here, label %out
out:
  %back = call ptr @PyFrame_GetBack(ptr %frame)
  call void @Py_DecRef(ptr %code)
  call void @Py_DecRef(ptr %frame)
  %outermost = icmp eq ptr %back, null
  br i1 %outermost, label %nowhere, label %further
further:
  br label %look
here:
  %offset = call i32 @PyFrame_GetLasti(ptr %frame)
  call void @Py_DecRef(ptr %frame)
  %offset.word = sext i32 %offset to i64
  %offset.object = call ptr @PyLong_FromLongLong(i64 %offset.word)
  %place = call ptr @pair(ptr %code, ptr %offset.object)
  ret ptr %place
nowhere:
  %none = load ptr, ptr @none
  call void @Py_IncRef(ptr %none)
  ret ptr %none
unknown:
  call void @Py_DecRef(ptr %code)
  call void @Py_DecRef(ptr %frame)
  call void @PyErr_Clear()
  br label %ask
ask:
  %python = load ptr, ptr @user_frame
  %given = call ptr @PyObject_Vectorcall(ptr %python, ptr null, i64 0, ptr null)
  ret ptr %given
}

; A tuple of two objects whose references are given away; null if one of them is.
define internal ptr @pair(ptr %first, ptr %second) {
entry:
  %no.first = icmp eq ptr %first, null
  %no.second = icmp eq ptr %second, null
  %missing = or i1 %no.first, %no.second
  br i1 %missing, label %drop, label %make
make:
  %tuple = call ptr @PyTuple_New(i64 2)
  %failed = icmp eq ptr %tuple, null
  br i1 %failed, label %drop, label %fill
fill:
  %one = call i32 @PyTuple_SetItem(ptr %tuple, i64 0, ptr %first)
  %two = call i32 @PyTuple_SetItem(ptr %tuple, i64 1, ptr %second)
  ret ptr %tuple
drop:
  call void @drop(ptr %first)
  call void @drop(ptr %second)
  ret ptr null
}

; Gives a reference up that may be null.
define internal void @drop(ptr %object) {
entry:
  %nothing = icmp eq ptr %object, null
  br i1 %nothing, label %done, label %release
release:
  call void @Py_DecRef(ptr %object)
  br label %done
done:
  ret void
}

; Fills in what all new steps have.
define internal void @begin_step(ptr %step) {
  %none = load ptr, ptr @none
  call void @share(ptr %step, ptr @step__metadata, ptr %none)
  call void @share(ptr %step, ptr @step__before, ptr %none)
  call void @share(ptr %step, ptr @step__after, ptr %none)
  call void @share(ptr %step, ptr @step__tensor_hooks, ptr %none)
  call void @share(ptr %step, ptr @step__retained, ptr %none)
  ret void
}

; A new step that accumulates into the `grad` of a leaf, with its place in autograd, as `sink_of` makes it.
define internal ptr @make_sink(ptr %leaf, ptr %gradient) {
entry:
  %class = load ptr, ptr @sink_class
  %sink = call ptr @new(ptr %class)
  %failed = icmp eq ptr %sink, null
  br i1 %failed, label %nothing, label %fill
fill:
  %none = load ptr, ptr @none
  %edges = load ptr, ptr @no_arguments
  %sequence = load ptr, ptr @sink_sequence
  call void @begin_step(ptr %sink)
  call void @share(ptr %sink, ptr @step_edges, ptr %edges)
  call void @share(ptr %sink, ptr @step_sequence, ptr %sequence)
  call void @share(ptr %sink, ptr @step__place, ptr %none)
  call void @share(ptr %sink, ptr @sink_variable, ptr %leaf)
  %reference = call ptr @PyWeakref_NewRef(ptr %sink, ptr null)
  %unreferred = icmp eq ptr %reference, null
  br i1 %unreferred, label %give.up, label %refer
refer:
  %before = call ptr @get(ptr %gradient, ptr @gradient_sink)
  call void @put(ptr %gradient, ptr @gradient_sink, ptr %reference)
  call void @Py_DecRef(ptr %before)
  ret ptr %sink
give.up:
  call void @Py_DecRef(ptr %sink)
  ret ptr null
nothing:
  ret ptr null
}

; Where the gradient of a tensor that requires one goes, as `edge_of`. Null with an error.
define internal ptr @edge_of(ptr %tensor) {
entry:
  %none = load ptr, ptr @none
  %gradient = call ptr @get(ptr %tensor, ptr @tensor_gradient)
  %node = call ptr @get(ptr %gradient, ptr @gradient_node)
  %leaf = icmp eq ptr %node, %none
  br i1 %leaf, label %to.sink, label %to.node
to.node:
  %output = call ptr @get(ptr %gradient, ptr @gradient_output)
  call void @Py_IncRef(ptr %node)
  call void @Py_IncRef(ptr %output)
  %edge = call ptr @pair(ptr %node, ptr %output)
  ret ptr %edge
to.sink:
  %reference = call ptr @get(ptr %gradient, ptr @gradient_sink)
  %never = icmp eq ptr %reference, %none
  br i1 %never, label %make, label %refer
refer:
  %referred = call ptr @PyObject_Vectorcall(ptr %reference, ptr null, i64 0, ptr null)
  %dead = icmp eq ptr %referred, %none
  br i1 %dead, label %forget, label %lead
forget:
  call void @Py_DecRef(ptr %referred)
  br label %make
make:
  %made = call ptr @make_sink(ptr %tensor, ptr %gradient)
  br label %lead
lead:
  %sink = phi ptr [ %referred, %refer ], [ %made, %make ]
  %zero = load ptr, ptr @zero
  call void @Py_IncRef(ptr %zero)
  %place = call ptr @pair(ptr %sink, ptr %zero)
  ret ptr %place
}

; The edges of a call: one for each operand that is there.
define internal ptr @edges_of(ptr %record, ptr %flat) {
entry:
  %none = load ptr, ptr @none
  %count = call i64 @word(ptr %record, i64 COUNT)
  %needed = call i64 @word(ptr %record, i64 NEEDED)
  %length = call i64 @word(ptr %record, i64 EDGE_COUNT)
  %edges = call ptr @PyTuple_New(i64 %length)
  %failed = icmp eq ptr %edges, null
  br i1 %failed, label %error, label %next
next:
  %i = phi i64 [ 0, %entry ], [ %i.next, %passed ]
  %at = phi i64 [ 0, %entry ], [ %at.next, %passed ]
  %all = icmp eq i64 %i, %count
  br i1 %all, label %done, label %look
look:
  %operand.at = getelementptr ptr, ptr %flat, i64 %i
  %operand = load ptr, ptr %operand.at
  %absent = icmp eq ptr %operand, %none
  br i1 %absent, label %passed, label %is.needed
is.needed:
  %shifted = lshr i64 %needed, %i
  %bit = and i64 %shifted, 1
  %wanted = icmp ne i64 %bit, 0
  br i1 %wanted, label %lead, label %constant
lead:
  %edge = call ptr @edge_of(ptr %operand)
  %bad = icmp eq ptr %edge, null
  br i1 %bad, label %give.up, label %put
constant:
  call void @Py_IncRef(ptr %none)
  br label %put
put:
  %member = phi ptr [ %edge, %lead ], [ %none, %constant ]
  %status = call i32 @PyTuple_SetItem(ptr %edges, i64 %at, ptr %member)
  %at.after = add i64 %at, 1
  br label %passed
passed:
  %at.next = phi i64 [ %at, %look ], [ %at.after, %put ]
  %i.next = add i64 %i, 1
  br label %next
done:
  ret ptr %edges
give.up:
  call void @Py_DecRef(ptr %edges)
  ret ptr null
error:
  ret ptr null
}

; The same elements as a result that nobody has seen yet, without history: as `share`.
define internal ptr @share_result(ptr %result) {
entry:
  %class = load ptr, ptr @tensor_class
  %tensor = call ptr @new(ptr %class)
  %failed = icmp eq ptr %tensor, null
  br i1 %failed, label %error, label %fill
fill:
  %none = load ptr, ptr @none
  %storage = call ptr @get(ptr %result, ptr @tensor_backing)
  %version = call ptr @get(ptr %result, ptr @tensor_version)
  %offset = call ptr @get(ptr %result, ptr @tensor_offset)
  %form = call ptr @get(ptr %result, ptr @tensor_form)
  %keys = call ptr @get(ptr %form, ptr @form_keys)
  call void @Py_IncRef(ptr %storage)
  call void @Py_IncRef(ptr %version)
  call void @Py_IncRef(ptr %offset)
  call void @Py_IncRef(ptr %none)
  call void @fill_tensor(ptr %tensor, ptr %storage, ptr %version, ptr %offset, ptr %form, ptr %keys, ptr %none)
  ret ptr %tensor
error:
  ret ptr null
}

; A saved tensor, as `SavedTensor` makes it: of an operand, or of a result with its number. The references to `kept` and
; `output` are given away. Null without an error where its writes are counted in a way of their own.
define internal ptr @save(ptr %tensor, ptr %kept, ptr %output) {
entry:
  %version = call ptr @get(ptr %tensor, ptr @tensor_version)
  %plain = call i1 @is_exactly(ptr %version, ptr @version_class)
  %is.kept = icmp ne ptr %kept, null
  %good = and i1 %plain, %is.kept
  br i1 %good, label %make, label %refuse
make:
  %class = load ptr, ptr @saved_class
  %saved = call ptr @new(ptr %class)
  %failed = icmp eq ptr %saved, null
  br i1 %failed, label %refuse, label %fill
fill:
  %none = load ptr, ptr @none
  %form = call ptr @get(ptr %tensor, ptr @tensor_form)
  call void @share(ptr %saved, ptr @saved_form, ptr %form)
  call void @share(ptr %saved, ptr @saved__counter, ptr %version)
  %writes = call ptr @get(ptr %version, ptr @version_value)
  call void @share(ptr %saved, ptr @saved__version, ptr %writes)
  call void @put(ptr %saved, ptr @saved__output, ptr %output)
  call void @share(ptr %saved, ptr @saved__edge, ptr %none)
  call void @share(ptr %saved, ptr @saved__unpack, ptr %none)
  call void @share(ptr %saved, ptr @saved__packed, ptr %none)
  call void @put(ptr %saved, ptr @saved__tensor, ptr %kept)
  ret ptr %saved
refuse:
  call void @drop(ptr %kept)
  call void @drop(ptr %output)
  ret ptr null
}

; What a call keeps in one place of its recipe. A new reference.
define internal ptr @keep(ptr %entry.words, ptr %flat, ptr %results) {
entry:
  %source = call i64 @word(ptr %entry.words, i64 SOURCE)
  %number = call i64 @word(ptr %entry.words, i64 NUMBER)
  switch i64 %source, label %forms [
    i64 OPERAND_TENSOR, label %operand
    i64 OPERAND_NUMBER, label %value
    i64 RESULT_TENSOR, label %result
  ]
forms:
  %object = call ptr @pointer(ptr %entry.words, i64 OBJECT)
  call void @Py_IncRef(ptr %object)
  ret ptr %object
value:
  %value.at = getelementptr ptr, ptr %flat, i64 %number
  %given = load ptr, ptr %value.at
  call void @Py_IncRef(ptr %given)
  ret ptr %given
operand:
  %operand.at = getelementptr ptr, ptr %flat, i64 %number
  %tensor = load ptr, ptr %operand.at
  %none = load ptr, ptr @none
  call void @Py_IncRef(ptr %tensor)
  call void @Py_IncRef(ptr %none)
  %saved = call ptr @save(ptr %tensor, ptr %tensor, ptr %none)
  ret ptr %saved
result:
  %result.at = getelementptr ptr, ptr %results, i64 %number
  %made = load ptr, ptr %result.at
  %shared = call ptr @share_result(ptr %made)
  %output = call ptr @PyLong_FromLongLong(i64 %number)
  %saved.result = call ptr @save(ptr %made, ptr %shared, ptr %output)
  ret ptr %saved.result
}

; The list of what a call saves.
define internal ptr @saved_of(ptr %record, ptr %flat, ptr %results) {
entry:
  %count = call i64 @word(ptr %record, i64 SAVED_COUNT)
  %list = call ptr @PyList_New(i64 %count)
  %failed = icmp eq ptr %list, null
  br i1 %failed, label %error, label %next
next:
  %i = phi i64 [ 0, %entry ], [ %i.next, %put ]
  %all = icmp eq i64 %i, %count
  br i1 %all, label %done, label %one
one:
  %offset = mul i64 %i, SAVED_WORDS
  %at = add i64 %offset, SAVED
  %entry.words = getelementptr i64, ptr %record, i64 %at
  %kept = call ptr @keep(ptr %entry.words, ptr %flat, ptr %results)
  %bad = icmp eq ptr %kept, null
  br i1 %bad, label %give.up, label %put
put:
  %status = call i32 @PyList_SetItem(ptr %list, i64 %i, ptr %kept)
  %i.next = add i64 %i, 1
  br label %next
done:
  ret ptr %list
give.up:
  call void @Py_DecRef(ptr %list)
  ret ptr null
error:
  ret ptr null
}

; Makes a result that has no history yet the output of a step: as `attach`.
define internal i1 @attach(ptr %result, ptr %step, i64 %number) {
entry:
  %class = load ptr, ptr @gradient_class
  %gradient = call ptr @new(ptr %class)
  %failed = icmp eq ptr %gradient, null
  br i1 %failed, label %no, label %fill
fill:
  %none = load ptr, ptr @none
  %false = load ptr, ptr @false
  %zero = load ptr, ptr @zero
  %output = call ptr @PyLong_FromLongLong(i64 %number)
  call void @share(ptr %gradient, ptr @gradient_required, ptr %false)
  call void @share(ptr %gradient, ptr @gradient_grad, ptr %none)
  call void @share(ptr %gradient, ptr @gradient_node, ptr %step)
  call void @put(ptr %gradient, ptr @gradient_output, ptr %output)
  call void @share(ptr %gradient, ptr @gradient_rebases, ptr %zero)
  call void @share(ptr %gradient, ptr @gradient_hooks, ptr %none)
  call void @share(ptr %gradient, ptr @gradient_accumulated, ptr %none)
  call void @share(ptr %gradient, ptr @gradient_retained, ptr %false)
  call void @share(ptr %gradient, ptr @gradient_sink, ptr %none)
  %before = call ptr @get(ptr %result, ptr @tensor_gradient)
  call void @put(ptr %result, ptr @tensor_gradient, ptr %gradient)
  call void @Py_DecRef(ptr %before)
  ret i1 true
no:
  ret i1 false
}

; The step of a recorded call, with all but what it has from Python; null where Python has to make it, or has failed.
define internal ptr @make_step(ptr %record, ptr %flat, ptr %results) {
entry:
  %class = load ptr, ptr @step_class
  %step = call ptr @new(ptr %class)
  %failed = icmp eq ptr %step, null
  br i1 %failed, label %nothing, label %lead
lead:
  %edges = call ptr @edges_of(ptr %record, ptr %flat)
  %no.edges = icmp eq ptr %edges, null
  br i1 %no.edges, label %give.up, label %keep
keep:
  call void @put(ptr %step, ptr @step_edges, ptr %edges)
  %saved = call ptr @saved_of(ptr %record, ptr %flat, ptr %results)
  %no.saved = icmp eq ptr %saved, null
  br i1 %no.saved, label %give.up, label %locate
locate:
  call void @put(ptr %step, ptr @step__saved, ptr %saved)
  %place = call ptr @user_place()
  %no.place = icmp eq ptr %place, null
  br i1 %no.place, label %give.up, label %count
count:
  call void @put(ptr %step, ptr @step__place, ptr %place)
  %numbers = load ptr, ptr @sequence
  %number = call ptr @PyIter_Next(ptr %numbers)
  %no.number = icmp eq ptr %number, null
  br i1 %no.number, label %give.up, label %fill
fill:
  call void @put(ptr %step, ptr @step_sequence, ptr %number)
  %recipe = call ptr @pointer(ptr %record, i64 RECIPE)
  call void @share(ptr %step, ptr @step__recipe, ptr %recipe)
  call void @begin_step(ptr %step)
  ret ptr %step
give.up:
  call void @Py_DecRef(ptr %step)
  ret ptr null
nothing:
  ret ptr null
}

; Writes the tape of a call that has run: whether that was possible. Without a recipe there is nothing to write.
define internal i1 @write_tape(ptr %record, ptr %flat, ptr %results) {
entry:
  %recipe = call i64 @word(ptr %record, i64 RECIPE)
  %unrecorded = icmp eq i64 %recipe, 0
  br i1 %unrecorded, label %yes, label %make
make:
  %step = call ptr @make_step(ptr %record, ptr %flat, ptr %results)
  %failed = icmp eq ptr %step, null
  br i1 %failed, label %no, label %begin
begin:
  %count = call i64 @word(ptr %record, i64 RESULTS)
  %attached = call i64 @word(ptr %record, i64 ATTACHED)
  br label %next
next:
  %i = phi i64 [ 0, %begin ], [ %i.next, %passed ]
  %all = icmp eq i64 %i, %count
  br i1 %all, label %done, label %look
look:
  %shifted = lshr i64 %attached, %i
  %bit = and i64 %shifted, 1
  %has = icmp ne i64 %bit, 0
  br i1 %has, label %attach, label %passed
attach:
  %result.at = getelementptr ptr, ptr %results, i64 %i
  %result = load ptr, ptr %result.at
  %good = call i1 @attach(ptr %result, ptr %step, i64 %i)
  br i1 %good, label %passed, label %give.up
passed:
  %i.next = add i64 %i, 1
  br label %next
done:
  call void @Py_DecRef(ptr %step)
  br label %yes
give.up:
  call void @Py_DecRef(ptr %step)
  br label %no
yes:
  ret i1 true
no:
  ret i1 false
}
"""
