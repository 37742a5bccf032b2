"""Where workers run, as LLVM IR: off the processor of the caller who wants their help.

A kernel that wakes a thread may put it on the processor of whoever woke it, and leave both there for milliseconds with
another processor idle. So a caller gives a worker that sleeps, or that was last seen on the caller's own processor, the
caller's affinity without that processor. It stays so until a caller on another one asks: as long as callers keep their
processors this costs nothing. Systems without these calls leave placement to the kernel.
"""

import ctypes

# Byte offsets in a worker's line of the pool. Processors are kept as their number plus 1, so that 0 is none.
PROCESSOR = 16  # where the worker was when it joined last
AVOIDED = 24  # the processor that its affinity leaves out
THREAD = 32  # the system's number of its thread

SYMBOLS = ("sched_getcpu", "sched_getaffinity", "sched_setaffinity")

_MASK_BYTES = 128  # 1,024 processors

_LINUX = f"""
declare i32 @sched_getcpu()
declare i32 @sched_getaffinity(i32, i64, ptr)
declare i32 @sched_setaffinity(i32, i64, ptr)

; The processor that runs this.
define internal i64 @processor() {{
  %number = call i32 @sched_getcpu()
  %plus = add i32 %number, 1
  %wide = sext i32 %plus to i64
  ret i64 %wide
}}

define internal void @note_processor(ptr %worker) {{
  %here = call i64 @processor()
  %at = getelementptr i8, ptr %worker, i64 {PROCESSOR}
  store atomic i64 %here, ptr %at monotonic, align 8
  ret void
}}

; Keeps a worker off the caller's processor, where it is or may be put.
define internal void @keep_off(ptr %worker, i64 %here, i1 %sleeps) {{
entry:
  %mask = alloca [{_MASK_BYTES} x i8], align 8
  %at = getelementptr i8, ptr %worker, i64 {PROCESSOR}
  %processor = load atomic i64, ptr %at monotonic, align 8
  %same = icmp eq i64 %processor, %here
  %may.meet = or i1 %same, %sleeps
  %avoided.at = getelementptr i8, ptr %worker, i64 {AVOIDED}
  %avoided = load i64, ptr %avoided.at
  %other = icmp ne i64 %avoided, %here
  %bit = sub i64 %here, 1
  %known = icmp ult i64 %bit, {_MASK_BYTES * 8}
  %may.meet.known = and i1 %may.meet, %known
  %wanted = and i1 %may.meet.known, %other
  br i1 %wanted, label %look, label %done
look:
  %status = call i32 @sched_getaffinity(i32 0, i64 {_MASK_BYTES}, ptr %mask)
  %failed = icmp slt i32 %status, 0
  br i1 %failed, label %done, label %move
move:
  %byte = lshr i64 %bit, 3
  %in.mask = getelementptr i8, ptr %mask, i64 %byte
  %old = load i8, ptr %in.mask
  %low = trunc i64 %bit to i8
  %shift = and i8 %low, 7
  %one = shl i8 1, %shift
  %others = xor i8 %one, -1
  %new = and i8 %old, %others
  store i8 %new, ptr %in.mask
  %thread.at = getelementptr i8, ptr %worker, i64 {THREAD}
  %thread = load i32, ptr %thread.at
  ; Refused where no other processor is allowed.
  %refused = call i32 @sched_setaffinity(i32 %thread, i64 {_MASK_BYTES}, ptr %mask)
  %moved = icmp eq i32 %refused, 0
  br i1 %moved, label %keep, label %done
keep:
  store i64 %here, ptr %avoided.at
  br label %done
done:
  ret void
}}
"""

_ELSEWHERE = """
define internal i64 @processor() alwaysinline {
  ret i64 0
}
define internal void @note_processor(ptr %worker) alwaysinline {
  ret void
}
define internal void @keep_off(ptr %worker, i64 %here, i1 %sleeps) alwaysinline {
  ret void
}
"""


def available() -> bool:
    """Whether the C library knows where a thread runs and can say where it may."""
    return all(hasattr(ctypes.pythonapi, name) for name in SYMBOLS)


def placement_text(placed: bool) -> str:
    """`@processor`, `@note_processor` and `@keep_off`; they do nothing where placement is not known."""
    return _LINUX if placed else _ELSEWHERE
