"""When each class of ranks does what: its events in order, meetings with others, and processors that they share.

A collective begins when all of its ranks have issued it and none of them computes, unless it goes on in the background,
and calls of one rank take place one after another. Data that move within a machine take processors as computing does:
where more ranks compute or move data than there are processors, all get less of them. Where a machine has more ranks
than processors, a call waits besides until its ranks get one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from rushlight.distributed.engine.call import Verb, difference
from rushlight.distributed.simulation.classes import Class, pattern
from rushlight.distributed.simulation.costs import Costs
from rushlight.distributed.simulation.recording import Doing, Event, Recorded
from rushlight.support.errors import RushlightError, error

Key = tuple[object, ...]
End = tuple[int, str]
"""A class that takes part in a call, and its part: a class may send messages to others of its own."""
_NEGLIGIBLE = 1e-12  # seconds
_TOLD = 8  # classes that an error names


class Span(NamedTuple):
    """What a class does from `begin` to `end` in seconds: `what` is compute, wait or a verb."""

    begin: float
    end: float
    what: str
    text: str


class Meeting:
    """One call of several classes: who has to come, who has come, and when it ends."""

    def __init__(self, expected: frozenset[End]) -> None:
        self.expected = expected
        self.arrived: dict[End, Recorded] = {}
        self.begin = -1.0
        self.delay = 0.0  # seconds before data move
        self.left = 0.0  # seconds of moving data
        self.is_local = True  # within machines, by their processors
        self.is_over = False

    def speed(self, rate: float) -> float:
        """How fast data move where processes get that rate of processors."""
        return rate if self.is_local else 1.0

    @property
    def missing(self) -> list[int]:
        """The classes that have not come."""
        return sorted([number for number, _ in self.expected - set(self.arrived)])

    @property
    def call(self) -> Recorded:
        """The call of the class that came first."""
        return next(iter(self.arrived.values()))


class Row:
    """One class on its way through its events."""

    def __init__(self, number: int, owner: Class, events: Sequence[Event]) -> None:
        self.number = number
        self.owner = owner
        self.events = events
        self.at = 0
        self.left = 0.0  # seconds of computing
        self.awaits: Meeting | None = None
        self.awaited = 0  # the number of that call
        self.since = 0.0
        self.moves: Meeting | None = None  # data of this call, at present
        self.meetings: dict[int, Meeting] = {}
        self.spans: list[Span] = []
        self.marks: list[tuple[str, float]] = []

    @property
    def is_done(self) -> bool:
        """Whether it is at its end."""
        return self.at == len(self.events) and self.awaits is None and self.left <= 0

    @property
    def computes(self) -> bool:
        """Whether it computes."""
        return self.left > 0

    @property
    def moves_here(self) -> bool:
        """Whether it moves data within its machine."""
        return self.moves is not None and self.moves.is_local and not self.moves.delay


class Timeline:
    """The simulation of some events of all classes. `processors` are those of all machines together."""

    def __init__(
        self, classes: Sequence[Class], events: Sequence[Sequence[Event]], costs: Costs, processors: int
    ) -> None:
        self.now = 0.0
        self.rows = [Row(at, one, some) for at, (one, some) in enumerate(zip(classes, events, strict=True))]
        self._costs = costs
        self._processors = processors
        self._home = {rank: at for at, one in enumerate(classes) for rank in one.ranks}
        self._counts: defaultdict[Key, int] = defaultdict(int)
        self._open: dict[tuple[Key, int], Meeting] = {}
        self._ready: list[Meeting] = []  # all have come
        self._flights: list[Meeting] = []  # under way
        self._expected: dict[tuple[int, ...], frozenset[End]] = {}

    def run(self) -> None:
        """Go on to the end of all classes. Errors: W002, W003 or W004 where they cannot."""
        while True:
            for row in self.rows:
                self._advance(row)
            self._begin_meetings()
            if self._settle():
                continue
            running = [row for row in self.rows if row.computes]
            if not running and not self._flights:
                break
            wanted = sum([len(row.owner.ranks) * (row.computes + row.moves_here) for row in self.rows])
            rate = min(1.0, self._processors / wanted) if wanted else 1.0
            ends = [one.delay or one.left / one.speed(rate) for one in self._flights]
            self._pass(min([row.left / rate for row in running] + ends), rate)
        stuck = [row for row in self.rows if not row.is_done]
        if stuck:
            raise self._deadlock(stuck)

    def _pass(self, seconds: float, rate: float) -> None:
        self.now += seconds
        for row in self.rows:
            if row.computes:
                row.left -= seconds * rate
                if row.left <= _NEGLIGIBLE:
                    row.left = 0.0
                    row.spans.append(Span(row.since, self.now, "compute", ""))
        for one in self._flights:
            if one.delay:
                left = one.delay - seconds
                one.delay = left if left > _NEGLIGIBLE else 0.0
            else:
                one.left -= seconds * one.speed(rate)

    def _settle(self) -> bool:
        """End the calls whose time has come; whether any has."""
        over = [one for one in self._flights if not one.delay and one.left <= _NEGLIGIBLE]
        for one in over:
            one.is_over = True
            self._flights.remove(one)
        for row in self.rows:
            if row.moves is not None and row.moves.is_over:
                row.moves = None
            if row.awaits is not None and row.awaits.is_over:
                self._end_wait(row, row.awaits)
        return bool(over)

    def _end_wait(self, row: Row, meeting: Meeting) -> None:
        call = row.owner.trace.calls[row.awaited]
        text = f"{call.text}\n{call.frame or ''}"
        begin = min(max(row.since, meeting.begin), self.now)
        if begin > row.since:
            row.spans.append(Span(row.since, begin, "wait", text))
        row.spans.append(Span(begin, self.now, call.verb.value, text))
        row.awaits = None

    def _advance(self, row: Row) -> None:
        """Do what takes no time."""
        while row.at < len(row.events) and row.awaits is None and not row.computes:
            event = row.events[row.at]
            row.at += 1
            if event.doing is Doing.COMPUTE:
                row.left, row.since = event.seconds, self.now
            elif event.doing is Doing.MARK:
                row.marks.append((event.name, self.now))
            elif event.doing is Doing.ISSUE:
                row.meetings[event.number] = self._join(row, row.owner.trace.calls[event.number])
            else:
                meeting = row.meetings.get(event.number)  # none of a call that was issued before the first event
                if meeting is not None and not meeting.is_over:
                    row.awaits, row.awaited, row.since = meeting, event.number, self.now

    def _join(self, row: Row, call: Recorded) -> Meeting:
        """Come to a call of other classes."""
        key, role, expected = self._message(row, call) if call.verb.is_message else self._collective(call)
        end = (row.number, role)
        self._counts[key, end] += 1
        place = (key, self._counts[key, end])
        meeting = self._open.setdefault(place, Meeting(expected))
        if meeting.arrived and not call.verb.is_message:
            what = difference(call.agreement, meeting.call.agreement)
            if what is not None:
                calls = {number: one for (number, _), one in meeting.arrived.items()}
                raise error("W002", f"sim: ranks disagree in the {what}" + self._told({**calls, row.number: call}))
        meeting.arrived[end] = call
        if not meeting.missing:
            del self._open[place]
            self._ready.append(meeting)
        return meeting

    def _collective(self, call: Recorded) -> tuple[Key, str, frozenset[End]]:
        expected = self._expected.get(call.ranks)
        if expected is None:
            expected = frozenset([(self._home[rank], "") for rank in call.ranks])
            self._expected[call.ranks] = expected
        return (pattern(call.ranks), expected), "", expected

    def _message(self, row: Row, call: Recorded) -> tuple[Key, str, frozenset[End]]:
        peer = row.number if call.peer is None else self._home[call.peer]
        sends = call.verb is Verb.SEND
        sender, receiver = (row.number, peer) if sends else (peer, row.number)
        ends = frozenset({(sender, "sends"), (receiver, "receives")})
        return ("message", sender, receiver, call.tag), "sends" if sends else "receives", ends

    def _begin_meetings(self) -> None:
        """Begin the calls to which all have come, once those who move the data are free for it."""
        for meeting in list(self._ready):
            movers = [self.rows[number] for number, role in meeting.expected if role != "sends"]
            call = meeting.call
            if any(row.moves is not None or (row.computes and not call.in_background) for row in movers):
                continue
            ranks = call.ranks if call.peer is None else (call.peer, self._self_of(meeting))
            meeting.begin = self.now
            self._time(meeting, call, ranks)
            for row in movers:
                row.moves = meeting
            self._ready.remove(meeting)
            self._flights.append(meeting)

    def _time(self, meeting: Meeting, call: Recorded, ranks: Sequence[int]) -> None:
        """Say how long a call takes that begins."""
        meeting.is_local = self._costs.is_local(ranks)
        if meeting.is_local:
            meeting.delay = self._costs.taking_turns(call.verb, ranks)
            meeting.left = self._costs.work(call.verb, call.nbytes, ranks)
        else:
            meeting.left = self._costs.seconds(call.verb, call.nbytes, ranks)

    def _self_of(self, meeting: Meeting) -> int:
        """The rank whose call came first."""
        (number, _), _ = next(iter(meeting.arrived.items()))
        return self.rows[number].owner.trace.rank

    def _deadlock(self, stuck: Sequence[Row]) -> RushlightError:
        """The error of classes that wait for each other: the cycle, with each one's call and line."""
        chain: list[int] = []
        number = stuck[0].number
        while number not in chain:
            row = self.rows[number]
            meeting = row.awaits
            if meeting is None or not meeting.missing:
                break
            chain.append(number)
            number = meeting.missing[0]
        calls = {at: self.rows[at].owner.trace.calls[self.rows[at].awaited] for at in chain}
        if self.rows[number].is_done:
            message = f"sim: {self.rows[number].owner} has returned, and others wait for it"
            return error("W004", message + self._told(calls))
        cycle = chain[chain.index(number) :] if number in chain else chain
        owners = [str(self.rows[at].owner) for at in [*cycle, cycle[0]]]
        names = " -> ".join(owners if len(owners) <= _TOLD + 1 else [*owners[:_TOLD], "…", owners[-1]])
        message = f"sim: ranks wait for each other: {names}"
        return error("W003", message + self._told({at: calls[at] for at in cycle}))

    def _told(self, calls: Mapping[int, Recorded]) -> str:
        some = list(calls.items())[:_TOLD]
        lines = [f"\n    {self.rows[at].owner}: {call.text}\n      {call.frame or ''}" for at, call in some]
        more = len(calls) - len(some)
        return "".join(lines) + (f"\n    and {more} more" if more else "")
