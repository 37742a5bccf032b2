"""Messages between two ranks."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rushlight.distributed.buffers import Target, checked_tensor, read
from rushlight.distributed.collectives import root_of
from rushlight.distributed.engine.work import Work
from rushlight.distributed.group import Group, member
from rushlight.support.errors import require


def isend(
    tensor: object, dst: int | None = None, group: Group = None, tag: int = 0, group_dst: int | None = None
) -> Work:
    """Gives a tensor to another rank: the work is complete when the tensor may be changed."""
    work = _sending(tensor, dst, group, tag, group_dst)
    work.go_on()
    return work


def irecv(
    tensor: object, src: int | None = None, group: Group = None, tag: int = 0, group_src: int | None = None
) -> Work:
    """Puts the next message of `src`, or of any rank, into a tensor."""
    work = _receiving(tensor, src, group, tag, group_src)
    work.go_on()
    return work


def _sending(tensor: object, dst: int | None, group: Group, tag: int, group_dst: int | None) -> Work:
    peer = root_of(group, dst, group_dst, "send")
    return member(group).send(read(checked_tensor(tensor, "send")), peer, tag)


def _receiving(tensor: object, src: int | None, group: Group, tag: int, group_src: int | None) -> Work:
    anyone = src is None and group_src is None
    peer = None if anyone else root_of(group, src, group_src, "recv")
    target = Target(checked_tensor(tensor, "recv"), keeps=False)
    work = member(group).receive(target.buffer, peer, tag)
    work.add_done_callback(target.finish)
    return work


def send(
    tensor: object, dst: int | None = None, group: Group = None, tag: int = 0, group_dst: int | None = None
) -> None:
    """Gives a tensor to another rank, and waits. It may wait until the other receives it."""
    _sending(tensor, dst, group, tag, group_dst).wait()


def recv(
    tensor: object, src: int | None = None, group: Group = None, tag: int = 0, group_src: int | None = None
) -> int:
    """Puts the next message of `src`, or of any rank, into a tensor; returns the rank that sent it."""
    work = _receiving(tensor, src, group, tag, group_src)
    work.wait()
    return member(group).ranks[work.source_rank()]


class P2POp:
    """One message of `batch_isend_irecv`: `op` is `isend` or `irecv`."""

    def __init__(
        self,
        op: Callable[..., Work],
        tensor: object,
        peer: int | None = None,
        group: Group = None,
        tag: int = 0,
        group_peer: int | None = None,
    ) -> None:
        require(op in (isend, irecv), "A002", "P2POp: op is isend or irecv", op=op)
        self.op = op
        self.tensor = checked_tensor(tensor, "P2POp")
        self.group = group
        self.peer = root_of(group, peer, group_peer, "P2POp")
        self.tag = tag

    def begin(self) -> Work:
        """Begins it."""
        return self.op(self.tensor, None, self.group, self.tag, self.peer)


def batch_isend_irecv(p2p_op_list: Sequence[P2POp]) -> list[Work]:
    """Begins messages, all before any is waited for, and returns the work of each."""
    fits = len(p2p_op_list) > 0 and all(isinstance(op, P2POp) for op in p2p_op_list)
    require(fits, "A001", "batch_isend_irecv: a list of P2POp is expected", given=p2p_op_list)
    return [op.begin() for op in p2p_op_list]
