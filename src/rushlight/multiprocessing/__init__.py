"""Python's `multiprocessing`, with tensors that processes share, and `spawn`.

A tensor that a queue or a pipe sends, or that is an argument of a process, is moved to shared memory: what one process
writes to it, all see.

```python
import rushlight.multiprocessing as mp

model.share_memory()
processes = [mp.Process(target=train, args=(model,)) for _ in range(4)]
```
"""

from __future__ import annotations

import multiprocessing
from importlib import import_module
from multiprocessing import *  # noqa: F403 # pyright: ignore[reportWildcardImportFromLibrary] - its names are this one's

import rushlight.data.sharing  # noqa: F401 # pyright: ignore[reportUnusedImport] - says how tensors are sent
from rushlight.multiprocessing.spawning import (
    ProcessContext,
    ProcessException,
    ProcessExitedException,
    ProcessRaisedException,
    SpawnContext,
    spawn,
    start_processes,
)
from rushlight.support.errors import require

__all__ = [
    "ProcessContext",
    "ProcessException",
    "ProcessExitedException",
    "ProcessRaisedException",
    "SpawnContext",
    "get_all_sharing_strategies",
    "get_sharing_strategy",
    "set_sharing_strategy",
    "spawn",
    "start_processes",
]
__all__ += multiprocessing.__all__

_STRATEGIES = frozenset(("file_descriptor", "file_system"))
_strategy = ["file_descriptor"]


def get_all_sharing_strategies() -> set[str]:
    """The names of ways to share memory: those of PyTorch on Linux."""
    return set(_STRATEGIES)


def get_sharing_strategy() -> str:
    """The way that was set, "file_descriptor" at first."""
    return _strategy[0]


def set_sharing_strategy(new_strategy: str) -> None:
    """Set the name of the way to share memory, which is one whatever the name: files without names, by descriptor.

    So no file is ever left over. Errors: A002 for another name.
    """
    known = new_strategy in _STRATEGIES
    require(known, "A002", "set_sharing_strategy: no such way", strategy=new_strategy, hint="or: file_system")
    _strategy[0] = new_strategy


def __getattr__(name: str) -> object:
    return (
        getattr(multiprocessing, name) if hasattr(multiprocessing, name) else import_module(f"multiprocessing.{name}")
    )
