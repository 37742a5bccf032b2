"""From a list of samples to one batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from rushlight.eager.creation import as_tensor, tensor
from rushlight.eager.tensor import Tensor
from rushlight.ir.dtype import float64
from rushlight.ops import OPERATORS
from rushlight.support.errors import error, fail, require

Array = NDArray[np.generic]


def default_collate(batch: list[Any]) -> Any:
    """Return one batch: tensors and arrays are stacked, numbers become tensors, containers keep their structure.

    Floats become float64 and ints int64, as in PyTorch; text stays a list.
    """
    first = batch[0]
    if isinstance(first, Tensor):
        return OPERATORS["stack"](batch)
    if isinstance(first, np.ndarray):
        return _stacked_arrays(cast(list[Array], batch))
    if isinstance(first, np.generic) and not isinstance(first, str | bytes):
        return as_tensor(np.asarray(batch))
    if isinstance(first, bool | int):
        return tensor(batch)
    if isinstance(first, float):
        return tensor(batch, dtype=float64)
    if isinstance(first, str | bytes):
        return batch
    if isinstance(first, Mapping):
        return _like(first, {name: default_collate([sample[name] for sample in batch]) for name in first})
    if isinstance(first, Sequence):
        return _collated_sequences(first, batch)
    raise error(
        "A001", f"default_collate: samples hold tensors, arrays, numbers, dicts or lists, not {type(first).__name__}"
    )


def default_convert(data: object) -> Any:
    """Return a sample with its arrays as tensors, for loaders that do not batch."""
    if isinstance(data, np.ndarray | np.generic):
        array = np.asarray(data)
        return data if array.dtype.kind in "SUO" else as_tensor(array)
    if isinstance(data, Mapping):
        return _like(data, {name: default_convert(value) for name, value in data.items()})
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return type(data)(*[default_convert(value) for value in data])
    if isinstance(data, Sequence) and not isinstance(data, str | bytes):
        values = [default_convert(value) for value in data]
        return tuple(values) if isinstance(data, tuple) else values
    return data


def _stacked_arrays(batch: list[Array]) -> Tensor:
    array = batch[0]
    if array.dtype.kind in "SUO":
        fail("A001", f"default_collate: arrays of dtype {array.dtype} cannot become tensors")
    shapes = {one.shape for one in batch}
    require(len(shapes) == 1, "S005", "default_collate: arrays differ in shape", shapes=sorted(shapes))
    return as_tensor(np.stack(batch))


def _collated_sequences(first: Sequence[object], batch: list[Sequence[object]]) -> object:
    lengths = {len(sample) for sample in batch}
    require(len(lengths) == 1, "S005", "default_collate: samples differ in length", lengths=sorted(lengths))
    columns = [default_collate(list(column)) for column in zip(*batch, strict=True)]
    if isinstance(first, tuple) and hasattr(first, "_fields"):
        return type(first)(*columns)
    return columns


def _like(example: Mapping[str, object], values: dict[str, object]) -> Mapping[str, object]:
    try:
        return type(example)(values)  # pyright: ignore[reportCallIssue] - most mappings can be made from a dict
    except TypeError:
        return values
