"""Objects that native calls read and make, as LLVM IR: slots of instances, new tensors with their storages."""

HEAD = """
declare i64 @PyLong_AsLongLong(ptr)
declare ptr @PyLong_FromLongLong(i64)
declare double @PyFloat_AsDouble(ptr)
declare void @PyErr_BadInternalCall()
declare void @PyErr_Clear()
declare ptr @PyErr_Occurred()
declare i64 @PyDict_Size(ptr)
declare i32 @PyDict_Next(ptr, ptr, ptr, ptr)
declare ptr @PyDict_GetItemWithError(ptr, ptr)
declare i32 @PyDict_SetItem(ptr, ptr, ptr)
declare ptr @PyObject_Type(ptr)
declare ptr @PyObject_Vectorcall(ptr, ptr, i64, ptr)
declare ptr @PySequence_GetItem(ptr, i64)
declare ptr @PyThreadState_GetDict()
declare ptr @PyTuple_GetItem(ptr, i64)
declare ptr @PyTuple_New(i64)
declare i32 @PyTuple_SetItem(ptr, i64, ptr)
declare i64 @PyTuple_Size(ptr)
declare ptr @PyCapsule_GetPointer(ptr, ptr)
declare i32 @PyContextVar_Get(ptr, ptr, ptr)
declare void @Py_IncRef(ptr)
declare void @Py_DecRef(ptr)
declare i64 @run_held(ptr, ptr, ptr)
declare ptr @take_block(i64)

; The value of a slot, whose offset is a variable.
define internal ptr @get(ptr %object, ptr %slot) alwaysinline {
  %offset = load i64, ptr %slot
  %at = getelementptr i8, ptr %object, i64 %offset
  %value = load ptr, ptr %at
  ret ptr %value
}

; Fills a slot that was empty; the reference is given away.
define internal void @put(ptr %object, ptr %slot, ptr %value) alwaysinline {
  %offset = load i64, ptr %slot
  %at = getelementptr i8, ptr %object, i64 %offset
  store ptr %value, ptr %at
  ret void
}

define internal void @share(ptr %object, ptr %slot, ptr %value) alwaysinline {
  call void @Py_IncRef(ptr %value)
  call void @put(ptr %object, ptr %slot, ptr %value)
  ret void
}

define internal i64 @word(ptr %record, i64 %at) alwaysinline {
  %word.at = getelementptr i64, ptr %record, i64 %at
  %word = load i64, ptr %word.at
  ret i64 %word
}

define internal ptr @pointer(ptr %record, i64 %at) alwaysinline {
  %word = call i64 @word(ptr %record, i64 %at)
  %pointer = inttoptr i64 %word to ptr
  ret ptr %pointer
}

define internal void @set_word(ptr %record, i64 %at, i64 %value) alwaysinline {
  %word.at = getelementptr i64, ptr %record, i64 %at
  store i64 %value, ptr %word.at
  ret void
}

define internal void @set_pointer(ptr %record, i64 %at, ptr %value) alwaysinline {
  %word = ptrtoint ptr %value to i64
  call void @set_word(ptr %record, i64 %at, i64 %word)
  ret void
}

define internal ptr @class_of(ptr %object) alwaysinline {
  %class = call ptr @PyObject_Type(ptr %object)
  call void @Py_DecRef(ptr %class)
  ret ptr %class
}

; Whether an object is of the class that a variable has, and of no subclass.
define internal i1 @is_exactly(ptr %object, ptr %class.at) alwaysinline {
  %class = call ptr @class_of(ptr %object)
  %wanted = load ptr, ptr %class.at
  %same = icmp eq ptr %class, %wanted
  ret i1 %same
}

; object.__new__(class)
define internal ptr @new(ptr %class) alwaysinline {
  %new = load ptr, ptr @new_object
  %none = load ptr, ptr @no_arguments
  %object = call ptr %new(ptr %class, ptr %none, ptr null)
  ret ptr %object
}
"""

RESULTS = """
; Fills a new tensor in, which has no history. The references to its storage, version, offset and the view that it is
; are given away.
define internal void @fill_tensor(ptr %tensor, ptr %storage, ptr %version, ptr %offset, ptr %form, ptr %keys, ptr %view)
alwaysinline {
  %none = load ptr, ptr @none
  call void @put(ptr %tensor, ptr @tensor_backing, ptr %storage)
  call void @put(ptr %tensor, ptr @tensor_version, ptr %version)
  call void @put(ptr %tensor, ptr @tensor_offset, ptr %offset)
  call void @share(ptr %tensor, ptr @tensor_form, ptr %form)
  call void @share(ptr %tensor, ptr @tensor_keys, ptr %keys)
  call void @put(ptr %tensor, ptr @tensor_view_of, ptr %view)
  call void @share(ptr %tensor, ptr @tensor_gradient, ptr %none)
  call void @share(ptr %tensor, ptr @tensor_node, ptr %none)
  ret void
}

; A tensor for result `number` of a record, whose storage has a block of its own; null where Python has to do it.
define internal ptr @make_result(ptr %output, ptr %address.at) {
entry:
  %class = call i64 @word(ptr %output, i64 CLASS)
  %idle = call ptr @take_block(i64 %class)
  %empty = icmp eq ptr %idle, null
  br i1 %empty, label %ask, label %storage.make
ask:
  ; The allocator lends one more block.
  %lend = load ptr, ptr @lend
  %wanted = getelementptr i64, ptr %output, i64 BYTES
  %answer = call ptr @PyObject_Vectorcall(ptr %lend, ptr %wanted, i64 1, ptr null)
  %refused = icmp eq ptr %answer, null
  br i1 %refused, label %failed, label %lent
lent:
  call void @Py_DecRef(ptr %answer)
  %fresh = call ptr @take_block(i64 %class)
  %none.lent = icmp eq ptr %fresh, null
  br i1 %none.lent, label %failed, label %storage.make
storage.make:
  %block = phi ptr [ %idle, %entry ], [ %fresh, %lent ]
  %pointer = call ptr @PyCapsule_GetPointer(ptr %block, ptr null)
  %tagged = ptrtoint ptr %pointer to i64
  %address = and i64 %tagged, -64
  %address.object = call ptr @PyLong_FromLongLong(i64 %address)
  %storage.class = load ptr, ptr @storage_class
  %storage = call ptr @new(ptr %storage.class)
  %no.storage = icmp eq ptr %storage, null
  br i1 %no.storage, label %drop.block, label %storage.fill
storage.fill:
  call void @put(ptr %storage, ptr @storage_block, ptr %block)
  call void @put(ptr %storage, ptr @storage_address, ptr %address.object)
  %bytes.object = call ptr @pointer(ptr %output, i64 BYTES)
  call void @share(ptr %storage, ptr @storage_nbytes, ptr %bytes.object)
  %none = load ptr, ptr @none
  call void @share(ptr %storage, ptr @storage_owner, ptr %none)
  %version.class = load ptr, ptr @version_class
  %version = call ptr @new(ptr %version.class)
  %no.version = icmp eq ptr %version, null
  br i1 %no.version, label %drop.storage, label %version.fill
version.fill:
  %zero = load ptr, ptr @zero
  call void @share(ptr %version, ptr @version_value, ptr %zero)
  %tensor.class = load ptr, ptr @tensor_class
  %tensor = call ptr @new(ptr %tensor.class)
  %no.tensor = icmp eq ptr %tensor, null
  br i1 %no.tensor, label %drop.version, label %tensor.fill
tensor.fill:
  %form = call ptr @pointer(ptr %output, i64 FORM)
  %keys = call ptr @pointer(ptr %output, i64 KEYS)
  call void @Py_IncRef(ptr %zero)
  call void @Py_IncRef(ptr %none)
  call void @fill_tensor(ptr %tensor, ptr %storage, ptr %version, ptr %zero, ptr %form, ptr %keys, ptr %none)
  store i64 %address, ptr %address.at
  ret ptr %tensor
drop.version:
  call void @Py_DecRef(ptr %version)
  br label %drop.storage
drop.storage:
  call void @Py_DecRef(ptr %storage)
  ret ptr null
drop.block:
  call void @Py_DecRef(ptr %block)
  call void @Py_DecRef(ptr %address.object)
  ret ptr null
failed:
  ret ptr null
}
"""
