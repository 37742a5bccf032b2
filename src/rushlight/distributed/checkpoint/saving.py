"""Saving a state dict by all ranks of a group: now, or in the background from a copy."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping
from threading import Thread

from rushlight.data.source import Path
from rushlight.distributed.checkpoint.background import Saved, finish
from rushlight.distributed.checkpoint.flat import Stateful, flatten
from rushlight.distributed.checkpoint.holding import Holding, holdings
from rushlight.distributed.checkpoint.ranks import Ranks, ranks_of, together
from rushlight.distributed.checkpoint.storage import (
    AsyncCheckpointerType,
    DefaultSavePlanner,
    FileSystemWriter,
    check_planner,
    folder_of,
)
from rushlight.distributed.checkpoint.writing import Save, Writing, make_folder, shares_of
from rushlight.distributed.group import Group
from rushlight.support.errors import RushlightError, require
from rushlight.support.provenance import user_frame


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
    job = _prepare(state_dict, storage_writer or FileSystemWriter(folder), ranks)
    try:
        together(ranks, lambda: job.writing.write_shard(ranks.rank, job.held))
    except RushlightError:
        job.writing.remove_shard(ranks.rank)
        raise
    together(ranks, lambda: job.commit() if ranks.rank == 0 else None)


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
) -> Saved:
    """Copy a state dict, and writes it in the background as `save` does.

    Its tensors may change as soon as the call returns. The future is done when the checkpoint is the folder's, on every
    rank, and has the error that prevented it on any: W007 where a rank has not written within the group's timeout.

    >>> saved = checkpoint.async_save(state, "run/step-300")
    >>> saved.result()
    """
    in_process = async_checkpointer_type is AsyncCheckpointerType.PROCESS
    require(not in_process, "A006", "async_save: a thread writes, no process")
    folder = folder_of("async_save", checkpoint_id, storage_writer, FileSystemWriter)
    check_planner("async_save", planner, DefaultSavePlanner)
    ranks = ranks_of(process_group, no_dist)
    job = _prepare(state_dict, storage_writer or FileSystemWriter(folder), ranks)
    mine = set(job.writing.shares[ranks.rank])
    held = {
        name: [Holding(one.part, one.tensor.clone()) for one in parts if one.part in mine]
        for name, parts in job.held.items()
    }
    copied = Save(ranks, job.writing, held, job.objects, job.complete)
    done = Saved(copied, user_frame())
    Thread(target=finish, args=(copied, done), name="rushlight-checkpoint", daemon=True).start()
    return done


def state_of(state_dict: Mapping[str, object]) -> dict[str, object]:
    """Return a state dict with the states of the objects in it."""
    return {key: value.state_dict() if isinstance(value, Stateful) else value for key, value in state_dict.items()}


def _prepare(state_dict: Mapping[str, object], writer: FileSystemWriter, ranks: Ranks) -> Save:
    """Let all ranks know what each is to write."""
    leaves = together(ranks, lambda: flatten(state_of(state_dict)))
    held = together(ranks, lambda: holdings(leaves))
    together(ranks, lambda: writer.check({name: leaf.value for name, leaf in leaves.items()}))
    objects = {name: leaf.value for name, leaf in leaves.items() if name not in held}
    own = [one.part for parts in held.values() for one in parts]
    deeper = {name: leaf.path for name, leaf in leaves.items() if leaf.path != (name,)}
    known = ranks.gather((own, deeper, secrets.token_hex(6), time.time_ns()))
    shares = together(ranks, lambda: shares_of([parts for parts, *_ in known]))
    paths = {name: path for _, several, *_ in known for name, path in several.items()}
    _, _, mark, serial = known[0]
    writing = Writing(writer.shards_folder, mark, shares, serial, paths)
    together(ranks, lambda: _check(writing, objects, ranks))
    return Save(ranks, writing, held, objects, writer.complete)


def _check(writing: Writing, objects: Mapping[str, object], ranks: Ranks) -> None:
    """Fail for what cannot be saved before anything is written."""
    if ranks.rank == 0:
        writing.index(objects).text()
        make_folder(writing.folder)
