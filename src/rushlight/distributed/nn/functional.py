"""Collectives with gradients that take and give tensors, as in `torch.distributed.nn.functional`.

What a rank gives has the gradient of all results that it went into. Where a rank's result is not used, its gradient is
zeros: all ranks run the backward pass, as they run the forward pass.
"""

from __future__ import annotations

from collections.abc import Sequence

from rushlight.distributed.collectives import root_of
from rushlight.distributed.engine.reductions import ReduceOp, reduction
from rushlight.distributed.group import Group, member
from rushlight.eager.arguments import required_tensor
from rushlight.eager.functions import cat
from rushlight.eager.tensor import Tensor
from rushlight.ops import collective
from rushlight.support.errors import require
from rushlight.support.peer_names import absent_name

__all__ = [
    "all_gather",
    "all_reduce",
    "all_to_all",
    "all_to_all_single",
    "broadcast",
    "gather",
    "reduce",
    "reduce_scatter",
    "scatter",
]


def all_reduce(tensor: object, op: object = ReduceOp.SUM, group: Group = None) -> Tensor:
    """The reduction over all ranks, on each."""
    return collective.all_reduce(required_tensor(tensor), reduction(op).text, member(group).name)


def broadcast(tensor: object, src: int, group: Group = None) -> Tensor:
    """The tensor of `src` on each rank; its gradient is the sum of the ranks' gradients."""
    return collective.broadcast_from(
        required_tensor(tensor), root_of(group, src, None, "broadcast"), member(group).name
    )


def reduce(tensor: object, dst: int, op: object = ReduceOp.SUM, group: Group = None) -> Tensor:
    """The reduction over all ranks on `dst`, and zeros on the others."""
    root = root_of(group, dst, None, "reduce")
    return collective.reduce_to(required_tensor(tensor), reduction(op).text, root, member(group).name)


def all_gather(tensor: object, group: Group = None) -> tuple[Tensor, ...]:
    """The tensors of all ranks, of one shape, on each."""
    found, part = member(group), required_tensor(tensor)
    whole = collective.all_gather_into_tensor(part.unsqueeze(0), found.size, found.name)
    return tuple(whole.unbind(0))


def reduce_scatter(
    output: object, input_list: Sequence[object], op: object = ReduceOp.SUM, group: Group = None
) -> Tensor:
    """The reduction of the tensors `i` of all ranks' lists, on rank `i`.

    `output` says the shape, and is not written.
    """
    found = member(group)
    inputs = [required_tensor(one) for one in input_list]
    message = f"reduce_scatter: a list of {found.size} tensors is expected, one for each rank"
    require(len(inputs) == found.size, "A002", message, given=len(inputs))
    rows = [one.numel() for one in inputs]
    flat = cat([one.reshape(-1) for one in inputs], 0)
    part = collective.reduce_scatter_tensor(
        flat, reduction(op).text, found.size, found.name, tuple(rows), rows[found.rank]
    )
    return part.reshape(required_tensor(output).shape)


def all_to_all_single(
    output: object,
    input: object,
    output_split_sizes: Sequence[int] | None = None,
    input_split_sizes: Sequence[int] | None = None,
    group: Group = None,
) -> Tensor:
    """Part `j` of rank `i` as part `i` of rank `j`. `output` says the number of rows, and is not written."""
    found, given = member(group), required_tensor(input)
    rows, taken_rows = given.shape[0], required_tensor(output).shape[0]
    out_sizes = output_split_sizes or [taken_rows // found.size] * found.size
    in_sizes = input_split_sizes or [rows // found.size] * found.size
    return collective.all_to_all_single(given, tuple(out_sizes), tuple(in_sizes), found.name)


def all_to_all(
    output_tensor_list: Sequence[object], input_tensor_list: Sequence[object], group: Group = None
) -> tuple[Tensor, ...]:
    """Tensor `j` of rank `i` as tensor `i` of rank `j`. The outputs say the shapes, and are not written."""
    found = member(group)
    outputs = [required_tensor(one) for one in output_tensor_list]
    inputs = [required_tensor(one) for one in input_tensor_list]
    fits = len(outputs) == len(inputs) == found.size
    require(fits, "A002", f"all_to_all: lists of {found.size} tensors are expected, one for each rank")
    out_sizes, in_sizes = [tuple([one.numel() for one in tensors]) for tensors in (outputs, inputs)]
    flat = cat([one.reshape(-1) for one in inputs], 0)
    whole = collective.all_to_all_single(flat, out_sizes, in_sizes, found.name)
    return tuple([part.reshape(one.shape) for part, one in zip(whole.split(out_sizes), outputs, strict=True)])


def gather(tensor: object, dst: int = 0, group: Group = None) -> tuple[Tensor, ...]:
    """The tensors of all ranks, of one shape, on `dst`, and zeros on the others."""
    found, part = member(group), required_tensor(tensor)
    root = root_of(group, dst, None, "gather")
    in_sizes = [part.numel() if rank == root else 0 for rank in range(found.size)]
    out_sizes = [part.numel() if found.rank == root else 0] * found.size
    whole = collective.all_to_all_single(part.reshape(-1), tuple(out_sizes), tuple(in_sizes), found.name)
    if found.rank != root:
        return tuple([whole.sum() * part.new_zeros(part.shape) for _ in range(found.size)])
    return tuple([one.reshape(part.shape) for one in whole.split(out_sizes)])


def scatter(tensors: Sequence[object], src: int = 0, group: Group = None) -> Tensor:
    """Tensor `i` of the list of `src` on rank `i`. The lists of the others say the shape."""
    found = member(group)
    inputs = [required_tensor(one) for one in tensors]
    message = f"scatter: a list of {found.size} tensors is expected, one for each rank"
    require(len(inputs) == found.size, "A002", message, given=len(inputs))
    root, own = root_of(group, src, None, "scatter"), inputs[found.rank]
    flat = cat([one.reshape(-1) for one in inputs], 0)
    in_sizes = [one.numel() if found.rank == root else 0 for one in inputs]
    out_sizes = [own.numel() if rank == root else 0 for rank in range(found.size)]
    given = flat if found.rank == root else flat[:0]
    whole = collective.all_to_all_single(given, tuple(out_sizes), tuple(in_sizes), found.name)
    return whole.reshape(own.shape)


def __getattr__(name: str) -> object:
    raise absent_name(__name__, name, __all__)
