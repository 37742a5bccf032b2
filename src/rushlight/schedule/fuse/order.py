"""The order of groups: producers before readers, readers of old values before their overwriting."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from heapq import heappop, heappush

from rushlight.ir.scalar import Buffer
from rushlight.schedule.fuse.fusion import Group
from rushlight.sym import optimization_hint, product


def order_groups(
    groups: Sequence[Group], overwrites: Mapping[Buffer, Buffer], asserted: Iterable[Buffer] = ()
) -> list[Group]:
    """An order in which groups can run; the time is linear in the number of reads.

    `overwrites` maps new values to the parameters in whose memory they could be written. A group that makes such a
    value waits for all other readers of the old one, and for what is `asserted`. If one of these depends on the group,
    the group runs when nothing else can, and the value is copied later.

    Among the groups that can run next, one that does not increase the arena memory in use goes first; otherwise the one
    whose first node comes first in the program.
    """
    return _Order(groups, overwrites, asserted).run()


class _Order:
    def __init__(
        self, groups: Sequence[Group], overwrites: Mapping[Buffer, Buffer], asserted: Iterable[Buffer]
    ) -> None:
        self.groups = {group.number: group for group in groups}
        self.home = {node.buffer: group.number for group in groups for node in group.nodes}
        self.readers: dict[Buffer, set[int]] = {}
        self.needs: dict[int, int] = {}  # producers that have not run
        self.waits: dict[int, int] = {}  # readers of old values that have not run
        self.freed: dict[int, int] = {}  # bytes that nothing else reads any more
        self.made: dict[int, int] = {}
        self.users: dict[int, list[int]] = {number: [] for number in self.groups}
        self.held: dict[int, list[int]] = {number: [] for number in self.groups}
        self.done: set[int] = set()
        self.ready: list[tuple[int, int]] = []
        self.light: list[tuple[int, int]] = []
        self.late: list[tuple[int, int]] = []
        for group in groups:
            self._add(group)
        checks = {self.home[buffer] for buffer in asserted}
        for new, old in overwrites.items():
            writer = self.home[new]
            for reader in self.readers.get(old, set()) | checks:
                if reader != writer:
                    self.held[reader].append(writer)
                    self.waits[writer] += 1

    def _add(self, group: Group) -> None:
        number = group.number
        buffers = group.read_buffers()
        producers = {self.home[buffer] for buffer in buffers if buffer in self.home} - {number}
        for buffer in buffers:
            if self.home.get(buffer) != number:
                self.readers.setdefault(buffer, set()).add(number)
        for producer in producers:
            self.users[producer].append(number)
        self.needs[number], self.waits[number], self.freed[number] = len(producers), 0, 0
        self.made[number] = sum([_arena_bytes(node.buffer) for node in group.nodes if node.stored])

    def run(self) -> list[Group]:
        """The order."""
        for buffer in self.readers:
            self._note_last_reader(buffer)
        for number in self.groups:
            self._offer(number)
        ordered: list[Group] = []
        while len(ordered) < len(self.groups):
            _, number = heappop(self.light or self.ready or self.late)
            if number not in self.done:
                self.done.add(number)
                ordered.append(self.groups[number])
                self._leave(number)
        return ordered

    def _offer(self, number: int) -> None:
        """Puts a group in the queue that fits its state: ready, or waiting for readers of an old value."""
        if self.needs[number] or number in self.done:
            return
        entry = (self.groups[number].nodes[0].order, number)
        if self.waits[number]:
            heappush(self.late, entry)
        else:
            heappush(self.light if self.freed[number] >= self.made[number] else self.ready, entry)

    def _leave(self, number: int) -> None:
        for buffer in self.groups[number].read_buffers():
            readers = self.readers.get(buffer)
            if readers is not None:
                readers.discard(number)
                self._note_last_reader(buffer)
        for writer in self.held[number]:
            self.waits[writer] -= 1
            if not self.waits[writer]:
                self._offer(writer)
        for user in self.users[number]:
            self.needs[user] -= 1
            self._offer(user)

    def _note_last_reader(self, buffer: Buffer) -> None:
        """Credits the last reader of an arena value with the memory that it frees."""
        if len(self.readers[buffer]) == 1 and buffer in self.home:
            (reader,) = self.readers[buffer]
            self.freed[reader] += _arena_bytes(buffer)
            self._offer(reader)


def _arena_bytes(buffer: Buffer) -> int:
    if buffer.scope != "arena":
        return 0
    return optimization_hint(product(buffer.type.shape)) * buffer.type.dtype.itemsize
