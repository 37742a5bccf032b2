"""`memcpy`, `memmove`, `memset` and `fmaf`, for libraries that are loaded without C's."""

from __future__ import annotations

from collections.abc import Iterable

_COPY = """
define hidden ptr @{name}(ptr %to, ptr %from, i64 %count) nobuiltin "no-builtins" {{
entry:
  %after = icmp ugt ptr %to, %from
  br i1 %after, label %down, label %up
up:
  %i = phi i64 [ 0, %entry ], [ %i_next, %up_step ]
  %up_more = icmp ult i64 %i, %count
  br i1 %up_more, label %up_step, label %done
up_step:
  %up_from = getelementptr i8, ptr %from, i64 %i
  %up_to = getelementptr i8, ptr %to, i64 %i
  %up_byte = load volatile i8, ptr %up_from, align 1
  store volatile i8 %up_byte, ptr %up_to, align 1
  %i_next = add i64 %i, 1
  br label %up
down:
  %j = phi i64 [ %count, %entry ], [ %j_next, %down_step ]
  %down_more = icmp ne i64 %j, 0
  br i1 %down_more, label %down_step, label %done
down_step:
  %j_next = sub i64 %j, 1
  %down_from = getelementptr i8, ptr %from, i64 %j_next
  %down_to = getelementptr i8, ptr %to, i64 %j_next
  %down_byte = load volatile i8, ptr %down_from, align 1
  store volatile i8 %down_byte, ptr %down_to, align 1
  br label %down
done:
  ret ptr %to
}}
"""
# Volatile accesses keep LLVM from recognising the loops as the functions that they define.
_FILL = """
define hidden ptr @memset(ptr %to, i32 %value, i64 %count) nobuiltin "no-builtins" {
entry:
  %byte = trunc i32 %value to i8
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %step ]
  %more = icmp ult i64 %i, %count
  br i1 %more, label %step, label %done
step:
  %at = getelementptr i8, ptr %to, i64 %i
  store volatile i8 %byte, ptr %at, align 1
  %next = add i64 %i, 1
  br label %loop
done:
  ret ptr %to
}
"""


def emit_memory(names: Iterable[str]) -> str:
    """The functions of these names."""
    return "\n".join([_FILL if name == "memset" else _COPY.format(name=name) for name in sorted(names)])


_FMA = """
define hidden float @fmaf(float %a, float %b, float %c) nobuiltin "no-builtins" noinline {
  %a.wide = fpext float %a to double
  %b.wide = fpext float %b to double
  %c.wide = fpext float %c to double
  %product = fmul double %a.wide, %b.wide
  %sum = fadd double %product, %c.wide
  %part = fsub double %sum, %product
  %back = fsub double %sum, %part
  %low = fsub double %product, %back
  %high = fsub double %c.wide, %part
  %rest = fadd double %low, %high
  %bits = bitcast double %sum to i64
  %last = and i64 %bits, 1
  %even = icmp eq i64 %last, 0
  %inexact = fcmp one double %rest, 0.0
  %absolute = call double @llvm.fabs.f64(double %sum)
  %finite = fcmp olt double %absolute, 0x7FF0000000000000
  %moves = and i1 %even, %inexact
  %odd = and i1 %moves, %finite
  %up = fcmp ogt double %sum, 0.0
  %more = fcmp ogt double %rest, 0.0
  %outward = icmp eq i1 %up, %more
  %step = select i1 %outward, i64 1, i64 -1
  %moved = add i64 %bits, %step
  %chosen = select i1 %odd, i64 %moved, i64 %bits
  %rounded = bitcast i64 %chosen to double
  %result = fptrunc double %rounded to float
  ret float %result
}
"""
# The product of two floats is exact as a double. A sum that is rounded to odd can be rounded again: Boldo and
# Melquiond, "Emulation of FMA and correctly rounded sums: proved algorithms using rounding to odd" (2008).


def emit_fused() -> str:
    """`fmaf`, for machines without an instruction for it and libraries without C's."""
    return _FMA
