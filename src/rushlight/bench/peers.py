"""The door to peers: each is imported when first asked for something, in a worker whose interpreter has it."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any


class Peer:
    """A module that is imported when its first attribute is asked for."""

    def __init__(self, load: Callable[[], Any]) -> None:
        self._load = load

    def __getattr__(self, name: str) -> Any:
        return getattr(self._load(), name)


jax: Any = Peer(lambda: importlib.import_module("jax"))
jnp: Any = Peer(lambda: importlib.import_module("jax.numpy"))
onnx_helper: Any = Peer(lambda: importlib.import_module("onnx.helper"))
onnx_arrays: Any = Peer(lambda: importlib.import_module("onnx.numpy_helper"))
onnxruntime: Any = Peer(lambda: importlib.import_module("onnxruntime"))
tinygrad: Any = Peer(lambda: importlib.import_module("tinygrad"))
