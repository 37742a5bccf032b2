"""Collectives as operators: what ranks exchange is a value of its own, and the transposes are each other's gradients.

A call is a step on the host that finds its group of ranks by name when it runs. It is an effect: a graph keeps each
call, once, and in order, since all ranks make the same ones. That order is one of calls and not of values, so that no
value lives longer for it.

`sizes` are the rows that each rank holds along dim 0, where they differ.
"""

from __future__ import annotations

import numpy as np

from rushlight.ir.process_group import Counts, named
from rushlight.ir.type import TensorType
from rushlight.ir.value import Value
from rushlight.ops.dims import Array, convert, same_size
from rushlight.ops.pointwise.comparison import eq
from rushlight.ops.pointwise.complex import conjugate
from rushlight.ops.pointwise.selection import where
from rushlight.ops.record import Fact, define
from rushlight.support.errors import fail, require
from rushlight.sym import Size, total

_EFFECT = Fact.HOST | Fact.EFFECT | Fact.STORED

all_reduce = define(
    "all_reduce(Tensor input, str reduce_op, str group_name) -> Tensor",
    "The reduction over all ranks of a group, on each.",
    facts=_EFFECT,
    variants="",
)


@all_reduce.meta
def all_reduce_meta(input: TensorType, reduce_op: str, group_name: str) -> TensorType:
    return TensorType(input.shape, input.dtype, input.device)


@all_reduce.ref
def all_reduce_ref(input: Array, reduce_op: str, group_name: str) -> Array:
    result = np.array(input, order="C")
    named(group_name).all_reduce(result.reshape(-1), reduce_op).wait()
    return result


@all_reduce.vjp
def all_reduce_vjp(g: Value, out: Value, input: Value, reduce_op: str, group_name: str) -> Value:
    if reduce_op == "avg":
        return all_reduce(g, "avg", group_name)
    gradient = all_reduce(g, "sum", group_name)
    if reduce_op in ("max", "min"):
        # Those that are equal to the result share its gradient, as `amax` has it.
        is_chosen = convert(eq(input, out), g.dtype)
        return gradient * is_chosen / all_reduce(is_chosen, "sum", group_name)
    if reduce_op == "product":
        return gradient * conjugate(_product_of_others(input, group_name))
    require(reduce_op == "sum", "G008", f"all_reduce: {reduce_op} has no derivative")
    return gradient


def _product_of_others(input: Value, group_name: str) -> Value:
    """The product over all other ranks, whether elements are zero or not."""
    is_zero = eq(input, 0)
    solid = where(is_zero, 1.0, input)
    rest = all_reduce(solid, "product", group_name)
    zeros = all_reduce(convert(is_zero, input.dtype), "sum", group_name)
    return where(eq(zeros, 0), rest / solid, where(eq(zeros, 1) & is_zero, rest, 0.0))


reduce_to = define(
    "reduce_to(Tensor input, str reduce_op, int dst, str group_name) -> Tensor",
    "The reduction over all ranks of a group on rank `dst` of it, and zeros on the others.",
    facts=_EFFECT,
    variants="",
)


@reduce_to.meta
def reduce_to_meta(input: TensorType, reduce_op: str, dst: int, group_name: str) -> TensorType:
    return TensorType(input.shape, input.dtype, input.device)


@reduce_to.ref
def reduce_to_ref(input: Array, reduce_op: str, dst: int, group_name: str) -> Array:
    result, group = np.array(input, order="C"), named(group_name)
    group.reduce(result.reshape(-1), reduce_op, dst).wait()
    return result if group.rank == dst else np.zeros_like(result)


@reduce_to.vjp
def reduce_to_vjp(g: Value, reduce_op: str, dst: int, group_name: str) -> Value:
    require(reduce_op == "sum", "G008", f"reduce_to: {reduce_op} has no derivative", hint="reduce by sum")
    return broadcast_from(g, dst, group_name)


broadcast_from = define(
    "broadcast_from(Tensor input, int src, str group_name) -> Tensor",
    "The tensor of rank `src` of a group, on each.",
    facts=_EFFECT,
    variants="",
)


@broadcast_from.meta
def broadcast_from_meta(input: TensorType, src: int, group_name: str) -> TensorType:
    return TensorType(input.shape, input.dtype, input.device)


@broadcast_from.ref
def broadcast_from_ref(input: Array, src: int, group_name: str) -> Array:
    result = np.array(input, order="C")
    named(group_name).broadcast(result.reshape(-1), src).wait()
    return result


@broadcast_from.vjp
def broadcast_from_vjp(g: Value, src: int, group_name: str) -> Value:
    return reduce_to(g, "sum", src, group_name)


def _with_rows(input: TensorType, rows: Size) -> TensorType:
    return TensorType((rows, *input.shape[1:]), input.dtype, input.device)


def _counts(sizes: tuple[int, ...], rows: int, row: int, ranks: int) -> Counts:
    """The elements that each rank holds of so many rows in all."""
    return [size * row for size in sizes] if sizes else [rows // ranks * row] * ranks


def _check_sizes(name: str, input: TensorType, sizes: tuple[Size, ...], group_size: int) -> None:
    require(not sizes or input.shape, "S002", f"{name}: sizes are rows along dim 0", input=input)
    fits = len(sizes) in (0, group_size)
    require(fits, "A002", f"{name}: one size for each of {group_size} ranks is expected", sizes=sizes)


all_gather_into_tensor = define(
    "all_gather_into_tensor(Tensor input, int group_size, str group_name, Size[] sizes=()) -> Tensor",
    "The tensors of all ranks of a group along dim 0, on each.",
    facts=_EFFECT,
    variants="",
)


@all_gather_into_tensor.meta
def all_gather_into_tensor_meta(
    input: TensorType, group_size: int, group_name: str, sizes: tuple[Size, ...]
) -> TensorType:
    _check_sizes("all_gather_into_tensor", input, sizes, group_size)
    rows = input.shape[0] if input.shape else 1
    return _with_rows(input, total(sizes) if sizes else rows * group_size)


@all_gather_into_tensor.ref
def all_gather_into_tensor_ref(input: Array, group_size: int, group_name: str, sizes: tuple[int, ...]) -> Array:
    part = np.ascontiguousarray(input)
    row = int(np.prod(part.shape[1:], dtype=np.int64))
    mine = part.shape[0] if part.ndim else 1
    rows = sum(sizes) if sizes else mine * group_size
    result = np.empty((rows, *part.shape[1:]), part.dtype)
    counts = _counts(sizes, rows, row, group_size)
    named(group_name).all_gather(result.reshape(-1), part.reshape(-1), counts).wait()
    return result


@all_gather_into_tensor.vjp(types=("input",))
def all_gather_into_tensor_vjp(
    g: Value, input: TensorType, group_size: int, group_name: str, sizes: tuple[Size, ...]
) -> Value:
    rows = input.shape[0] if input.shape else 1
    gradient = reduce_scatter_tensor(g, "sum", group_size, group_name, sizes, rows)
    return gradient if input.shape else gradient.sum(0)


reduce_scatter_tensor = define(
    "reduce_scatter_tensor(Tensor input, str reduce_op, int group_size, str group_name, Size[] sizes=(),"
    " Size? rows=None) -> Tensor",
    "A rank's own rows of the reduction over all ranks of a group: an equal part, or its `rows` of `sizes`.",
    facts=_EFFECT,
    variants="",
)


@reduce_scatter_tensor.meta
def reduce_scatter_tensor_meta(
    input: TensorType, reduce_op: str, group_size: int, group_name: str, sizes: tuple[Size, ...], rows: Size | None
) -> TensorType:
    _check_sizes("reduce_scatter_tensor", input, sizes, group_size)
    require(input.shape, "S002", "reduce_scatter_tensor: a tensor of at least one dim is expected", input=input)
    if sizes:
        message = "reduce_scatter_tensor: the sizes add up to dim 0"
        require(same_size(total(sizes), input.shape[0]), "S010", message, input=input, sizes=sizes)
        if rows is None:
            fail("A003", "reduce_scatter_tensor: sizes need rows, which are this rank's", sizes=sizes)
        return _with_rows(input, rows)
    mine = input.shape[0] // group_size if rows is None else rows
    message = f"reduce_scatter_tensor: dim 0 does not divide evenly by {group_size} ranks"
    require(same_size(mine * group_size, input.shape[0]), "S010", message, input=input)
    return _with_rows(input, mine)


@reduce_scatter_tensor.ref
def reduce_scatter_tensor_ref(
    input: Array, reduce_op: str, group_size: int, group_name: str, sizes: tuple[int, ...], rows: int | None
) -> Array:
    whole, group = np.ascontiguousarray(input), named(group_name)
    row = int(np.prod(whole.shape[1:], dtype=np.int64))
    mine = sizes[group.rank] if sizes else whole.shape[0] // group_size
    result = np.empty((mine, *whole.shape[1:]), whole.dtype)
    counts = _counts(sizes, whole.shape[0], row, group_size)
    group.reduce_scatter(result.reshape(-1), whole.reshape(-1), counts, reduce_op).wait()
    return result


@reduce_scatter_tensor.vjp
def reduce_scatter_tensor_vjp(
    g: Value, reduce_op: str, group_size: int, group_name: str, sizes: tuple[Size, ...], rows: Size | None
) -> Value:
    require(reduce_op in ("sum", "avg"), "G008", f"reduce_scatter_tensor: {reduce_op} has no derivative")
    gradient = all_gather_into_tensor(g, group_size, group_name, sizes)
    return gradient / group_size if reduce_op == "avg" else gradient


all_to_all_single = define(
    "all_to_all_single(Tensor input, Size[] output_split_sizes, Size[] input_split_sizes, str group_name) -> Tensor",
    "Rows of all ranks of a group: of each as many as the output sizes say, where the input sizes divide a rank's own.",
    facts=_EFFECT,
    variants="",
)


@all_to_all_single.meta
def all_to_all_single_meta(
    input: TensorType,
    output_split_sizes: tuple[Size, ...],
    input_split_sizes: tuple[Size, ...],
    group_name: str,
) -> TensorType:
    require(input.shape, "S002", "all_to_all_single: a tensor of at least one dim is expected", input=input)
    fits = len(output_split_sizes) == len(input_split_sizes)
    require(fits, "A002", "all_to_all_single: one size for each rank is expected", sizes=input_split_sizes)
    message = "all_to_all_single: the sizes add up to dim 0"
    adds_up = same_size(total(input_split_sizes), input.shape[0])
    require(adds_up, "S010", message, input=input, sizes=input_split_sizes)
    return _with_rows(input, total(output_split_sizes))


@all_to_all_single.ref
def all_to_all_single_ref(
    input: Array,
    output_split_sizes: tuple[int, ...],
    input_split_sizes: tuple[int, ...],
    group_name: str,
) -> Array:
    whole = np.ascontiguousarray(input)
    row = int(np.prod(whole.shape[1:], dtype=np.int64))
    result = np.empty((sum(output_split_sizes), *whole.shape[1:]), whole.dtype)
    taken, given = [[size * row for size in sizes] for sizes in (output_split_sizes, input_split_sizes)]
    named(group_name).all_to_all(result.reshape(-1), taken, whole.reshape(-1), given).wait()
    return result


@all_to_all_single.vjp
def all_to_all_single_vjp(
    g: Value,
    output_split_sizes: tuple[Size, ...],
    input_split_sizes: tuple[Size, ...],
    group_name: str,
) -> Value:
    return all_to_all_single(g, input_split_sizes, output_split_sizes, group_name)


permute_tensor = define(
    "permute_tensor(Tensor input, int[] src_dst, str group_name) -> Tensor",
    "The tensor of the rank that sends to this one: rank `i` of the group sends to rank `src_dst[i]`.",
    facts=_EFFECT,
    variants="",
)


@permute_tensor.meta
def permute_tensor_meta(input: TensorType, src_dst: tuple[int, ...], group_name: str) -> TensorType:
    fits = sorted(src_dst) == list(range(len(src_dst)))
    require(fits, "A002", "permute_tensor: each rank is sent to once", src_dst=src_dst)
    return TensorType(input.shape, input.dtype, input.device)


@permute_tensor.ref
def permute_tensor_ref(input: Array, src_dst: tuple[int, ...], group_name: str) -> Array:
    given, group = np.ascontiguousarray(input), named(group_name)
    result = np.empty_like(given)
    here = range(len(src_dst))
    taken = [given.size if src_dst[rank] == group.rank else 0 for rank in here]
    sent = [given.size if src_dst[group.rank] == rank else 0 for rank in here]
    group.all_to_all(result.reshape(-1), taken, given.reshape(-1), sent).wait()
    return result


@permute_tensor.vjp
def permute_tensor_vjp(g: Value, src_dst: tuple[int, ...], group_name: str) -> Value:
    back = tuple([src_dst.index(rank) for rank in range(len(src_dst))])
    return permute_tensor(g, back, group_name)
