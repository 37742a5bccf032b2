"""How reductions, products and layers are written."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

import rushlight as rl
from rushlight.ir.graph import Call
from rushlight.onnx.values import Value
from rushlight.onnx.writing.layout import swapped
from rushlight.onnx.writing.writer import RULES, Writer, writes
from rushlight.support.errors import fail
from rushlight.sym import Size

_REDUCTIONS = {"sum": "ReduceSum", "mean": "ReduceMean", "amax": "ReduceMax", "amin": "ReduceMin", "prod": "ReduceProd"}


def _reduction(kind: str) -> Callable[[Writer, Call], object]:
    def rule(write: Writer, call: Call) -> object:
        attrs = dict(call.attrs)
        dims = attrs.get("dim")
        dims = [dims] if isinstance(dims, int) else dims
        axes = [write.constant(list(dims), np.int64)] if dims else []
        return write.node(
            kind, write.value(call.operands[0], call.type.dtype), *axes, keepdims=int(bool(attrs.get("keepdim")))
        )

    return rule


RULES.update({name: _reduction(kind) for name, kind in _REDUCTIONS.items()})


@writes("softmax", "log_softmax")
def softmax(write: Writer, call: Call) -> object:
    """Softmax, or LogSoftmax."""
    kind = "Softmax" if call.op.name == "softmax" else "LogSoftmax"
    return write.node(kind, write.value(call.operands[0], call.type.dtype), axis=call.attr("dim"))


@writes("matmul", "mm", "bmm", "mv", "dot")
def matmul(write: Writer, call: Call) -> object:
    """MatMul."""
    return write.node("MatMul", *[write.value(operand) for operand in call.operands])


@writes("addmm")
def addmm(write: Writer, call: Call) -> object:
    """MatMul and Add."""
    bias, first, second = call.operands[:3]
    product = write.node("MatMul", write.value(first), write.value(second))
    scaled = _scaled(write, product, call.attr("alpha"), call.type.dtype)
    beta = call.attr("beta")
    # A bias whose factor is 0 is not read: it may hold NaN.
    return write.node("Add", scaled, _scaled(write, write.value(bias), beta, call.type.dtype)) if beta else scaled


def _scaled(write: Writer, name: str, factor: float, dtype: rl.dtype) -> str:
    return name if factor == 1 else write.node("Mul", name, write.number(factor, dtype))


@writes("linear")
def linear(write: Writer, call: Call) -> object:
    """MatMul with the weight transposed, and Add."""
    x, weight, bias = call.operands
    product = write.node("MatMul", write.value(x), swapped(write, write.value(weight), 2))
    return product if bias is None else write.node("Add", product, write.value(bias))


def _filled(write: Writer, call: Value, number: float, shape: tuple[Size, ...], dtype: rl.dtype) -> str:
    """An operand, or where it is left out, one number everywhere."""
    if call is not None:
        return write.value(call)
    return write.node("Expand", write.number(number, dtype), write.shape(shape))


@writes("layer_norm")
def layer_norm(write: Writer, call: Call) -> object:
    """LayerNormalization."""
    x, scale, bias = call.operands
    shape = call.attr("normalized_shape")
    names = [write.value(x), _filled(write, scale, 1, shape, call.type.dtype)]
    names += [] if bias is None else [write.value(bias)]
    return write.node("LayerNormalization", *names, axis=-len(shape), epsilon=call.attr("eps"))


@writes("rms_norm")
def rms_norm(write: Writer, call: Call) -> object:
    """The formula, which older opsets have too."""
    operand, scale = call.operands
    x, dtype = write.value(operand), call.type.dtype
    axes = write.constant(list(range(-len(call.attr("normalized_shape")), 0)), np.int64)
    mean = write.node("ReduceMean", write.node("Mul", x, x), axes, keepdims=1)
    epsilon = call.attr("eps")
    moved = write.node("Add", mean, write.number(rl.finfo(dtype).eps if epsilon is None else epsilon, dtype))
    result = write.node("Div", x, write.node("Sqrt", moved))
    return result if scale is None else write.node("Mul", result, write.value(scale))


@writes("group_norm")
def group_norm(write: Writer, call: Call) -> object:
    """GroupNormalization."""
    x, scale, bias = call.operands
    channels = (x.type.shape[1],)
    names = [_filled(write, part, number, channels, call.type.dtype) for part, number in ((scale, 1), (bias, 0))]
    return write.node(
        "GroupNormalization", write.value(x), *names, epsilon=call.attr("eps"), num_groups=call.attr("num_groups")
    )


@writes("batch_norm")
def batch_norm(write: Writer, call: Call) -> object:
    """BatchNormalization by running statistics."""
    x, mean, variance, scale, bias = call.operands
    if call.attr("training") or mean is None:
        fail("O003", "onnx.export: batch normalization by the batch", hint="export model.eval()")
    channels, dtype = (x.type.shape[1],), x.type.dtype
    parts = [_filled(write, part, number, channels, dtype) for part, number in ((scale, 1), (bias, 0))]
    names = [write.value(x), *parts, write.value(mean), write.value(variance)]
    return [write.node("BatchNormalization", *names, epsilon=call.attr("eps")), *names[-2:]]


def _per_dim(value: Value, rank: int) -> list[int]:
    return [value] * rank if isinstance(value, int) else list(value) * (rank if len(value) == 1 else 1)


def _batched(write: Writer, call: Call, rank: int, layer: Callable[[str], str]) -> str:
    """A layer of images of so many dims; one without a batch becomes a batch of one."""
    x = call.operands[0]
    if len(x.type.shape) == rank + 2:
        return layer(write.value(x))
    first = write.constant([0], np.int64)
    return write.node("Squeeze", layer(write.node("Unsqueeze", write.value(x), first)), first)


@writes("conv1d", "conv2d", "conv3d")
def conv(write: Writer, call: Call) -> object:
    """Conv."""
    _, weight, bias = call.operands
    rank = len(weight.type.shape) - 2
    padding = call.attr("padding")
    names = [write.value(operand) for operand in (weight, bias) if operand is not None]
    options: dict[str, Value] = {"group": call.attr("groups")}
    if isinstance(padding, str):
        options["auto_pad"] = {"same": "SAME_UPPER", "valid": "VALID"}[padding]
    else:
        options["pads"] = _per_dim(padding, rank) * 2
    options["strides"], options["dilations"] = [_per_dim(call.attr(name), rank) for name in ("stride", "dilation")]
    return _batched(write, call, rank, lambda x: write.node("Conv", x, *names, **options))


@writes("conv_transpose1d", "conv_transpose2d", "conv_transpose3d")
def conv_transpose(write: Writer, call: Call) -> object:
    """ConvTranspose."""
    _, weight, bias = call.operands
    rank = len(weight.type.shape) - 2
    names = [write.value(operand) for operand in (weight, bias) if operand is not None]
    options: dict[str, Value] = {
        "strides": _per_dim(call.attr("stride"), rank),
        "dilations": _per_dim(call.attr("dilation"), rank),
        "pads": _per_dim(call.attr("padding"), rank) * 2,
        "output_padding": _per_dim(call.attr("output_padding"), rank),
        "group": call.attr("groups"),
    }
    return _batched(write, call, rank, lambda x: write.node("ConvTranspose", x, *names, **options))


def _window(attrs: Mapping[str, Value], rank: int) -> dict[str, Value]:
    """What maxima and means of windows have in common."""
    kernel = _per_dim(attrs["kernel_size"], rank)
    return {
        "kernel_shape": kernel,
        "strides": _per_dim(attrs["stride"] or kernel, rank),
        "pads": _per_dim(attrs["padding"], rank) * 2,
        "ceil_mode": int(attrs["ceil_mode"]),
    }


def _max_pool(rank: int) -> Callable[[Writer, Call], object]:
    def rule(write: Writer, call: Call) -> object:
        attrs = dict(call.attrs)
        options: dict[str, Value] = {**_window(attrs, rank), "dilations": _per_dim(attrs["dilation"], rank)}
        return _batched(write, call, rank, lambda x: write.node("MaxPool", x, **options))

    return rule


def _average_pool(rank: int) -> Callable[[Writer, Call], object]:
    def rule(write: Writer, call: Call) -> object:
        attrs = dict(call.attrs)
        if attrs["divisor_override"] is not None:
            fail("O003", "onnx.export: average pooling with a divisor of its own")
        options: dict[str, Value] = {**_window(attrs, rank), "count_include_pad": int(attrs["count_include_pad"])}
        return _batched(write, call, rank, lambda x: write.node("AveragePool", x, **options))

    return rule


RULES.update({f"max_pool{rank}d": _max_pool(rank) for rank in (1, 2, 3)})
RULES.update({f"avg_pool{rank}d": _average_pool(rank) for rank in (1, 2, 3)})


def _shares(write: Writer, length: Size, count: Size, dtype: rl.dtype) -> str:
    """[count, length]: the share that each place has in the mean of each of `count` parts, which may overlap."""
    zero, one = write.scalar(0), write.scalar(1)
    total, parts = write.scalar(length), write.scalar(count)
    part = write.node("Unsqueeze", write.node("Range", zero, parts, one), write.constant([1], np.int64))
    place = write.node("Range", zero, total, one)
    start = write.node("Div", write.node("Mul", part, total), parts)
    rounded = write.node("Sub", write.node("Add", write.node("Mul", write.node("Add", part, one), total), parts), one)
    end = write.node("Div", rounded, parts)
    inside = write.node("And", write.node("GreaterOrEqual", place, start), write.node("Less", place, end))
    return write.node("Div", write.cast(inside, dtype), write.cast(write.node("Sub", end, start), dtype))


@writes("adaptive_avg_pool2d")
def adaptive_average(write: Writer, call: Call) -> object:
    """Products with the shares that places have in means."""
    (x,) = call.operands
    dtype, sizes = call.type.dtype, zip(x.type.shape[-2:], call.type.shape[-2:], strict=True)
    rows, columns = (_shares(write, length, count, dtype) for length, count in sizes)
    return write.node("MatMul", write.node("MatMul", rows, write.value(x)), swapped(write, columns, 2))


@writes("embedding_bag")
def embedding_bag(write: Writer, call: Call) -> object:
    """A product of rows with a matrix that says which bag each belongs to."""
    table, index, offsets, weights = call.operands
    attrs = dict(call.attrs)
    if offsets is None or attrs["mode"] == "max" or attrs["padding_idx"] is not None:
        fail("O003", "onnx.export: embedding_bag without offsets, of maxima, or with padding_idx")
    dtype = call.type.dtype
    rows = write.node("Gather", write.value(table), write.value(index), axis=0)
    starts = write.value(offsets, rl.int64)
    first, last = write.constant([0], np.int64), write.constant([1], np.int64)
    length = write.size(index.type.shape[0])
    if attrs["include_last_offset"]:
        starts, ends = (write.node("Slice", starts, first, write.constant([-1], np.int64)), starts)
    else:
        ends = write.node("Concat", starts, length, axis=0)
    ends = write.node("Slice", ends, last, write.constant([np.iinfo(np.int64).max], np.int64))
    place = write.node("Range", write.scalar(0), write.scalar(index.type.shape[0]), write.scalar(1))
    low, high = (write.node("Unsqueeze", part, last) for part in (starts, ends))
    inside = write.node("And", write.node("GreaterOrEqual", place, low), write.node("Less", place, high))
    member = write.cast(inside, dtype)
    if weights is not None:
        member = write.node("Mul", member, write.value(weights))
    total = write.node("MatMul", member, rows)
    if attrs["mode"] == "sum":
        return total
    count = write.node("Max", write.cast(write.node("Sub", high, low), dtype), write.number(1, dtype))
    return write.node("Div", total, count)


@writes("scaled_dot_product_attention")
def attention(write: Writer, call: Call) -> object:
    """Products, a mask, Softmax."""
    query, key, value, mask = call.operands
    if call.attr("enable_gqa") or call.attr("dropout_p"):
        fail("O003", "onnx.export: attention with dropout or groups of queries", hint="export model.eval()")
    dtype, rank = call.type.dtype, len(key.type.shape)
    scale = call.attr("scale")
    factor = _inverse_root(write, query.type.shape[-1], dtype) if scale is None else write.number(scale, dtype)
    scores = write.node("MatMul", write.node("Mul", write.value(query), factor), swapped(write, write.value(key), rank))
    hidden = write.number(-float("inf"), dtype)
    if call.attr("is_causal"):
        scores = write.node("Where", _causal(write, query.type.shape[-2], key.type.shape[-2]), scores, hidden)
    if mask is not None and mask.type.dtype is rl.bool:
        scores = write.node("Where", write.value(mask), scores, hidden)
    elif mask is not None:
        scores = write.node("Add", scores, write.value(mask, dtype))
    shares = write.node("Softmax", scores, axis=-1)
    if mask is not None:  # a row that sees nothing gives zeros
        shares = write.node("Where", write.node("Equal", scores, hidden), write.number(0, dtype), shares)
    return write.node("MatMul", shares, write.value(value))


def _inverse_root(write: Writer, size: Size, dtype: rl.dtype) -> str:
    if isinstance(size, int):
        return write.number(size**-0.5, dtype)
    return write.node("Reciprocal", write.node("Sqrt", write.cast(write.scalar(size), dtype)))


def _causal(write: Writer, rows: Size, columns: Size) -> str:
    """Whether a row sees a column: those up to its own place."""
    zero, one = write.scalar(0), write.scalar(1)
    row = write.node("Unsqueeze", write.node("Range", zero, write.scalar(rows), one), write.constant([1], np.int64))
    return write.node("GreaterOrEqual", row, write.node("Range", zero, write.scalar(columns), one))
