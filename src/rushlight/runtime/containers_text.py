"""The question whether dicts and lists have the objects that they had, as LLVM IR: `same_objects(table)` for Python.

`table` is the address of 64-bit words: how many containers there are; for each its address, 0 for a dict or 1 for a
list, and how many entries it had; then for each entry in order the addresses of its key (0 in a list), of its value,
and of its value's class, 0 where any will do. A container of kind 2 is words of memory: the key of an entry is where a
word is, the value what it was. Whoever makes a table keeps alive what it names. References are borrowed,
so that the objects themselves are not touched: a call finds few of them in the caches after a model has run. The module
also needs `call_text`, which declares how arguments are read.
"""

NAME = "same_objects"

PYTHON_SYMBOLS = (
    "PyBool_FromLong",
    "PyDict_Next",
    "PyDict_Size",
    "PyList_GetItem",
    "PyList_Size",
    "PyObject_Type",
    "Py_DecRef",
)

_AHEAD = 8  # containers that are asked for before their turn

CONTAINERS_TEXT = f"""
declare ptr @PyBool_FromLong(i64)
declare i32 @PyDict_Next(ptr, ptr, ptr, ptr)
declare i64 @PyDict_Size(ptr)
declare ptr @PyList_GetItem(ptr, i64)
declare i64 @PyList_Size(ptr)
declare ptr @PyObject_Type(ptr)
declare void @Py_DecRef(ptr)

define internal i1 @has_class(ptr %value, ptr %class) {{
  %found = call ptr @PyObject_Type(ptr %value)
  call void @Py_DecRef(ptr %found)
  %same = icmp eq ptr %found, %class
  ret i1 %same
}}

define internal i1 @same_as_in(ptr %table) {{
entry:
  %place = alloca i64
  %key.at = alloca ptr
  %value.at = alloca ptr
  %containers = load i64, ptr %table
  %heads = getelementptr i64, ptr %table, i64 1
  %head.words = mul i64 %containers, 3
  %entries.start = getelementptr i64, ptr %heads, i64 %head.words
  %last = sub i64 %containers, 1
  br label %next
next:
  %i = phi i64 [ 0, %entry ], [ %i.next, %done ]
  %entries = phi ptr [ %entries.start, %entry ], [ %expected, %done ]
  %over = icmp eq i64 %i, %containers
  br i1 %over, label %yes, label %container
container:
  %head.at = mul i64 %i, 3
  %head = getelementptr i64, ptr %heads, i64 %head.at
  %object = load ptr, ptr %head
  %kind.at = getelementptr i64, ptr %head, i64 1
  %kind = load i64, ptr %kind.at
  %count.at = getelementptr i64, ptr %head, i64 2
  %count = load i64, ptr %count.at
  %later = add i64 %i, {_AHEAD}
  %ahead = call i64 @llvm.smin.i64(i64 %later, i64 %last)
  %ahead.at = mul i64 %ahead, 3
  %ahead.head = getelementptr i64, ptr %heads, i64 %ahead.at
  %ahead.object = load ptr, ptr %ahead.head
  call void @llvm.prefetch.p0(ptr %ahead.object, i32 0, i32 3, i32 1)
  store i64 0, ptr %place
  switch i64 %kind, label %sized [
    i64 0, label %dict
    i64 1, label %list
  ]
dict:
  %dict.size = call i64 @PyDict_Size(ptr %object)
  br label %sized
list:
  %list.size = call i64 @PyList_Size(ptr %object)
  br label %sized
sized:
  %size = phi i64 [ %dict.size, %dict ], [ %list.size, %list ], [ %count, %container ]
  %same.size = icmp eq i64 %size, %count
  br i1 %same.size, label %member, label %no
member:
  %j = phi i64 [ 0, %sized ], [ %j.next, %right ]
  %expected = phi ptr [ %entries, %sized ], [ %expected.next, %right ]
  %end = icmp eq i64 %j, %count
  br i1 %end, label %done, label %take
take:
  switch i64 %kind, label %word [
    i64 0, label %pair
    i64 1, label %item
  ]
pair:
  %there = call i32 @PyDict_Next(ptr %object, ptr %place, ptr %key.at, ptr %value.at)
  %missing = icmp eq i32 %there, 0
  br i1 %missing, label %no, label %found
found:
  %pair.key = load ptr, ptr %key.at
  %pair.value = load ptr, ptr %value.at
  br label %compare
item:
  %item.value = call ptr @PyList_GetItem(ptr %object, i64 %j)
  br label %compare
word:
  %word.at = load ptr, ptr %expected
  %word.value = load ptr, ptr %word.at
  br label %compare
compare:
  %key = phi ptr [ %pair.key, %found ], [ null, %item ], [ %word.at, %word ]
  %value = phi ptr [ %pair.value, %found ], [ %item.value, %item ], [ %word.value, %word ]
  %key.wanted = load ptr, ptr %expected
  %value.wanted.at = getelementptr ptr, ptr %expected, i64 1
  %value.wanted = load ptr, ptr %value.wanted.at
  %class.wanted.at = getelementptr ptr, ptr %expected, i64 2
  %class.wanted = load ptr, ptr %class.wanted.at
  %same.key = icmp eq ptr %key, %key.wanted
  %same.value = icmp eq ptr %value, %value.wanted
  %any.value = icmp eq ptr %value.wanted, null
  %right.value = or i1 %same.value, %any.value
  %right.both = and i1 %same.key, %right.value
  br i1 %right.both, label %class, label %no
class:
  %any.class = icmp eq ptr %class.wanted, null
  br i1 %any.class, label %right, label %ask
ask:
  %right.class = call i1 @has_class(ptr %value, ptr %class.wanted)
  br i1 %right.class, label %right, label %no
right:
  %j.next = add i64 %j, 1
  %expected.next = getelementptr ptr, ptr %expected, i64 3
  br label %member
done:
  %i.next = add i64 %i, 1
  br label %next
yes:
  ret i1 true
no:
  ret i1 false
}}

define ptr @{NAME}(ptr %self, ptr %arguments, i64 %count) {{
entry:
  %one = icmp eq i64 %count, 1
  br i1 %one, label %read, label %misuse
read:
  %object = load ptr, ptr %arguments
  %word = call i64 @PyLong_AsLongLong(ptr %object)
  %bad = icmp sle i64 %word, 0
  br i1 %bad, label %wrong, label %run
run:
  %table = inttoptr i64 %word to ptr
  %same = call i1 @same_as_in(ptr %table)
  %truth = zext i1 %same to i64
  %result = call ptr @PyBool_FromLong(i64 %truth)
  ret ptr %result
wrong:
  %no.integer = icmp eq i64 %word, -1
  br i1 %no.integer, label %failed, label %misuse
misuse:
  call void @PyErr_BadInternalCall()
  ret ptr null
failed:
  ret ptr null
}}
"""
