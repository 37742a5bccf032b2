"""Signatures: what of its operands' forms an artifact depends on.

An artifact takes any sizes and strides. It is chosen by dtypes, ranks, which dims are a literal 1, and each operand's
layout class: row-major, dense in another order of dims, or strided (with which strides are literally 0 or 1). For
pointwise operators the dims are collapsed first, so that all calls on contiguous operands of one shape share one
artifact of rank 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, cast

from rushlight.eager.tensor_meta import TensorMeta
from rushlight.ir.dtype import DType
from rushlight.ir.type import CPU, TensorType
from rushlight.sym import Scope, Size, SizeExpr

ONE = -1  # a dim of literal size 1


class Layout(NamedTuple):
    """How elements lie: "row-major"; "ordered", dense, dims outermost first; "strided", literal strides or None."""

    kind: str
    parts: tuple[int | None, ...] = ()


ROW_MAJOR = Layout("row-major")


class Spec(NamedTuple):
    """One operand: `dims` has the number of each dim's size symbol, or ONE."""

    dtype: DType
    weak: bool
    dims: tuple[int, ...]
    layout: Layout


class Signature(NamedTuple):
    """Specs of all operands, their symbols' values (sizes, then strides), and their descriptors' words."""

    specs: tuple[Spec, ...]
    values: tuple[int, ...]
    words: tuple[tuple[int, ...], ...]


def layout_class(shape: Sequence[int], strides: Sequence[int], contiguous: bool) -> Layout:
    """The layout class of a tensor, for any kernel that walks its dims as they are."""
    if contiguous:
        return ROW_MAJOR
    order = sorted(range(len(strides)), key=lambda dim: (-strides[dim], shape[dim] == 1, dim))
    step = 1
    for dim in reversed(order):
        if shape[dim] != 1 and strides[dim] != step:
            return strided(strides)
        step *= shape[dim]
    return Layout("ordered", tuple(order))


def result_layouts(forms: Sequence[TensorMeta]) -> tuple[Layout, ...]:
    """The layout classes in which an executable has to write results of these forms: those with gaps are row-major."""
    classes = [layout_class(form.shape, form.strides, form.is_contiguous) for form in forms]
    return tuple([layouts if layouts.kind == "ordered" else ROW_MAJOR for layouts in classes])


def in_layout(type_: TensorType, layout: Layout) -> TensorType:
    """The type in a dense layout class."""
    strides = tuple(_dense_strides(type_.shape, cast(tuple[int, ...], layout.parts))) if layout.parts else None
    return TensorType(type_.shape, type_.dtype, type_.device, strides, type_.weak)


def strided(strides: Sequence[int]) -> Layout:
    """The layout class of a tensor with gaps or repetitions."""
    return Layout("strided", tuple([stride if stride in (0, 1) else None for stride in strides]))


def stride_values(layout: Layout, strides: Sequence[int]) -> list[int]:
    """The strides that are symbols in this layout class."""
    if layout.kind != "strided":
        return []
    return [stride for stride, literal in zip(strides, layout.parts, strict=True) if literal is None]


def signature_of(forms: Sequence[TensorMeta]) -> Signature:
    """The signature of operands as they are: each size other than 1 is a symbol of its own."""
    specs: list[Spec] = []
    sizes: list[int] = []
    strides: list[int] = []
    for form in forms:
        dims: list[int] = []
        for size in form.shape:
            if size == 1:
                dims.append(ONE)
            else:
                dims.append(len(sizes))
                sizes.append(size)
        layout = layout_class(form.shape, form.strides, form.is_contiguous)
        strides.extend(stride_values(layout, form.strides))
        specs.append(Spec(form.dtype, form.type.weak, tuple(dims), layout))
    return Signature(tuple(specs), (*sizes, *strides), tuple([form.words for form in forms]))


def collapsed_signature(inputs: Sequence[TensorMeta], output: TensorMeta) -> Signature:
    """The signature of a pointwise call, with the output's own layout last.

    Dims of size 1 go, dims are sorted by the output's strides, and neighbours that every operand walks as one are
    merged. Sizes that meet share a symbol, since here they are known to be equal.
    """
    forms = [*inputs, output]
    shape = list(output.shape)
    rows = [_broadcast_strides(form, shape) for form in forms]
    order = [dim for dim in range(len(shape)) if shape[dim] != 1]
    order.sort(key=lambda dim: (-rows[-1][dim], dim))
    sizes: list[int] = []
    merged: list[list[int]] = [[] for _ in rows]
    for dim in order:
        steps = [row[dim] for row in rows]
        if sizes and all(kept[-1] == step * shape[dim] for kept, step in zip(merged, steps, strict=True)):
            sizes[-1] *= shape[dim]
            for kept, step in zip(merged, steps, strict=True):
                kept[-1] = step
        else:
            sizes.append(shape[dim])
            for kept, step in zip(merged, steps, strict=True):
                kept.append(step)
    if not sizes and shape:
        sizes, merged = [1], [[1] for _ in forms]
    return _collapsed(forms, sizes, merged)


def _broadcast_strides(form: TensorMeta, shape: Sequence[int]) -> list[int]:
    lead = len(shape) - len(form.shape)
    return [0] * lead + [0 if size == 1 else stride for size, stride in zip(form.shape, form.strides, strict=True)]


def _collapsed(forms: Sequence[TensorMeta], sizes: list[int], merged: Sequence[list[int]]) -> Signature:
    # Tensors without dims stay so and others keep a dim, since promotion tells them apart. In a dim where no operand
    # moves the first one with dims carries the size.
    last = len(forms) - 1
    carrier = next((position for position, form in enumerate(forms) if form.shape), last)
    moving = [any(row[dim] for row in merged[:last]) for dim in range(len(sizes))]
    specs: list[Spec] = []
    strides: list[int] = []
    words: list[tuple[int, ...]] = []
    for position, (form, row) in enumerate(zip(forms, merged, strict=True)):
        dims: list[int] = []
        if form.shape:
            still = [position == last or (position == carrier and not moves) for moves in moving]
            dims = [dim if row[dim] or still[dim] else ONE for dim in range(len(sizes))]
        row = row if form.shape else []
        own = [1 if dim == ONE else sizes[dim] for dim in dims]
        layout = ROW_MAJOR if _row_major(own, row) else strided(row)
        strides.extend(stride_values(layout, row))
        specs.append(Spec(form.dtype, form.type.weak, tuple(dims), layout))
        words.append((len(own) | form.dtype.code << 8, *own, *row))
    return Signature(tuple(specs), (*sizes, *strides), tuple(words))


def _row_major(shape: Sequence[int], strides: Sequence[int]) -> bool:
    step = 1
    for size, stride in zip(reversed(shape), reversed(strides), strict=True):
        if size != 1 and stride != step:
            return False
        step *= size
    return True


class Symbols(NamedTuple):
    """The parameters' types of one artifact, its scope, and the symbols of the signature's values."""

    types: tuple[TensorType, ...]
    scope: Scope
    symbols: tuple[SizeExpr, ...]


def symbols_of(signature: Signature) -> Symbols:
    """Symbols for the signature's sizes and strides, with the values at hand as hints."""
    scope = Scope()
    values = iter(signature.values)
    count = 1 + max([dim for spec in signature.specs for dim in spec.dims], default=-1)
    sizes = [scope.symbol(f"n{number}", hint=next(values)) for number in range(count)]
    symbols = list(sizes)
    types: list[TensorType] = []
    for spec in signature.specs:
        shape = tuple([1 if dim == ONE else sizes[dim] for dim in spec.dims])
        strides: list[Size] = []
        for position, literal in enumerate(spec.layout.parts if spec.layout.kind == "strided" else ()):
            size: Size = literal if literal is not None else scope.symbol(f"t{len(symbols) - count}", hint=next(values))
            strides.append(size)
            if literal is None:
                symbols.append(cast(SizeExpr, strides[position]))
        if spec.layout.kind == "ordered":
            strides = _dense_strides(shape, cast(tuple[int, ...], spec.layout.parts))
        types.append(
            TensorType(shape, spec.dtype, CPU, None if spec.layout is ROW_MAJOR else tuple(strides), spec.weak)
        )
    return Symbols(tuple(types), scope, tuple(symbols))


def _dense_strides(shape: Sequence[Size], order: Sequence[int]) -> list[Size]:
    """The strides of a dense tensor whose dims lie in this order, outermost first."""
    strides: list[Size] = [1] * len(shape)
    step: Size = 1
    for dim in reversed(order):
        strides[dim] = step
        step = step * shape[dim]
    return strides
