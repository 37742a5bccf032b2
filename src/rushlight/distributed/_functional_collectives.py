"""Collectives that give new tensors: differentiable, and kept in order, once each, by graphs. PyTorch's names.

A group is a `ProcessGroup`, its name, what has `get_group()` as a mesh of one dim, or None for the default group. The
gradient of an all-reduce is the all-reduce of gradients, that of an all-gather a reduce-scatter, and the other way
round. Results are complete when a call returns: `wait_tensor` is for programs that call it.
"""

from __future__ import annotations

from collections.abc import Sequence

from rushlight.distributed.engine.reductions import reduction
from rushlight.distributed.group import member
from rushlight.eager.arguments import required_tensor
from rushlight.eager.functions import cat, chunk
from rushlight.eager.tensor import Tensor
from rushlight.ops import collective
from rushlight.support.errors import require
from rushlight.support.peer_names import absent_name

__all__ = [
    "all_gather_tensor",
    "all_gather_tensor_autograd",
    "all_reduce",
    "all_to_all_single",
    "all_to_all_single_autograd",
    "broadcast",
    "permute_tensor",
    "reduce_scatter_tensor",
    "reduce_scatter_tensor_autograd",
    "wait_tensor",
]


def wait_tensor(tensor: object) -> Tensor:
    """Return the tensor: it is complete."""
    return required_tensor(tensor)


def _name_of(op: object) -> str:
    return reduction(op).text


def all_reduce(self: object, reduceOp: object, group: object = None, tag: str = "") -> Tensor:
    """The reduction over all ranks, on each."""
    return collective.all_reduce(required_tensor(self), _name_of(reduceOp), member(group).name)


def broadcast(self: object, src: int, group: object = None, tag: str = "") -> Tensor:
    """The tensor of `src`, a place in the group, on each rank."""
    found = member(group)
    require(0 <= src < found.size, "A002", f"broadcast: no rank of a group of {found.size}", src=src)
    return collective.broadcast_from(required_tensor(self), src, found.name)


def all_gather_tensor(self: object, gather_dim: int, group: object = None, tag: str = "") -> Tensor:
    """The tensors of all ranks, one after another along a dim, on each."""
    found, tensor = member(group), required_tensor(self)
    whole = collective.all_gather_into_tensor(tensor, found.size, found.name)
    return whole if gather_dim == 0 else cat(chunk(whole, found.size, 0), gather_dim)


def reduce_scatter_tensor(
    self: object,
    reduceOp: object,
    scatter_dim: int,
    group: object = None,
    tag: str = "",
) -> Tensor:
    """The rank's own part, along a dim, of the reduction over all ranks."""
    found, tensor = member(group), required_tensor(self)
    if scatter_dim:
        size = tensor.shape[scatter_dim]
        message = f"reduce_scatter_tensor: dim {scatter_dim} does not divide evenly by {found.size} ranks"
        require(size % found.size == 0, "S010", message, input=tensor)
        tensor = cat(chunk(tensor, found.size, scatter_dim), 0)
    return collective.reduce_scatter_tensor(tensor, _name_of(reduceOp), found.size, found.name)


def all_to_all_single(
    self: object,
    output_split_sizes: Sequence[int] | None,
    input_split_sizes: Sequence[int] | None,
    group: object = None,
    tag: str = "",
) -> Tensor:
    """Part `j` of rank `i` as part `i` of rank `j`: even parts along dim 0, or rows of the sizes given.

    Sizes may be those that values tell, as `counts.tolist()` gives.
    """
    found, tensor = member(group), required_tensor(self)
    require(tensor.ndim >= 1, "S002", "all_to_all_single: a tensor of at least one dim is expected", input=tensor)
    even = [tensor.shape[0] // found.size] * found.size
    given = even if input_split_sizes is None else list(input_split_sizes)
    taken = even if output_split_sizes is None else list(output_split_sizes)
    for sizes in (given, taken):
        fits = len(sizes) == found.size
        require(fits, "A002", f"all_to_all_single: one size for each of {found.size} ranks is expected", sizes=sizes)
    return collective.all_to_all_single(tensor, tuple(taken), tuple(given), found.name)


def permute_tensor(self: object, src_dst: Sequence[int], group: object = None, tag: str = "") -> Tensor:
    """The tensor of the rank that sends to this one: rank `i` sends to rank `src_dst[i]`."""
    found = member(group)
    message = f"permute_tensor: a rank to send to is expected for each of {found.size} ranks"
    require(len(src_dst) == found.size, "A002", message, src_dst=list(src_dst))
    return collective.permute_tensor(required_tensor(self), tuple(src_dst), found.name)


all_gather_tensor_autograd = all_gather_tensor
reduce_scatter_tensor_autograd = reduce_scatter_tensor
all_to_all_single_autograd = all_to_all_single


def __getattr__(name: str) -> object:
    raise absent_name(__name__, name, __all__)
