"""Checkpoints that many ranks write together and any number of ranks reads: `torch.distributed.checkpoint`'s names.

    checkpoint.save({"model": model.state_dict(), "step": 300}, "run/step-300")
    checkpoint.load(state, "run/step-300")

A checkpoint is a folder of safetensors files and an index. Those of PyTorch are read as well.
"""

from rushlight.distributed.checkpoint.consolidating import consolidate
from rushlight.distributed.checkpoint.flat import Stateful
from rushlight.distributed.checkpoint.hugging_face import HuggingFaceStorageReader, HuggingFaceStorageWriter
from rushlight.distributed.checkpoint.loading import load, load_state_dict
from rushlight.distributed.checkpoint.saving import async_save, save, save_state_dict
from rushlight.distributed.checkpoint.storage import (
    AsyncCheckpointerType,
    DefaultLoadPlanner,
    DefaultSavePlanner,
    FileSystemReader,
    FileSystemWriter,
)
from rushlight.support.peer_names import absent_name

__all__ = [
    "AsyncCheckpointerType",
    "DefaultLoadPlanner",
    "DefaultSavePlanner",
    "FileSystemReader",
    "FileSystemWriter",
    "HuggingFaceStorageReader",
    "HuggingFaceStorageWriter",
    "Stateful",
    "async_save",
    "consolidate",
    "load",
    "load_state_dict",
    "save",
    "save_state_dict",
]


def __getattr__(name: str) -> object:
    raise absent_name(__name__, name, __all__)
