"""Small blocks of CPU memory that native code hands out itself, as LLVM IR.

A cell is a block that the allocator lends to native code, which keeps idle ones in a list for each capacity: the first
word of an idle cell is the address of the next. `take_block(class)` gives a capsule that owns a cell until it dies, or
null where none is idle; a storage keeps the capsule as its `block`. Everything here happens with the interpreter lock
held, and runs no Python code.

The capsule's pointer is the cell's address, whose low bits are zero, plus its capacity class.
"""

CLASSES = 64
USED, PEAK, ALLOCATIONS = range(3)
"""Words of the allocator's counts, which native code adds to."""

PYTHON_SYMBOLS = ("PyCapsule_GetPointer", "PyCapsule_New")
NAMES = ("give_cell", "take_cell")

_CLASS_MASK = CLASSES - 1

CELLS_TEXT = f"""
declare ptr @PyCapsule_New(ptr, ptr, ptr)
declare ptr @PyCapsule_GetPointer(ptr, ptr)

@cell_heads = internal global [{CLASSES} x ptr] zeroinitializer
@cell_capacities = global [{CLASSES} x i64] zeroinitializer
@cell_counts = global ptr null

define internal void @push_cell(ptr %cell, i64 %class) alwaysinline {{
  %head.at = getelementptr ptr, ptr @cell_heads, i64 %class
  %next = load ptr, ptr %head.at
  store ptr %next, ptr %cell
  store ptr %cell, ptr %head.at
  ret void
}}

define internal ptr @pop_cell(i64 %class) alwaysinline {{
entry:
  %head.at = getelementptr ptr, ptr @cell_heads, i64 %class
  %cell = load ptr, ptr %head.at
  %none = icmp eq ptr %cell, null
  br i1 %none, label %done, label %take
take:
  %next = load ptr, ptr %cell
  store ptr %next, ptr %head.at
  br label %done
done:
  ret ptr %cell
}}

; Counts the bytes of a class as used (1) or no longer used (-1).
define internal void @count_cell(i64 %class, i64 %sign) alwaysinline {{
  %capacity.at = getelementptr i64, ptr @cell_capacities, i64 %class
  %capacity = load i64, ptr %capacity.at
  %change = mul i64 %capacity, %sign
  %counts = load ptr, ptr @cell_counts
  %before = load i64, ptr %counts
  %used = add i64 %before, %change
  store i64 %used, ptr %counts
  %peak.at = getelementptr i64, ptr %counts, i64 {PEAK}
  %peak.before = load i64, ptr %peak.at
  %peak = call i64 @llvm.smax.i64(i64 %peak.before, i64 %used)
  store i64 %peak, ptr %peak.at
  ret void
}}

define internal void @free_block(ptr %capsule) {{
  %pointer = call ptr @PyCapsule_GetPointer(ptr %capsule, ptr null)
  %word = ptrtoint ptr %pointer to i64
  %class = and i64 %word, {_CLASS_MASK}
  %address = and i64 %word, {~_CLASS_MASK}
  %cell = inttoptr i64 %address to ptr
  call void @push_cell(ptr %cell, i64 %class)
  call void @count_cell(i64 %class, i64 -1)
  ret void
}}

define ptr @take_block(i64 %class) {{
entry:
  %cell = call ptr @pop_cell(i64 %class)
  %none = icmp eq ptr %cell, null
  br i1 %none, label %nothing, label %own
own:
  %address = ptrtoint ptr %cell to i64
  %word = or i64 %address, %class
  %pointer = inttoptr i64 %word to ptr
  %capsule = call ptr @PyCapsule_New(ptr %pointer, ptr null, ptr @free_block)
  %failed = icmp eq ptr %capsule, null
  br i1 %failed, label %back, label %count
back:
  call void @push_cell(ptr %cell, i64 %class)
  ret ptr null
count:
  call void @count_cell(i64 %class, i64 1)
  %counts = load ptr, ptr @cell_counts
  %made.at = getelementptr i64, ptr %counts, i64 {ALLOCATIONS}
  %made = load i64, ptr %made.at
  %made.next = add i64 %made, 1
  store i64 %made.next, ptr %made.at
  ret ptr %capsule
nothing:
  ret ptr null
}}

; give_cell(address, class): lends a cell to native code.
define ptr @give_cell(ptr %self, ptr %arguments, i64 %count) {{
entry:
  %two = icmp eq i64 %count, 2
  br i1 %two, label %read, label %misuse
read:
  %address.object = load ptr, ptr %arguments
  %class.at = getelementptr ptr, ptr %arguments, i64 1
  %class.object = load ptr, ptr %class.at
  %address = call i64 @PyLong_AsLongLong(ptr %address.object)
  %class = call i64 @PyLong_AsLongLong(ptr %class.object)
  %known = icmp ult i64 %class, {CLASSES}
  %low = and i64 %address, {_CLASS_MASK}
  %aligned = icmp eq i64 %low, 0
  %both = and i1 %known, %aligned
  br i1 %both, label %give, label %misuse
give:
  %cell = inttoptr i64 %address to ptr
  call void @push_cell(ptr %cell, i64 %class)
  %result = call ptr @PyLong_FromLongLong(i64 0)
  ret ptr %result
misuse:
  call void @PyErr_BadInternalCall()
  ret ptr null
}}

; take_cell(class): the address of an idle cell, which is lent no longer; 0 where there is none.
define ptr @take_cell(ptr %self, ptr %arguments, i64 %count) {{
entry:
  %one = icmp eq i64 %count, 1
  br i1 %one, label %read, label %misuse
read:
  %class.object = load ptr, ptr %arguments
  %class = call i64 @PyLong_AsLongLong(ptr %class.object)
  %known = icmp ult i64 %class, {CLASSES}
  br i1 %known, label %take, label %misuse
take:
  %cell = call ptr @pop_cell(i64 %class)
  %address = ptrtoint ptr %cell to i64
  %result = call ptr @PyLong_FromLongLong(i64 %address)
  ret ptr %result
misuse:
  call void @PyErr_BadInternalCall()
  ret ptr null
}}
"""
