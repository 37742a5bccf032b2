"""Checkpoints as Hugging Face has models: whole tensors in files of safetensors, and an index of the files."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping

from rushlight.data.atomic_file import write_atomically
from rushlight.data.safetensors_file import safetensors_parts
from rushlight.data.source import Path
from rushlight.data.tree import to_text
from rushlight.distributed.checkpoint.folder import open_folder
from rushlight.distributed.checkpoint.holding import is_tensor
from rushlight.distributed.checkpoint.models import MODELS_INDEX
from rushlight.distributed.checkpoint.storage import FileSystemReader, FileSystemWriter
from rushlight.distributed.tensor.layout import count_of, whole
from rushlight.eager.creation import empty
from rushlight.eager.memory import array_of
from rushlight.eager.tensor import Tensor
from rushlight.support.errors import require

_SHARDS = "sharded"


class HuggingFaceStorageReader(FileSystemReader):
    """A folder of safetensors files to load from: each rank reads the rows that it holds."""

    def __init__(self, path: Path, thread_count: int = 1) -> None:
        super().__init__(path)


class HuggingFaceStorageWriter(FileSystemWriter):
    """A folder that gets whole tensors in files of safetensors, and their index.

    Ranks write what they hold to `sharded` within the folder, which the first one then puts together and removes:
    `save_distributed` and `enable_consolidation` change nothing. `fqn_to_index_mapping` tells the number of each
    tensor's file, from 1 on; without it there is one. Errors: A006 for values that are no tensors, A002 for a mapping
    that lacks a tensor.
    """

    def __init__(
        self,
        path: Path,
        fqn_to_index_mapping: Mapping[str, int] | None = None,
        thread_count: int = 1,
        save_distributed: bool = False,
        enable_consolidation: bool = False,
        thread_count_consolidation: int = 1,
    ) -> None:
        super().__init__(path)
        self.fqn_to_index_mapping = dict(fqn_to_index_mapping or {})
        numbers = self.fqn_to_index_mapping.values()
        fits = all(type(number) is int and number >= 1 for number in numbers)
        require(fits, "A002", "HuggingFaceStorageWriter: files have numbers from 1 on", given=sorted(set(numbers)))

    @property
    def shards_folder(self) -> str:
        """Where ranks write."""
        return os.path.join(os.fspath(self.path), _SHARDS)

    def check(self, values: Mapping[str, object]) -> None:
        """Fail for what is no tensor, or has no file."""
        others = [name for name, value in values.items() if not is_tensor(value)]
        message = "HuggingFaceStorageWriter: a model's files hold tensors alone"
        require(not others, "A006", message, names=others[:5], hint="save numbers and text elsewhere")
        lacks = [name for name in values if name not in self.fqn_to_index_mapping] if self.fqn_to_index_mapping else []
        require(not lacks, "A002", "HuggingFaceStorageWriter: fqn_to_index_mapping lacks tensors", names=lacks[:5])

    def complete(self) -> None:
        """Put the tensors together: the index comes last, and names none of the files that were there before."""
        folder, shards = os.fspath(self.path), open_folder(self.shards_folder)
        entries = shards.index.tensors
        shards.open(entries)
        numbers = {name: self.fqn_to_index_mapping.get(name, 1) for name in entries}
        last = max(numbers.values(), default=1)
        files = {name: f"model-{number:05}-of-{last:05}.safetensors" for name, number in numbers.items()}
        for file in sorted(set(files.values())):
            tensors: dict[str, Tensor] = {}
            for name in [name for name in entries if files[name] == file]:
                tensors[name] = empty(entries[name].shape, dtype=entries[name].dtype)
                shards.read(name, whole(entries[name].shape), array_of(tensors[name]))
            write_atomically(os.path.join(folder, file), safetensors_parts(tensors, {"format": "pt"}))
        total = sum([count_of(whole(entry.shape)) * entry.dtype.itemsize for entry in entries.values()])
        index = {"metadata": {"total_size": total}, "weight_map": files}
        write_atomically(os.path.join(folder, MODELS_INDEX), [to_text(index).encode()])
        shutil.rmtree(self.shards_folder, ignore_errors=True)
