"""Lane masks from counts: one 32-bit comparison, for any element type in the lanes."""

from __future__ import annotations

from rushlight.codegen.llvm.builder.scope import Scope, splat
from rushlight.codegen.llvm.builder.vector_types import lane_numbers


def run_below(scope: Scope, end: str) -> None:
    """Runs a scope for the lanes l with base + l < end, where base < end."""
    lanes = scope.vector
    assert lanes is not None
    left = scope.let(f"sub i64 {end}, {lanes.base}")
    run_first(scope, scope.let(f"call i64 @llvm.umin.i64(i64 {left}, i64 {lanes.width})"))


def run_first(scope: Scope, count: str) -> None:
    """Runs a scope for its first lanes; count is an i64 from 0 to their number."""
    lanes = scope.vector
    assert lanes is not None
    lanes.count, lanes.mask = count, first_lanes(scope, count, lanes.width)


def first_lanes(scope: Scope, count: str, width: int, relation: str = "ult") -> str:
    """The lanes l with `l relation count` (unsigned); count is an i64 from 0 to `width`."""
    words = f"<{width} x i32>"
    counts = splat(scope, words, "i32", scope.let(f"trunc i64 {count} to i32"), width)
    return scope.let(f"icmp {relation} {words} {lane_numbers(width, 'i32')}, {counts}")


def clamped(scope: Scope, count: str, width: int, step: int = 1) -> str:
    """Converts a signed count of elements to 0 to `width` lanes of `step` elements, rounded up."""
    least = scope.let(f"call i64 @llvm.smax.i64(i64 {count}, i64 0)")
    most = scope.let(f"call i64 @llvm.smin.i64(i64 {least}, i64 {width * step})")
    return most if step == 1 else scope.let(f"udiv i64 {scope.let(f'add i64 {most}, {step - 1}')}, {step}")
