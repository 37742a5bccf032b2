"""Loads and stores: addresses built from the outermost region inwards, contiguous vectors, gathers, masks."""

from __future__ import annotations

from collections.abc import Sequence

from rushlight.codegen.llvm.builder import sizes
from rushlight.codegen.llvm.builder.scope import Context, Lanes, Mask, Scope, Value, splat, widen
from rushlight.codegen.llvm.builder.sizes import Affine, Offset, Part
from rushlight.codegen.llvm.builder.vector_types import Shape, shape_of, vector_type
from rushlight.codegen.llvm.kernel.nontemporal import LINE, store_streamed, stream_bit
from rushlight.codegen.llvm.kernel.row_scratch import start_of_row
from rushlight.codegen.llvm.kernel.transposed_loads import (
    SIDE,
    find_transposed_loads,
    lane_pointers,
    load_apart,
    load_transposed,
)
from rushlight.codegen.llvm.math import arithmetic, casts
from rushlight.codegen.llvm.math.terms import value
from rushlight.ir.dtype import bool_, float32
from rushlight.ir.kernel import Store
from rushlight.ir.scalar import Buffer, Scalar
from rushlight.sym import Size

# Distance of elements up to which loads of all between them, and shuffles, cost less than a gather.
MOST_SPREAD = 4


class Place:
    """Where a region's lanes find their elements: lane 0's address, how lanes move on, a vector of extra offsets.

    Where `repeats` is not 0, as many lanes after each other find the same element, and the next find the next.
    """

    __slots__ = ("extra", "pointer", "repeats", "stride")

    def __init__(self, pointer: str, stride: int | str, extra: str | None, repeats: int) -> None:
        self.repeats = repeats
        self.pointer = pointer
        self.stride = stride
        self.extra = extra


def locate(
    ctx: Context, buffer: Buffer, offset: Scalar | Size, scope: Scope, mask: Mask | None, waits: bool = False
) -> Place:
    """The place of an element in each lane of a region; of a kept one, if it `waits`."""
    split = Offset(offset)
    lanes = scope.vector
    affine = sizes.affine(ctx, split.parts, scope)
    extra, repeats = affine.extra, affine.repeats
    steps: dict[Scope, list[str]] = {}
    for factor, term in split.data:
        item = value(ctx, term, scope, mask)
        if item.lanes > 1:
            assert lanes is not None
            repeats = 0
            text = item.text
            vector = vector_type(lanes.width, "i64")
            if factor != 1:
                text = scope.let(f"mul {vector} {text}, splat (i64 {factor})")
            extra = text if extra is None else scope.let(f"add {vector} {extra}, {text}")
        else:
            place = item.scope or scope
            text = item.text if factor == 1 else place.let(f"mul i64 {item.text}, {factor}")
            steps.setdefault(place, []).append(text)
    known, base = ctx.base(buffer), affine.base
    bit = stream_bit(ctx, buffer) if waits else None
    if bit is not None:
        known, base = start_of_row(ctx, buffer, bit, base, scope)
    memory = shape_of(buffer.type.dtype).memory
    return Place(_pointer(ctx, memory, known, base, steps, scope), affine.stride, extra, repeats)


def _pointer(
    ctx: Context, memory: str, known: str, base: list[Part], data: dict[Scope, list[str]], scope: Scope
) -> str:
    """The address at the sum of parts and data, stepping inwards from a known one; a constant comes last."""
    by_scope: dict[Scope, list[Part]] = {}
    constant = 0
    for part in base:
        if part[1]:
            place = ctx.place(ctx.analysis.atoms_axes(part[1]), 0, scope)
            by_scope.setdefault(place, []).append(part)
        else:
            constant += part[0]
    for place in sorted({*by_scope, *data}, key=lambda item: item.depth):
        total = sizes.sum_text(ctx, by_scope[place], place) if place in by_scope else ""
        for word in data.get(place, ()):
            total = word if not total else place.let(f"add i64 {total}, {word}")
        key = (known, total)
        step = place.sizes.get(key)
        if step is None:
            step = place.sizes[key] = place.let(f"getelementptr {memory}, ptr {known}, i64 {total}")
        known = step
    if constant:
        key = (known, str(constant))
        step = scope.sizes.get(key)
        if step is None:
            step = scope.sizes[key] = scope.let(f"getelementptr {memory}, ptr {known}, i64 {constant}")
        known = step
    return known


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
    place = _mask_place(scope, mask)
    key = (text, running)
    known = place.sizes.get(key)
    if known is None:
        known = place.sizes[key] = place.let(f"and {shape.type} {text}, {running}")
    return known


def _mask_place(scope: Scope, mask: Mask | None) -> Scope:
    """The outermost region that knows the lanes that may touch memory."""
    lanes, known = scope.vector, None if mask is None else mask.scope
    while scope is not known and scope.parent is not None and scope.parent.vector is lanes:
        scope = scope.parent
    return scope


def emit_load(ctx: Context, term: Scalar, scope: Scope, mask: Mask | None) -> Value:
    """The value of a load: one element, a run of them, or one from anywhere in each lane."""
    buffer: Buffer = term.attr("buffer")
    lanes = scope.vector
    moving = lanes is not None and bool(ctx.analysis.free[term] & lanes.axes)
    waits = buffer in ctx.analysis.kept
    place = locate(ctx, buffer, term.operands[0] if term.operands else 0, scope, mask, waits)
    key = _load_key(place, mask, moving)
    known = scope.memo.get(key)
    if known is None:
        square = ctx.squares.get(term)
        if square is not None and moving and lanes is not None and _is_transposed_load(place, mask, lanes):
            _load_together(ctx, square, scope)
            return scope.memo[key]
        known = scope.memo[key] = _load(ctx, buffer, place, scope, mask, moving)
        _pin(ctx, buffer, scope, key)
    return known


def _load_key(place: Place, mask: Mask | None, moving: bool) -> tuple[object, ...]:
    return ("load", place.pointer, place.stride, place.extra, None if mask is None else mask.key, moving)


def _pin(ctx: Context, buffer: Buffer, scope: Scope, key: tuple[object, ...]) -> None:
    """What was loaded from a buffer that the kernel writes is forgotten when it does."""
    written = ctx.analysis.buffer_bits.get(buffer)
    if written is not None:
        scope.pinned[key] = written


def _is_apart(place: Place, mask: Mask | None) -> bool:
    """Whether lanes find their elements an equal distance apart, and those that are active are the first ones."""
    return place.extra is None and mask is None


def _is_transposed_load(place: Place, mask: Mask | None, lanes: Lanes) -> bool:
    plain = place.stride in (-1, 0, 1) or place.repeats
    return _is_apart(place, mask) and not plain and lanes.width % SIDE == 0


def _load_together(ctx: Context, square: Sequence[Scalar], scope: Scope) -> None:
    """Loads neighbours, and remembers the value of each."""
    assert scope.vector is not None
    buffer: Buffer = square[0].attr("buffer")
    width = scope.vector.width
    shape = shape_of(buffer.type.dtype, width)
    places = [locate(ctx, buffer, term.operands[0], scope, None) for term in square]
    active = active_lanes(scope, None, width)
    pointers = lane_pointers(scope, shape, places[0].pointer, places[0].stride, active)
    for place, raw in zip(places, load_transposed(scope, shape, pointers), strict=True):
        key = _load_key(place, None, True)
        scope.memo[key] = Value(from_memory(scope, shape, raw), width, scope)
        _pin(ctx, buffer, scope, key)


def _load(ctx: Context, buffer: Buffer, place: Place, scope: Scope, mask: Mask | None, moving: bool) -> Value:
    lanes = scope.vector
    if not moving or lanes is None or (place.extra is None and place.stride == 0):
        return _load_scalar(ctx, buffer, place.pointer, scope, mask)
    shape = shape_of(buffer.type.dtype, lanes.width)
    if not place.repeats and _is_spread(ctx, shape, place):
        return Value(from_memory(scope, shape, _load_spread(scope, shape, place, mask)), lanes.width, scope)
    active = active_lanes(scope, mask, lanes.width)
    if place.extra is None and place.stride == 1:
        pointer = place.pointer
        if mask is not None and active is not None and _is_whole(ctx, shape, lanes, mask):
            pointer = scope.let(f"select i1 {mask.text}, ptr {pointer}, ptr {ctx.safe_address(shape.memory_type)}")
            active = None
        raw = load_run(ctx, scope, shape, pointer, active)
    elif place.extra is None and place.stride == -1 and active is None:
        last = scope.let(f"getelementptr {shape.memory}, ptr {place.pointer}, i64 {1 - lanes.width}")
        run = load_run(ctx, scope, shape, last, None)
        order = ", ".join([f"i32 {lanes.width - 1 - lane}" for lane in range(lanes.width)])
        raw = scope.let(
            f"shufflevector {shape.memory_type} {run}, {shape.memory_type} poison, <{lanes.width} x i32> <{order}>"
        )
    elif place.repeats:
        raw = _load_repeated(ctx, scope, shape, place, active)
    elif _is_apart(place, mask):
        raw = load_apart(scope, shape, lane_pointers(scope, shape, place.pointer, place.stride, active))
    else:
        raw = _gather(ctx, scope, shape, _addresses(scope, shape, place), active)
    return Value(from_memory(scope, shape, raw), lanes.width, scope)


def _is_whole(ctx: Context, shape: Shape, lanes: Lanes, mask: Mask) -> bool:
    """Whether all lanes of a run are read or none, of elements that no instruction masks."""
    return mask.lanes == 1 and lanes.mask is None and shape.itemsize < ctx.target.masked_bytes


def _load_scalar(ctx: Context, buffer: Buffer, pointer: str, scope: Scope, mask: Mask | None) -> Value:
    shape = shape_of(buffer.type.dtype)
    if mask is not None:
        condition = mask.text
        if mask.lanes > 1:
            active = active_lanes(scope, mask, mask.lanes)
            word = scope.let(f"bitcast <{mask.lanes} x i1> {active} to i{mask.lanes}")
            condition = scope.let(f"icmp ne i{mask.lanes} {word}, 0")
        pointer = scope.let(f"select i1 {condition}, ptr {pointer}, ptr {ctx.safe_address()}")
    raw = scope.let(f"load {shape.memory}, ptr {pointer}, align {shape.itemsize}")
    return Value(from_memory(scope, shape, raw), 1, scope)


def from_memory(scope: Scope, shape: Shape, raw: str) -> str:
    """What was loaded, as it is held in registers."""
    if not shape.is_bool:
        return raw
    return scope.let(f"icmp ne {shape.memory_type} {raw}, {'splat (i8 0)' if shape.lanes > 1 else '0'}")


def to_memory(scope: Scope, shape: Shape, text: str) -> str:
    """A value as it is stored."""
    return scope.let(f"zext {shape.type} {text} to {shape.memory_type}") if shape.is_bool else text


def _addresses(scope: Scope, shape: Shape, place: Place) -> str:
    split = Affine([], place.stride, place.extra)
    width = shape.lanes
    offsets = sizes.add_steps(scope, "splat (i64 0)", split, width)
    return scope.let(f"getelementptr {shape.memory}, ptr {place.pointer}, <{width} x i64> {offsets}")


def load_run(ctx: Context, scope: Scope, shape: Shape, pointer: str, active: str | None) -> str:
    """A contiguous run of elements, 0 in inactive lanes."""
    kind = shape.memory_type
    if active is None:
        return scope.let(f"load {kind}, ptr {pointer}, align {shape.itemsize}")
    if shape.itemsize < ctx.target.masked_bytes:
        return _load_by_lane(ctx, scope, shape, active, pointer, None)
    suffix = f"v{shape.lanes}{_letters(shape)}"
    return scope.let(
        f"call {kind} @llvm.masked.load.{suffix}.p0(ptr {pointer}, i32 {shape.itemsize}, "
        f"{shape.mask_type} {active}, {kind} zeroinitializer)"
    )


def _letters(shape: Shape) -> str:
    return {"float": "f32", "double": "f64"}.get(shape.memory, shape.memory)


def _is_spread(ctx: Context, shape: Shape, place: Place) -> bool:
    """Whether elements lie so close together that it is quicker to load all between them than to gather them."""
    near = place.extra is None and isinstance(place.stride, int) and 1 < place.stride <= MOST_SPREAD
    return near and shape.itemsize >= max(4, ctx.target.masked_bytes)


def _load_spread(scope: Scope, shape: Shape, place: Place, mask: Mask | None) -> str:
    """Elements that lie a constant number of elements apart; none beyond the last one, or of other lanes, is read."""
    stride, width = int(place.stride), shape.lanes
    kind, flags = f"<{stride * width} x {shape.memory}>", f"<{stride * width} x i1>"
    active = _spread_lanes(scope, mask, width, stride)
    loaded = scope.let(
        f"call {kind} @llvm.masked.load.v{stride * width}{_letters(shape)}.p0(ptr {place.pointer}, "
        f"i32 {shape.itemsize}, {flags} {active}, {kind} zeroinitializer)"
    )
    order = ", ".join(f"i32 {lane * stride}" for lane in range(width))
    return scope.let(f"shufflevector {kind} {loaded}, {kind} poison, <{width} x i32> <{order}>")


def _spread_lanes(scope: Scope, mask: Mask | None, width: int, stride: int) -> str:
    """The mask of `active_lanes` with lanes between, of which only those between lanes that are active may be.

    Each factor is spread where it is known: taps of a window share those of their columns, and those of their rows.
    """
    running = None if scope.vector is None else scope.vector.mask
    factors = () if mask is None else mask.factors
    if running is not None:
        factors = (*factors, Value(running, width, _mask_place(scope, None)))
    total = ""
    kind, place = f"<{stride * width} x i1>", _mask_place(scope, mask)
    if all(factor.lanes == 1 for factor in factors):
        bits = ["true" if lane <= stride * (width - 1) else "false" for lane in range(stride * width)]
        total = f"<{', '.join(f'i1 {bit}' for bit in bits)}>"
    for factor in factors:
        home = factor.scope or place
        key = (factor.text, "spread", stride, width)
        known = home.sizes.get(key)
        if known is None:
            shape = shape_of(bool_, factor.lanes)
            known = home.sizes[key] = (
                splat(home, kind, "i1", factor.text, stride * width)
                if factor.lanes == 1
                else _spread(home, shape.type, factor.text, width, stride)
            )
        key = (total, "and", known)
        both = place.sizes.get(key) if total else known
        total = place.sizes[key] = both or place.let(f"and {kind} {total}, {known}")
    return total


def _load_repeated(ctx: Context, scope: Scope, shape: Shape, place: Place, active: str | None) -> str:
    """Elements of which each is that of several lanes; none is read that no active lane has. 0 in inactive lanes."""
    repeats, width = place.repeats, shape.lanes
    few = shape_of(shape.dtype, width // repeats)
    some: str | None = None
    for first in range(repeats if active is not None else 0):
        order = ", ".join([f"i32 {lane}" for lane in range(first, width, repeats)])
        part = scope.let(
            f"shufflevector {shape.mask_type} {active}, {shape.mask_type} poison, <{few.lanes} x i32> <{order}>"
        )
        some = part if some is None else scope.let(f"or {few.mask_type} {some}, {part}")
    run = load_run(ctx, scope, few, place.pointer, some)
    kind, order = few.memory_type, ", ".join([f"i32 {lane // repeats}" for lane in range(width)])
    wide = scope.let(f"shufflevector {kind} {run}, {kind} poison, <{width} x i32> <{order}>")
    if active is None:
        return wide
    kind = shape.memory_type
    return scope.let(f"select {shape.mask_type} {active}, {kind} {wide}, {kind} zeroinitializer")


def _spread(scope: Scope, kind: str, text: str, width: int, stride: int) -> str:
    """A vector's elements a constant number of lanes apart, with zeros between."""
    lanes = ", ".join(f"i32 {width if lane % stride else lane // stride}" for lane in range(stride * width))
    return scope.let(f"shufflevector {kind} {text}, {kind} zeroinitializer, <{stride * width} x i32> <{lanes}>")


def _store_spread(scope: Scope, shape: Shape, place: Place, text: str, active: str | None) -> None:
    """Stores elements that lie a constant number of elements apart."""
    stride, width = int(place.stride), shape.lanes
    mask = _spread(scope, shape.mask_type, active or "splat (i1 true)", width, stride)
    apart = _spread(scope, shape.memory_type, text, width, stride)
    scope.do(
        f"call void @llvm.masked.store.v{stride * width}{_letters(shape)}.p0(<{stride * width} x {shape.memory}> "
        f"{apart}, ptr {place.pointer}, i32 {shape.itemsize}, <{stride * width} x i1> {mask})"
    )


def _gather(ctx: Context, scope: Scope, shape: Shape, addresses: str, active: str | None) -> str:
    if shape.itemsize < 4 and active is not None:
        return _load_by_lane(ctx, scope, shape, active, None, addresses)
    kind, width = shape.memory_type, shape.lanes
    mask = active or "splat (i1 true)"
    return scope.let(
        f"call {kind} @llvm.masked.gather.v{width}{_letters(shape)}.v{width}p0(<{width} x ptr> {addresses}, "
        f"i32 {shape.itemsize}, <{width} x i1> {mask}, {kind} zeroinitializer)"
    )


class _LaneLoop:
    """A small loop over the active lanes, for elements that no masked instruction handles."""

    def __init__(self, ctx: Context, scope: Scope, width: int, active: str | None) -> None:
        self.scope = scope
        names = scope.names
        self.again, self.hit, self.next, self.after = names.label(), names.label(), names.label(), names.label()
        self.lane, self.following = names.value(), names.value()
        self.width = width
        bits = scope.let(f"bitcast <{width} x i1> {active} to i{width}") if active else None
        before = scope.label
        scope.jump(self.again)
        scope.open(self.again)
        scope.do(f"{self.lane} = phi i64 [ 0, %{before} ], [ {self.following}, %{self.next} ]")
        if bits is None:
            scope.jump(self.hit)
        else:
            count = self.lane if width == 64 else scope.let(f"trunc i64 {self.lane} to i{width}")
            shifted = scope.let(f"lshr i{width} {bits}, {count}")
            scope.branch(scope.let(f"trunc i{width} {shifted} to i1"), self.hit, self.next)
        scope.open(self.hit)

    def close(self) -> None:
        """Ends the loop."""
        scope = self.scope
        scope.jump(self.next)
        scope.open(self.next)
        scope.do(f"{self.following} = add i64 {self.lane}, 1")
        more = scope.let(f"icmp ult i64 {self.following}, {self.width}")
        scope.branch(more, self.again, self.after)
        scope.open(self.after)


def _spill(ctx: Context, scope: Scope, llvm_type: str, text: str) -> str:
    """The address of scratch memory that holds a vector."""
    slot = ctx.allocate(llvm_type)
    scope.do(f"store {llvm_type} {text}, ptr {slot}, align 64")
    return slot


def _load_by_lane(
    ctx: Context, scope: Scope, shape: Shape, active: str, pointer: str | None, addresses: str | None
) -> str:
    kind, item = shape.memory_type, shape.memory
    slot = _spill(ctx, scope, kind, "zeroinitializer")
    table = None if addresses is None else _spill(ctx, scope, f"<{shape.lanes} x ptr>", addresses)
    loop = _LaneLoop(ctx, scope, shape.lanes, active)
    source = _lane_address(scope, item, pointer, table, loop.lane)
    element = scope.let(f"load {item}, ptr {source}, align {shape.itemsize}")
    target = scope.let(f"getelementptr {item}, ptr {slot}, i64 {loop.lane}")
    scope.do(f"store {item} {element}, ptr {target}, align {shape.itemsize}")
    loop.close()
    return scope.let(f"load {kind}, ptr {slot}, align 64")


def _lane_address(scope: Scope, item: str, pointer: str | None, table: str | None, lane: str) -> str:
    if table is None:
        return scope.let(f"getelementptr {item}, ptr {pointer}, i64 {lane}")
    at = scope.let(f"getelementptr ptr, ptr {table}, i64 {lane}")
    return scope.let(f"load ptr, ptr {at}, align 8")


# ------------------------------------------------------------------- stores


def emit_stores(ctx: Context, stores: Sequence[Store], scope: Scope) -> None:
    """Stores that follow each other, for all lanes of the region: every value is computed before the first store."""
    if scope.vector is not None and len(stores) >= SIDE:
        ctx.squares.update(find_transposed_loads([store.value for store in stores]))
    prepared = [_prepare(ctx, store, scope) for store in stores]
    for store, (place, item, mask) in zip(stores, prepared, strict=True):
        lanes = scope.vector
        if lanes is None:
            _store_scalar(ctx, store, scope, place, item, mask)
        else:
            shape = shape_of(store.buffer.type.dtype, lanes.width)
            active = active_lanes(scope, mask, lanes.width)
            _store_lanes(ctx, store, scope, shape, place, widen(item, shape), active)
        scope.forget(ctx.analysis.buffer_bits[store.buffer])


def emit_spill(ctx: Context, term: Scalar, scope: Scope, mask: Mask | None) -> Value:
    """The value of a `keep`, which is stored as well."""
    kept, offset = term.operands
    item = value(ctx, kept, scope, mask)
    store = Store(term.attr("buffer"), offset, kept)
    place = locate(ctx, store.buffer, offset, scope, None, waits=True)
    shape = shape_of(kept.type, 1 if scope.vector is None else scope.vector.width)
    if scope.vector is None:
        _store_scalar(ctx, store, scope, place, item, mask)
    else:
        active = active_lanes(scope, mask, shape.lanes)
        _store_lanes(ctx, store, scope, shape, place, widen(item, shape), active, is_last=False)
    scope.forget(ctx.analysis.buffer_bits[store.buffer])
    return item


def _prepare(ctx: Context, store: Store, scope: Scope) -> tuple[Place, Value, Mask | None]:
    mask: Mask | None = None
    if store.where is not None:
        condition = value(ctx, store.where, scope)
        mask = Mask(condition.text, condition.lanes, condition.scope or scope, store.where)
    item = value(ctx, store.value, scope)
    return locate(ctx, store.buffer, store.offset, scope, None), item, mask


def _store_scalar(ctx: Context, store: Store, scope: Scope, place: Place, item: Value, mask: Mask | None) -> None:
    shape = shape_of(store.buffer.type.dtype)
    after = scope.names.label()
    if mask is not None:
        inside = scope.names.label()
        scope.branch(mask.text, inside, after)
        scope.open(inside)
    _combine_scalar(scope, shape, store.combine, place.pointer, item.text)
    if mask is not None:
        scope.jump(after)
        scope.open(after)


def _combine_scalar(scope: Scope, shape: Shape, combine: str | None, pointer: str, text: str) -> None:
    if combine is not None and combine != "set":
        old = from_memory(scope, shape, scope.let(f"load {shape.memory}, ptr {pointer}, align {shape.itemsize}"))
        text = _combined(scope, shape, combine, old, text)
    text = to_memory(scope, shape, text)
    scope.do(f"store {shape.memory} {text}, ptr {pointer}, align {shape.itemsize}")


def _combined(scope: Scope, shape: Shape, combine: str, old: str, text: str) -> str:
    if not shape.is_half:
        return arithmetic.fold(scope, combine, shape, old, text)
    wide = shape_of(float32, shape.lanes)
    a, b = casts.widen_half(scope, shape, old), casts.widen_half(scope, shape, text)
    return casts.narrow_half(scope, shape, arithmetic.fold(scope, combine, wide, a, b))


def _store_lanes(
    ctx: Context,
    store: Store,
    scope: Scope,
    shape: Shape,
    place: Place,
    text: str,
    active: str | None,
    is_last: bool = True,
) -> None:
    """Stores the lanes of a region, past the caches where that pays and it `is_last`: nobody reads them again."""
    combine = None if store.combine == "set" else store.combine
    if place.extra is None and place.stride == 1:
        if combine is not None:
            old = from_memory(scope, shape, load_run(ctx, scope, shape, place.pointer, active))
            text = _combined(scope, shape, combine, old, text)
        text = to_memory(scope, shape, text)
        lines = active is None and combine is None and shape.lanes * shape.itemsize % LINE == 0
        bit = stream_bit(ctx, store.buffer) if lines and is_last else None
        if bit is None:
            _store_run(ctx, scope, shape, place.pointer, text, active)
        else:
            store_streamed(scope, shape, place.pointer, text, bit)
        return
    if combine is None and _is_spread(ctx, shape, place):
        _store_spread(scope, shape, place, to_memory(scope, shape, text), active)
        return
    addresses = _addresses(scope, shape, place)
    if combine is None and shape.itemsize >= 4 and ctx.target.has_masks:
        width = shape.lanes
        # Lanes with equal addresses are stored in ascending order, so the last one stays.
        scope.do(
            f"call void @llvm.masked.scatter.v{width}{_letters(shape)}.v{width}p0({shape.memory_type} {text}, "
            f"<{width} x ptr> {addresses}, i32 {shape.itemsize}, <{width} x i1> {active or 'splat (i1 true)'})"
        )
        return
    _store_by_lane(ctx, scope, shape, combine, None, addresses, to_memory(scope, shape, text), active)


def _store_run(ctx: Context, scope: Scope, shape: Shape, pointer: str, text: str, active: str | None) -> None:
    kind = shape.memory_type
    if active is None:
        scope.do(f"store {kind} {text}, ptr {pointer}, align {shape.itemsize}")
    elif shape.itemsize < ctx.target.masked_bytes:
        _store_by_lane(ctx, scope, shape, None, pointer, None, text, active)
    else:
        scope.do(
            f"call void @llvm.masked.store.v{shape.lanes}{_letters(shape)}.p0({kind} {text}, "
            f"ptr {pointer}, i32 {shape.itemsize}, {shape.mask_type} {active})"
        )


def _store_by_lane(
    ctx: Context,
    scope: Scope,
    shape: Shape,
    combine: str | None,
    pointer: str | None,
    addresses: str | None,
    text: str,
    active: str | None,
) -> None:
    """Lane after lane in ascending order, so that lanes which meet in one element combine as iterations would."""
    item = shape_of(shape.dtype)
    slot = _spill(ctx, scope, shape.memory_type, text)
    table = None if addresses is None else _spill(ctx, scope, f"<{shape.lanes} x ptr>", addresses)
    loop = _LaneLoop(ctx, scope, shape.lanes, active)
    at = scope.let(f"getelementptr {item.memory}, ptr {slot}, i64 {loop.lane}")
    element = scope.let(f"load {item.memory}, ptr {at}, align {item.itemsize}")
    target = _lane_address(scope, item.memory, pointer, table, loop.lane)
    _combine_scalar(scope, item, combine, target, from_memory(scope, item, element))
    loop.close()
