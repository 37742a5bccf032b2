"""What a call does once its record is found, as LLVM IR: arguments and results of a kernel, and its launch."""

RUN = """
; The words of argument `i` of a record.
define internal ptr @argument(ptr %record, i64 %i) alwaysinline {
  %offset = mul i64 %i, ARGUMENT_WORDS
  %at = add i64 %offset, ARGUMENTS
  %argument = getelementptr i64, ptr %record, i64 %at
  ret ptr %argument
}

; The operand that fills an argument in.
define internal ptr @operand_for(ptr %argument, ptr %operands) alwaysinline {
  %number = call i64 @word(ptr %argument, i64 OPERAND)
  %operand.at = getelementptr ptr, ptr %operands, i64 %number
  %operand = load ptr, ptr %operand.at
  ret ptr %operand
}

; The words of result `i` of a record.
define internal ptr @output(ptr %record, i64 %i) alwaysinline {
  %offset = mul i64 %i, OUTPUT_WORDS
  %at = add i64 %offset, OUTPUTS
  %output = getelementptr i64, ptr %record, i64 %at
  ret ptr %output
}

; Fills an operand into the argument block; whether that was possible.
define internal i1 @fill(ptr %argument, ptr %operand, ptr %words, ptr %reals) {
entry:
  %kind = call i64 @word(ptr %argument, i64 KIND)
  %at = call i64 @word(ptr %argument, i64 AT)
  switch i64 %kind, label %yes [
    i64 TENSOR, label %tensor
    i64 INTEGER, label %integer
    i64 REAL, label %real
  ]
tensor:
  %storage = call ptr @get(ptr %operand, ptr @tensor_backing)
  %has.data = call i1 @is_exactly(ptr %storage, ptr @storage_class)
  br i1 %has.data, label %to.address, label %no
to.address:
  %address.object = call ptr @get(ptr %storage, ptr @storage_address)
  %address = call i64 @PyLong_AsLongLong(ptr %address.object)
  %offset.object = call ptr @get(ptr %operand, ptr @tensor_offset)
  %is.int = call i1 @is_exactly(ptr %offset.object, ptr @int_class)
  br i1 %is.int, label %store, label %no
store:
  %offset = call i64 @PyLong_AsLongLong(ptr %offset.object)
  %scale = call i64 @word(ptr %argument, i64 SCALE)
  %bytes = mul i64 %offset, %scale
  %data = add i64 %address, %bytes
  call void @set_word(ptr %words, i64 %at, i64 %data)
  br label %yes
integer:
  %number = call i64 @PyLong_AsLongLong(ptr %operand)
  %minus.one = icmp eq i64 %number, -1
  br i1 %minus.one, label %check, label %bounds
check:
  %problem = call ptr @PyErr_Occurred()
  %fits.word = icmp eq ptr %problem, null
  br i1 %fits.word, label %bounds, label %large
large:
  call void @PyErr_Clear()
  br label %no
bounds:
  %lowest = call i64 @word(ptr %argument, i64 LOWEST)
  %highest = call i64 @word(ptr %argument, i64 HIGHEST)
  %above = icmp sge i64 %number, %lowest
  %below = icmp sle i64 %number, %highest
  %within = and i1 %above, %below
  br i1 %within, label %integer.store, label %no
integer.store:
  call void @set_word(ptr %words, i64 %at, i64 %number)
  br label %yes
real:
  %value = call double @PyFloat_AsDouble(ptr %operand)
  %lowest.bits = call i64 @word(ptr %argument, i64 LOWEST)
  %highest.bits = call i64 @word(ptr %argument, i64 HIGHEST)
  %lowest.real = bitcast i64 %lowest.bits to double
  %highest.real = bitcast i64 %highest.bits to double
  ; Infinity and NaN are left to Python where there are bounds, and pass infinite ones.
  %above.real = fcmp uge double %value, %lowest.real
  %below.real = fcmp ule double %value, %highest.real
  %within.real = and i1 %above.real, %below.real
  br i1 %within.real, label %real.store, label %no
real.store:
  %value.at = getelementptr double, ptr %reals, i64 %at
  store double %value, ptr %value.at
  br label %yes
yes:
  ret i1 true
no:
  ret i1 false
}

; Computes a record's results into `results`: whether that was done. If not, Python has to do it, or there is an error.
define internal i1 @compute(ptr %record, ptr %operands, ptr %context, ptr %results) {
entry:
  %addresses = alloca [MOST_RESULTS x i64]
  %count = call i64 @word(ptr %record, i64 RESULTS)
  br label %make
make:
  %i = phi i64 [ 0, %entry ], [ %i.next, %made ]
  %done = icmp eq i64 %i, %count
  br i1 %done, label %fill.start, label %make.one
make.one:
  %output = call ptr @output(ptr %record, i64 %i)
  %address.at = getelementptr i64, ptr %addresses, i64 %i
  %result = call ptr @make_result(ptr %output, ptr %address.at)
  %failed = icmp eq ptr %result, null
  br i1 %failed, label %drop.start, label %made
made:
  %result.at = getelementptr ptr, ptr %results, i64 %i
  store ptr %result, ptr %result.at
  %i.next = add i64 %i, 1
  br label %make
fill.start:
  %words = call ptr @pointer(ptr %record, i64 WORDS)
  %reals = call ptr @pointer(ptr %record, i64 REALS)
  %operand.count = call i64 @word(ptr %record, i64 FILLED)
  br label %fill.next
fill.next:
  %j = phi i64 [ 0, %fill.start ], [ %j.next, %filled ]
  %all = icmp eq i64 %j, %operand.count
  br i1 %all, label %place, label %fill.one
fill.one:
  %argument = call ptr @argument(ptr %record, i64 %j)
  %operand = call ptr @operand_for(ptr %argument, ptr %operands)
  %good = call i1 @fill(ptr %argument, ptr %operand, ptr %words, ptr %reals)
  br i1 %good, label %filled, label %drop.start
filled:
  %j.next = add i64 %j, 1
  br label %fill.next
place:
  %k = phi i64 [ 0, %fill.next ], [ %k.next, %placed ]
  %placed.all = icmp eq i64 %k, %count
  br i1 %placed.all, label %launch, label %placed
placed:
  %placing = call ptr @output(ptr %record, i64 %k)
  %slot = call i64 @word(ptr %placing, i64 ADDRESS_AT)
  %known.at = getelementptr i64, ptr %addresses, i64 %k
  %known = load i64, ptr %known.at
  call void @set_word(ptr %words, i64 %slot, i64 %known)
  %k.next = add i64 %k, 1
  br label %place
launch:
  %entry.fn = call ptr @pointer(ptr %record, i64 ENTRY)
  %pointer = call ptr @pointer(ptr %record, i64 POINTER)
  %status = call i64 @run_held(ptr %entry.fn, ptr %context, ptr %pointer)
  %ran = icmp eq i64 %status, 0
  br i1 %ran, label %done.all, label %drop.start
done.all:
  ret i1 true
drop.start:
  %made.count = phi i64 [ %i, %make.one ], [ %count, %fill.one ], [ %count, %launch ]
  call void @drop_results(ptr %results, i64 %made.count)
  ret i1 false
}

; Runs a record: the tensor, or the tuple of them. Null where Python has to do it, or has failed.
define internal ptr @run(ptr %record, ptr %operands, ptr %context) {
entry:
  %results = alloca [MOST_RESULTS x ptr]
  %ran = call i1 @compute(ptr %record, ptr %operands, ptr %context, ptr %results)
  br i1 %ran, label %write, label %nothing
write:
  %given = call ptr @give_results(ptr %record, ptr %operands, ptr %results)
  ret ptr %given
nothing:
  ret ptr null
}
"""

RESULTS = """
define internal void @drop_results(ptr %results, i64 %count) {
entry:
  br label %next
next:
  %i = phi i64 [ 0, %entry ], [ %i.next, %one ]
  %all = icmp eq i64 %i, %count
  br i1 %all, label %done, label %one
one:
  %result.at = getelementptr ptr, ptr %results, i64 %i
  %result = load ptr, ptr %result.at
  call void @Py_DecRef(ptr %result)
  %i.next = add i64 %i, 1
  br label %next
done:
  ret void
}

; Writes the tape of a record whose results are there, and gives the tensor, or the tuple of them. Null where Python has
; to do it, or has failed; the results are dropped then.
define internal ptr @give_results(ptr %record, ptr %operands, ptr %results) {
entry:
  %count = call i64 @word(ptr %record, i64 RESULTS)
  %written = call i1 @write_tape(ptr %record, ptr %operands, ptr %results)
  br i1 %written, label %give, label %drop
give:
  %bare = call i64 @word(ptr %record, i64 BARE)
  %is.bare = icmp ne i64 %bare, 0
  br i1 %is.bare, label %one, label %tuple
one:
  %only = load ptr, ptr %results
  ret ptr %only
tuple:
  %several = call ptr @PyTuple_New(i64 %count)
  %no.tuple = icmp eq ptr %several, null
  br i1 %no.tuple, label %drop, label %pack
pack:
  %m = phi i64 [ 0, %tuple ], [ %m.next, %pack.one ]
  %packed = icmp eq i64 %m, %count
  br i1 %packed, label %all.packed, label %pack.one
pack.one:
  %member.at = getelementptr ptr, ptr %results, i64 %m
  %member = load ptr, ptr %member.at
  %set = call i32 @PyTuple_SetItem(ptr %several, i64 %m, ptr %member)
  %m.next = add i64 %m, 1
  br label %pack
all.packed:
  ret ptr %several
drop:
  call void @drop_results(ptr %results, i64 %count)
  ret ptr null
}
"""
