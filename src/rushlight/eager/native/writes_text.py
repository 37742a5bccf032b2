"""In-place calls without history, as LLVM IR: what `run_mutation` does where one short launch writes to the target.

The first operand is the target. Which others are it once more is part of the key; those that may share memory with it
in another way are Python's. A kernel asserts before it writes, so one that says no has written nothing.
"""

WRITES = """
; Whether an operand other than the target has no memory in common with it.
define internal i1 @lies_apart(ptr %operand, ptr %target) {
entry:
  %none = load ptr, ptr @none
  %own = call ptr @get(ptr %target, ptr @tensor_backing)
  %other = call ptr @get(ptr %operand, ptr @tensor_backing)
  %has.data = call i1 @is_exactly(ptr %other, ptr @storage_class)
  %two = icmp ne ptr %own, %other
  %good = and i1 %has.data, %two
  br i1 %good, label %look, label %no
look:
  ; Two storages may be on the same foreign memory.
  %owner = call ptr @get(ptr %other, ptr @storage_owner)
  %ours = icmp eq ptr %owner, %none
  ret i1 %ours
no:
  ret i1 false
}

; Whether what a write reads is the target as a whole, or lies apart from it.
define internal i1 @may_write(ptr %record, ptr %flat) {
entry:
  %target = load ptr, ptr %flat
  %storage = call ptr @get(ptr %target, ptr @tensor_backing)
  %has.data = call i1 @is_exactly(ptr %storage, ptr @storage_class)
  %version = call ptr @get(ptr %target, ptr @tensor_version)
  %counted = call i1 @is_exactly(ptr %version, ptr @version_class)
  %usual = and i1 %has.data, %counted
  br i1 %usual, label %begin, label %no
begin:
  %count = call i64 @word(ptr %record, i64 FILLED)
  br label %next
next:
  %i = phi i64 [ 0, %begin ], [ %i.next, %passed ]
  %all = icmp eq i64 %i, %count
  br i1 %all, label %yes, label %one
one:
  %argument = call ptr @argument(ptr %record, i64 %i)
  %i.next = add i64 %i, 1
  %kind = call i64 @word(ptr %argument, i64 KIND)
  %is.tensor = icmp eq i64 %kind, TENSOR
  br i1 %is.tensor, label %compare, label %passed
compare:
  %operand = call ptr @operand_for(ptr %argument, ptr %flat)
  %same = icmp eq ptr %operand, %target
  br i1 %same, label %passed, label %ask
ask:
  %apart = call i1 @lies_apart(ptr %operand, ptr %target)
  br i1 %apart, label %passed, label %no
passed:
  br label %next
yes:
  ret i1 true
no:
  ret i1 false
}

; Writes, counts the write, and gives the target: a new reference. Null where Python has to do it.
define internal ptr @run_write(ptr %record, ptr %flat, ptr %words) {
entry:
  %results = alloca [MOST_RESULTS x ptr]
  %target = load ptr, ptr %flat
  %may = call i1 @may_write(ptr %record, ptr %flat)
  br i1 %may, label %compute, label %nothing
compute:
  %ran = call i1 @compute(ptr %record, ptr %flat, ptr %words, ptr %results)
  br i1 %ran, label %count, label %nothing
count:
  %version = call ptr @get(ptr %target, ptr @tensor_version)
  %before = call ptr @get(ptr %version, ptr @version_value)
  %writes = call i64 @PyLong_AsLongLong(ptr %before)
  %more = add i64 %writes, 1
  %after = call ptr @PyLong_FromLongLong(i64 %more)
  call void @put(ptr %version, ptr @version_value, ptr %after)
  call void @Py_DecRef(ptr %before)
  call void @Py_IncRef(ptr %target)
  ret ptr %target
nothing:
  ret ptr null
}
"""
