"""Saving a state dict by all ranks of a group: now, or in the background from a copy."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from threading import Thread

from rushlight.data.atomic_file import write_atomically
from rushlight.data.source import Path
from rushlight.distributed.checkpoint.flat import Stateful, flatten
from rushlight.distributed.checkpoint.holding import Holding, holdings
from rushlight.distributed.checkpoint.index import Index
from rushlight.distributed.checkpoint.ranks import Ranks, ranks_of, together
from rushlight.distributed.checkpoint.storage import (
    AsyncCheckpointerType,
    DefaultSavePlanner,
    FileSystemWriter,
    check_planner,
    folder_of,
)
from rushlight.distributed.checkpoint.writing import Writing, make_folder, shares_of
from rushlight.distributed.group import Group
from rushlight.support.errors import RushlightError, error, fail, require
from rushlight.support.frozen import frozen

_LONGEST_SECONDS = 1800.0  # that a rank in the background waits for the shards of others
_POLL_SECONDS = 0.01


@frozen(eq=False)
class _Save:
    """One rank's part of a save."""

    ranks: Ranks
    writing: Writing
    held: Mapping[str, Sequence[Holding]]
    objects: Mapping[str, object]

    def index(self) -> Index:
        return self.writing.index(self.objects)


def save(
    state_dict: Mapping[str, object],
    checkpoint_id: Path | None = None,
    *,
    storage_writer: FileSystemWriter | None = None,
    planner: DefaultSavePlanner | None = None,
    process_group: Group = None,
    no_dist: bool = False,
) -> None:
    """Write a state dict to a folder, which all ranks of the group see, together.

    Each tensor is written once: of a sharded one each rank writes what it holds. Objects with `state_dict` and
    `load_state_dict` are written by their state. What the folder had before stays until all of the new checkpoint is on
    the disk. `storage_writer` and `planner` are PyTorch's names for a folder and options. On every rank P003 where one
    of them could not write, P006 for what cannot be saved.

    >>> checkpoint.save({"model": model.state_dict(), "step": 300}, "run/step-300")
    """
    folder = folder_of("save", checkpoint_id, storage_writer, FileSystemWriter)
    check_planner("save", planner, DefaultSavePlanner)
    ranks = ranks_of(process_group, no_dist)
    job = _prepare(state_dict, folder, ranks)
    try:
        together(ranks, lambda: job.writing.write_shard(ranks.rank, job.held))
    except RushlightError:
        job.writing.remove_shard(ranks.rank)
        raise
    together(ranks, lambda: job.writing.commit(job.index()) if ranks.rank == 0 else None)


def save_state_dict(
    state_dict: Mapping[str, object],
    storage_writer: FileSystemWriter,
    process_group: Group = None,
    coordinator_rank: int = 0,
    no_dist: bool = False,
    planner: DefaultSavePlanner | None = None,
) -> None:
    """Write a state dict as `save` does: its older name."""
    save(state_dict, storage_writer=storage_writer, planner=planner, process_group=process_group, no_dist=no_dist)


def async_save(
    state_dict: Mapping[str, object],
    checkpoint_id: Path | None = None,
    *,
    storage_writer: FileSystemWriter | None = None,
    planner: DefaultSavePlanner | None = None,
    process_group: Group = None,
    no_dist: bool = False,
    async_checkpointer_type: AsyncCheckpointerType = AsyncCheckpointerType.THREAD,
) -> Future[None]:
    """Copy a state dict, and writes it in the background as `save` does.

    Its tensors may change as soon as the call returns. The future is done when the checkpoint is the folder's, and has
    the error that prevented it on any rank.

    >>> saved = checkpoint.async_save(state, "run/step-300")
    >>> saved.result()
    """
    in_process = async_checkpointer_type is AsyncCheckpointerType.PROCESS
    require(not in_process, "A006", "async_save: a thread writes, no process")
    folder = folder_of("async_save", checkpoint_id, storage_writer, FileSystemWriter)
    check_planner("async_save", planner, DefaultSavePlanner)
    ranks = ranks_of(process_group, no_dist)
    job = _prepare(state_dict, folder, ranks)
    mine = set(job.writing.shares[ranks.rank])
    held = {
        name: [Holding(one.part, one.tensor.clone()) for one in parts if one.part in mine]
        for name, parts in job.held.items()
    }
    copied = _Save(ranks, job.writing, held, job.objects)
    done: Future[None] = Future()
    Thread(target=_finish, args=(copied, done), name="rushlight-checkpoint", daemon=True).start()
    return done


def state_of(state_dict: Mapping[str, object]) -> dict[str, object]:
    """Return a state dict with the states of the objects in it."""
    return {key: value.state_dict() if isinstance(value, Stateful) else value for key, value in state_dict.items()}


def _prepare(state_dict: Mapping[str, object], folder: str, ranks: Ranks) -> _Save:
    """Let all ranks know what each is to write."""
    leaves = together(ranks, lambda: flatten(state_of(state_dict)))
    held = together(ranks, lambda: holdings(leaves))
    objects = {name: leaf.value for name, leaf in leaves.items() if name not in held}
    known = ranks.gather(([one.part for parts in held.values() for one in parts], secrets.token_hex(6)))
    shares = together(ranks, lambda: shares_of([parts for parts, _ in known]))
    writing = Writing(folder, known[0][1], shares)
    together(ranks, lambda: _check(writing, objects, ranks))
    return _Save(ranks, writing, held, objects)


def _check(writing: Writing, objects: Mapping[str, object], ranks: Ranks) -> None:
    """Fail for what cannot be saved before anything is written."""
    if ranks.rank == 0:
        writing.index(objects).text()
        make_folder(writing.folder)


def _finish(job: _Save, done: Future[None]) -> None:
    """Write one rank's shard in the background; the first rank waits for the others, and commits.

    Ranks tell each other by files, since a thread in the background must not come between the calls of a group.
    """
    try:
        try:
            job.writing.write_shard(job.ranks.rank, job.held)
        except RushlightError as failure:
            _note_failure(job, failure)
            raise
        if job.ranks.rank == 0:
            _await_shards(job)
            job.writing.commit(job.index())
    except BaseException as failure:  # noqa: BLE001 - who asks for the result gets it
        done.set_exception(failure)
    else:
        done.set_result(None)


def _note_failure(job: _Save, failure: RushlightError) -> None:
    path = os.path.join(job.writing.folder, job.writing.file(job.ranks.rank) + ".failed")
    write_atomically(path, [failure.message.encode()])


def _await_shards(job: _Save) -> None:
    end = time.monotonic() + _LONGEST_SECONDS
    missing = [os.path.join(job.writing.folder, name) for name in job.writing.files()]
    while missing:
        missing = [path for path in missing if not os.path.exists(path)]
        for path in missing:
            if os.path.exists(path + ".failed"):
                with open(path + ".failed", encoding="utf-8") as note:
                    message = note.read()
                raise error("P003", f"{message} (on another rank)")
        if missing and time.monotonic() > end:
            fail("P003", "checkpoint: other ranks have not written their shards", missing=missing[:3])
        time.sleep(_POLL_SECONDS if missing else 0)
