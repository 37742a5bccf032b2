"""Folders and planners as PyTorch's programs name them: `save(state, storage_writer=FileSystemWriter(path))`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from enum import Enum
from typing import Any

from rushlight.data.source import Path
from rushlight.distributed.checkpoint.folder import open_folder
from rushlight.distributed.checkpoint.metadata import Metadata, metadata_of
from rushlight.support.errors import require


class FileSystemReader:
    """A folder to load a checkpoint from: `load(state, storage_reader=FileSystemReader(path))`."""

    def __init__(self, path: Path, _extension_registry: object = None) -> None:
        self.path = path

    @property
    def checkpoint_id(self) -> Path:
        """The folder."""
        return self.path

    def read_metadata(self) -> Metadata:
        """What the checkpoint holds. Errors: P001 where there is none."""
        return metadata_of(open_folder(os.fspath(self.path)).index)


class FileSystemWriter:
    """A folder to save a checkpoint to: each rank writes one file, which is on the disk before the index names it.

    Options say how PyTorch writes files. Errors: A006 where a checkpoint that is there must not be replaced.
    """

    def __init__(
        self,
        path: Path,
        single_file_per_rank: bool = True,
        sync_files: bool = True,
        thread_count: int = 1,
        per_thread_copy_ahead: int = 10_000_000,
        cache_staged_state_dict: bool = False,
        overwrite: bool = True,
    ) -> None:
        require(overwrite, "A006", "FileSystemWriter: a checkpoint that is there is replaced", overwrite=overwrite)
        self.path = path

    @property
    def shards_folder(self) -> str:
        """Where ranks write."""
        return os.fspath(self.path)

    def check(self, values: Mapping[str, object]) -> None:
        """Fail for values that are not written."""

    def complete(self) -> None:
        """Do what is left once all shards and the index are there, on the first rank."""

    @property
    def checkpoint_id(self) -> Path:
        """The folder."""
        return self.path


class DefaultSavePlanner:
    """How states are divided among ranks for saving: each tensor, or part of one, is written once.

    Errors: A006 for a state whose nested names are not flattened.
    """

    def __init__(
        self,
        flatten_state_dict: bool = True,
        flatten_sharded_tensors: bool = True,
        dedup_replicated_tensors: bool | None = None,
        dedup_save_to_lowest_rank: bool = False,
        enable_plan_caching: bool = False,
    ) -> None:
        require(flatten_state_dict, "A006", "DefaultSavePlanner: nested names are flattened")


class DefaultLoadPlanner:
    """How a state is filled; with `allow_partial_load` what the checkpoint lacks stays as it is."""

    def __init__(
        self,
        flatten_state_dict: bool = True,
        flatten_sharded_tensors: bool = True,
        allow_partial_load: bool = False,
    ) -> None:
        require(flatten_state_dict, "A006", "DefaultLoadPlanner: nested names are flattened")
        self.allow_partial_load = allow_partial_load


class AsyncCheckpointerType(Enum):
    """What writes in the background."""

    THREAD = "thread"
    PROCESS = "process"


def folder_of(name: str, checkpoint_id: Path | None, storage: object, kind: type[Any]) -> str:
    """Return the folder that a call names, by itself or by a reader or writer. Errors: A001, A002 and A006."""
    if storage is None:
        require(checkpoint_id is not None, "A001", f"{name}: a folder is expected, or {kind.__name__}(folder)")
        assert checkpoint_id is not None
        return os.fspath(checkpoint_id)
    hint = f"give checkpoint_id=, or {kind.__name__}(folder)"
    require(isinstance(storage, kind), "A006", f"{name}: storage of another kind", given=type(storage), hint=hint)
    assert isinstance(storage, (FileSystemReader, FileSystemWriter))
    message = f"{name}: the folder and its {kind.__name__} differ"
    folder = os.fspath(storage.path)
    fits = checkpoint_id is None or os.fspath(checkpoint_id) == folder
    require(fits, "A002", message, given=checkpoint_id, storage=folder)
    return folder


def check_planner(name: str, planner: object, kind: type[Any]) -> None:
    """Fail with A006 for a planner of a program's own."""
    hint = f"leave out planner=, or give {kind.__name__}()"
    fits = planner is None or type(planner) is kind
    require(fits, "A006", f"{name}: planners of other classes", given=type(planner), hint=hint)
