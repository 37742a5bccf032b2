"""The engine of processes that MPI connects, through mpi4py.

After initialisation nothing blocks in MPI: each call is begun by its non-blocking form, and our own wait tests it, with
a deadline and an eye on the board. A rank spins while there are processors for all, and sleeps otherwise.
"""

from __future__ import annotations

import atexit
import faulthandler
import importlib
import os
import sys
import threading
import time
import zlib
from collections import defaultdict
from collections.abc import Callable, Generator, Hashable, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from types import MappingProxyType, TracebackType
from typing import Any

import numpy as np

from rushlight.distributed.engine.board import Board, State, board_bytes
from rushlight.distributed.engine.call import Call, Verb
from rushlight.distributed.engine.engine import Engine
from rushlight.distributed.engine.movement import parts_of
from rushlight.distributed.engine.progress import Progress
from rushlight.distributed.engine.reductions import reduced
from rushlight.distributed.engine.work import Work, is_of_another
from rushlight.ir.dtype import BY_NAME
from rushlight.ir.process_group import Buffer
from rushlight.support.errors import RushlightError, error, fail

Request = Any
Stages = Generator[tuple[list[Request], bool], None, None]
"""The requests of each stage, and whether they are the last ones."""
_TIMEOUT = 300.0  # seconds
_INITIALISATION = 120.0
_LOOK = 0.001  # seconds between two looks at the board
_SPINS = 200  # tests before a rank sleeps, where there are processors for all: two may be on one of them
_NAP = 2e-5
# Seconds before a rank that has failed ends the job: longer where another one has, whose status is the job's.
_OWN, _ANOTHERS = 0.05, 0.5
_ABORT = 1.0  # seconds that MPI has for ending the job
_CHUNK = 1 << 24  # bytes: bounds MPI's memory for a large reduction; parts of 512 KiB take 1.6 times as long
_DTYPES = tuple([dtype.numpy.name for dtype in BY_NAME.values()])
_NATIVE = {"sum": "SUM", "product": "PROD", "min": "MIN", "max": "MAX", "band": "BAND", "bor": "BOR", "bxor": "BXOR"}


@contextmanager
def watched(what: str) -> Generator[None]:
    """Ends the process with an error if what blocks in MPI takes too long."""

    def end() -> None:
        sys.stderr.write(f"rushlight: {what} took more than {_INITIALISATION:.0f} s\n")
        faulthandler.dump_traceback()
        os._exit(1)

    timer = threading.Timer(_INITIALISATION, end)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _library() -> Any:
    """mpi4py's module, which initialises MPI. Errors: N004 where it is not installed."""
    try:
        with watched("initialising MPI"):
            return importlib.import_module("mpi4py.MPI")
    except ImportError as cause:
        raise error("N004", "distributed: mpi4py is not installed", hint="pip install 'rushlight[dist]'") from cause


class Process:
    """What the engines of one process share: the library, the board of its machine, and how it ends."""

    def __init__(self) -> None:
        self.library = _library()
        world = self.library.COMM_WORLD
        world.Set_errhandler(self.library.ERRORS_RETURN)
        self.rank, self.size = int(world.rank), int(world.size)
        self.progress = Progress()
        self.last_tag = int(world.Get_attr(self.library.TAG_UB))
        with watched("making the board"):
            self.node = world.Split_type(self.library.COMM_TYPE_SHARED)
            wanted = board_bytes(self.node.size) if self.node.rank == 0 else 0
            self._window = self.library.Win.Allocate_shared(wanted, 1, comm=self.node)
            memory, _ = self._window.Shared_query(0)
            here = self.node.allgather(self.rank)
        self.places = {rank: place for place, rank in enumerate(here)}
        self.board = Board(memory, self.node.size, self.node.rank)
        with watched("making the board"):
            self.node.Barrier()
        self.spins = _SPINS if self.node.size <= len(os.sched_getaffinity(0)) else 50
        self._hook = sys.excepthook
        sys.excepthook = self.die
        atexit.register(self.leave)

    def die(
        self, kind: type[BaseException], failure: BaseException, traceback: TracebackType | None, code: int = 1
    ) -> None:
        """Shows what nobody has caught, tells the others, and ends the job."""
        text = f"{kind.__name__}: {failure}".partition("\n")[0]
        self.board.tell(State.FAILED, text)
        sys.stderr.write(f"rank {self.rank} of {self.size} has failed:\n")
        self._hook(kind, failure, traceback)
        self.end(130 if issubclass(kind, KeyboardInterrupt) else code, _ANOTHERS if is_of_another(failure) else _OWN)

    def end(self, code: int, patience: float) -> None:
        """Ends all processes of the job. In the seconds before others may say how they have failed, and end it too."""
        sys.stdout.flush()
        sys.stderr.flush()
        time.sleep(patience)
        # A launcher that cannot be reached, on a link that is cut, never answers.
        with open(os.devnull, "w", encoding="utf-8") as nowhere:
            faulthandler.dump_traceback_later(_ABORT, exit=True, file=nowhere)
            self.library.COMM_WORLD.Abort(code)
            os._exit(code)  # some versions of MPICH return where the launcher is gone

    def leave(self) -> None:
        """Tells the others that this process makes no more calls."""
        self.progress.close()
        if self.board.state(self.board.rank) is State.RUNNING:
            self.board.tell(State.ENDED)


_process: list[Process] = []


def process() -> Process:
    """The process's connection, made when it is first asked for."""
    if not _process:
        _process.append(Process())
    return _process[0]


class Pending(Work):
    """A call of several stages: each gives the requests to test before the next one begins."""

    def __init__(self, engine: Mpi, call: Call, stages: Stages, rolled: int) -> None:
        super().__init__()
        self.call = call
        self.has_begun_all = self.is_over = False
        self._engine = engine
        self._stages = stages
        self._rolled = rolled
        self._requests: list[Request] | None = None  # before it begins
        self._problem: Exception | None = None
        self._status: Any = engine.process.library.Status()
        self.source = -1
        engine.process.progress.add(self)

    @property
    def line(self) -> Hashable | None:
        """Its communicator, in whose line it stands; None of a message."""
        return None if self.call.verb.is_message else self._engine

    def source_rank(self) -> int:
        """The rank that a message came from."""
        return self.source

    def go_on(self) -> None:
        """Let a thread move it on."""
        if not self.is_over:
            self._engine.process.progress.in_background()

    def poll(self) -> bool:
        """Whether all stages are over; moves all calls of the process on."""
        if not self.is_over:
            self._engine.process.progress.push()
        if self._problem is not None:
            raise self._problem
        return self.is_over

    def step(self) -> None:
        """Go from stage to stage, as far as they are over."""
        try:
            while not self.is_over and (self._requests is None or all(map(self._test, self._requests))):
                self._advance()
        except self._engine.process.library.Exception as cause:
            self._fail(self._engine.blame(self.call, self._rolled, str(cause)))
        except Exception as problem:  # noqa: BLE001 - whoever waits raises it
            self._fail(problem)

    def _fail(self, problem: Exception) -> None:
        self._problem, self.is_over = problem, True

    def _test(self, request: Request) -> bool:
        return request.Test(self._status)

    def _advance(self) -> None:
        stage = next(self._stages, None)
        if stage is not None:
            self._requests, self.has_begun_all = stage
            return
        self._finish()
        self.is_over = True

    def _finish(self) -> None:
        call, engine = self.call, self._engine
        if call.verb is Verb.RECEIVE:
            self.source = self._status.Get_source()
            assert call.taken is not None
            count = self._status.Get_count(engine.process.library.BYTE)
            if count != call.taken.nbytes:
                message = f"distributed: a message of {count} bytes came for a buffer of {call.taken.nbytes}"
                fail("W002", message, frame=call.frame, call=call.text())
        elif call.verb is not Verb.SEND:
            engine.check_agreement(call, self._rolled)

    def block(self, timeout: float | None) -> None:
        """Tests until all stages are over, the deadline has passed, or another rank has failed."""
        engine = self._engine
        begin = time.monotonic()
        limit = engine.timeout if timeout is None else timeout
        look, tests = begin + _LOOK, 0
        while not self.poll():
            tests += 1
            if tests < engine.process.spins:
                continue
            time.sleep(_NAP)
            now = time.monotonic()
            if now >= look:
                engine.look(self.call, self._rolled)
                look = now + max(_LOOK, (now - begin) / 50)
            if limit is not None and now - begin > limit:
                raise engine.too_late(self.call, limit)


class _Received:
    """A request for the part of a rank, which has the size that is expected."""

    def __init__(self, request: Request, unit: object, nbytes: int, rank: int, call: Call) -> None:
        self._request: Request | None = request
        self._unit = unit
        self._nbytes = nbytes
        self._rank = rank
        self._call = call

    def Test(self, status: Any) -> bool:  # noqa: N802 - as MPI's requests have it
        """Whether it has come. Errors: W002 where it is of another size."""
        if self._request is None:
            return True
        if not self._request.Test(status):
            return False
        self._request = None
        came = int(status.Get_count(self._unit))
        if came != self._nbytes:
            message = f"distributed: {came} bytes came from rank {self._rank} of the group, not {self._nbytes}"
            fail("W002", message, frame=self._call.frame, call=self._call.text())
        return True


class Mpi(Engine):
    """One process's end of a communicator."""

    kind = "mpi"
    timeout: float | None = _TIMEOUT

    def __init__(self, process: Process, communicator: Any, ranks: tuple[int, ...], name: str) -> None:
        super().__init__(int(communicator.rank), ranks)
        self.process = process
        self._communicator = communicator
        self._name = name
        self._group = zlib.crc32(name.encode())
        self._rolled = 0
        self._splits = 0
        self._messages: defaultdict[tuple[Verb, int | None, int], int] = defaultdict(int)
        self._from_any: set[int] = set()  # tags of messages that were taken from any rank
        near = [process.places[rank] for rank in ranks if rank in process.places and rank != process.rank]
        self._peers = near
        self._numbers = {place: rank for rank, place in process.places.items()}

    def issue(self, call: Call) -> Work:
        """Posts and begins a call."""
        self._number(call)
        if call.verb.is_message:
            self._count(call)
            if call.verb is Verb.SEND:
                assert call.peer is not None
                self.process.board.post_message(self._message(call, self._ranks[call.peer]), call.dtype)
        self._rolled = self.process.board.post(self._group, call, self._rolled)
        return Pending(self, call, _STAGES[call.verb](self, call), self._rolled)

    def split(self, ranks: Sequence[int]) -> Engine:
        """The engine of some of the ranks."""
        chosen = tuple([self._ranks[rank] for rank in ranks])
        with watched("making a group"):
            group = self._communicator.Get_group()
            made = self._communicator.Create_group(group.Incl(list(ranks)), tag=zlib.crc32(str(chosen).encode()) % 9999)
        made.Set_errhandler(self.process.library.ERRORS_RETURN)
        self._splits += 1
        return Mpi(self.process, made, chosen, f"{self._name}/{chosen}")

    def abort(self, code: int, message: str) -> None:
        """Ends all processes of the job."""
        sys.stderr.write(message + "\n")
        self.process.board.tell(State.FAILED, message)
        self.process.end(code, _OWN)

    # What calls are in MPI.

    def _all_reduce(self, call: Call) -> Stages:
        buffer = call.given
        assert buffer is not None and call.op is not None
        if not _is_native(call):
            yield from self._all_reduce_by_parts(call, buffer)
            return
        if call.op.text == "premul_sum":
            np.multiply(buffer, np.asarray(call.op.factor, buffer.dtype), out=buffer)
        op = self._operation(call)
        in_place, step = self.process.library.IN_PLACE, _CHUNK // buffer.itemsize
        for begin in range(0, max(1, buffer.size), step):
            request = self._communicator.Iallreduce(in_place, buffer[begin : begin + step], op)
            yield [request], begin + step >= buffer.size
        if call.op.text == "avg":
            np.divide(buffer, self.size, out=buffer)

    def _all_reduce_by_parts(self, call: Call, buffer: Buffer) -> Stages:
        """Each rank reduces a part in the order of ranks, with one rounding."""
        ranks = self.size
        ends = [buffer.size * place // ranks for place in range(ranks + 1)]
        counts = [high - low for low, high in pairwise(ends)]
        mine = np.empty(counts[self._rank], buffer.dtype)
        yield from self._reduce_part(call, buffer, mine, counts, last=False)
        yield [self._communicator.Iallgatherv(_bytes(mine), _vector(buffer, counts))], True

    def _reduce_part(
        self, call: Call, whole: Buffer, mine: Buffer, counts: Sequence[int], *, last: bool = True
    ) -> Stages:
        assert call.op is not None
        taken = np.empty(counts[self._rank] * self.size, whole.dtype)
        taken_counts = [counts[self._rank]] * self.size
        yield self._exchanged(call, whole, counts, taken, taken_counts), last
        np.copyto(mine, reduced(parts_of(taken, taken_counts), call.op))

    def _reduce(self, call: Call) -> Stages:
        assert call.given is not None and call.root is not None
        counts = [call.given.size if rank == call.root else 0 for rank in range(self.size)]
        mine = np.empty(counts[self._rank], call.given.dtype)
        yield from self._reduce_part(call, call.given, mine, counts)
        if call.taken is not None:
            np.copyto(call.taken, mine)

    def _reduce_scatter(self, call: Call) -> Stages:
        assert call.given is not None and call.taken is not None and call.op is not None
        if not _is_native(call) or call.op.text == "premul_sum":
            yield from self._reduce_part(call, call.given, call.taken, call.counts)
            return
        op = self._operation(call)
        yield [self._communicator.Ireduce_scatter(call.given, call.taken, list(call.counts), op)], True
        if call.op.text == "avg":
            np.divide(call.taken, self.size, out=call.taken)

    def _broadcast(self, call: Call) -> Stages:
        yield [self._communicator.Ibcast(_bytes(call.taken), call.root)], True

    def _all_gather(self, call: Call) -> Stages:
        assert call.taken is not None and call.given is not None
        given = call.given.copy() if np.may_share_memory(call.given, call.taken) else call.given
        yield [self._communicator.Iallgatherv(_bytes(given), _vector(call.taken, call.counts))], True

    def _all_to_all(self, call: Call) -> Stages:
        assert call.taken is not None and call.given is not None
        given = call.given.copy() if np.may_share_memory(call.given, call.taken) else call.given
        yield self._exchanged(call, given, call.counts, call.taken, call.taken_counts), True

    def _exchanged(
        self, call: Call, given: Buffer, counts: Sequence[int], taken: Buffer, taken_counts: Sequence[int]
    ) -> list[Request]:
        """Begins to give each rank its part, and to take one from each.

        These are messages: MPICH's Ialltoallv takes 250 ms for 32 MB between two ranks, messages take 5. Calls stand
        in line, so that one tag will do.
        """
        parts, places = parts_of(given, counts), parts_of(taken, taken_counts)
        np.copyto(places[self._rank], parts[self._rank])
        requests: list[Request] = []
        for step in range(1, self.size):
            giver, taker = (self._rank - step) % self.size, (self._rank + step) % self.size
            place = _bytes(places[giver])
            received = self._communicator.Irecv(place, giver, self.process.last_tag)
            requests.append(_Received(received, self.process.library.BYTE, place.nbytes, giver, call))
            requests.append(self._communicator.Isend(_bytes(parts[taker]), taker, self.process.last_tag))
        return requests

    def _gather(self, call: Call) -> Stages:
        out = None if call.taken is None else _vector(call.taken, call.counts)
        yield [self._communicator.Igatherv(_bytes(call.given), out, call.root)], True

    def _scatter(self, call: Call) -> Stages:
        whole = None if call.given is None else _vector(call.given.copy(), call.counts)
        yield [self._communicator.Iscatterv(whole, _bytes(call.taken), call.root)], True

    def _barrier(self, call: Call) -> Stages:
        yield [self._communicator.Ibarrier()], True

    def _send(self, call: Call) -> Stages:
        yield [self._communicator.Isend(_bytes(call.given), call.peer, _tag(call))], True

    def _receive(self, call: Call) -> Stages:
        peer = self.process.library.ANY_SOURCE if call.peer is None else call.peer
        yield [self._communicator.Irecv(_bytes(call.taken), peer, _tag(call))], True

    def _operation(self, call: Call) -> Any:
        assert call.op is not None
        return getattr(self.process.library, _NATIVE.get(call.op.text, "SUM"))

    # What goes wrong.

    def look(self, call: Call, rolled: int) -> None:
        """Raises if a rank that a call waits for does something else, has ended or has failed."""
        board, peers = self.process.board, self._peers
        self.check_agreement(call, rolled)
        self._check_message(call)
        failed = board.failed(peers)
        if failed:
            rank = self._numbers[failed[0]]
            fail("W005", f"distributed: rank {rank} has failed: {board.failure(failed[0])}", frame=call.frame)
        waited = board.missing(self._group, call.sequence, peers) if call.sequence else self._partner(call)
        ended = [peer for peer in waited if board.state(peer) is State.ENDED]
        if ended:
            rank = self._numbers[ended[0]]
            message = f"distributed: rank {rank} has returned, and others wait for it"
            raise error("W004", message + self._told(call), frame=call.frame)

    def _count(self, call: Call) -> None:
        """Number a message among those with its peer and tag: the two ends number alike."""
        if call.peer is None:
            self._from_any.add(call.tag)
        if call.verb is Verb.RECEIVE and call.tag in self._from_any:
            return  # messages from any rank have no number, nor those after them
        key = call.verb, call.peer, call.tag
        self._messages[key] += 1
        call.number = self._messages[key]

    def _message(self, call: Call, receiver: int) -> str:
        return f"{self._group} {receiver} {call.tag} {call.number}"

    def _check_message(self, call: Call) -> None:
        """W002 if the rank of this machine that a message comes from sends it in another dtype."""
        if call.verb is not Verb.RECEIVE:
            return
        message = self._message(call, self._ranks[self._rank])
        for place in self._partner(call):
            dtype = self.process.board.sent(place, message)
            if dtype and dtype != call.dtype:
                message = f"distributed: a message of {dtype} came for a buffer of {call.dtype}"
                raise error("W002", message + self._told(call), frame=call.frame)

    def _partner(self, call: Call) -> list[int]:
        """The places on the board of the rank that a message goes to or comes from."""
        rank = None if call.peer is None else self._ranks[call.peer]
        return [self.process.places[rank]] if rank in self.process.places else []

    def check_agreement(self, call: Call, rolled: int) -> None:
        """W002 if another rank of this machine has come with another call."""
        if call.sequence and self.process.board.others(self._group, call.sequence, rolled, self._peers):
            raise error("W002", "distributed: ranks disagree in what they do" + self._told(call), frame=call.frame)

    def blame(self, call: Call, rolled: int, message: str) -> RushlightError:
        """The error of a call that MPI refuses: that of ranks that disagree, where that is why."""
        until = time.monotonic() + 0.5
        while time.monotonic() < until:
            try:
                self.check_agreement(call, rolled)
            except RushlightError as failure:
                return failure
            time.sleep(_LOOK)
        return error("W002", f"distributed: MPI refuses the call: {message}" + self._told(call), frame=call.frame)

    def too_late(self, call: Call, limit: float) -> RushlightError:
        """The error of a deadline, which names who has not come."""
        missing = self.process.board.missing(self._group, call.sequence, self._peers) if call.sequence else []
        ranks = [self._numbers[peer] for peer in (missing or self._partner(call))]
        message = f"distributed: waited {limit:g} s for rank {', '.join(map(str, ranks)) or 'of another machine'}"
        return error("W007", message + self._told(call), frame=call.frame)

    def _told(self, call: Call) -> str:
        """What each rank of this machine has posted in place of a call."""
        board = self.process.board
        places = sorted([*self._peers, board.rank], key=lambda place: self._numbers[place])
        lines = [f"\n    rank {self._numbers[at]}: {board.posted(at, self._group, call.sequence)}" for at in places]
        return "".join(lines)


_STAGES: Mapping[Verb, Callable[[Mpi, Call], Stages]] = MappingProxyType(
    {
        Verb.ALL_REDUCE: Mpi._all_reduce,
        Verb.REDUCE: Mpi._reduce,
        Verb.REDUCE_SCATTER: Mpi._reduce_scatter,
        Verb.BROADCAST: Mpi._broadcast,
        Verb.ALL_GATHER: Mpi._all_gather,
        Verb.ALL_TO_ALL: Mpi._all_to_all,
        Verb.GATHER: Mpi._gather,
        Verb.SCATTER: Mpi._scatter,
        Verb.BARRIER: Mpi._barrier,
        Verb.SEND: Mpi._send,
        Verb.RECEIVE: Mpi._receive,
    }
)


def _is_native(call: Call) -> bool:
    """Whether MPI reduces it as we do: no bool, no 16-bit floats, and NaN is never the smaller or larger one."""
    assert call.given is not None and call.op is not None
    kind = call.given.dtype.kind
    if call.given.dtype.itemsize == 2 and kind not in "iu":
        return False
    return kind in "iu" or (kind in "fc" and call.op.text not in ("min", "max"))


def _tag(call: Call) -> int:
    """MPI's tag of a message: the program's and the dtype's, so that other dtypes are other messages."""
    return call.tag * len(_DTYPES) + _DTYPES.index(call.dtype)


def _bytes(buffer: Buffer | None) -> Buffer:
    assert buffer is not None
    return buffer.view(np.uint8)


def _vector(buffer: Buffer, counts: Sequence[int]) -> tuple[Buffer, list[int]]:
    return _bytes(buffer), [count * buffer.itemsize for count in counts]


def connected() -> Mpi:
    """The engine of all processes of the job."""
    here = process()
    return Mpi(here, here.library.COMM_WORLD, tuple(range(here.size)), "default")
