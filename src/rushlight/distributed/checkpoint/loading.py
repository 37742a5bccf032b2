"""Loading a checkpoint into a state dict: each rank reads the boxes that it holds, whoever wrote them."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence
from typing import Any

import numpy as np

from rushlight.data.source import Path
from rushlight.distributed.checkpoint.flat import Leaf, Stateful, flatten
from rushlight.distributed.checkpoint.folder import Opened, open_folder
from rushlight.distributed.checkpoint.holding import Holding, holdings, is_tensor
from rushlight.distributed.checkpoint.index import Index
from rushlight.distributed.checkpoint.ranks import ranks_of, together
from rushlight.distributed.checkpoint.saving import state_of
from rushlight.distributed.checkpoint.storage import (
    DefaultLoadPlanner,
    FileSystemReader,
    check_planner,
    folder_of,
)
from rushlight.distributed.group import Group
from rushlight.distributed.tensor.layout import shape_of, whole
from rushlight.eager.autograd.modes import no_grad
from rushlight.eager.memory import Array, array_of
from rushlight.eager.tensor import Tensor
from rushlight.ir.type import CPU
from rushlight.support.errors import fail, require


def load(
    state_dict: MutableMapping[str, object],
    checkpoint_id: Path | None = None,
    *,
    storage_reader: FileSystemReader | None = None,
    planner: DefaultLoadPlanner | None = None,
    process_group: Group = None,
    no_dist: bool = False,
    strict: bool = True,
) -> None:
    """Fill the tensors of a state dict, in place, from a checkpoint, and replace its other values.

    Tensors may be sharded in another way, over another number of ranks, than when they were saved. On every rank P001
    where there is no checkpoint, P002 where a shard is missing or damaged, P004 where names or sizes do not fit:
    nothing is written then. With `strict=False` what the checkpoint lacks stays as it is.

    >>> state = {"model": model.state_dict(), "step": 0}
    >>> checkpoint.load(state, "run/step-300")
    """
    folder = folder_of("load", checkpoint_id, storage_reader, FileSystemReader)
    check_planner("load", planner, DefaultLoadPlanner)
    strict = strict and not (planner is not None and planner.allow_partial_load)
    ranks = ranks_of(process_group, no_dist)
    states: dict[str, Any] = state_of(state_dict)
    leaves = flatten(states)
    held = holdings(leaves)
    shards = together(ranks, lambda: _opened(folder, leaves, held, strict))
    values = together(ranks, lambda: _values(shards, leaves))
    together(ranks, lambda: _fill(shards, held))
    for name, value in values.items():
        leaves[name].put(value)
    for key, value in state_dict.items():
        if isinstance(value, Stateful):
            value.load_state_dict(states[key])
        else:
            state_dict[key] = states[key]


def load_state_dict(
    state_dict: MutableMapping[str, object],
    storage_reader: FileSystemReader,
    process_group: Group = None,
    coordinator_rank: int = 0,
    no_dist: bool = False,
    planner: DefaultLoadPlanner | None = None,
) -> None:
    """Fill a state dict from a checkpoint as `load` does: its older name."""
    load(state_dict, storage_reader=storage_reader, planner=planner, process_group=process_group, no_dist=no_dist)


def _opened(folder: str, leaves: Mapping[str, Leaf], held: Mapping[str, Sequence[Holding]], strict: bool) -> Opened:
    shards = open_folder(folder)
    index = shards.index
    missing = [name for name, leaf in leaves.items() if name not in index.tensors and not _is_value(index, name, leaf)]
    message = f"checkpoint: {folder} lacks names of the state dict"
    require(not missing or not strict, "P004", message, missing=missing[:5])
    found = [name for name in held if name in index.tensors]
    for name in found:
        stored = index.tensors[name]
        wanted = tuple(getattr(leaves[name].value, "shape", ()))
        if wanted != stored.shape:
            fail("P004", f"checkpoint: {name} has another shape", stored=stored.shape, wanted=wanted)
    shards.open(found)
    return shards


def _is_value(index: Index, name: str, leaf: Leaf) -> bool:
    """Whether the checkpoint has a value that replaces what is there: a number also replaces a tensor without dims."""
    if name not in index.objects:
        return False
    counts = isinstance(index.objects[name], int | float) and getattr(leaf.value, "shape", None) == ()
    return counts or not is_tensor(leaf.value)


def _values(shards: Opened, leaves: Mapping[str, Leaf]) -> dict[str, object]:
    """Read what is no tensor in the state dict or in the checkpoint: steps were counted by numbers or by tensors."""
    values: dict[str, object] = {}
    for name, leaf in leaves.items():
        if _is_value(shards.index, name, leaf):
            values[name] = shards.index.objects[name]
        elif not is_tensor(leaf.value) and name in shards.index.tensors:
            values[name] = _number(shards, name, leaf.value)
    return values


def _number(shards: Opened, name: str, before: object) -> object:
    entry = shards.index.tensors[name]
    fits = entry.shape == () and isinstance(before, int | float)
    require(fits, "P004", f"checkpoint: {name} is a tensor, and no {type(before).__name__}", stored=entry.shape)
    number: Array = np.empty((), entry.dtype.numpy)
    shards.open([name])
    shards.read(name, whole(()), number)
    return int(number) if isinstance(before, int) else float(number)


def _fill(shards: Opened, held: Mapping[str, Sequence[Holding]]) -> None:
    for name, parts in held.items():
        entry = shards.index.tensors.get(name)
        if entry is None:
            continue
        for one in parts:
            if entry.dtype is one.tensor.dtype and one.tensor.device == CPU:
                shards.read(name, one.part.box, array_of(one.tensor))
                one.tensor.version.value += 1
            else:
                _convert(shards, name, one)


def _convert(shards: Opened, name: str, held: Holding) -> None:
    """Read what has another dtype in the checkpoint, or is on a device, by way of a tensor of its own."""
    entry = shards.index.tensors[name]
    read = Tensor.new_empty(held.tensor, shape_of(held.part.box), dtype=entry.dtype, device="cpu")
    shards.read(name, held.part.box, array_of(read))
    with no_grad():
        held.tensor.copy_(read)
