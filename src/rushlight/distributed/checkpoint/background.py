"""Saves in the background: each rank writes its shard, the first one the index once all are there.

Ranks tell each other by files, since a thread in the background must not come between the calls of a group.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from concurrent.futures import Future, wait

from rushlight.data.atomic_file import write_atomically
from rushlight.distributed.checkpoint.index import FILE_NAME, read_index
from rushlight.distributed.checkpoint.writing import Save
from rushlight.support.errors import RushlightError, error, fail
from rushlight.support.provenance import Frame

_LONGEST_SECONDS = 1800.0  # that ranks wait for each other in a group without a timeout
_POLL_SECONDS = 0.01


class Saved(Future[None]):
    """The end of an `async_save`: who waits for it lets other ranks go on."""

    def __init__(self, job: Save, frame: Frame | None) -> None:
        super().__init__()
        self._job = job
        self.call = f"async_save to {job.writing.folder}, which {frame or 'a program'} called"

    def result(self, timeout: float | None = None) -> None:
        """Wait until the checkpoint is the folder's. TimeoutError after so many seconds."""
        self._await(timeout)
        return super().result(0)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Wait for the end, and return what prevented the checkpoint, if anything did."""
        self._await(timeout)
        return super().exception(0)

    def _await(self, timeout: float | None) -> None:
        end = None if timeout is None else time.monotonic() + timeout
        while not self.done():
            if end is not None and time.monotonic() > end:
                raise TimeoutError(f"rank {self._job.ranks.rank} of {self._job.ranks.size} waits for {self.call}")
            self._job.ranks.give_way()
            wait([self], _POLL_SECONDS)


def finish(job: Save, done: Saved) -> None:
    """Write one rank's shard; the first rank waits for those of others, and they for its index."""
    rank, limit = job.ranks.rank, job.ranks.timeout or _LONGEST_SECONDS
    try:
        try:
            job.writing.write_shard(rank, job.held)
            if rank == 0:
                _poll(limit, done, lambda: _missing(job))
                job.commit()
        except BaseException as failure:
            _note(job, failure)
            raise
        if rank != 0:
            # The first rank may have waited as long for others.
            _poll(2 * limit, done, _Uncommitted(job))
    except BaseException as failure:  # noqa: BLE001 - who asks for the result gets it
        done.set_exception(failure)
    else:
        done.set_result(None)


def _poll(limit: float, done: Saved, awaited: Callable[[], list[int]]) -> None:
    """Wait until a function names no rank any more. Errors: W007 after so many seconds."""
    end = time.monotonic() + limit
    while ranks := awaited():
        if time.monotonic() > end:
            named = ", ".join([str(rank) for rank in ranks])
            fail("W007", f"checkpoint: rank {named} has not written its part within {limit:g} s, of {done.call}")
        time.sleep(_POLL_SECONDS)


def _missing(job: Save) -> list[int]:
    """The ranks without a shard, none where a later save is done. Raises what one has failed with."""
    shares = [rank for rank, share in enumerate(job.writing.shares) if share]
    found = [rank for rank in shares if not os.path.exists(_path(job, rank))]
    for rank in found:
        _raise_noted(job, rank)
    return [] if found and job.writing.later_index() is not None else found


class _Uncommitted:
    """The first rank, as long as its index is not there. Raises what it has failed with.

    A folder that is gone had its index: the first rank has put the shards together elsewhere, and removed them.
    """

    def __init__(self, job: Save) -> None:
        self._job = job
        self._path = os.path.join(job.writing.folder, FILE_NAME)
        self._seen: tuple[int, int] | None = None

    def __call__(self) -> list[int]:
        _raise_noted(self._job, 0)
        if not os.path.isdir(self._job.writing.folder):
            return []
        with contextlib.suppress(FileNotFoundError):
            now = os.stat(self._path)
            seen, self._seen = self._seen, (now.st_ino, now.st_mtime_ns)
            if seen != self._seen and read_index(self._job.writing.folder).serial >= self._job.writing.serial:
                return []
        return [0]


def _path(job: Save, rank: int) -> str:
    return os.path.join(job.writing.folder, job.writing.file(rank))


def _note(job: Save, failure: BaseException) -> None:
    """Tell other ranks why this one has not written."""
    code, message = (failure.code, failure.message) if isinstance(failure, RushlightError) else ("P003", repr(failure))
    with contextlib.suppress(RushlightError):
        write_atomically(_path(job, job.ranks.rank) + ".failed", [f"{code}\n{message}".encode()])


def _raise_noted(job: Save, rank: int) -> None:
    note = _path(job, rank) + ".failed"
    if os.path.exists(note):
        with open(note, encoding="utf-8") as file:
            code, _, message = file.read().partition("\n")
        raise error(code, f"{message} (on rank {rank})")
