"""Functions that make nested tensors, by PyTorch's names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import rushlight as rl
from rushlight import Tensor
from rushlight.compiler import is_compiling
from rushlight.eager.composite.segments import lengths_of, offsets_of
from rushlight.eager.storage.formats import StorageLayout, jagged, strided
from rushlight.ir.dtype import DType
from rushlight.nested.tensor import NestedTensor, nested
from rushlight.ops.index.ranged import offsets_within
from rushlight.support.errors import fail, require


def nested_tensor(
    tensor_list: Sequence[Any],
    *,
    dtype: DType | None = None,
    layout: object = None,
    device: object = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> NestedTensor:
    """Return a nested tensor of copies of members, which differ in one size at most.

    With `layout=rl.jagged` this is the first dim of members. Errors: A006 where members differ in more.
    """
    members = [rl.as_tensor(member, dtype=dtype, device=device).detach() for member in tensor_list]
    result = _joined("nested_tensor", members, _layout_of(layout))
    return result.requires_grad_() if requires_grad else result


def as_nested_tensor(ts: Any, dtype: DType | None = None, device: object = None, layout: object = None) -> NestedTensor:
    """Return a nested tensor of members, with their gradients; those of a dense tensor are its rows."""
    if isinstance(ts, NestedTensor):
        return ts.like(ts.values().to(device=device, dtype=dtype))
    members = list(ts.unbind()) if isinstance(ts, Tensor) else list(ts)
    return _joined("as_nested_tensor", [one.to(device=device, dtype=dtype) for one in members], _layout_of(layout))


def _layout_of(layout: object) -> StorageLayout:
    known = layout is None or layout in (jagged, strided)
    require(known, "A002", "nested tensors are of layout jagged or strided", layout=layout)
    return layout if isinstance(layout, StorageLayout) else strided


def _joined(what: str, members: list[Tensor], layout: StorageLayout) -> NestedTensor:
    """Members one after the other."""
    if not members:
        return nested(rl.zeros(0), rl.zeros(1, dtype=rl.int64), None, 1, layout)
    first = members[0]
    same = all(one.ndim == first.ndim and one.dtype is first.dtype for one in members)
    require(same, "S002", f"{what}: members have one number of dims, and one dtype", members=len(members))
    require(first.ndim >= 1, "S002", f"{what}: members have a dim", member=first)
    differing = [dim for dim in range(first.ndim) if any(one.shape[dim] != first.shape[dim] for one in members)]
    hint = "pad the others, or keep a list"
    require(len(differing) <= 1, "A006", f"{what}: members differ in more than one size", dims=differing, hint=hint)
    dim = differing[0] if differing else 0
    require(layout is strided or dim == 0, "A006", f"{what}: members differ in a dim that is not their first", dim=dim)
    sizes = [int(one.shape[dim]) for one in members]
    offsets = rl.tensor([0, *sizes]).cumsum(0)
    return nested(rl.cat(members, dim), offsets, None, dim + 1, layout)


def nested_tensor_from_jagged(
    values: Tensor,
    offsets: Tensor | None = None,
    lengths: Tensor | None = None,
    jagged_dim: int | None = None,
    min_seqlen: int | None = None,
    max_seqlen: int | None = None,
) -> NestedTensor:
    """Return a nested tensor that shows values: member i is from `offsets[i]` to `offsets[i + 1]`.

    With lengths alone members follow each other; with both a member ends before the next one begins. `jagged_dim` is
    the ragged dim, 1 by default. `min_seqlen` and `max_seqlen` stand in PyTorch's signature. Errors: E003 where
    offsets or lengths do not fit the values.
    """
    del min_seqlen, max_seqlen
    what, ragged = "nested_tensor_from_jagged", jagged_dim or 1
    require(offsets is not None or lengths is not None, "E003", f"{what}: offsets or lengths are needed")
    require(1 <= ragged <= values.ndim, "I002", f"{what}: the values have no such dim", jagged_dim=ragged)
    if offsets is None and lengths is not None:
        offsets, lengths = offsets_of(lengths), None
    for name, given in (("offsets", offsets), ("lengths", lengths)):
        fits = given is None or (given.ndim == 1 and not given.dtype.is_floating_point)
        require(fits, "E003", f"{what}: {name} are integers in one dim", given=given)
    assert offsets is not None
    count = values.shape[ragged - 1]
    if is_compiling():
        return nested(values, offsets_within(offsets, count, whole=False), lengths, ragged)
    _require_fit(what, offsets, lengths, int(count))
    return nested(values, offsets, lengths, ragged)


def _require_fit(what: str, offsets: Tensor, lengths: Tensor | None, count: int) -> None:
    """E003, E004 unless all members lie within the values."""
    require(offsets.shape[0] >= 1, "E003", f"{what}: the last offset is missing", offsets=offsets)
    extents = lengths_of(offsets) if lengths is None else lengths
    if lengths is not None:
        least = int(offsets.shape[0]) - 1
        require(lengths.shape[0] == least, "E003", f"{what}: a length for each member", lengths=lengths)
        ends = offsets[:-1] + lengths
    else:
        ends = offsets
    if int(offsets.min()) < 0 or (ends.shape[0] and int(ends.max()) > count):
        fail("E003", f"{what}: members reach outside of the values", count=count, offsets=offsets)
    if extents.shape[0] and int(extents.min()) < 0:
        fail("E004", f"{what}: a length is negative", member=int(extents.argmin()))


def narrow(tensor: Tensor, dim: int, start: int | Tensor, length: int | Tensor, layout: object = None) -> NestedTensor:
    """Return `length[i]` places from `start[i]` on of each row, as a nested tensor on its memory.

    `dim` is 1. Errors: I002, E003 for places that do not exist.
    """
    require(tensor.ndim >= 2 and dim in (1, 1 - tensor.ndim), "A006", "narrow: of dim 1 of a batch", dim=dim)
    batch, width = tensor.shape[:2]
    starts, lengths = (
        given.to(rl.int64).expand(batch) if isinstance(given, Tensor) else rl.full((batch,), int(given))
        for given in (start, length)
    )
    if not is_compiling() and batch:
        fits = int(starts.min()) >= 0 and int(lengths.min()) >= 0 and int((starts + lengths).max()) <= width
        require(fits, "E003", "narrow: places reach outside of the rows", width=width)
    firsts = rl.arange(batch) * width + starts
    offsets = rl.cat([firsts, rl.full((1,), batch * width)])
    whole = nested(tensor.flatten(0, 1), offsets, lengths, 1, jagged)
    return whole if _layout_of(layout) is jagged else whole.packed().like(whole.packed().values())


def masked_select(tensor: Tensor, mask: Tensor) -> NestedTensor:
    """Return for each row of a matrix its elements where the mask is true, as a nested tensor."""
    require(tensor.ndim == 2, "A006", "masked_select: of a matrix", tensor=tensor)
    chosen = mask.expand(tensor.shape)
    offsets = rl.nn.functional.pad(chosen.sum(1).cumsum(0), (1, 0))
    return nested(tensor.masked_select(chosen), offsets, None, 1, jagged)


def to_padded_tensor(
    input: NestedTensor, padding: float, output_size: Sequence[int] | None = None, out: object = None
) -> Tensor:
    """Return all members as one dense tensor, filled up with `padding`."""
    require(isinstance(input, NestedTensor), "A001", "to_padded_tensor: a nested tensor is expected", input=input)
    require(out is None, "A006", "to_padded_tensor: out= is not supported")
    return input.to_padded_tensor(padding, output_size)
