"""The engine whose ranks are threads of one process, one of which runs at a time.

The turn changes hands at each call and each wait, in an order drawn from a seed: a program is deterministic, and other
seeds try other orders. The last rank to call moves the data of all. A send is complete when it is received.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from rushlight.distributed.engine.baton import Baton
from rushlight.distributed.engine.call import Call, Verb, difference, listed
from rushlight.distributed.engine.engine import Engine
from rushlight.distributed.engine.movement import MOVE, deliver
from rushlight.distributed.engine.work import Work
from rushlight.support.errors import error, fail

Key = tuple[object, ...]


class Interrupted(BaseException):
    """Ends a rank's thread at its next call, because the thread that started it was interrupted."""


class World:
    """The ranks of one `spawn`: who runs, what each waits for, and what failed first."""

    def __init__(self, size: int, seed: int) -> None:
        self.baton = Baton(size, seed, self._stuck)
        self.size = size
        self.failed: tuple[int, BaseException] | None = None
        self.interrupted = False
        self._circles: dict[Key, Circle] = {}

    def circle(self, key: Key, ranks: tuple[int, ...]) -> Circle:
        """The meetings of a group, one object for all of its ranks."""
        return self._circles.setdefault(key, Circle(self, ranks))

    def fail(self, rank: int, failure: BaseException) -> None:
        """Notes what failed; the first one counts."""
        if self.failed is None:
            self.failed = (rank, failure)

    def check(self, me: int) -> None:
        """Raises in this rank if another one has failed."""
        if self.interrupted:
            raise Interrupted
        if self.failed is not None and self.failed[0] != me:
            rank, failure = self.failed
            text = str(failure).partition("\n")[0]
            raise error("W005", f"distributed: rank {rank} has failed: {text}") from failure

    def _stuck(self) -> None:
        """No rank can go on: the first one that waits fails, and with it all."""
        calls: dict[int, Call | str] = {}
        waiting: list[int] = []
        for rank in range(self.size):
            awaited = self.baton.awaited(rank)
            if isinstance(awaited, _Awaited):
                calls[rank] = awaited.call
                waiting.append(rank)
            else:
                calls[rank] = "has returned"
        if len(waiting) < self.size:
            done = ", ".join([str(rank) for rank in range(self.size) if rank not in waiting])
            failure = error("W004", f"distributed: rank {done} has returned, and others wait for it" + listed(calls))
        else:
            failure = error("W003", "distributed: all ranks wait for each other" + listed(calls))
        for rank in waiting:
            awaited = self.baton.awaited(rank)
            if isinstance(awaited, _Awaited):
                awaited.failure = failure
        self.fail(waiting[0], failure)


class _Awaited(Work):
    """What one rank has begun: ready once the meeting is over, or the world has failed."""

    def __init__(self, call: Call, world: World, me: int) -> None:
        super().__init__()
        self.call = call
        self.failure: BaseException | None = None
        self.is_over = False
        self.source = -1
        self._world = world
        self._me = me

    def is_ready(self) -> bool:
        """Whether the rank that waits may go on."""
        return self.is_over or self.failure is not None or self._world.failed is not None or self._world.interrupted

    def poll(self) -> bool:
        """Whether all ranks have called; others get a turn first."""
        if not self.is_over:
            self._world.baton.turn(self._me)
            self._raise()
        return self.is_over

    def block(self, timeout: float | None) -> None:
        """Lets others run until it is over. That none can go on is found without a clock."""
        if not self.is_over:
            self._raise()
            self._world.baton.turn(self._me, self)
            self._raise()

    def go_on(self) -> None:
        """Nothing: the last rank to come does what there is to do."""

    def source_rank(self) -> int:
        """The rank that a message came from."""
        return self.source

    def _raise(self) -> None:
        if self.is_over:
            return
        if self.failure is not None:
            raise self.failure
        self._world.check(self._me)


class Circle:
    """The calls of one group that have begun and are not over."""

    def __init__(self, world: World, ranks: tuple[int, ...]) -> None:
        self.world = world
        self.ranks = ranks
        self._meetings: dict[int, dict[int, _Awaited]] = {}
        self._sent: defaultdict[tuple[int, int, int], list[_Awaited]] = defaultdict(list)
        self._received: list[tuple[int, _Awaited]] = []

    def join(self, rank: int, work: _Awaited) -> None:
        """Adds a rank's call to its meeting; the last one moves the data of all."""
        meeting = self._meetings.setdefault(work.call.sequence, {})
        meeting[rank] = work
        first = next(iter(meeting.values())).call
        what = difference(first.agreement, work.call.agreement)
        if what is not None:
            calls = {self.ranks[place]: other.call for place, other in meeting.items()}
            fail("W002", f"distributed: ranks disagree in the {what}" + listed(calls))
        if len(meeting) == len(self.ranks):
            del self._meetings[work.call.sequence]
            in_order = [meeting[place] for place in range(len(self.ranks))]
            MOVE[first.verb]([other.call for other in in_order])
            for other in in_order:
                other.is_over = True

    def send(self, rank: int, work: _Awaited) -> None:
        """Adds a message, or gives it to who waits for it."""
        assert work.call.peer is not None
        for place, (taker, other) in enumerate(self._received):
            if taker == work.call.peer and other.call.peer in (None, rank) and other.call.tag == work.call.tag:
                del self._received[place]
                self._deliver(rank, work, taker, other)
                return
        self._sent[rank, work.call.peer, work.call.tag].append(work)

    def receive(self, rank: int, work: _Awaited) -> None:
        """Takes the first message that fits, or waits for it."""
        givers = range(len(self.ranks)) if work.call.peer is None else (work.call.peer,)
        for giver in givers:
            messages = self._sent[giver, rank, work.call.tag]
            if messages:
                self._deliver(giver, messages.pop(0), rank, work)
                return
        self._received.append((rank, work))

    def _deliver(self, giver: int, sent: _Awaited, taker: int, received: _Awaited) -> None:
        if (sent.call.dtype, sent.call.size) != (received.call.dtype, received.call.size):
            calls = {self.ranks[giver]: sent.call, self.ranks[taker]: received.call}
            fail("W002", "distributed: a message and the buffer for it differ" + listed(calls))
        deliver(sent.call, received.call)
        received.source = giver
        sent.is_over = received.is_over = True


class Threads(Engine):
    """One rank's end: a thread, as `distributed.spawn` starts them."""

    kind = "threads"

    def __init__(self, circle: Circle, rank: int, key: Key = ()) -> None:
        super().__init__(rank, circle.ranks)
        self._circle = circle
        self._key = key
        self._splits: defaultdict[tuple[int, ...], int] = defaultdict(int)

    def issue(self, call: Call) -> Work:
        """Begins a call, after which others may run."""
        circle, me = self._circle, self._circle.ranks[self._rank]
        circle.world.check(me)
        work = _Awaited(call, circle.world, me)
        if call.verb is Verb.SEND:
            circle.send(self._rank, work)
        elif call.verb is Verb.RECEIVE:
            circle.receive(self._rank, work)
        else:
            self._number(call)
            circle.join(self._rank, work)
        circle.world.baton.turn(me)
        return work

    def split(self, ranks: Sequence[int]) -> Engine:
        """The engine of some of the ranks."""
        chosen = tuple([self.ranks[rank] for rank in ranks])
        self._splits[chosen] += 1
        key = (*self._key, chosen, self._splits[chosen])
        return Threads(self._circle.world.circle(key, chosen), tuple(ranks).index(self._rank), key)

    def give_way(self) -> None:
        """Gives the turn to a rank that can go on. Raises where another one has failed. Other threads have no turn."""
        world, me = self._circle.world, self._circle.ranks[self._rank]
        if world.baton.runs_here(me):
            world.baton.turn(me)
            world.check(me)

    def abort(self, code: int, message: str) -> None:
        """Ends the threads of all ranks at their next calls."""
        failure = error("W005", message)
        self._circle.world.fail(self._circle.ranks[self._rank], failure)
        raise failure
