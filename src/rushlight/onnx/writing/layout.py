"""How views, joins, and new tensors are written."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

import rushlight as rl
from rushlight.ir.graph import Call
from rushlight.onnx.values import Value
from rushlight.onnx.writing.writer import Writer, is_open, writes
from rushlight.support.errors import fail
from rushlight.sym import Size


def reshaped(write: Writer, name: str, shape: Sequence[Size]) -> str:
    """A value in another shape; a single open size is left to the operator."""
    if sum(is_open(size) for size in shape) == 1 and 0 not in shape:
        return write.node("Reshape", name, write.constant([-1 if is_open(size) else size for size in shape], np.int64))
    return write.node("Reshape", name, write.shape(shape), allowzero=1)


@writes("reshape", "view", "flatten", "unflatten", "view_as", "squeeze", "unsqueeze", "flatten_view")
def reshape(write: Writer, call: Call) -> object:
    """Reshape."""
    return reshaped(write, write.value(call.operands[0]), call.type.shape)


@writes("permute")
def permute(write: Writer, call: Call) -> object:
    """Transpose."""
    rank = len(call.type.shape)
    return write.node("Transpose", write.value(call.operands[0]), perm=[dim % rank for dim in call.attr("dims")])


def swapped(write: Writer, name: str, rank: int, first: int = -1, second: int = -2) -> str:
    """A value with two dims exchanged."""
    order = list(range(rank))
    order[first], order[second] = order[second], order[first]
    return write.node("Transpose", name, perm=order)


@writes("transpose")
def transpose(write: Writer, call: Call) -> object:
    """Transpose."""
    name = write.value(call.operands[0])
    rank = len(call.type.shape)
    return swapped(write, name, rank, call.attr("dim0"), call.attr("dim1")) if rank else name


@writes("expand", "broadcast_to")
def expand(write: Writer, call: Call) -> object:
    """Expand."""
    return write.node("Expand", write.value(call.operands[0]), write.shape(call.type.shape))


@writes("slice")
def cut(write: Writer, call: Call) -> object:
    """Slice."""
    start, end, step = (call.attr(name) for name in ("start", "end", "step"))
    last = write.constant([np.iinfo(np.int64).max], np.int64) if end is None else write.size(end)
    return write.node(
        "Slice",
        write.value(call.operands[0]),
        write.size(0 if start is None else start),
        last,
        write.constant([call.attr("dim")], np.int64),
        write.size(step),
    )


@writes("part")
def part(write: Writer, call: Call) -> object:
    """Slice."""
    start = call.attr("start")
    ends = write.size(start), write.size(start + call.attr("length"))
    return write.node("Slice", write.value(call.operands[0]), *ends, write.constant([call.attr("dim")], np.int64))


@writes("select")
def select(write: Writer, call: Call) -> object:
    """Gather of one index."""
    return write.node("Gather", write.value(call.operands[0]), write.scalar(call.attr("index")), axis=call.attr("dim"))


@writes("cat")
def concat(write: Writer, call: Call) -> object:
    """Concat."""
    (parts,) = call.operands
    names = [write.value(each, call.type.dtype) for each in parts if len(each.type.shape) == len(call.type.shape)]
    return write.node("Concat", *names, axis=call.attr("dim"))


@writes("stack")
def stack(write: Writer, call: Call) -> object:
    """Concat along a new dim."""
    (parts,) = call.operands
    dim = call.attr("dim") % len(call.type.shape)
    place = write.constant([dim], np.int64)
    names = [write.node("Unsqueeze", write.value(each, call.type.dtype), place) for each in parts]
    return write.node("Concat", *names, axis=dim)


@writes("embedding")
def embedding(write: Writer, call: Call) -> object:
    """Gather of rows."""
    index, table = call.operands
    return write.node("Gather", write.value(table), write.value(index), axis=0)


@writes("index_select")
def index_select(write: Writer, call: Call) -> object:
    """Gather."""
    return write.node("Gather", *[write.value(operand) for operand in call.operands], axis=call.attr("dim"))


@writes("gather")
def gather(write: Writer, call: Call) -> object:
    """GatherElements."""
    return write.node("GatherElements", *[write.value(operand) for operand in call.operands], axis=call.attr("dim"))


@writes("index")
def index(write: Writer, call: Call) -> object:
    """GatherND of dims that are brought to the front; the result's dims go where adjacent ones were."""
    x, indices = call.operands
    dims = [dim % len(x.type.shape) for dim in call.attr("dims")]
    if len(dims) == 1:
        return write.node("Gather", write.value(x), write.value(indices[0]), axis=dims[0])
    rest = [dim for dim in range(len(x.type.shape)) if dim not in dims]
    moved = write.node("Transpose", write.value(x), perm=[*dims, *rest])
    rank = len(call.type.shape) - len(rest)
    last = write.constant([rank], np.int64)
    shape = write.node("Max", *[_padded_shape(write, each, rank) for each in indices])
    parts = [write.node("Unsqueeze", write.node("Expand", write.value(each), shape), last) for each in indices]
    result = write.node("GatherND", moved, write.node("Concat", *parts, axis=-1))
    if dims != list(range(dims[0], dims[0] + len(dims))) or dims[0] == 0:
        return result
    before = list(range(rank, rank + dims[0]))
    return write.node("Transpose", result, perm=[*before, *range(rank), *range(rank + dims[0], rank + len(rest))])


def _padded_shape(write: Writer, call: Call, rank: int) -> str:
    return write.shape([*[1] * (rank - len(call.type.shape)), *call.type.shape])


@writes("zeros", "ones", "full", "zeros_like", "ones_like", "full_like")
def filled(write: Writer, call: Call) -> object:
    """Expand of a number."""
    dtype = call.type.dtype
    if call.op.name.startswith("full"):
        number = write.value(call.operands[-1], dtype)
    else:
        number = write.number(1 if call.op.name.startswith("ones") else 0, dtype)
    return write.node("Expand", number, write.shape(call.type.shape))


@writes("arange")
def arange(write: Writer, call: Call) -> object:
    """Range."""
    numbers = write.node("Range", *[write.scalar(call.attr(name)) for name in ("start", "end", "step")])
    return numbers if call.type.dtype is rl.int64 else write.cast(numbers, call.type.dtype)


@writes("tril_indices", "triu_indices")
def triangle_indices(write: Writer, call: Call) -> object:
    """NonZero of a triangle of ones."""
    shape = write.shape([call.attr("row"), call.attr("col")])
    ones = write.node("Expand", write.number(1, rl.int64), shape)
    triangle = write.node("Trilu", ones, write.scalar(call.attr("offset")), upper=int(call.op.name.startswith("triu")))
    return write.node("NonZero", triangle)


@writes("tril", "triu")
def triangle(write: Writer, call: Call) -> object:
    """Trilu."""
    return write.node(
        "Trilu", write.value(call.operands[0]), write.scalar(call.attr("diagonal")), upper=int(call.op.name == "triu")
    )


@writes("pad", "constant_pad_nd")
def pad(write: Writer, call: Call) -> object:
    """Pad; numbers come in pairs, of the last dim first."""
    flat = call.attr("pad")
    rank, dims = len(call.type.shape), len(flat) // 2
    before = [flat[2 * place] for place in reversed(range(dims))]
    after = [flat[2 * place + 1] for place in reversed(range(dims))]
    mode = dict(call.attrs).get("mode", "constant")
    names = {"constant": "constant", "replicate": "edge", "reflect": "reflect", "circular": "wrap"}
    value = write.number(dict(call.attrs).get("value") or 0, call.type.dtype)
    axes = write.constant(list(range(rank - dims, rank)), np.int64)
    return write.node(
        "Pad", write.value(call.operands[0]), write.shape([*before, *after]), value, axes, mode=names[mode]
    )


@writes("resize_linear", "resize_nearest")
def resize(write: Writer, call: Call) -> object:
    """Resize, to sizes or by factors."""
    options: dict[str, Value]
    if call.op.name == "resize_linear":
        transform = "align_corners" if call.attr("align_corners") else "half_pixel"
        options = {"mode": "linear", "coordinate_transformation_mode": transform}
    elif call.attr("exact"):
        options = {"coordinate_transformation_mode": "half_pixel", "nearest_mode": "round_prefer_ceil"}
    else:
        options = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    x, scales = call.operands[0], call.attr("scales")
    if scales is None or not any(scales):
        return write.node("Resize", write.value(x), "", "", write.shape(call.type.shape), **options)
    lead = [1.0] * (len(x.type.shape) - len(scales))
    for before, after, scale in zip(x.type.shape[len(lead) :], call.type.shape[len(lead) :], scales, strict=True):
        if not scale or (isinstance(before, int) and after != math.floor(before * scale)):
            fail("O003", "onnx.export: an image in sizes that its factors do not give", factors=scales)
    return write.node("Resize", write.value(x), "", write.constant([*lead, *scales], np.float32), **options)
