"""Collectives of Python objects, which are pickled on the way: `all_gather_object(values, value)`.

A pickle may run code when it is read. What is read here was sent by the other ranks of the same program.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any

import numpy as np

from rushlight.distributed.collectives import root_of
from rushlight.distributed.group import Group, ProcessGroup, member
from rushlight.ir.process_group import Buffer
from rushlight.support.errors import require


def all_gather_object(object_list: list[Any], obj: object, group: Group = None) -> None:
    """Put the objects of all ranks, in their order, into the list of each."""
    found = member(group)
    _check_length(object_list, found.size, "all_gather_object")
    object_list[:] = _gathered(found, obj)


def gather_object(
    obj: object,
    object_gather_list: list[Any] | None = None,
    dst: int | None = None,
    group: Group = None,
    group_dst: int | None = None,
) -> None:
    """Put the objects of all ranks, in their order, into the list of `dst`; the others give none."""
    found = member(group)
    root = root_of(group, 0 if dst is None and group_dst is None else dst, group_dst, "gather_object")
    alone = (found.rank == root) == (object_gather_list is not None)
    require(alone, "A002", f"gather_object: rank {root} of the group alone gives a list", rank=found.rank)
    part = _bytes_of(obj)
    counts = _sizes(found, len(part))
    whole = np.empty(sum(counts), np.uint8) if found.rank == root else None
    found.gather(whole, part, counts, root).wait()
    if whole is not None and object_gather_list is not None:
        _check_length(object_gather_list, found.size, "gather_object")
        object_gather_list[:] = _parts(whole, counts)


def broadcast_object_list(
    object_list: list[Any],
    src: int | None = None,
    group: Group = None,
    device: object = None,
    group_src: int | None = None,
) -> None:
    """Put the objects of the list of `src` into the lists of all ranks, which are of one length."""
    found = member(group)
    root = root_of(group, 0 if src is None and group_src is None else src, group_src, "broadcast_object_list")
    part = _bytes_of(list(object_list)) if found.rank == root else np.empty(0, np.uint8)
    size = np.array([len(part)], np.int64)
    found.broadcast(size, root).wait()
    buffer = part if found.rank == root else np.empty(int(size[0]), np.uint8)
    found.broadcast(buffer, root).wait()
    if not buffer.size:  # of a rank that does not run: each has what this one has
        return
    values: list[Any] = _object_of(buffer)
    _check_length(object_list, len(values), "broadcast_object_list")
    object_list[:] = values


def send_object_list(
    object_list: Sequence[object],
    dst: int | None = None,
    group: Group = None,
    device: object = None,
    group_dst: int | None = None,
) -> None:
    """Give the objects of a list to another rank, which calls `recv_object_list`."""
    found = member(group)
    peer = root_of(group, dst, group_dst, "send_object_list")
    whole = _bytes_of(list(object_list))
    found.send(np.array([len(whole)], np.int64), peer).wait()
    found.send(whole, peer).wait()


def recv_object_list(
    object_list: list[Any],
    src: int | None = None,
    group: Group = None,
    device: object = None,
    group_src: int | None = None,
) -> int:
    """Put the objects that another rank sends into a list of their number; return that rank."""
    found = member(group)
    anyone = src is None and group_src is None
    peer = None if anyone else root_of(group, src, group_src, "recv_object_list")
    size = np.zeros(1, np.int64)
    work = found.receive(size, peer)
    work.wait()
    sender = peer if peer is not None else work.source_rank()
    buffer = np.empty(int(size[0]), np.uint8)
    if buffer.size:  # else it is of a rank that does not run
        found.receive(buffer, sender).wait()
        values: list[Any] = _object_of(buffer)
        _check_length(object_list, len(values), "recv_object_list")
        object_list[:] = values
    return found.ranks[sender]


def scatter_object_list(
    scatter_object_output_list: list[Any],
    scatter_object_input_list: Sequence[Any] | None = None,
    src: int | None = None,
    group: Group = None,
    group_src: int | None = None,
) -> None:
    """Put object `i` of the list of `src` first into the list of rank `i`; the others give none."""
    found = member(group)
    root = root_of(group, 0 if src is None and group_src is None else src, group_src, "scatter_object_list")
    require(scatter_object_output_list, "A002", "scatter_object_list: a list with a place for the object is expected")
    parts: list[Buffer] = []
    if found.rank == root:
        given = list(scatter_object_input_list or ())
        _check_length(given, found.size, "scatter_object_list")
        parts = [_bytes_of(value) for value in given]
    sizes = np.array([len(part) for part in parts] if parts else [0] * found.size, np.int64)
    found.broadcast(sizes, root).wait()
    counts = [int(size) for size in sizes]
    out = np.empty(counts[found.rank], np.uint8)
    found.scatter(out, np.concatenate(parts) if parts else None, counts, root).wait()
    if out.size:  # else it is of a rank that does not run
        scatter_object_output_list[0] = _object_of(out)


def _gathered(group: ProcessGroup, value: object) -> list[Any]:
    part = _bytes_of(value)
    counts = _sizes(group, len(part))
    whole = np.empty(sum(counts), np.uint8)
    group.all_gather(whole, part, counts).wait()
    return _parts(whole, counts)


def _sizes(group: ProcessGroup, size: int) -> list[int]:
    """The sizes in bytes of what all ranks have."""
    sizes = np.empty(group.size, np.int64)
    group.all_gather(sizes, np.array([size], np.int64), [1] * group.size).wait()
    return [int(one) for one in sizes]


def _parts(whole: Buffer, counts: Sequence[int]) -> list[Any]:
    ends = np.cumsum(counts)
    return [_object_of(whole[end - count : end]) for count, end in zip(counts, ends, strict=True)]


def _bytes_of(value: object) -> Buffer:
    return np.frombuffer(pickle.dumps(value), np.uint8)


def _object_of(data: Buffer) -> Any:
    return pickle.loads(data.tobytes())  # noqa: S301 - of a rank of this program


def _check_length(values: Sequence[object], size: int, name: str) -> None:
    require(len(values) == size, "A002", f"{name}: a list of {size} objects is expected", given=len(values))
