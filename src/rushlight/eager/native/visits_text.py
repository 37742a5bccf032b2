"""What a walk through the tape knows of steps, as LLVM IR: visits by step, users that are waited for, and turns.

Visits are an array, and a table with open addressing finds them by the step's address. A visit counts the users of its
step that have not run yet, and has the list of gradients that have arrived. Visits whose users have all run wait in a
heap, of which the latest step goes first, and of steps of the same number the one that was ready first.
"""

PYTHON_SYMBOLS = (
    "PyErr_NoMemory",
    "PyMem_Calloc",
    "PyMem_Free",
    "PyMem_Malloc",
    "PyMem_Realloc",
    "PyObject_IsInstance",
    "PyObject_IsTrue",
)

OBJECTS = ("node_class", "folds_name", "merges_name", "rest_name")
"""Objects that the text refers to."""

VISITS = """
declare ptr @PyErr_NoMemory()
declare ptr @PyMem_Calloc(i64, i64)
declare void @PyMem_Free(ptr)
declare ptr @PyMem_Malloc(i64)
declare ptr @PyMem_Realloc(ptr, i64)
declare i32 @PyObject_IsInstance(ptr, ptr)
declare i32 @PyObject_IsTrue(ptr)

define internal ptr @visit(ptr %walk, i64 %number) alwaysinline {
  %visits = call ptr @pointer(ptr %walk, i64 WALK_VISITS)
  %at = mul i64 %number, VISIT_WORDS
  %visit = getelementptr i64, ptr %visits, i64 %at
  ret ptr %visit
}

define internal i64 @first_place(ptr %walk, ptr %step) alwaysinline {
  %word = ptrtoint ptr %step to i64
  %spread = mul i64 %word, HASH_FACTOR
  %high = lshr i64 %spread, HASH_SHIFT
  %mask = call i64 @word(ptr %walk, i64 WALK_MASK)
  %first = and i64 %high, %mask
  ret i64 %first
}

; Where in the table a step's visit is, or would be entered.
define internal ptr @place_of(ptr %walk, ptr %step) {
entry:
  %places = call ptr @pointer(ptr %walk, i64 WALK_PLACES)
  %mask = call i64 @word(ptr %walk, i64 WALK_MASK)
  %first = call i64 @first_place(ptr %walk, ptr %step)
  br label %probe
probe:
  %at = phi i64 [ %first, %entry ], [ %at.next, %further ]
  %past = call i64 @word(ptr %places, i64 %at)
  %empty = icmp eq i64 %past, 0
  br i1 %empty, label %found, label %compare
compare:
  %number = sub i64 %past, 1
  %visit = call ptr @visit(ptr %walk, i64 %number)
  %visited = call ptr @pointer(ptr %visit, i64 VISIT_STEP)
  %same = icmp eq ptr %visited, %step
  br i1 %same, label %found, label %further
further:
  %after = add i64 %at, 1
  %at.next = and i64 %after, %mask
  br label %probe
found:
  %place = getelementptr i64, ptr %places, i64 %at
  ret ptr %place
}

; The number of a step's visit, or -1.
define internal i64 @find_visit(ptr %walk, ptr %step) {
  %place = call ptr @place_of(ptr %walk, ptr %step)
  %past = load i64, ptr %place
  %number = sub i64 %past, 1
  ret i64 %number
}

; Enters a visit in the table.
define internal void @place_visit(ptr %walk, i64 %number) {
  %visit = call ptr @visit(ptr %walk, i64 %number)
  %step = call ptr @pointer(ptr %visit, i64 VISIT_STEP)
  %place = call ptr @place_of(ptr %walk, ptr %step)
  %past.number = add i64 %number, 1
  store i64 %past.number, ptr %place
  ret void
}

; Makes room for `capacity` visits, a power of two: whether there was memory.
define internal i1 @make_room(ptr %walk, i64 %capacity) {
entry:
  %before = call ptr @pointer(ptr %walk, i64 WALK_VISITS)
  %words = mul i64 %capacity, VISIT_WORDS
  %bytes = mul i64 %words, 8
  %visits = call ptr @PyMem_Realloc(ptr %before, i64 %bytes)
  %no.visits = icmp eq ptr %visits, null
  br i1 %no.visits, label %failed, label %table
table:
  call void @set_pointer(ptr %walk, i64 WALK_VISITS, ptr %visits)
  %place.count = mul i64 %capacity, 4
  %places = call ptr @PyMem_Calloc(i64 %place.count, i64 8)
  %no.places = icmp eq ptr %places, null
  br i1 %no.places, label %failed, label %exchange
exchange:
  %old = call ptr @pointer(ptr %walk, i64 WALK_PLACES)
  call void @PyMem_Free(ptr %old)
  call void @set_pointer(ptr %walk, i64 WALK_PLACES, ptr %places)
  %mask = sub i64 %place.count, 1
  call void @set_word(ptr %walk, i64 WALK_MASK, i64 %mask)
  call void @set_word(ptr %walk, i64 WALK_CAPACITY, i64 %capacity)
  %count = call i64 @word(ptr %walk, i64 WALK_COUNT)
  br label %next
next:
  %i = phi i64 [ 0, %exchange ], [ %i.next, %one ]
  %all = icmp eq i64 %i, %count
  br i1 %all, label %done, label %one
one:
  call void @place_visit(ptr %walk, i64 %i)
  %i.next = add i64 %i, 1
  br label %next
done:
  ret i1 true
failed:
  %ignored = call ptr @PyErr_NoMemory()
  ret i1 false
}

; The number of a step's visit, which is new if there was none; -1 with an error.
define internal i64 @visit_for(ptr %walk, ptr %step) {
entry:
  %known = call i64 @find_visit(ptr %walk, ptr %step)
  %is.new = icmp slt i64 %known, 0
  br i1 %is.new, label %room, label %old
old:
  ret i64 %known
room:
  %count = call i64 @word(ptr %walk, i64 WALK_COUNT)
  %capacity = call i64 @word(ptr %walk, i64 WALK_CAPACITY)
  %full = icmp eq i64 %count, %capacity
  br i1 %full, label %grow, label %add
grow:
  %doubled = mul i64 %capacity, 2
  %grown = call i1 @make_room(ptr %walk, i64 %doubled)
  br i1 %grown, label %add, label %failed
add:
  %visit = call ptr @visit(ptr %walk, i64 %count)
  call void @Py_IncRef(ptr %step)
  call void @set_pointer(ptr %visit, i64 VISIT_STEP, ptr %step)
  call void @set_word(ptr %visit, i64 VISIT_WAITING, i64 0)
  call void @set_pointer(ptr %visit, i64 VISIT_GRADIENTS, ptr null)
  call void @set_word(ptr %visit, i64 VISIT_LEADS, i64 1)
  call void @set_word(ptr %visit, i64 VISIT_WANTED, i64 0)
  %after = add i64 %count, 1
  call void @set_word(ptr %walk, i64 WALK_COUNT, i64 %after)
  call void @place_visit(ptr %walk, i64 %count)
  ret i64 %count
failed:
  ret i64 -1
}

; Whether an attribute of a step is false; an error is one that says no.
define internal i1 @lacks(ptr %step, ptr %name) {
entry:
  %value = call ptr @PyObject_GetAttr(ptr %step, ptr %name)
  %absent = icmp eq ptr %value, null
  br i1 %absent, label %no, label %ask
ask:
  %truth = call i32 @PyObject_IsTrue(ptr %value)
  call void @Py_DecRef(ptr %value)
  %is.false = icmp eq i32 %truth, 0
  ret i1 %is.false
no:
  ret i1 false
}

; Whether a step waits for no others, and gives sums to none.
define internal i1 @is_simple(ptr %step) {
entry:
  %class = call ptr @class_of(ptr %step)
  %step.class = load ptr, ptr @step_class
  %sink.class = load ptr, ptr @sink_class
  %operator = icmp eq ptr %class, %step.class
  %sink = icmp eq ptr %class, %sink.class
  %known = or i1 %operator, %sink
  br i1 %known, label %yes, label %is.node
is.node:
  %node.class = load ptr, ptr @node_class
  %node = call i32 @PyObject_IsInstance(ptr %step, ptr %node.class)
  %is.one = icmp eq i32 %node, 1
  br i1 %is.one, label %look, label %no
look:
  %folds.name = load ptr, ptr @folds_name
  %merges.name = load ptr, ptr @merges_name
  %rest.name = load ptr, ptr @rest_name
  %no.folds = call i1 @lacks(ptr %step, ptr %folds.name)
  %no.merges = call i1 @lacks(ptr %step, ptr %merges.name)
  %no.rest = call i1 @lacks(ptr %step, ptr %rest.name)
  %some = and i1 %no.folds, %no.merges
  %all = and i1 %some, %no.rest
  ret i1 %all
yes:
  ret i1 true
no:
  ret i1 false
}

; Visits for all steps below those that are there, and how many users each has: 1, or 0 where Python has to walk, or
; there is an error.
define internal i1 @collect(ptr %walk) {
entry:
  %none = load ptr, ptr @none
  br label %next
next:
  %i = phi i64 [ 0, %entry ], [ %i.next, %visited ]
  %count = call i64 @word(ptr %walk, i64 WALK_COUNT)
  %all = icmp eq i64 %i, %count
  br i1 %all, label %done, label %look
look:
  %visit = call ptr @visit(ptr %walk, i64 %i)
  %step = call ptr @pointer(ptr %visit, i64 VISIT_STEP)
  %simple = call i1 @is_simple(ptr %step)
  br i1 %simple, label %begin, label %no
begin:
  %edges = call ptr @get(ptr %step, ptr @step_edges)
  %edge.count = call i64 @PyTuple_Size(ptr %edges)
  %no.tuple = icmp slt i64 %edge.count, 0
  br i1 %no.tuple, label %no, label %next.edge
next.edge:
  %j = phi i64 [ 0, %begin ], [ %j.next, %counted ]
  %ended = icmp sge i64 %j, %edge.count
  br i1 %ended, label %visited, label %look.edge
look.edge:
  %edge = call ptr @PyTuple_GetItem(ptr %edges, i64 %j)
  %constant = icmp eq ptr %edge, %none
  br i1 %constant, label %counted, label %lead
lead:
  %below = call ptr @PyTuple_GetItem(ptr %edge, i64 0)
  %number = call i64 @visit_for(ptr %walk, ptr %below)
  %failed = icmp slt i64 %number, 0
  br i1 %failed, label %no, label %count.user
count.user:
  %user = call ptr @visit(ptr %walk, i64 %number)
  %waiting = call i64 @word(ptr %user, i64 VISIT_WAITING)
  %more = add i64 %waiting, 1
  call void @set_word(ptr %user, i64 VISIT_WAITING, i64 %more)
  br label %counted
counted:
  %j.next = add i64 %j, 1
  br label %next.edge
visited:
  %i.next = add i64 %i, 1
  br label %next
done:
  ret i1 true
no:
  ret i1 false
}

; Whether one turn of the heap comes before another one.
define internal i1 @comes_before(ptr %heap, i64 %a, i64 %b) {
  %a.at = mul i64 %a, TURN_WORDS
  %b.at = mul i64 %b, TURN_WORDS
  %a.turn = getelementptr i64, ptr %heap, i64 %a.at
  %b.turn = getelementptr i64, ptr %heap, i64 %b.at
  %a.sequence = call i64 @word(ptr %a.turn, i64 TURN_SEQUENCE)
  %b.sequence = call i64 @word(ptr %b.turn, i64 TURN_SEQUENCE)
  %a.order = call i64 @word(ptr %a.turn, i64 TURN_ORDER)
  %b.order = call i64 @word(ptr %b.turn, i64 TURN_ORDER)
  %later = icmp sgt i64 %a.sequence, %b.sequence
  %equal = icmp eq i64 %a.sequence, %b.sequence
  %sooner = icmp slt i64 %a.order, %b.order
  %first = and i1 %equal, %sooner
  %before = or i1 %later, %first
  ret i1 %before
}

define internal void @exchange(ptr %heap, i64 %a, i64 %b) {
  %a.at = mul i64 %a, TURN_WORDS
  %b.at = mul i64 %b, TURN_WORDS
  %a.turn = getelementptr i64, ptr %heap, i64 %a.at
  %b.turn = getelementptr i64, ptr %heap, i64 %b.at
  %a.value = load [TURN_WORDS x i64], ptr %a.turn
  %b.value = load [TURN_WORDS x i64], ptr %b.turn
  store [TURN_WORDS x i64] %b.value, ptr %a.turn
  store [TURN_WORDS x i64] %a.value, ptr %b.turn
  ret void
}

; Lets a visit wait for its turn. The heap has room for all.
define internal void @push(ptr %walk, i64 %number) {
entry:
  %heap = call ptr @pointer(ptr %walk, i64 WALK_HEAP)
  %count = call i64 @word(ptr %walk, i64 WALK_READY)
  %order = call i64 @word(ptr %walk, i64 WALK_ORDER)
  %visit = call ptr @visit(ptr %walk, i64 %number)
  %step = call ptr @pointer(ptr %visit, i64 VISIT_STEP)
  %sequence.object = call ptr @get(ptr %step, ptr @step_sequence)
  %sequence = call i64 @PyLong_AsLongLong(ptr %sequence.object)
  %last.at = mul i64 %count, TURN_WORDS
  %last = getelementptr i64, ptr %heap, i64 %last.at
  call void @set_word(ptr %last, i64 TURN_SEQUENCE, i64 %sequence)
  call void @set_word(ptr %last, i64 TURN_ORDER, i64 %order)
  call void @set_word(ptr %last, i64 TURN_VISIT, i64 %number)
  %more = add i64 %count, 1
  %order.next = add i64 %order, 1
  call void @set_word(ptr %walk, i64 WALK_READY, i64 %more)
  call void @set_word(ptr %walk, i64 WALK_ORDER, i64 %order.next)
  br label %rise
rise:
  %at = phi i64 [ %count, %entry ], [ %above, %up ]
  %top = icmp eq i64 %at, 0
  br i1 %top, label %done, label %compare
compare:
  %less = sub i64 %at, 1
  %above = lshr i64 %less, 1
  %wrong = call i1 @comes_before(ptr %heap, i64 %at, i64 %above)
  br i1 %wrong, label %up, label %done
up:
  call void @exchange(ptr %heap, i64 %at, i64 %above)
  br label %rise
done:
  ret void
}

; The visit whose turn it is; there is one.
define internal i64 @pop(ptr %walk) {
entry:
  %heap = call ptr @pointer(ptr %walk, i64 WALK_HEAP)
  %count = call i64 @word(ptr %walk, i64 WALK_READY)
  %number = call i64 @word(ptr %heap, i64 TURN_VISIT)
  %left = sub i64 %count, 1
  call void @set_word(ptr %walk, i64 WALK_READY, i64 %left)
  call void @exchange(ptr %heap, i64 0, i64 %left)
  br label %sink
sink:
  %at = phi i64 [ 0, %entry ], [ %best, %down ]
  %twice = mul i64 %at, 2
  %one = add i64 %twice, 1
  %two = add i64 %twice, 2
  %has.one = icmp slt i64 %one, %left
  br i1 %has.one, label %choose, label %done
choose:
  %has.two = icmp slt i64 %two, %left
  br i1 %has.two, label %both, label %compare
both:
  %second = call i1 @comes_before(ptr %heap, i64 %two, i64 %one)
  %better = select i1 %second, i64 %two, i64 %one
  br label %compare
compare:
  %best = phi i64 [ %one, %choose ], [ %better, %both ]
  %wrong = call i1 @comes_before(ptr %heap, i64 %best, i64 %at)
  br i1 %wrong, label %down, label %done
down:
  call void @exchange(ptr %heap, i64 %at, i64 %best)
  br label %sink
done:
  ret i64 %number
}
"""
