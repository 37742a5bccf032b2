"""One file of a checkpoint's tensors, as programs without ranks read it."""

from __future__ import annotations

import os

from rushlight.data.checkpoint import save
from rushlight.data.source import Path
from rushlight.distributed.checkpoint.folder import open_folder
from rushlight.distributed.tensor.layout import whole
from rushlight.eager.creation import empty
from rushlight.eager.memory import array_of


def consolidate(checkpoint_id: Path, f: Path) -> None:
    """Write the tensors and values of a sharded checkpoint to one file, under their flat names.

    A name that ends in `.safetensors` gives that format, others PyTorch's archive. Errors are those of `load` and
    `rl.save`.

    >>> checkpoint.consolidate("run/step-300", "model.safetensors")
    """
    shards = open_folder(os.fspath(checkpoint_id))
    shards.open(shards.index.tensors)
    state: dict[str, object] = dict(shards.index.objects)
    for name, entry in shards.index.tensors.items():
        tensor = empty(entry.shape, dtype=entry.dtype)
        shards.read(name, whole(entry.shape), array_of(tensor))
        state[name] = tensor
    save(state, f)
