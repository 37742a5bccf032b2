"""Collectives that write to the tensors they are given, by PyTorch's names: `all_reduce(x)`.

Each rank of the group makes the same calls in the same order. With `async_op` a call returns a `Work`, and its tensors
are not to be touched before `work.wait()`; without, it waits and returns None. Autograd does not see them:
`distributed.nn.functional` has forms with gradients.
"""

from __future__ import annotations

from collections.abc import Sequence

from rushlight.distributed.buffers import (
    Parts,
    Target,
    checked_tensor,
    checked_tensors,
    ended,
    joined,
    read,
    same_dtype,
)
from rushlight.distributed.engine.reductions import ReduceOp
from rushlight.distributed.engine.work import Timeout, Work
from rushlight.distributed.group import Group, get_group_rank, member
from rushlight.eager.tensor import Tensor
from rushlight.support.errors import fail, require


def root_of(group: Group, root: int | None, group_root: int | None, name: str) -> int:
    """The place in a group of a rank, which is given as number of all ranks, or as place in it."""
    one = (root is None) != (group_root is None)
    require(one, "A002", f"{name}: one of src and dst, as a number of all ranks or of the group, is expected")
    return group_root if group_root is not None else get_group_rank(group, 0 if root is None else root)


def all_reduce(tensor: object, op: object = ReduceOp.SUM, group: Group = None, async_op: bool = False) -> Work | None:
    """Puts the reduction over all ranks into the tensor of each."""
    found = member(group)
    target = Target(checked_tensor(tensor, "all_reduce"))
    return ended(found.all_reduce(target.buffer, op), async_op, target)


def reduce(
    tensor: object,
    dst: int | None = None,
    op: object = ReduceOp.SUM,
    group: Group = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:
    """Puts the reduction over all ranks into the tensor of `dst`; those of others stay."""
    found, root = member(group), root_of(group, dst, group_dst, "reduce")
    given = checked_tensor(tensor, "reduce")
    target = Target(given) if found.rank == root else None
    buffer = read(given) if target is None else target.buffer
    return ended(found.reduce(buffer, op, root), async_op, target)


def broadcast(
    tensor: object,
    src: int | None = None,
    group: Group = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Work | None:
    """Puts the tensor of `src` into that of each."""
    found, root = member(group), root_of(group, src, group_src, "broadcast")
    target = Target(checked_tensor(tensor, "broadcast"), keeps=found.rank == root)
    return ended(found.broadcast(target.buffer, root), async_op, target)


def all_gather_into_tensor(
    output_tensor: object, input_tensor: object, group: Group = None, async_op: bool = False
) -> Work | None:
    """Puts the tensors of all ranks, along dim 0 or stacked, into the output of each."""
    found, name = member(group), "all_gather_into_tensor"
    output, part = checked_tensor(output_tensor, name), checked_tensor(input_tensor, name)
    _check_whole(output, part, found.size, name)
    target = Target(output)
    counts = [part.numel()] * found.size
    return ended(found.all_gather(target.buffer, read(part), counts), async_op, target)


def _check_whole(whole: Tensor, part: Tensor, size: int, name: str) -> None:
    """S009 unless a tensor has the shape of all parts, along dim 0 or stacked; D003 for other dtypes."""
    same_dtype([whole, part], name)
    shape = tuple(part.shape)
    shapes = [(size, *shape), (size * shape[0], *shape[1:]) if shape else (size,)]
    message = f"{name}: the whole is {size} parts, along dim 0 or stacked"
    require(tuple(whole.shape) in shapes, "S009", message, whole=whole, part=part)


def all_gather(
    tensor_list: Sequence[object], tensor: object, group: Group = None, async_op: bool = False
) -> Work | None:
    """Puts the tensors of all ranks, which may differ in size, into the list of each."""
    found = member(group)
    outputs, part = checked_tensors(tensor_list, found.size, "all_gather"), checked_tensor(tensor, "all_gather")
    same_dtype([part, *outputs], "all_gather")
    target = Parts(outputs)
    return ended(found.all_gather(target.buffer, read(part), target.counts), async_op, target)


def reduce_scatter_tensor(
    output: object, input: object, op: object = ReduceOp.SUM, group: Group = None, async_op: bool = False
) -> Work | None:
    """Puts part `i` of the reduction over all ranks, divided along dim 0, into the output of rank `i`."""
    found, name = member(group), "reduce_scatter_tensor"
    part, whole = checked_tensor(output, name), checked_tensor(input, name)
    _check_whole(whole, part, found.size, name)
    target = Target(part, keeps=False)
    counts = [part.numel()] * found.size
    return ended(found.reduce_scatter(target.buffer, read(whole), counts, op), async_op, target)


def reduce_scatter(
    output: object,
    input_list: Sequence[object],
    op: object = ReduceOp.SUM,
    group: Group = None,
    async_op: bool = False,
) -> Work | None:
    """Puts the reduction of the tensors `i` of all ranks' lists into the output of rank `i`."""
    found = member(group)
    part, inputs = checked_tensor(output, "reduce_scatter"), checked_tensors(input_list, found.size, "reduce_scatter")
    same_dtype([part, *inputs], "reduce_scatter")
    target = Target(part, keeps=False)
    counts = [one.numel() for one in inputs]
    return ended(found.reduce_scatter(target.buffer, joined(inputs), counts, op), async_op, target)


def all_to_all_single(
    output: object,
    input: object,
    output_split_sizes: Sequence[int] | None = None,
    input_split_sizes: Sequence[int] | None = None,
    group: Group = None,
    async_op: bool = False,
) -> Work | None:
    """Puts part `j` of the input of rank `i` into part `i` of the output of rank `j`.

    Tensors are divided along dim 0: evenly, or in parts of the given sizes.
    """
    found, name = member(group), "all_to_all_single"
    taken, given = checked_tensor(output, name), checked_tensor(input, name)
    same_dtype([taken, given], name)
    out_counts = _counts_along(taken, output_split_sizes, found.size, name)
    in_counts = _counts_along(given, input_split_sizes, found.size, name)
    target = Target(taken, keeps=False)
    return ended(found.all_to_all(target.buffer, out_counts, read(given), in_counts), async_op, target)


def _counts_along(tensor: Tensor, sizes: Sequence[int] | None, size: int, name: str) -> list[int]:
    """The elements of each part of a tensor along dim 0; S010 where the parts do not make the whole."""
    require(tensor.ndim >= 1, "S002", f"{name}: a tensor of at least one dim is expected", tensor=tensor)
    rows = int(tensor.shape[0])
    if sizes is None or not len(sizes):
        even = rows % size == 0
        require(even, "S010", f"{name}: dim 0 does not divide evenly by {size} ranks", tensor=tensor)
        sizes = [rows // size] * size
    fits = len(sizes) == size and all(isinstance(one, int) and one >= 0 for one in sizes)
    require(fits, "A002", f"{name}: one size for each of {size} ranks is expected", sizes=list(sizes))
    require(sum(sizes) == rows, "S010", f"{name}: the sizes do not add up to dim 0", tensor=tensor, sizes=list(sizes))
    row = tensor.numel() // rows if rows else 0
    return [one * row for one in sizes]


def all_to_all(
    output_tensor_list: Sequence[object],
    input_tensor_list: Sequence[object],
    group: Group = None,
    async_op: bool = False,
) -> Work | None:
    """Puts tensor `j` of the list of rank `i` into tensor `i` of the list of rank `j`."""
    found = member(group)
    outputs = checked_tensors(output_tensor_list, found.size, "all_to_all")
    inputs = checked_tensors(input_tensor_list, found.size, "all_to_all")
    same_dtype([*outputs, *inputs], "all_to_all")
    target, counts = Parts(outputs), [one.numel() for one in inputs]
    return ended(found.all_to_all(target.buffer, target.counts, joined(inputs), counts), async_op, target)


def gather(
    tensor: object,
    gather_list: Sequence[object] | None = None,
    dst: int | None = None,
    group: Group = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:
    """Puts the tensors of all ranks, of one shape, into the list of `dst`; others give none."""
    found = member(group)
    root = root_of(group, 0 if dst is None and group_dst is None else dst, group_dst, "gather")
    part = checked_tensor(tensor, "gather")
    if (found.rank == root) == (not gather_list):
        fail("A002", f"gather: rank {root} of the group alone gives a list", rank=found.rank)
    target = Parts(checked_tensors(gather_list, found.size, "gather")) if gather_list else None
    if gather_list:
        same_dtype([part, *checked_tensors(gather_list, found.size, "gather")], "gather")
    counts = [part.numel()] * found.size
    buffer = None if target is None else target.buffer
    return ended(found.gather(buffer, read(part), counts, root), async_op, target)


def scatter(
    tensor: object,
    scatter_list: Sequence[object] | None = None,
    src: int | None = None,
    group: Group = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Work | None:
    """Puts tensor `i` of the list of `src` into that of rank `i`, all of one shape; others give none."""
    found = member(group)
    root = root_of(group, 0 if src is None and group_src is None else src, group_src, "scatter")
    part = checked_tensor(tensor, "scatter")
    if (found.rank == root) == (not scatter_list):
        fail("A002", f"scatter: rank {root} of the group alone gives a list", rank=found.rank)
    whole = None
    if scatter_list:
        inputs = checked_tensors(scatter_list, found.size, "scatter")
        same_dtype([part, *inputs], "scatter")
        whole = joined(inputs)
    target = Target(part, keeps=False)
    counts = [part.numel()] * found.size
    return ended(found.scatter(target.buffer, whole, counts, root), async_op, target)


def barrier(group: Group = None, async_op: bool = False, device_ids: object = None) -> Work | None:
    """Waits for all ranks."""
    return ended(member(group).barrier(), async_op)


def monitored_barrier(group: Group = None, timeout: Timeout = None, wait_all_ranks: bool = False) -> None:
    """Waits for all ranks, `timeout` at most; the error names those that are missing."""
    member(group).barrier("monitored").wait(timeout)
