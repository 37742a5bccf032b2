"""One call of a collective as an engine sees it: the verb, its buffers, and what has to agree between ranks."""

from __future__ import annotations

import functools
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np

from rushlight.distributed.engine.reductions import ReduceOp
from rushlight.ir.process_group import Buffer
from rushlight.support.provenance import Frame


class Verb(StrEnum):
    """What engines do."""

    ALL_REDUCE = "all_reduce"
    REDUCE = "reduce"
    BROADCAST = "broadcast"
    ALL_GATHER = "all_gather"
    REDUCE_SCATTER = "reduce_scatter"
    ALL_TO_ALL = "all_to_all"
    GATHER = "gather"
    SCATTER = "scatter"
    BARRIER = "barrier"
    SEND = "send"
    RECEIVE = "receive"

    @property
    def is_message(self) -> bool:
        """Whether it is between two ranks."""
        return self in (Verb.SEND, Verb.RECEIVE)


@dataclass(slots=True)
class Call:
    """A verb with its buffers: `given` is what the rank gives, `taken` what it gets, `counts` the parts of the whole.

    An all-to-all divides what it gives by `counts`, and what it gets by `taken_counts`. `note` is what else has to be
    the same on all ranks; `sequence` is the engine's number of the call, from 1, and `number` that of a message.
    """

    verb: Verb
    given: Buffer | None = None
    taken: Buffer | None = None
    counts: tuple[int, ...] = ()
    taken_counts: tuple[int, ...] = ()
    op: ReduceOp | None = None
    root: int | None = None
    peer: int | None = None
    tag: int = 0
    note: str = ""
    frame: Frame | None = None
    sequence: int = 0
    number: int = 0

    @property
    def buffer(self) -> Buffer | None:
        """What the rank gives, or else what it gets; None of a barrier."""
        return self.taken if self.given is None else self.given

    @property
    def dtype(self) -> str:
        """The name of its buffers' dtype; none of a barrier."""
        return "" if self.buffer is None else _name(self.buffer.dtype)

    @property
    def size(self) -> str:
        """How many elements it moves, as all ranks say it."""
        if self.verb in (Verb.BARRIER, Verb.ALL_TO_ALL):
            return ""
        if self.counts:
            return "+".join([str(count) for count in self.counts])
        return "" if self.buffer is None else str(self.buffer.size)

    @property
    def form(self) -> Hashable:
        """What `agreement` and `description` are made of."""
        buffer = self.buffer
        kind, size = (None, 0) if buffer is None else (buffer.dtype, buffer.size)
        return self.verb, kind, size, self.counts, self.op, self.root, self.peer, self.note

    @property
    def agreement(self) -> dict[str, str]:
        """What has to be the same on all ranks of a collective."""
        return {
            "collective": self.verb.value,
            "dtype": self.dtype,
            "count": self.size,
            "reduction": "" if self.op is None else str(self.op),
            "root": "" if self.root is None else str(self.root),
            "argument": self.note,
        }

    def text(self) -> str:
        """The call in words, with its number where it has one: `#3 all_reduce of 4 float32 by sum`."""
        return numbered(self.sequence, self.description)

    @property
    def description(self) -> str:
        """The call in words: `all_reduce of 4 float32 by sum`."""
        words: list[str] = [self.verb.value]
        if self.dtype:
            words.append(f"of {self.size} {self.dtype}".replace("  ", " "))
        if self.op is not None:
            words.append(f"by {self.op.text}")
        if self.root is not None:
            words.append(f"at {self.root}")
        if self.peer is not None:
            words.append(f"{'to' if self.verb is Verb.SEND else 'from'} {self.peer}")
        return " ".join([*words, *([self.note] if self.note else [])])


@functools.cache
def _name(dtype: np.dtype[Any]) -> str:
    return dtype.name  # which numpy makes anew each time it is asked


def numbered(sequence: int, description: str) -> str:
    """The description of a call behind its number, where it has one."""
    return f"#{sequence} {description}" if sequence else description


def difference(one: Mapping[str, str], other: Mapping[str, str]) -> str | None:
    """What two ranks' calls of one collective disagree in, by their `agreement`; None where they agree."""
    return next((name for name, value in one.items() if value != other[name]), None)


def listed(calls: Mapping[int, Call | str]) -> str:
    """One line for each rank's call, or what else is said of the rank, with the user's lines."""
    lines: list[str] = []
    for rank, call in sorted(calls.items()):
        lines.append(f"\n    rank {rank}: {call if isinstance(call, str) else call.text()}")
        if not isinstance(call, str) and call.frame is not None:
            lines.append(f"\n      {call.frame}")
    return "".join(lines)
