"""The checkpoint of a folder, opened: ours, one of PyTorch's, or files of safetensors as Hugging Face has them."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Protocol

from rushlight.distributed.checkpoint.index import FILE_NAME, Index, read_index
from rushlight.distributed.checkpoint.models import has_models, models_index
from rushlight.distributed.checkpoint.peer import METADATA, PeerShards
from rushlight.distributed.checkpoint.reading import Shards
from rushlight.distributed.tensor.layout import Box
from rushlight.eager.memory import Array


class Opened(Protocol):
    """A checkpoint whose tensors can be read box by box."""

    @property
    def index(self) -> Index:
        """What it holds."""
        ...

    def open(self, names: Iterable[str]) -> None:
        """Find and checks the pieces of tensors, without reading them."""
        ...

    def read(self, name: str, box: Box, target: Array) -> None:
        """Fill an array with a box of a tensor."""
        ...


def open_folder(folder: str) -> Opened:
    """Return the checkpoint of a folder. P001 where there is none, P002 where it is damaged."""
    if os.path.isfile(os.path.join(folder, METADATA)):
        return PeerShards(folder)
    is_ours = os.path.isfile(os.path.join(folder, FILE_NAME)) or not has_models(folder)
    return Shards(folder, read_index(folder) if is_ours else models_index(folder))
