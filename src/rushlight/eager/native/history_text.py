"""Whether gradients of operands are wanted, as LLVM IR: `history.requires` for tensors whose history is up to date."""

OBJECTS = ("view_class",)
"""Objects that the text refers to."""

OFFSETS = {"view": ("_base", "rebases", "recorded", "steps")}
"""Slots that the text reads, by class."""

NEEDED = """
; The number of times that the history of a tensor's base was rewritten: a borrowed int.
define internal ptr @rebases_of(ptr %base) {
entry:
  %gradient = call ptr @get(ptr %base, ptr @tensor_gradient)
  %none = load ptr, ptr @none
  %without = icmp eq ptr %gradient, %none
  br i1 %without, label %never, label %read
never:
  %zero = load ptr, ptr @zero
  ret ptr %zero
read:
  %rebases = call ptr @get(ptr %gradient, ptr @gradient_rebases)
  ret ptr %rebases
}

; The tensor that a view shows, borrowed; null where Python has to look.
define internal ptr @base_of(ptr %view) {
entry:
  %plain = call i1 @is_exactly(ptr %view, ptr @view_class)
  br i1 %plain, label %look, label %python
look:
  %base = call ptr @get(ptr %view, ptr @view__base)
  %above = call ptr @get(ptr %base, ptr @tensor_view_of)
  %none = load ptr, ptr @none
  %is.base = icmp eq ptr %above, %none
  br i1 %is.base, label %give, label %python
give:
  ret ptr %base
python:
  ret ptr null
}

; Whether a view's history is that of its base as it is now.
define internal i1 @is_current(ptr %view) {
entry:
  %base = call ptr @base_of(ptr %view)
  %unclear = icmp eq ptr %base, null
  br i1 %unclear, label %no, label %count
count:
  %now.object = call ptr @rebases_of(ptr %base)
  %now = call i64 @PyLong_AsLongLong(ptr %now.object)
  %then.object = call ptr @get(ptr %view, ptr @view_rebases)
  %then = call i64 @PyLong_AsLongLong(ptr %then.object)
  %same = icmp eq i64 %now, %then
  ret i1 %same
no:
  ret i1 false
}

; Whether gradients of a tensor are wanted that has the key: 1 or 0, and 2 where Python has to look.
define internal i64 @requires(ptr %tensor) {
entry:
  %none = load ptr, ptr @none
  %view = call ptr @get(ptr %tensor, ptr @tensor_view_of)
  %own = icmp eq ptr %view, %none
  br i1 %own, label %look, label %follow
follow:
  %current = call i1 @is_current(ptr %view)
  br i1 %current, label %look, label %strange
look:
  %gradient = call ptr @get(ptr %tensor, ptr @tensor_gradient)
  %without = icmp eq ptr %gradient, %none
  br i1 %without, label %no, label %has.node
has.node:
  %node = call ptr @get(ptr %gradient, ptr @gradient_node)
  %leaf = icmp eq ptr %node, %none
  br i1 %leaf, label %is.required, label %yes
is.required:
  %required = call ptr @get(ptr %gradient, ptr @gradient_required)
  %false = load ptr, ptr @false
  %unwanted = icmp eq ptr %required, %false
  br i1 %unwanted, label %no, label %yes
yes:
  ret i64 1
no:
  ret i64 0
strange:
  ret i64 2
}

; The bits of the operands whose gradients are wanted, by their keys; -1 where Python has to look.
define internal i64 @needed_of(ptr %flat, ptr %keys, i64 %count) {
entry:
  %autograd = load i64, ptr @autograd_key
  br label %next
next:
  %i = phi i64 [ 0, %entry ], [ %i.next, %counted ]
  %needed = phi i64 [ 0, %entry ], [ %needed.next, %counted ]
  %all = icmp eq i64 %i, %count
  br i1 %all, label %done, label %look
look:
  %own = call i64 @word(ptr %keys, i64 %i)
  %has = and i64 %own, %autograd
  %constant = icmp eq i64 %has, 0
  br i1 %constant, label %counted, label %ask
ask:
  %operand.at = getelementptr ptr, ptr %flat, i64 %i
  %operand = load ptr, ptr %operand.at
  %wanted = call i64 @requires(ptr %operand)
  %strange = icmp eq i64 %wanted, 2
  br i1 %strange, label %python, label %counted
counted:
  %bit = phi i64 [ 0, %look ], [ %wanted, %ask ]
  %placed = shl i64 %bit, %i
  %needed.next = or i64 %needed, %placed
  %i.next = add i64 %i, 1
  br label %next
done:
  ret i64 %needed
python:
  ret i64 -1
}
"""
