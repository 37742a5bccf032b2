"""Where the lanes of an access lie, which are active, and the forms of elements in memory.

Addresses are summed from the outermost scope inwards, so that a loop adds only what depends on its own axis.
"""

from __future__ import annotations

from rushlight.codegen.llvm.builder import sizes
from rushlight.codegen.llvm.builder.scope import Context, Mask, Scope, Value, widen
from rushlight.codegen.llvm.builder.sizes import Affine, Offset, Part
from rushlight.codegen.llvm.builder.vector_types import Shape, shape_of, vector_type
from rushlight.codegen.llvm.kernel.nontemporal import cached_bit
from rushlight.codegen.llvm.kernel.row_scratch import row_address
from rushlight.codegen.llvm.math.terms import value
from rushlight.ir.dtype import bool_
from rushlight.ir.scalar import Buffer, Scalar
from rushlight.ir.target import Target
from rushlight.sym import Size


class LaneAddresses:
    """The addresses of all lanes: lane 0's `pointer`, a `stride` in elements, a vector of `extra` offsets.

    If `repeats` is not 0, that many consecutive lanes have the same element, the next ones the next element.
    """

    __slots__ = ("extra", "pointer", "repeats", "stride")

    def __init__(self, pointer: str, stride: int | str, extra: str | None, repeats: int) -> None:
        self.repeats = repeats
        self.pointer = pointer
        self.stride = stride
        self.extra = extra


def locate(
    ctx: Context, buffer: Buffer, offset: Scalar | Size, scope: Scope, mask: Mask | None, spilled: bool = False
) -> LaneAddresses:
    """The addresses of an element in all lanes; `spilled`: the element may lie in row scratch memory."""
    split = Offset(offset)
    lanes = scope.vector
    affine = sizes.affine(ctx, split.parts, scope)
    extra, repeats = affine.extra, affine.repeats
    steps: dict[Scope, list[str]] = {}
    for factor, term in split.data:
        index = value(ctx, term, scope, mask)
        if index.lanes > 1:
            assert lanes is not None
            repeats = 0
            text = index.text
            vector = vector_type(lanes.width, "i64")
            if factor != 1:
                text = scope.let(f"mul {vector} {text}, splat (i64 {factor})")
            extra = text if extra is None else scope.let(f"add {vector} {extra}, {text}")
        else:
            home = index.scope or scope
            text = index.text if factor == 1 else home.let(f"mul i64 {index.text}, {factor}")
            steps.setdefault(home, []).append(text)
    address, base = ctx.base(buffer), affine.base
    bit = cached_bit(ctx, buffer) if spilled else None
    if bit is not None:
        address, base = row_address(ctx, buffer, bit, base, scope)
    memory = shape_of(buffer.type.dtype).memory
    return LaneAddresses(_pointer(ctx, memory, address, base, steps, scope), affine.stride, extra, repeats)


def _pointer(
    ctx: Context, memory: str, start: str, base: list[Part], data: dict[Scope, list[str]], scope: Scope
) -> str:
    """The address `start` + parts + data, added scope by scope inwards.

    A constant is added last: the loads of neighbours then share all of the address but an immediate displacement.
    """
    address = start
    by_scope: dict[Scope, list[Part]] = {}
    constant = 0
    for part in base:
        if part[1]:
            home = ctx.hoist(ctx.analysis.atoms_axes(part[1]), 0, scope)
            by_scope.setdefault(home, []).append(part)
        else:
            constant += part[0]
    for home in sorted({*by_scope, *data}, key=lambda region: region.depth):
        total = sizes.sum_text(ctx, by_scope[home], home) if home in by_scope else ""
        for offset in data.get(home, ()):
            total = offset if not total else home.let(f"add i64 {total}, {offset}")
        address = home.once((address, total), f"getelementptr {memory}, ptr {address}, i64 {total}")
    if constant:
        address = scope.once((address, str(constant)), f"getelementptr {memory}, ptr {address}, i64 {constant}")
    return address


def active_lanes(scope: Scope, mask: Mask | None, width: int) -> str | None:
    """The mask of the lanes that may touch memory; None when all may."""
    lanes = scope.vector
    running = lanes.mask if lanes is not None else None
    if mask is None:
        return running
    shape = shape_of(bool_, width)
    text = widen(Value(mask.text, mask.lanes, mask.scope), shape)
    if running is None:
        return text
    return mask_scope(scope, mask).once((text, running), f"and {shape.type} {text}, {running}")


def mask_scope(scope: Scope, mask: Mask | None) -> Scope:
    """The outermost scope in which the mask of active lanes is defined."""
    lanes, defining = scope.vector, None if mask is None else mask.scope
    while scope is not defining and scope.parent is not None and scope.parent.vector is lanes:
        scope = scope.parent
    return scope


def from_memory(scope: Scope, shape: Shape, raw: str) -> str:
    """Converts from the memory type to the register type: bools are bytes in memory, bits in registers."""
    if not shape.is_bool:
        return raw
    return scope.let(f"icmp ne {shape.memory_type} {raw}, {'splat (i8 0)' if shape.lanes > 1 else '0'}")


def to_memory(scope: Scope, shape: Shape, text: str) -> str:
    """Converts from the register type to the memory type."""
    return scope.let(f"zext {shape.type} {text} to {shape.memory_type}") if shape.is_bool else text


def pointer_vector(scope: Scope, shape: Shape, access: LaneAddresses) -> str:
    """The address of each lane, as a vector of pointers."""
    split = Affine([], access.stride, access.extra)
    width = shape.lanes
    offsets = sizes.add_steps(scope, "splat (i64 0)", split, width)
    return scope.let(f"getelementptr {shape.memory}, ptr {access.pointer}, <{width} x i64> {offsets}")


def letters(shape: Shape) -> str:
    """An element type as names of intrinsics spell it."""
    return {"float": "f32", "double": "f64"}.get(shape.memory, shape.memory)


def is_spread(ctx: Context, shape: Shape, access: LaneAddresses) -> bool:
    """Whether one wide load and a shuffle are faster than a gather: the stride is a small constant."""
    near = access.extra is None and isinstance(access.stride, int) and 1 < access.stride <= Target.WIDE_LOAD_STRIDE
    return near and shape.itemsize >= max(4, ctx.target.masked_bytes)


def spread_out(scope: Scope, kind: str, text: str, width: int, stride: int) -> str:
    """Moves a vector's elements `stride` lanes apart, with zeros between."""
    lanes = ", ".join(f"i32 {width if lane % stride else lane // stride}" for lane in range(stride * width))
    return scope.let(f"shufflevector {kind} {text}, {kind} zeroinitializer, <{stride * width} x i32> <{lanes}>")
