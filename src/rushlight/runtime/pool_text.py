"""The thread pool as LLVM IR: `parallel_for`, the workers' loop, and the calls that stop and lock it.

The pool is an array of words, each line of 8 written by one party:

    line 0  busy: 1 while a caller has the pool
    line 1  gate: epoch << 32 | WAITING | OPEN | number of workers inside
    line 2  next: the first index that nobody has claimed
    line 3  the job: function, args, n, the grain, and how many parts what is left is cut into, times the grain
    line 4  settings: workers that may join, stop flag, turns to spin, the caller's lock
    line 5+ one per worker: asleep flag, its lock, and where it runs (see `placement_text`)

A caller publishes a job by a new epoch with OPEN set and wakes who sleeps. A worker joins by adding 1 to the gate while
it is open, claims chunks until none is left, and subtracts 1. The caller does the same, closes the gate and waits for
the number to reach 0: first spinning, then, having set WAITING, on its lock, which the last worker releases. Locks are
Python's `PyThread` locks (a semaphore, a futex underneath): exported on every platform and free of the interpreter.
"""

MAX_WORKERS = 256
# A claim takes one of so many shares of what is left for each thread: large chunks first, and small ones at the end,
# so that no thread waits long for another.
SHARES_PER_THREAD = 2
LINE_WORDS = 8
FIRST_WORKER_LINE = 5
POOL_WORDS = LINE_WORDS * (FIRST_WORKER_LINE + MAX_WORKERS)

# Byte offsets in the pool.
GATE = 64
NEXT = 128
FUNCTION, ARGS, COUNT, GRAIN, PARTS = 192, 200, 208, 216, 224
JOINERS, STOP, SPIN, CALLER_LOCK = 256, 264, 272, 280
WORKERS = FIRST_WORKER_LINE * 64
ASLEEP, WORKER_LOCK = 0, 8

CONTEXT_POOL_BYTES = 48  # word 6 of a context

_OPEN = 1 << 16
_WAITING = 1 << 17
_INSIDE = _OPEN - 1

PYTHON_SYMBOLS = ("PyThread_acquire_lock", "PyThread_release_lock")

_X86_ENVIRONMENT = """
declare void @llvm.x86.sse.stmxcsr(ptr)
declare void @llvm.x86.sse.ldmxcsr(ptr)
declare void @llvm.x86.sse2.pause()
@default_environment = internal constant i32 8064
define internal void @enter_environment(ptr %saved) alwaysinline {
  call void @llvm.x86.sse.stmxcsr(ptr %saved)
  call void @llvm.x86.sse.ldmxcsr(ptr @default_environment)
  ret void
}
define internal void @leave_environment(ptr %saved) alwaysinline {
  call void @llvm.x86.sse.ldmxcsr(ptr %saved)
  ret void
}
define internal void @pause() alwaysinline {
  call void @llvm.x86.sse2.pause()
  ret void
}
"""

_ARM_ENVIRONMENT = """
declare i64 @llvm.aarch64.get.fpcr()
declare void @llvm.aarch64.set.fpcr(i64)
declare void @llvm.aarch64.hint(i32)
define internal void @enter_environment(ptr %saved) alwaysinline {
  %old = call i64 @llvm.aarch64.get.fpcr()
  store i64 %old, ptr %saved
  call void @llvm.aarch64.set.fpcr(i64 0)
  ret void
}
define internal void @leave_environment(ptr %saved) alwaysinline {
  %old = load i64, ptr %saved
  call void @llvm.aarch64.set.fpcr(i64 %old)
  ret void
}
define internal void @pause() alwaysinline {
  call void @llvm.aarch64.hint(i32 1)
  ret void
}
"""

_OTHER_ENVIRONMENT = """
define internal void @enter_environment(ptr %saved) alwaysinline {
  ret void
}
define internal void @leave_environment(ptr %saved) alwaysinline {
  ret void
}
define internal void @pause() alwaysinline {
  ret void
}
"""

_ENVIRONMENTS = {"x86_64": _X86_ENVIRONMENT, "aarch64": _ARM_ENVIRONMENT, "arm64": _ARM_ENVIRONMENT}

_SHARE = f"""
declare i32 @PyThread_acquire_lock(ptr, i32)
declare void @PyThread_release_lock(ptr)

; Claims chunks of the published job until none is left: whole grains, fewer and fewer of them.
define internal void @run_share(ptr %pool) {{
entry:
  %saved = alloca i64
  %fn.at = getelementptr i8, ptr %pool, i64 {FUNCTION}
  %fn = load ptr, ptr %fn.at
  %args.at = getelementptr i8, ptr %pool, i64 {ARGS}
  %args = load ptr, ptr %args.at
  %n.at = getelementptr i8, ptr %pool, i64 {COUNT}
  %n = load i64, ptr %n.at
  %grain.at = getelementptr i8, ptr %pool, i64 {GRAIN}
  %grain = load i64, ptr %grain.at
  %parts.at = getelementptr i8, ptr %pool, i64 {PARTS}
  %parts = load i64, ptr %parts.at
  %next.at = getelementptr i8, ptr %pool, i64 {NEXT}
  call void @enter_environment(ptr %saved)
  br label %look
look:
  %begin = load atomic i64, ptr %next.at monotonic, align 8
  %left = sub i64 %n, %begin
  %some = icmp sgt i64 %left, 0
  br i1 %some, label %claim, label %done
claim:
  %grains = udiv i64 %left, %parts
  %whole = mul i64 %grains, %grain
  %wanted = call i64 @llvm.smax.i64(i64 %whole, i64 %grain)
  %chunk = call i64 @llvm.smin.i64(i64 %wanted, i64 %left)
  %end = add i64 %begin, %chunk
  %pair = cmpxchg ptr %next.at, i64 %begin, i64 %end monotonic monotonic
  %got = extractvalue {{ i64, i1 }} %pair, 1
  br i1 %got, label %work, label %look
work:
  call void %fn(ptr %args, i64 %begin, i64 %end)
  br label %look
done:
  call void @leave_environment(ptr %saved)
  ret void
}}
"""

_PARALLEL_FOR = f"""
define void @parallel_for(ptr %ctx, ptr %fn, ptr %args, i64 %n, i64 %grain) {{
entry:
  %saved = alloca i64
  %pool.at = getelementptr i8, ptr %ctx, i64 {CONTEXT_POOL_BYTES}
  %pool = load ptr, ptr %pool.at
  %least = call i64 @llvm.smax.i64(i64 %grain, i64 1)
  %small = icmp sle i64 %n, %least
  br i1 %small, label %serial, label %look
look:
  %joiners.at = getelementptr i8, ptr %pool, i64 {JOINERS}
  %joiners = load atomic i64, ptr %joiners.at monotonic, align 8
  %alone = icmp eq i64 %joiners, 0
  br i1 %alone, label %serial, label %try
try:
  %pair = cmpxchg ptr %pool, i64 0, i64 1 acquire monotonic
  %got = extractvalue {{ i64, i1 }} %pair, 1
  br i1 %got, label %publish, label %serial
publish:
  %threads = add i64 %joiners, 1
  %shares = mul i64 %threads, {SHARES_PER_THREAD}
  %parts = mul i64 %shares, %least
  %fn.at = getelementptr i8, ptr %pool, i64 {FUNCTION}
  store ptr %fn, ptr %fn.at
  %args.at = getelementptr i8, ptr %pool, i64 {ARGS}
  store ptr %args, ptr %args.at
  %n.at = getelementptr i8, ptr %pool, i64 {COUNT}
  store i64 %n, ptr %n.at
  %grain.at = getelementptr i8, ptr %pool, i64 {GRAIN}
  store i64 %least, ptr %grain.at
  %parts.at = getelementptr i8, ptr %pool, i64 {PARTS}
  store i64 %parts, ptr %parts.at
  %next.at = getelementptr i8, ptr %pool, i64 {NEXT}
  store atomic i64 0, ptr %next.at monotonic, align 8
  %gate.at = getelementptr i8, ptr %pool, i64 {GATE}
  %old.gate = load atomic i64, ptr %gate.at monotonic, align 8
  %old.epoch = lshr i64 %old.gate, 32
  %epoch = add i64 %old.epoch, 1
  %epoch.high = shl i64 %epoch, 32
  %gate = or i64 %epoch.high, {_OPEN}
  %was = atomicrmw xchg ptr %gate.at, i64 %gate seq_cst
  %here = call i64 @processor()
  ; One grain is the caller's: wake no more workers than there are others.
  %n.less = sub i64 %n, 1
  %others = sdiv i64 %n.less, %least
  %wanted = call i64 @llvm.smin.i64(i64 %others, i64 %joiners)
  call void @wake(ptr %pool, i64 %wanted, i64 %here)
  call void @run_share(ptr %pool)
  %open.gate = atomicrmw and ptr %gate.at, i64 {~_OPEN} acq_rel
  %spin.at = getelementptr i8, ptr %pool, i64 {SPIN}
  %spin = load i64, ptr %spin.at
  br label %wait
wait:
  %left = phi i64 [ %spin, %publish ], [ %fewer, %again ]
  %now = load atomic i64, ptr %gate.at acquire, align 8
  %inside = and i64 %now, {_INSIDE}
  %empty = icmp eq i64 %inside, 0
  br i1 %empty, label %finish, label %turn
turn:
  %tired = icmp sle i64 %left, 0
  br i1 %tired, label %block, label %again
again:
  call void @pause()
  %fewer = sub i64 %left, 1
  br label %wait
block:
  %before = atomicrmw or ptr %gate.at, i64 {_WAITING} acq_rel
  %before.inside = and i64 %before, {_INSIDE}
  %gone = icmp eq i64 %before.inside, 0
  br i1 %gone, label %finish, label %sleep
sleep:
  %lock.at = getelementptr i8, ptr %pool, i64 {CALLER_LOCK}
  %lock = load ptr, ptr %lock.at
  %locked = call i32 @PyThread_acquire_lock(ptr %lock, i32 1)
  br label %finish
finish:
  store atomic i64 0, ptr %pool release, align 8
  ret void
serial:
  call void @enter_environment(ptr %saved)
  call void %fn(ptr %args, i64 0, i64 %n)
  call void @leave_environment(ptr %saved)
  ret void
}}

declare i64 @llvm.smax.i64(i64, i64)
declare i64 @llvm.smin.i64(i64, i64)

; Wakes those of the first %count workers that sleep, and keeps all of them off the processor %here (0 for none).
define internal void @wake(ptr %pool, i64 %count, i64 %here) {{
entry:
  br label %head
head:
  %i = phi i64 [ 0, %entry ], [ %i.next, %next ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %look, label %done
look:
  %far = mul i64 %i, 64
  %offset = add i64 %far, {WORKERS}
  %worker = getelementptr i8, ptr %pool, i64 %offset
  %asleep = load atomic i64, ptr %worker seq_cst, align 8
  %maybe = icmp ne i64 %asleep, 0
  call void @keep_off(ptr %worker, i64 %here, i1 %maybe)
  br i1 %maybe, label %take, label %next
take:
  %was = atomicrmw xchg ptr %worker, i64 0 acq_rel
  %mine = icmp ne i64 %was, 0
  br i1 %mine, label %release, label %next
release:
  %lock.at = getelementptr i8, ptr %worker, i64 {WORKER_LOCK}
  %lock = load ptr, ptr %lock.at
  call void @PyThread_release_lock(ptr %lock)
  br label %next
next:
  %i.next = add i64 %i, 1
  br label %head
done:
  ret void
}}
"""

_WORKER = f"""
; A worker's life: look at the gate, join, spin a while, sleep; ends when the stop flag is set.
define void @worker_loop(ptr %pool, i64 %index) {{
entry:
  %far = mul i64 %index, 64
  %offset = add i64 %far, {WORKERS}
  %self = getelementptr i8, ptr %pool, i64 %offset
  %lock.at = getelementptr i8, ptr %self, i64 {WORKER_LOCK}
  %lock = load ptr, ptr %lock.at
  %gate.at = getelementptr i8, ptr %pool, i64 {GATE}
  %stop.at = getelementptr i8, ptr %pool, i64 {STOP}
  %spin.at = getelementptr i8, ptr %pool, i64 {SPIN}
  %joiners.at = getelementptr i8, ptr %pool, i64 {JOINERS}
  br label %loop
loop:
  %seen = phi i64 [ 0, %entry ], [ %epoch, %skip ], [ %epoch, %joined ], [ %seen.poll, %rested ]
  %spin = load i64, ptr %spin.at
  br label %poll
poll:
  %seen.poll = phi i64 [ %seen, %loop ], [ %seen.poll, %idle ], [ %seen.poll, %join ]
  %left = phi i64 [ %spin, %loop ], [ %fewer, %idle ], [ %left, %join ]
  %stop = load atomic i64, ptr %stop.at acquire, align 8
  %stopped = icmp ne i64 %stop, 0
  br i1 %stopped, label %end, label %look
look:
  %gate = load atomic i64, ptr %gate.at acquire, align 8
  %epoch = lshr i64 %gate, 32
  %new = icmp ne i64 %epoch, %seen.poll
  br i1 %new, label %fresh, label %idle
idle:
  call void @pause()
  %fewer = sub i64 %left, 1
  %awake = icmp sgt i64 %fewer, 0
  br i1 %awake, label %poll, label %drowsy
fresh:
  %open.bit = and i64 %gate, {_OPEN}
  %open = icmp ne i64 %open.bit, 0
  %joiners = load atomic i64, ptr %joiners.at monotonic, align 8
  %allowed = icmp slt i64 %index, %joiners
  %may = and i1 %open, %allowed
  br i1 %may, label %join, label %skip
skip:
  br label %loop
join:
  %gate.in = add i64 %gate, 1
  %pair = cmpxchg ptr %gate.at, i64 %gate, i64 %gate.in acq_rel acquire
  %in = extractvalue {{ i64, i1 }} %pair, 1
  br i1 %in, label %share, label %poll
share:
  call void @note_processor(ptr %self)
  call void @run_share(ptr %pool)
  %before = atomicrmw sub ptr %gate.at, i64 1 acq_rel
  %inside = and i64 %before, {_INSIDE}
  %last = icmp eq i64 %inside, 1
  %waiting.bit = and i64 %before, {_WAITING}
  %waiting = icmp ne i64 %waiting.bit, 0
  %tell = and i1 %last, %waiting
  br i1 %tell, label %release, label %joined
release:
  %caller.at = getelementptr i8, ptr %pool, i64 {CALLER_LOCK}
  %caller = load ptr, ptr %caller.at
  call void @PyThread_release_lock(ptr %caller)
  br label %joined
joined:
  br label %loop
drowsy:
  ; Say that we sleep, then look once more: whoever publishes does the two in the opposite order.
  %was = atomicrmw xchg ptr %self, i64 1 seq_cst
  %gate.again = load atomic i64, ptr %gate.at seq_cst, align 8
  %stop.again = load atomic i64, ptr %stop.at seq_cst, align 8
  %epoch.again = lshr i64 %gate.again, 32
  %moved = icmp ne i64 %epoch.again, %seen.poll
  %stopping = icmp ne i64 %stop.again, 0
  %news = or i1 %moved, %stopping
  br i1 %news, label %changed.mind, label %sleep
changed.mind:
  %flag = atomicrmw xchg ptr %self, i64 0 acq_rel
  %untaken = icmp ne i64 %flag, 0
  br i1 %untaken, label %rested, label %sleep
sleep:
  %locked = call i32 @PyThread_acquire_lock(ptr %lock, i32 1)
  br label %rested
rested:
  br label %loop
end:
  ret void
}}
"""

_LOCKING = f"""
; Waits until no caller has the pool, and takes it.
define void @take_pool(ptr %pool) {{
entry:
  br label %try
try:
  %pair = cmpxchg ptr %pool, i64 0, i64 1 acquire monotonic
  %got = extractvalue {{ i64, i1 }} %pair, 1
  br i1 %got, label %done, label %again
again:
  call void @pause()
  br label %try
done:
  ret void
}}

define void @free_pool(ptr %pool) {{
  store atomic i64 0, ptr %pool release, align 8
  ret void
}}

define void @stop_workers(ptr %pool) {{
  %stop.at = getelementptr i8, ptr %pool, i64 {STOP}
  store atomic i64 1, ptr %stop.at seq_cst, align 8
  call void @wake(ptr %pool, i64 {MAX_WORKERS}, i64 0)
  ret void
}}
"""


def environment_text(architecture: str) -> str:
    """`@enter_environment`, `@leave_environment` and `@pause`. Rounding is the default, subnormals are kept."""
    return _ENVIRONMENTS.get(architecture, _OTHER_ENVIRONMENT)


def pool_text() -> str:
    """The pool's functions; the module also needs `environment_text` and `placement_text`."""
    return _SHARE + _PARALLEL_FOR + _WORKER + _LOCKING
