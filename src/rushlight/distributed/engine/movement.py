"""What each verb means: the buffers of all ranks of a group, side by side in one process.

Each function takes the calls of all ranks in their order. Everything is read before anything is written, so that
buffers may share memory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

import numpy as np

from rushlight.distributed.engine.call import Call, Verb, listed
from rushlight.distributed.engine.reductions import ReduceOp, reduced
from rushlight.ir.process_group import Buffer
from rushlight.support.errors import fail

Calls = Sequence[Call]


def parts_of(whole: Buffer, counts: Sequence[int]) -> list[Buffer]:
    """The parts of a buffer, of so many elements each."""
    ends = np.cumsum(counts, dtype=np.int64).tolist()
    return [whole[end - count : end] for end, count in zip(ends, counts, strict=True)]


def _given(call: Call) -> Buffer:
    assert call.given is not None
    return call.given


def _put(call: Call, value: Buffer) -> None:
    if call.taken is not None:
        np.copyto(call.taken, value)


def _total(calls: Calls) -> Buffer:
    op = calls[0].op
    assert isinstance(op, ReduceOp)
    return reduced([_given(call) for call in calls], op)


def _reduce(calls: Calls) -> None:
    total = _total(calls)
    for call in calls:
        _put(call, total)


def _broadcast(calls: Calls) -> None:
    root = calls[0].root
    assert root is not None
    value = _given(calls[root])
    for call in calls:
        _put(call, value)


def _gather(calls: Calls) -> None:
    whole = np.concatenate([_given(call) for call in calls])
    for call in calls:
        _put(call, whole)


def _scatter(calls: Calls) -> None:
    root = calls[0].root
    assert root is not None
    parts = [part.copy() for part in parts_of(_given(calls[root]), calls[root].counts)]
    for call, part in zip(calls, parts, strict=True):
        _put(call, part)


def _reduce_scatter(calls: Calls) -> None:
    for call, part in zip(calls, parts_of(_total(calls), calls[0].counts), strict=True):
        _put(call, part)


def check_part(giver: int, given: Call, taker: int, taken: Call) -> None:
    """W002 if a rank of an all-to-all gives another, or itself, more or less than that one takes."""
    gives, takes = given.counts[taker], taken.taken_counts[giver]
    if gives != takes:
        message = f"all_to_all: rank {giver} gives {gives} elements to rank {taker}, which takes {takes}"
        fail("W002", message + listed({giver: given, taker: taken}), frame=taken.frame)


def _all_to_all(calls: Calls) -> None:
    for taker, call in enumerate(calls):
        for giver, other in enumerate(calls):
            check_part(giver, other, taker, call)
    pieces = [parts_of(_given(call).copy(), call.counts) for call in calls]
    for taker, call in enumerate(calls):
        _put(call, np.concatenate([given[taker] for given in pieces]))


def _nothing(calls: Calls) -> None:
    pass


MOVE: Mapping[Verb, Callable[[Calls], None]] = MappingProxyType(
    {
        Verb.ALL_REDUCE: _reduce,
        Verb.REDUCE: _reduce,
        Verb.BROADCAST: _broadcast,
        Verb.ALL_GATHER: _gather,
        Verb.GATHER: _gather,
        Verb.SCATTER: _scatter,
        Verb.REDUCE_SCATTER: _reduce_scatter,
        Verb.ALL_TO_ALL: _all_to_all,
        Verb.BARRIER: _nothing,
    }
)
"""What is done once all ranks have called."""


def deliver(sent: Call, received: Call) -> None:
    """Puts what one rank sent where another receives it."""
    assert received.taken is not None
    np.copyto(received.taken, _given(sent))
