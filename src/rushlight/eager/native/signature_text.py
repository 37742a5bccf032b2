"""What identifies an eager call, as LLVM IR: the words of its operands, the keys that are active, and its record."""

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

; The record of a signature of KEY_WORDS words, or null.
define internal ptr @find(ptr %key) {
entry:
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
  %hashed = icmp eq i64 %i.next, KEY_WORDS
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
  %all = icmp eq i64 %j.next, KEY_WORDS
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
