"""One file of a checkpoint's tensors, as programs without ranks read it."""

from __future__ import annotations

import os

from rushlight.data.checkpoint import load, save
from rushlight.data.source import Path
from rushlight.distributed.checkpoint.flat import nested
from rushlight.distributed.checkpoint.folder import Opened, open_folder
from rushlight.distributed.checkpoint.saving import save as save_shards
from rushlight.distributed.tensor.layout import whole
from rushlight.eager.creation import empty
from rushlight.eager.memory import array_of


def consolidate(checkpoint_id: Path, f: Path) -> None:
    """Write the tensors and values of a sharded checkpoint to one file, under their flat names.

    A name that ends in `.safetensors` gives that format, others PyTorch's archive. Errors are those of `load` and
    `rl.save`.

    >>> checkpoint.consolidate("run/step-300", "model.safetensors")
    """
    save(_values(open_folder(os.fspath(checkpoint_id))), f)


def dcp_to_torch_save(dcp_checkpoint_dir: Path, torch_save_path: Path) -> None:
    """Write a sharded checkpoint to one file of `rl.save`, with the dicts and lists that were saved.

    >>> dcp_to_torch_save("run/step-300", "model.pt")
    """
    shards = open_folder(os.fspath(dcp_checkpoint_dir))
    save(nested(_values(shards), shards.index.paths), torch_save_path)


def torch_save_to_dcp(torch_save_path: Path, dcp_checkpoint_dir: Path) -> None:
    """Write what a file of `rl.save` or PyTorch holds as a sharded checkpoint, by this process alone."""
    save_shards(load(torch_save_path), dcp_checkpoint_dir, no_dist=True)


def _values(shards: Opened) -> dict[str, object]:
    """All tensors and values of a checkpoint, by flat names."""
    shards.open(shards.index.tensors)
    state: dict[str, object] = dict(shards.index.objects)
    for name, entry in shards.index.tensors.items():
        tensor = empty(entry.shape, dtype=entry.dtype)
        shards.read(name, whole(entry.shape), array_of(tensor))
        state[name] = tensor
    return state
