"""Loading a package and calling it on arrays."""

from __future__ import annotations

import ctypes
import itertools
import json
import os
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rushlight_runtime.expressions import size_of
from rushlight_runtime.weights import Weights, dtype_named

Array = NDArray[np.generic]

_FORMAT = 1
_ALIGNMENT = 64
_FIRST_CHECK = 16
_STATUSES = {
    1: "the arena is too short",
    2: "a pointer is null",
    3: "a size is not in its range",
    4: "this processor is older than x86-64-v3",
    5: "the arena is not aligned",
}

_TASK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
_PARALLEL_FOR = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64
)


class PackageError(RuntimeError):
    """A package that cannot be loaded, or a call that it refuses."""


class _Context(ctypes.Structure):
    _fields_ = (
        ("arena", ctypes.c_void_p),
        ("arena_bytes", ctypes.c_uint64),
        ("weights", ctypes.c_void_p),
        ("parallel_for", ctypes.c_void_p),
        ("data", ctypes.c_void_p),
        ("threads", ctypes.c_int64),
        ("level", ctypes.c_int64),
    )


def load(folder: str | os.PathLike[str], name: str = "model", *, threads: int = 1) -> Program:
    """Load the package `name` of a folder; long loops are shared among `threads` threads.

    PackageError where the folder holds none, or one of another version.
    """
    root = Path(folder)
    try:
        manifest = json.loads((root / f"{name}.json").read_text(encoding="utf-8"))
        library = ctypes.CDLL(str((root / f"lib{name}.so").resolve()))
    except (OSError, ValueError) as cause:
        raise PackageError(f"{root}: there is no package {name} that this machine can load: {cause}") from cause
    if manifest.get("format") != _FORMAT:
        raise PackageError(
            f"{root}: the manifest has format {manifest.get('format')}, and this runtime reads {_FORMAT}"
        )
    return Program(root, manifest, library, threads)


class Program:
    """A program that is called on arrays. `state` are the tensors that it writes to, by name."""

    def __init__(self, folder: Path, manifest: Mapping[str, Any], library: ctypes.CDLL, threads: int) -> None:
        self.name: str = manifest["name"]
        self.specification: str = manifest["specification"]
        self._manifest = manifest
        self._tensors = [_Tensor(entry) for entry in manifest["tensors"]]
        self._passed = [tensor for tensor in self._tensors if tensor.kind in ("input", "argument", "number")]
        self._checks: Sequence[str] = manifest["checks"]
        self._weights = Weights(folder / manifest["weights"]) if manifest["weights"] else None
        file = folder / f"{self.name}.safetensors"
        held = [tensor for tensor in self._tensors if tensor.kind == "state"]
        stored = (self._weights or Weights(file)) if held else None
        self.state: dict[str, Array] = {}
        if stored is not None:
            self.state = {tensor.title: stored.copy(tensor.title, tensor.dtype) for tensor in held}
        self._pool = ThreadPoolExecutor(threads - 1) if threads > 1 else None
        self._threads = threads
        self._parallel_for = _PARALLEL_FOR(self._run_parallel)
        self._arena_size: Any = library[f"{self.name}_arena_size"]
        self._arena_size.restype = ctypes.c_int64
        self._run: Any = library[f"{self.name}_run"]
        level: Any = library[f"{self.name}_level"]
        level.restype = ctypes.c_int64
        self._level = int(level())
        self._arenas = threading.local()

    def __call__(self, *arrays: Any, sizes: Mapping[str, int] | None = None) -> Any:
        """Run the program on its inputs, in order: arrays, and numbers where it takes numbers.

        TypeError for another count of inputs or another dtype, ValueError for shapes that do not fit, PackageError for
        what the package itself refuses.
        """
        if len(arrays) != len(self._passed):
            names = ", ".join(tensor.name for tensor in self._passed)
            raise TypeError(f"{self.name}: takes {len(self._passed)} inputs ({names}), and got {len(arrays)}")
        given = dict(zip(self._passed, arrays, strict=True))
        values = {tensor: tensor.taken(value) for tensor, value in given.items()}
        bound = self._bound(values, sizes or {})
        for tensor, value in values.items():
            tensor.check(value, bound)
        outputs = {tensor: tensor.empty(bound) for tensor in self._tensors if tensor.kind == "output"}
        everything = {**values, **outputs}
        pointers = [
            tensor.argument(self.state[tensor.title] if tensor.kind == "state" else everything[tensor])
            for tensor in self._tensors
            if tensor.kind not in ("weight", "size")
        ]
        self._call(bound, pointers)
        return _built(self._manifest["result"], list(outputs.values()), arrays, bound)

    def _bound(self, values: Mapping[_Tensor, Any], given: Mapping[str, int]) -> dict[str, int]:
        """The sizes of a call, by name."""
        bound: dict[str, int] = {}
        for size in self._manifest["sizes"]:
            name = size["name"]
            value = values.get(self._tensors[size["tensor"]]) if "tensor" in size else None
            if isinstance(value, np.ndarray) and value.ndim > size["dim"]:
                bound[name] = (value.shape[size["dim"]] - size["offset"]) // size["scale"]
            elif name in given:
                bound[name] = int(given[name])
            else:
                raise ValueError(f"{self.name}: no input shows the size {name}: pass sizes={{'{name}': ...}}")
        return bound

    def _call(self, bound: Mapping[str, int], pointers: Sequence[Any]) -> None:
        sizes = [ctypes.c_int64(bound[size["name"]]) for size in self._manifest["sizes"]]
        need = self._arena_size(ctypes.c_int64(self._threads), *sizes)
        if need < 0:
            self._fail(-need)
        arena = self._arena(need)
        weights = self._weights.whole.ctypes.data if self._weights is not None else None
        parallel = ctypes.cast(self._parallel_for, ctypes.c_void_p) if self._pool is not None else None
        context = _Context(arena.ctypes.data, arena.nbytes, weights, parallel, None, self._threads, self._level)
        status = self._run(ctypes.byref(context), *sizes, *pointers)
        if status:
            self._fail(status)

    def _arena(self, need: int) -> NDArray[np.uint8]:
        """This thread's memory for intermediate values, at least so many bytes."""
        arena: NDArray[np.uint8] | None = getattr(self._arenas, "arena", None)
        if arena is None or arena.nbytes < need:
            memory = np.empty(need + _ALIGNMENT, np.uint8)
            start = -memory.ctypes.data % _ALIGNMENT
            arena = self._arenas.arena = memory[start : start + max(need, 1)]
        return arena

    def _run_parallel(self, data: int, task: int, arguments: int, count: int, grain: int) -> None:
        """Runs a loop in shares, the last one on this thread."""
        run = _TASK(task)
        shares = max(1, min(self._threads, count // max(grain, 1)))
        edges = [count * number // shares for number in range(shares + 1)]
        assert self._pool is not None
        futures = [self._pool.submit(run, arguments, begin, end) for begin, end in itertools.pairwise(edges[:-1])]
        run(arguments, edges[-2], edges[-1])
        for future in futures:
            future.result()

    def _fail(self, status: int) -> None:
        if status >= _FIRST_CHECK and status - _FIRST_CHECK < len(self._checks):
            raise PackageError(f"{self.name}: {self._checks[status - _FIRST_CHECK]}")
        raise PackageError(f"{self.name}: {_STATUSES.get(status, f'status {status}')}; it takes {self.specification}")

    def __repr__(self) -> str:
        return f"<{self.name}: {self.specification}>"


class _Tensor:
    """One entry of the manifest."""

    def __init__(self, entry: Mapping[str, Any]) -> None:
        self.kind: str = entry["kind"]
        self.name: str = entry["name"]
        self.title: str = entry.get("title", self.name)
        self.dtype = dtype_named(entry["dtype"])
        self.shape = [size_of(size) for size in entry["shape"]]
        self.strides = [size_of(stride) for stride in entry["strides"]]

    def taken(self, value: Any) -> Any:
        """An input as the package takes it: row-major, of its dtype."""
        if self.kind == "number":
            return float(value)
        array = np.asarray(value)
        if array.dtype != self.dtype:
            raise TypeError(f"{self.name}: is {array.dtype}, and the package takes {self.dtype}")
        if self.kind == "argument" and not (array.flags.c_contiguous and array.flags.writeable):
            raise ValueError(f"{self.name}: is written to, so it must be a writable array in row-major order")
        return np.ascontiguousarray(array)

    def check(self, value: Any, bound: Mapping[str, int]) -> None:
        """ValueError unless an input has the shape that the sizes give."""
        shape = tuple(size(bound) for size in self.shape)
        if self.kind != "number" and value.shape != shape:
            raise ValueError(
                f"{self.name}: has shape {value.shape}, and {shape} would fit the other sizes {dict(bound)}"
            )

    def empty(self, bound: Mapping[str, int]) -> Array:
        """An array for an output, with the strides that the package writes."""
        shape = tuple(size(bound) for size in self.shape)
        strides = tuple(stride(bound) * self.dtype.itemsize for stride in self.strides)
        extent = sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True)) + self.dtype.itemsize
        memory = np.empty(0 if 0 in shape else extent, np.uint8)
        return np.ndarray(shape, self.dtype, memory, strides=strides)

    def argument(self, value: Any) -> Any:
        """What the C function is given."""
        return ctypes.c_double(value) if self.kind == "number" else ctypes.c_void_p(value.ctypes.data)


def _built(
    template: Mapping[str, Any], outputs: Sequence[Array], arrays: Sequence[Any], bound: Mapping[str, int]
) -> Any:
    """What the program returns, in the containers that it makes."""
    ((kind, value),) = template.items()
    if kind == "output":
        return outputs[value]
    if kind == "constant":
        return value
    if kind == "size":
        return size_of(value)(bound)
    if kind == "argument":
        return arrays[value]
    if kind == "dict":
        return {key: _built(part, outputs, arrays, bound) for key, part in value}
    parts = [_built(part, outputs, arrays, bound) for part in value]
    return tuple(parts) if kind == "tuple" else parts
