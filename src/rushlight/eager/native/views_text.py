"""Views, as LLVM IR: what `ViewPlan.call` makes of a tensor that has data, and what `record` writes for it.

Python makes those that may reach outside of their storage, that show elements as others of another width, and those by
strides of a view.
"""

PYTHON_SYMBOLS = ("PySequence_Concat",)

VIEWS = """
declare ptr @PySequence_Concat(ptr, ptr)

; How a view shows a tensor that is none; the reference to its steps is given away.
define internal ptr @view_by(ptr %base, ptr %steps, ptr %recorded, ptr %rebases) {
entry:
  %class = load ptr, ptr @view_class
  %view = call ptr @new(ptr %class)
  %failed = icmp eq ptr %view, null
  br i1 %failed, label %give.up, label %fill
fill:
  call void @share(ptr %view, ptr @view__base, ptr %base)
  call void @put(ptr %view, ptr @view_steps, ptr %steps)
  call void @share(ptr %view, ptr @view_recorded, ptr %recorded)
  call void @share(ptr %view, ptr @view_rebases, ptr %rebases)
  ret ptr %view
give.up:
  call void @Py_DecRef(ptr %steps)
  ret ptr null
}

; How the view of a tensor that is none itself shows that.
define internal ptr @view_of_base(ptr %record, ptr %base, ptr %recorded) {
  %steps = call ptr @pointer(ptr %record, i64 STEPS)
  %rebases = call ptr @rebases_of(ptr %base)
  call void @Py_IncRef(ptr %steps)
  %view = call ptr @view_by(ptr %base, ptr %steps, ptr %recorded, ptr %rebases)
  ret ptr %view
}

; How the view of a view shows what that is a view of; null where Python has to say it.
define internal ptr @view_of_view(ptr %record, ptr %before, ptr %recorded) {
entry:
  %strided = call i64 @word(ptr %record, i64 STRIDED)
  %by.steps = icmp eq i64 %strided, 0
  br i1 %by.steps, label %look, label %nothing
look:
  %base = call ptr @base_of(ptr %before)
  %unclear = icmp eq ptr %base, null
  br i1 %unclear, label %nothing, label %join
join:
  %last = call ptr @pointer(ptr %record, i64 STEPS)
  %first = call ptr @get(ptr %before, ptr @view_steps)
  %steps = call ptr @PySequence_Concat(ptr %first, ptr %last)
  %no.steps = icmp eq ptr %steps, null
  br i1 %no.steps, label %nothing, label %make
make:
  %true = load ptr, ptr @true
  %was = call ptr @get(ptr %before, ptr @view_recorded)
  %records = icmp eq ptr %recorded, %true
  %both = select i1 %records, ptr %was, ptr %recorded
  %rebases = call ptr @get(ptr %before, ptr @view_rebases)
  %view = call ptr @view_by(ptr %base, ptr %steps, ptr %both, ptr %rebases)
  ret ptr %view
nothing:
  ret ptr null
}

; How a view of a tensor is related to it: a new reference, None for one that is cut off; null where Python has to say
; it.
define internal ptr @relation_to(ptr %record, ptr %base, ptr %words) {
entry:
  %none = load ptr, ptr @none
  %steps = call i64 @word(ptr %record, i64 STEPS)
  %apart = icmp eq i64 %steps, 0
  br i1 %apart, label %unrelated, label %related
unrelated:
  call void @Py_IncRef(ptr %none)
  ret ptr %none
related:
  %grad.name = load ptr, ptr @grad_name
  %true = load ptr, ptr @true
  %recorded = call ptr @scope(ptr %words, ptr %grad.name, ptr %true)
  %before = call ptr @get(ptr %base, ptr @tensor_view_of)
  %first = icmp eq ptr %before, %none
  br i1 %first, label %of.base, label %of.view
of.base:
  %one = call ptr @view_of_base(ptr %record, ptr %base, ptr %recorded)
  ret ptr %one
of.view:
  %further = call ptr @view_of_view(ptr %record, ptr %before, ptr %recorded)
  ret ptr %further
}

; Where a view begins: a new reference, null where Python has to say it.
define internal ptr @begin_of(ptr %record, ptr %base) {
entry:
  %offset = call ptr @get(ptr %base, ptr @tensor_offset)
  %is.int = call i1 @is_exactly(ptr %offset, ptr @int_class)
  br i1 %is.int, label %measure, label %nothing
measure:
  %distance = call i64 @word(ptr %record, i64 DISTANCE)
  %here = icmp eq i64 %distance, 0
  br i1 %here, label %same, label %further
same:
  call void @Py_IncRef(ptr %offset)
  ret ptr %offset
further:
  %start = call i64 @PyLong_AsLongLong(ptr %offset)
  %begin = add i64 %start, %distance
  %object = call ptr @PyLong_FromLongLong(i64 %begin)
  ret ptr %object
nothing:
  ret ptr null
}

; A view of a tensor; null where Python has to make it.
define internal ptr @make_view(ptr %record, ptr %base, ptr %words) {
entry:
  %storage = call ptr @get(ptr %base, ptr @tensor_backing)
  %has.data = call i1 @is_exactly(ptr %storage, ptr @storage_class)
  br i1 %has.data, label %place, label %nothing
place:
  %offset = call ptr @begin_of(ptr %record, ptr %base)
  %unplaced = icmp eq ptr %offset, null
  br i1 %unplaced, label %nothing, label %relate
relate:
  %relation = call ptr @relation_to(ptr %record, ptr %base, ptr %words)
  %unrelated = icmp eq ptr %relation, null
  br i1 %unrelated, label %drop.offset, label %make
make:
  %tensor.class = load ptr, ptr @tensor_class
  %tensor = call ptr @new(ptr %tensor.class)
  %failed = icmp eq ptr %tensor, null
  br i1 %failed, label %drop.relation, label %fill
fill:
  %version = call ptr @get(ptr %base, ptr @tensor_version)
  %output = call ptr @output(ptr %record, i64 0)
  %form = call ptr @pointer(ptr %output, i64 FORM)
  %keys = call ptr @pointer(ptr %output, i64 KEYS)
  call void @Py_IncRef(ptr %storage)
  call void @Py_IncRef(ptr %version)
  call void @fill_tensor(ptr %tensor, ptr %storage, ptr %version, ptr %offset, ptr %form, ptr %keys, ptr %relation)
  ret ptr %tensor
drop.relation:
  call void @Py_DecRef(ptr %relation)
  br label %drop.offset
drop.offset:
  call void @Py_DecRef(ptr %offset)
  ret ptr null
nothing:
  ret ptr null
}

; The views that a record describes, with their history where that is recorded; null where Python has to make them, or
; has failed.
define internal ptr @run_views(ptr %record, ptr %flat, ptr %words) {
entry:
  %results = alloca [MOST_VIEWS x ptr]
  %base = load ptr, ptr %flat
  %list = call ptr @pointer(ptr %record, i64 VIEWS)
  %count = call i64 @word(ptr %record, i64 RESULTS)
  br label %next
next:
  %i = phi i64 [ 0, %entry ], [ %i.next, %made ]
  %all = icmp eq i64 %i, %count
  br i1 %all, label %give, label %one
one:
  %part = call ptr @pointer(ptr %list, i64 %i)
  %view = call ptr @make_view(ptr %part, ptr %base, ptr %words)
  %failed = icmp eq ptr %view, null
  br i1 %failed, label %drop, label %made
made:
  %result.at = getelementptr ptr, ptr %results, i64 %i
  store ptr %view, ptr %result.at
  %i.next = add i64 %i, 1
  br label %next
give:
  %given = call ptr @give_results(ptr %record, ptr %flat, ptr %results)
  ret ptr %given
drop:
  call void @drop_results(ptr %results, i64 %i)
  ret ptr null
}
"""
