"""What one rank does on the fake engine, in order: it computes, begins calls, waits for them, and passes marks."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable, Mapping
from enum import Enum
from itertools import pairwise
from typing import NamedTuple

from rushlight.distributed.engine.call import Call, Verb
from rushlight.distributed.engine.fake import Fake, Ledger
from rushlight.distributed.group import ProcessGroup, current, enter
from rushlight.ir.process_group import DEFAULT, own_registry
from rushlight.runtime.allocator import CPU
from rushlight.runtime.generator import default_generator
from rushlight.support.provenance import Frame


class Doing(Enum):
    """What an event is."""

    COMPUTE = "compute"
    ISSUE = "issue"
    WAIT = "wait"
    MARK = "mark"


class Event(NamedTuple):
    """One thing that a rank does: `seconds` of computing, the `number` of a call, the `name` of a mark."""

    doing: Doing
    number: int = 0
    seconds: float = 0.0
    name: str = ""


class Recorded(NamedTuple):
    """A call without its buffers. `ranks` and `peer` are numbers of the group of all, `nbytes` those of the whole.

    One that is in the background moves data while its rank computes.
    """

    verb: Verb
    nbytes: int
    ranks: tuple[int, ...]
    peer: int | None
    tag: int
    text: str
    frame: Frame | None
    agreement: Mapping[str, str]
    in_background: bool = False


class Trace(NamedTuple):
    """All that one rank did. `peak_bytes` is the memory that its tensors took at most."""

    rank: int
    events: tuple[Event, ...]
    calls: tuple[Recorded, ...]
    ledger: Ledger
    peak_bytes: int

    @property
    def steps(self) -> list[tuple[Event, ...]]:
        """What it did between each two marks that follow each other."""
        marks = [at for at, event in enumerate(self.events) if event.doing is Doing.MARK]
        return [self.events[begin + 1 : end] for begin, end in pairwise(marks)]


class Recorder:
    """Writes down what a rank does. Computing is the processor time of its thread between two calls."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.calls: list[Recorded] = []
        self._since = time.thread_time()

    def issued(self, call: Call, engine: Fake) -> int:
        """A call begins. The clock stands still until `resumed`."""
        self._lap()
        self.events.append(Event(Doing.ISSUE, len(self.calls)))
        self.calls.append(_recorded(call, engine))
        return len(self.calls) - 1

    def waited(self, number: int) -> None:
        """The rank waits for a call."""
        self._lap()
        self.events.append(Event(Doing.WAIT, number))
        self.resumed()

    def went_on(self, number: int) -> None:
        """A call goes on while the rank computes."""
        self.calls[number] = self.calls[number]._replace(in_background=True)

    def marked(self, name: str) -> None:
        """The program passes a mark."""
        self._lap()
        self.events.append(Event(Doing.MARK, name=name))
        self.resumed()

    def resumed(self) -> None:
        """The clock goes on."""
        self._since = time.thread_time()

    def end(self) -> None:
        """The program has ended."""
        self._lap()

    def _lap(self) -> None:
        now = time.thread_time()
        self.events.append(Event(Doing.COMPUTE, seconds=now - self._since))
        self._since = now


def _recorded(call: Call, engine: Fake) -> Recorded:
    buffers = [buffer.nbytes for buffer in (call.given, call.taken) if buffer is not None]
    if call.counts and call.verb is not Verb.ALL_TO_ALL:
        one = call.given if call.given is not None else call.taken
        buffers = [sum(call.counts) * one.itemsize] if one is not None else []
    peer = None if call.peer is None else engine.ranks[call.peer]
    nbytes = max(buffers, default=0)
    return Recorded(call.verb, nbytes, engine.ranks, peer, call.tag, call.text(), call.frame, call.agreement)


def record(program: Callable[[], object], rank: int, world: int) -> Trace:
    """Run a program as one rank of a fake world, in a thread of its own. Raises what it raises."""
    recorder = Recorder()
    ledger = Ledger(recorder)
    failures: list[BaseException] = []

    def run() -> None:
        with own_registry():
            enter(ProcessGroup(DEFAULT, Fake(rank, tuple(range(world)), ledger), "fake", given=True))
            recorder.resumed()
            try:
                program()
            except SystemExit as ended:
                if ended.code:
                    failures.append(ended)
            except BaseException as failure:  # noqa: BLE001 - raised by the thread that called
                failures.append(failure)
            recorder.end()

    before = default_generator.position()
    gc.collect()  # what an earlier rank has left does not count
    memory = CPU
    memory.reset_peak()
    used = memory.statistics().used_bytes
    thread = threading.Thread(target=run, name=f"rank {rank}")
    thread.start()
    thread.join()
    default_generator.go_to(before)
    if failures:
        failures[0].add_note(f"raised in rank {rank} of {world}, which ran without data")
        raise failures[0]
    peak = memory.statistics().peak_bytes - used
    return Trace(rank, tuple(recorder.events), tuple(recorder.calls), ledger, peak)


def mark(name: str = "step") -> None:
    """Name a point of the program: a simulation tells the time between marks. Elsewhere it does nothing."""
    group = current()
    engine = None if group is None else group.engine
    if isinstance(engine, Fake) and engine.ledger.watcher is not None:
        engine.ledger.watcher.marked(name)
