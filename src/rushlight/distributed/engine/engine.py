"""What an engine is: ranks that call the same verbs in the same order, on contiguous arrays of one dim.

bfloat16 arrays are ml_dtypes'. Counts are numbers of elements.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from rushlight.distributed.engine.call import Call, Verb
from rushlight.distributed.engine.movement import check_part
from rushlight.distributed.engine.reductions import check_dtype, reduction
from rushlight.distributed.engine.work import Work
from rushlight.ir.process_group import Buffer, Counts
from rushlight.support.errors import require
from rushlight.support.provenance import user_frame


class Verbs(ABC):
    """The verbs, checked and written down as calls, which `issue` takes."""

    @property
    @abstractmethod
    def rank(self) -> int:
        """The place of this rank among `ranks`."""

    @property
    @abstractmethod
    def ranks(self) -> tuple[int, ...]:
        """The ranks as numbers of the group of all."""

    @abstractmethod
    def issue(self, call: Call) -> Work:
        """Begins a call."""

    @property
    def size(self) -> int:
        """The number of ranks."""
        return len(self.ranks)

    def all_reduce(self, buffer: Buffer, op: object) -> Work:
        """Puts the reduction over all ranks into the buffer of each."""
        return self._reducing(Call(Verb.ALL_REDUCE, buffer, buffer), op)

    def reduce(self, buffer: Buffer, op: object, root: int) -> Work:
        """Puts the reduction over all ranks into the buffer of `root`."""
        taken = buffer if self.rank == self._peer(root) else None
        return self._reducing(Call(Verb.REDUCE, buffer, taken, root=root), op)

    def broadcast(self, buffer: Buffer, root: int) -> Work:
        """Puts the buffer of `root` into that of each."""
        return self._begin(Call(Verb.BROADCAST, buffer, buffer, root=self._peer(root)))

    def all_gather(self, out: Buffer, part: Buffer, counts: Counts) -> Work:
        """Puts the parts of all ranks, in their order, into the buffer of each."""
        counts = self._counts("all_gather", counts, out)
        self._is_part("all_gather", part, counts[self.rank])
        return self._begin(Call(Verb.ALL_GATHER, part, out, counts))

    def reduce_scatter(self, out: Buffer, whole: Buffer, counts: Counts, op: object) -> Work:
        """Puts the reduction over all ranks into their buffers, to each its part."""
        counts = self._counts("reduce_scatter", counts, whole)
        self._is_part("reduce_scatter", out, counts[self.rank])
        return self._reducing(Call(Verb.REDUCE_SCATTER, whole, out, counts), op)

    def all_to_all(self, out: Buffer, out_counts: Counts, whole: Buffer, in_counts: Counts) -> Work:
        """Puts part `j` of rank `i` into part `i` of rank `j`. Errors: W002 for parts that differ in size."""
        taken, given = self._counts("all_to_all", out_counts, out), self._counts("all_to_all", in_counts, whole)
        call = Call(Verb.ALL_TO_ALL, whole, out, given, taken, frame=user_frame())
        check_part(self.rank, call, self.rank, call)  # of its own part each rank knows both ends
        return self.issue(call)

    def gather(self, out: Buffer | None, part: Buffer, counts: Counts, root: int) -> Work:
        """Puts the parts of all ranks into the buffer of `root`; the others give no `out`."""
        self._at_root("gather", out, root)
        counts = self._counts("gather", counts, out)
        self._is_part("gather", part, counts[self.rank])
        return self._begin(Call(Verb.GATHER, part, out, counts, root=root))

    def scatter(self, out: Buffer, whole: Buffer | None, counts: Counts, root: int) -> Work:
        """Puts the parts of the buffer of `root` into those of all; the others give no `whole`."""
        self._at_root("scatter", whole, root)
        counts = self._counts("scatter", counts, whole)
        self._is_part("scatter", out, counts[self.rank])
        return self._begin(Call(Verb.SCATTER, whole, out, counts, root=root))

    def send(self, buffer: Buffer, peer: int, tag: int = 0) -> Work:
        """Gives a buffer to `peer`."""
        return self._begin(Call(Verb.SEND, given=buffer, peer=self._other("send", peer), tag=tag))

    def receive(self, buffer: Buffer, peer: int | None, tag: int = 0) -> Work:
        """Takes the next buffer that `peer`, or any rank, sends."""
        peer = peer if peer is None else self._other("recv", peer)
        return self._begin(Call(Verb.RECEIVE, taken=buffer, peer=peer, tag=tag))

    def barrier(self, note: str = "") -> Work:
        """Is complete once each rank has come to it, with the same `note`."""
        return self._begin(Call(Verb.BARRIER, note=note))

    def _begin(self, call: Call) -> Work:
        call.frame = user_frame()
        return self.issue(call)

    def _reducing(self, call: Call, op: object) -> Work:
        assert call.given is not None
        call.op = reduction(op)
        check_dtype(call.op, call.given.dtype)
        return self._begin(call)

    def _peer(self, rank: int) -> int:
        fits = isinstance(rank, int) and 0 <= rank < self.size
        require(fits, "A002", f"distributed: no rank of a group of {self.size}", rank=rank)
        return rank

    def _other(self, name: str, rank: int) -> int:
        require(self._peer(rank) != self.rank, "A002", f"{name}: a rank sends nothing to itself", rank=rank)
        return rank

    def _at_root(self, name: str, whole: Buffer | None, root: int) -> None:
        is_root = self.rank == self._peer(root)
        message = f"{name}: rank {root} alone gives the buffer of all parts"
        require(is_root == (whole is not None), "A002", message, rank=self.rank)

    def _counts(self, name: str, counts: Counts, whole: Buffer | None) -> tuple[int, ...]:
        counts = tuple(counts)
        fits = len(counts) == self.size and all(count >= 0 for count in counts)
        require(fits, "A002", f"{name}: one count for each of {self.size} ranks is expected", counts=counts)
        if whole is not None:
            message = f"{name}: the counts do not add up to the buffer's {whole.size} elements"
            require(sum(counts) == whole.size, "S010", message, counts=counts)
        return counts

    def _is_part(self, name: str, part: Buffer, count: int) -> None:
        require(part.size == count, "S009", f"{name}: this rank's part has {part.size} elements", count=count)


class Engine(Verbs):
    """One rank's end of a transport. `timeout` in seconds is how long a wait may take; None for ever."""

    timeout: float | None = None
    kind: str

    def __init__(self, rank: int, ranks: tuple[int, ...]) -> None:
        self._rank = rank
        self._ranks = ranks
        self._sequence = 0

    @property
    def rank(self) -> int:
        """The place of this rank among `ranks`."""
        return self._rank

    @property
    def ranks(self) -> tuple[int, ...]:
        """The ranks as numbers of the group of all."""
        return self._ranks

    def _number(self, call: Call) -> None:
        """Numbers a call of all ranks; a message, which is between two, has no such number."""
        if not call.verb.is_message:
            self._sequence += 1
            call.sequence = self._sequence

    @abstractmethod
    def split(self, ranks: Sequence[int]) -> Engine:
        """The engine of some ranks, this one among them; each of them calls this with the same ranks."""

    @abstractmethod
    def abort(self, code: int, message: str) -> None:
        """Ends all ranks because of this one."""

    def give_way(self) -> None:
        """Lets other ranks run while this one waits for something else, where ranks take turns."""

    def close(self) -> None:
        """Gives up what the engine holds."""
