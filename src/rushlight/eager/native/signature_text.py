"""What identifies an eager call, as LLVM IR: the words of its operands, the keys that are active, and its record.

A key reads one way only. The first word of an operand or attribute says what it is: of a number its class, of a list
its class and then its length. What follows is an attribute's number, or the members of the list.
"""

PYTHON_SYMBOLS = ("PyDict_Next",)

OBJECTS = ("tuple_class", "text_class", "dtype_class", "cpu")
"""Objects that the text refers to."""

OPERANDS = """
; The word of an operand in a signature, and its keys; 0 where Python has to look.
define internal i64 @word_of(ptr %operand, ptr %keys) {
entry:
  store i64 0, ptr %keys
  %none = load ptr, ptr @none
  %absent = icmp eq ptr %operand, %none
  br i1 %absent, label %nothing, label %look
nothing:
  ret i64 1
look:
  %class = call ptr @class_of(ptr %operand)
  %tensor = load ptr, ptr @tensor_class
  %parameter = load ptr, ptr @parameter_class
  %is.tensor = icmp eq ptr %class, %tensor
  %is.parameter = icmp eq ptr %class, %parameter
  %plain = or i1 %is.tensor, %is.parameter
  br i1 %plain, label %to.form, label %number
to.form:
  %form = call ptr @get(ptr %operand, ptr @tensor_form)
  %keys.object = call ptr @get(ptr %operand, ptr @tensor_keys)
  %unmade = icmp eq ptr %keys.object, null
  br i1 %unmade, label %strange, label %add
add:
  %own = call i64 @PyLong_AsLongLong(ptr %keys.object)
  store i64 %own, ptr %keys
  %word = ptrtoint ptr %form to i64
  ret i64 %word
number:
  %float = load ptr, ptr @float_class
  %int = load ptr, ptr @int_class
  %bool = load ptr, ptr @bool_class
  %is.float = icmp eq ptr %class, %float
  %is.int = icmp eq ptr %class, %int
  %is.bool = icmp eq ptr %class, %bool
  %some = or i1 %is.float, %is.int
  %any = or i1 %some, %is.bool
  br i1 %any, label %known, label %strange
known:
  %class.word = ptrtoint ptr %class to i64
  ret i64 %class.word
strange:
  ret i64 0
}

; Puts an operand and its word where they belong: whether native code knows it.
define internal i1 @add_operand(ptr %operand, i64 %number, i64 %at, ptr %key, ptr %flat, ptr %keys) {
  %keys.at = getelementptr i64, ptr %keys, i64 %number
  %word = call i64 @word_of(ptr %operand, ptr %keys.at)
  %flat.at = getelementptr ptr, ptr %flat, i64 %number
  store ptr %operand, ptr %flat.at
  call void @set_word(ptr %key, i64 %at, i64 %word)
  %known = icmp ne i64 %word, 0
  ret i1 %known
}

; Adds a list's length and members: how many these are, or -1 where Python has to look.
define internal i64 @add_list(ptr %list, i64 %number, i64 %at, ptr %key, ptr %flat, ptr %keys) {
entry:
  %class = call ptr @class_of(ptr %list)
  %tuple.class = load ptr, ptr @tuple_class
  %is.list = icmp eq ptr %class, %tuple.class
  br i1 %is.list, label %measure, label %strange
measure:
  %length = call i64 @PyTuple_Size(ptr %list)
  %room = sub i64 MOST_OPERANDS, %number
  %past.one = sub i64 %length, 1
  %fits = icmp ult i64 %past.one, %room
  br i1 %fits, label %begin, label %strange
begin:
  call void @set_pointer(ptr %key, i64 %at, ptr %class)
  %length.at = add i64 %at, 1
  call void @set_word(ptr %key, i64 %length.at, i64 %length)
  %members.at = add i64 %at, 2
  br label %next
next:
  %i = phi i64 [ 0, %begin ], [ %i.next, %one ]
  %all = icmp eq i64 %i, %length
  br i1 %all, label %done, label %one
one:
  %member = call ptr @PyTuple_GetItem(ptr %list, i64 %i)
  %member.number = add i64 %number, %i
  %member.at = add i64 %members.at, %i
  %good = call i1 @add_operand(ptr %member, i64 %member.number, i64 %member.at, ptr %key, ptr %flat, ptr %keys)
  %i.next = add i64 %i, 1
  br i1 %good, label %next, label %strange
done:
  ret i64 %length
strange:
  ret i64 -1
}

; Begins a key with the operands of a call, which go into `flat`, each with its keys: how many words the key has then,
; or -1 where Python has to look.
define internal i64 @add_operands(ptr %operands, ptr %key, ptr %flat, ptr %keys) {
entry:
  %given = call i64 @PyTuple_Size(ptr %operands)
  %few = icmp ule i64 %given, MOST_OPERANDS
  br i1 %few, label %next, label %strange
next:
  %i = phi i64 [ 0, %entry ], [ %i.next, %added ]
  %count = phi i64 [ 0, %entry ], [ %count.next, %added ]
  %at = phi i64 [ OPERANDS, %entry ], [ %at.next, %added ]
  %all = icmp eq i64 %i, %given
  br i1 %all, label %done, label %look
look:
  %full = icmp uge i64 %count, MOST_OPERANDS
  br i1 %full, label %strange, label %one
one:
  %operand = call ptr @PyTuple_GetItem(ptr %operands, i64 %i)
  %known = call i1 @add_operand(ptr %operand, i64 %count, i64 %at, ptr %key, ptr %flat, ptr %keys)
  br i1 %known, label %added, label %list
list:
  %members = call i64 @add_list(ptr %operand, i64 %count, i64 %at, ptr %key, ptr %flat, ptr %keys)
  %other = icmp slt i64 %members, 0
  br i1 %other, label %strange, label %added
added:
  %found = phi i64 [ 1, %one ], [ %members, %list ]
  %marks = phi i64 [ 0, %one ], [ 2, %list ]
  %count.next = add i64 %count, %found
  %past = add i64 %at, %found
  %at.next = add i64 %past, %marks
  %i.next = add i64 %i, 1
  br label %next
done:
  call void @set_word(ptr %key, i64 COUNT, i64 %count)
  ret i64 %at
strange:
  ret i64 -1
}

; The union of the keys of operands.
define internal i64 @own_keys(ptr %keys, i64 %count) {
entry:
  br label %next
next:
  %i = phi i64 [ 0, %entry ], [ %i.next, %one ]
  %all = phi i64 [ 0, %entry ], [ %all.next, %one ]
  %ended = icmp eq i64 %i, %count
  br i1 %ended, label %done, label %one
one:
  %own = call i64 @word(ptr %keys, i64 %i)
  %all.next = or i64 %all, %own
  %i.next = add i64 %i, 1
  br label %next
done:
  ret i64 %all
}

; The bits, from FIRST_SAME on, of the operands that are the first one once more.
define internal i64 @same_as_first(ptr %flat, i64 %count) {
entry:
  %first = load ptr, ptr %flat
  br label %next
next:
  %i = phi i64 [ 1, %entry ], [ %i.next, %one ]
  %bits = phi i64 [ 0, %entry ], [ %bits.next, %one ]
  %ended = icmp sge i64 %i, %count
  br i1 %ended, label %done, label %one
one:
  %operand.at = getelementptr ptr, ptr %flat, i64 %i
  %operand = load ptr, ptr %operand.at
  %same = icmp eq ptr %operand, %first
  %bit = zext i1 %same to i64
  %place = add i64 %i, FIRST_SAME
  %placed = shl i64 %bit, %place
  %bits.next = or i64 %bits, %placed
  %i.next = add i64 %i, 1
  br label %next
done:
  ret i64 %bits
}

; Adds the words of an attribute's value to a key: how many words that has then, or -1 where Python has to look.
define internal i64 @add_value(ptr %value, ptr %key, i64 %at) {
entry:
  %last = icmp sgt i64 %at, LAST_PAIR
  br i1 %last, label %strange, label %classify
classify:
  %class = call ptr @class_of(ptr %value)
  %class.word = ptrtoint ptr %class to i64
  %first.at = getelementptr i64, ptr %key, i64 %at
  %second.at = getelementptr i64, ptr %first.at, i64 1
  %after.one = add i64 %at, 1
  %after.two = add i64 %at, 2
  %int = load ptr, ptr @int_class
  %is.int = icmp eq ptr %class, %int
  br i1 %is.int, label %integer, label %more
more:
  %float = load ptr, ptr @float_class
  %is.float = icmp eq ptr %class, %float
  br i1 %is.float, label %real, label %others
others:
  %tuple.class = load ptr, ptr @tuple_class
  %is.tuple = icmp eq ptr %class, %tuple.class
  br i1 %is.tuple, label %list, label %single
integer:
  %number = call i64 @PyLong_AsLongLong(ptr %value)
  %minus.one = icmp eq i64 %number, -1
  br i1 %minus.one, label %check, label %integer.put
check:
  %problem = call ptr @PyErr_Occurred()
  %fits.word = icmp eq ptr %problem, null
  br i1 %fits.word, label %integer.put, label %large
large:
  call void @PyErr_Clear()
  br label %strange
integer.put:
  store i64 %class.word, ptr %first.at
  store i64 %number, ptr %second.at
  ret i64 %after.two
real:
  %double = call double @PyFloat_AsDouble(ptr %value)
  store i64 %class.word, ptr %first.at
  store double %double, ptr %second.at
  ret i64 %after.two
list:
  %length = call i64 @PyTuple_Size(ptr %value)
  store i64 %class.word, ptr %first.at
  store i64 %length, ptr %second.at
  br label %next
next:
  %i = phi i64 [ 0, %list ], [ %i.next, %one ]
  %place = phi i64 [ %after.two, %list ], [ %place.next, %one ]
  %all = icmp eq i64 %i, %length
  br i1 %all, label %done, label %one
one:
  %member = call ptr @PyTuple_GetItem(ptr %value, i64 %i)
  %place.next = call i64 @add_value(ptr %member, ptr %key, i64 %place)
  %odd = icmp slt i64 %place.next, 0
  %i.next = add i64 %i, 1
  br i1 %odd, label %strange, label %next
done:
  ret i64 %place
single:
  ; Of these each value is one object, which the record keeps alive.
  %none = load ptr, ptr @none
  %bool = load ptr, ptr @bool_class
  %text = load ptr, ptr @text_class
  %dtype = load ptr, ptr @dtype_class
  %cpu = load ptr, ptr @cpu
  %is.none = icmp eq ptr %value, %none
  %is.bool = icmp eq ptr %class, %bool
  %is.text = icmp eq ptr %class, %text
  %is.dtype = icmp eq ptr %class, %dtype
  %is.cpu = icmp eq ptr %value, %cpu
  %constant = or i1 %is.none, %is.bool
  %name = or i1 %is.text, %is.dtype
  %either = or i1 %constant, %name
  %known = or i1 %either, %is.cpu
  br i1 %known, label %identity, label %strange
identity:
  %value.word = ptrtoint ptr %value to i64
  store i64 %value.word, ptr %first.at
  ret i64 %after.one
strange:
  ret i64 -1
}

; Adds names and values of a call's attributes, in their order.
define internal i64 @add_attributes(ptr %attributes, ptr %key, i64 %at) {
entry:
  %position = alloca i64
  %name.at = alloca ptr
  %value.at = alloca ptr
  store i64 0, ptr %position
  %size = call i64 @PyDict_Size(ptr %attributes)
  %none = icmp eq i64 %size, 0
  br i1 %none, label %empty, label %measured
empty:
  ret i64 %at
measured:
  %other = icmp slt i64 %size, 0
  br i1 %other, label %strange, label %next
next:
  %place = phi i64 [ %at, %measured ], [ %after, %add ]
  %more = call i32 @PyDict_Next(ptr %attributes, ptr %position, ptr %name.at, ptr %value.at)
  %ended = icmp eq i32 %more, 0
  br i1 %ended, label %done, label %one
one:
  %full = icmp sgt i64 %place, LAST_PAIR
  br i1 %full, label %strange, label %add
add:
  %name = load ptr, ptr %name.at
  %value = load ptr, ptr %value.at
  call void @set_pointer(ptr %key, i64 %place, ptr %name)
  %value.place = add i64 %place, 1
  %after = call i64 @add_value(ptr %value, ptr %key, i64 %value.place)
  %odd = icmp slt i64 %after, 0
  br i1 %odd, label %strange, label %next
done:
  ret i64 %place
strange:
  ret i64 -1
}

; The address of the words of this thread's context, or null.
define internal ptr @thread_words() {
entry:
  %dict = call ptr @PyThreadState_GetDict()
  %no.dict = icmp eq ptr %dict, null
  br i1 %no.dict, label %none, label %look
look:
  %key = load ptr, ptr @thread_key
  %object = call ptr @PyDict_GetItemWithError(ptr %dict, ptr %key)
  %missing = icmp eq ptr %object, null
  br i1 %missing, label %none, label %read
read:
  %word = call i64 @PyLong_AsLongLong(ptr %object)
  %words = inttoptr i64 %word to ptr
  ret ptr %words
none:
  ret ptr null
}

; A field of the thread's scopes, `otherwise` where the thread has never set it.
define internal ptr @scope(ptr %words, ptr %name, ptr %otherwise) alwaysinline {
  %dict.at = getelementptr ptr, ptr %words, i64 SCOPES_WORD
  %dict = load ptr, ptr %dict.at
  %found = call ptr @PyDict_GetItemWithError(ptr %dict, ptr %name)
  %unset = icmp eq ptr %found, null
  %value = select i1 %unset, ptr %otherwise, ptr %found
  ret ptr %value
}

define internal i64 @active_keys(ptr %words, i64 %keys) {
  %zero = load ptr, ptr @zero
  %included.name = load ptr, ptr @included_name
  %excluded.name = load ptr, ptr @excluded_name
  %included.object = call ptr @scope(ptr %words, ptr %included.name, ptr %zero)
  %excluded.object = call ptr @scope(ptr %words, ptr %excluded.name, ptr %zero)
  %included = call i64 @PyLong_AsLongLong(ptr %included.object)
  %excluded = call i64 @PyLong_AsLongLong(ptr %excluded.object)
  %all = or i64 %keys, %included
  %others = xor i64 %excluded, -1
  %active = and i64 %all, %others
  ret i64 %active
}

; Whether the calls of this thread are recorded where autograd is active: 1 or 0, and 2 where Python has to look.
define internal i64 @is_recording(ptr %words) {
entry:
  %none = load ptr, ptr @none
  %grad.name = load ptr, ptr @grad_name
  %grad = call ptr @scope(ptr %words, ptr %grad.name, ptr %none)
  %off = load ptr, ptr @false
  %is.off = icmp eq ptr %grad, %off
  br i1 %is.off, label %forward, label %saving
forward:
  %forward.name = load ptr, ptr @forward_name
  %transform = call ptr @scope(ptr %words, ptr %forward.name, ptr %none)
  %no.transform = icmp eq ptr %transform, %none
  %silent = select i1 %no.transform, i64 0, i64 2
  ret i64 %silent
saving:
  ; Hooks want to see what is saved.
  %saving.name = load ptr, ptr @saving_name
  %no.hooks = load ptr, ptr @no_arguments
  %hooks = call ptr @scope(ptr %words, ptr %saving.name, ptr %no.hooks)
  %hook.count = call i64 @PyTuple_Size(ptr %hooks)
  %unhooked = icmp eq i64 %hook.count, 0
  %recording = select i1 %unhooked, i64 1, i64 2
  ret i64 %recording
}

; The bits of the operands for which a call with these active keys is recorded, 0 for one that is computed alone; -1
; where Python has to look. Each operand has keys of its own.
define internal i64 @recorded_for(ptr %words, i64 %active, ptr %flat, ptr %keys, i64 %count) {
entry:
  %cpu = load i64, ptr @cpu_key
  %only = icmp eq i64 %active, %cpu
  br i1 %only, label %alone, label %more
more:
  %autograd = load i64, ptr @autograd_key
  %two = or i64 %cpu, %autograd
  %both = icmp eq i64 %active, %two
  br i1 %both, label %mode, label %python
mode:
  %recording = call i64 @is_recording(ptr %words)
  switch i64 %recording, label %python [
    i64 0, label %alone
    i64 1, label %look
  ]
look:
  %needed = call i64 @needed_of(ptr %flat, ptr %keys, i64 %count)
  ret i64 %needed
alone:
  ret i64 0
python:
  ret i64 -1
}
"""

FIND = """
; The word of the settings: the key within a block that overrides some, 0 elsewhere.
define internal i64 @settings_word() {
entry:
  %value.at = alloca ptr
  %blocks.at = load ptr, ptr @blocks_at
  %blocks = load i64, ptr %blocks.at
  %none.yet = icmp eq i64 %blocks, 0
  br i1 %none.yet, label %outside, label %ask
ask:
  %variable = load ptr, ptr @key_of_block
  %none = load ptr, ptr @none
  %status = call i32 @PyContextVar_Get(ptr %variable, ptr %none, ptr %value.at)
  %failed = icmp ne i32 %status, 0
  br i1 %failed, label %problem, label %read
read:
  ; The context keeps the key alive.
  %key = load ptr, ptr %value.at
  call void @Py_DecRef(ptr %key)
  %absent = icmp eq ptr %key, %none
  br i1 %absent, label %outside, label %within
within:
  %word = ptrtoint ptr %key to i64
  ret i64 %word
problem:
  ; A word that no record has: Python looks.
  call void @PyErr_Clear()
  ret i64 1
outside:
  ret i64 0
}

; The record of a key, or null.
define internal ptr @find(ptr %key) {
entry:
  %length = call i64 @word(ptr %key, i64 LENGTH)
  %table = load ptr, ptr @table
  %seen.at = load ptr, ptr @generation_at
  %now = load i64, ptr %seen.at
  %seen = load i64, ptr @generation
  %stale = icmp ne i64 %now, %seen
  br i1 %stale, label %none, label %hash
hash:
  %i = phi i64 [ 0, %entry ], [ %i.next, %hash ]
  %code = phi i64 [ 0, %entry ], [ %code.next, %hash ]
  %word = call i64 @word(ptr %key, i64 %i)
  %mixed = xor i64 %code, %word
  %spread = mul i64 %mixed, HASH_FACTOR
  %high = lshr i64 %spread, HASH_SHIFT
  %code.next = xor i64 %spread, %high
  %i.next = add i64 %i, 1
  %hashed = icmp eq i64 %i.next, %length
  br i1 %hashed, label %start, label %hash
start:
  %first = and i64 %code.next, TABLE_MASK
  br label %probe
probe:
  %at = phi i64 [ %first, %start ], [ %at.next, %further ]
  %record.word = call i64 @word(ptr %table, i64 %at)
  %empty = icmp eq i64 %record.word, 0
  br i1 %empty, label %none, label %compare.start
compare.start:
  %record = inttoptr i64 %record.word to ptr
  br label %compare
compare:
  %j = phi i64 [ 0, %compare.start ], [ %j.next, %same ]
  %wanted = call i64 @word(ptr %key, i64 %j)
  %found = call i64 @word(ptr %record, i64 %j)
  %equal = icmp eq i64 %wanted, %found
  br i1 %equal, label %same, label %further
same:
  %j.next = add i64 %j, 1
  %all = icmp eq i64 %j.next, %length
  br i1 %all, label %yes, label %compare
further:
  %after = add i64 %at, 1
  %at.next = and i64 %after, TABLE_MASK
  br label %probe
yes:
  ret ptr %record
none:
  ret ptr null
}
"""
