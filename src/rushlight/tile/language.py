"""What kernels call beside ordinary operators: products, loads and stores with masks, sums into memory."""

from __future__ import annotations

from typing import Any

from rushlight.eager.functions import cat, matmul, maximum, minimum, where
from rushlight.eager.handle import Handle
from rushlight.eager.symbols import SymInt, unwrap_size, wrap_size
from rushlight.ir.dtype import compute_dtype, int8
from rushlight.ops import OPERATORS
from rushlight.support.errors import require
from rushlight.sym import ceildiv

Index = Any


def cdiv(size: int | SymInt, by: int | SymInt) -> Any:
    """How many blocks of a size there are, the last one perhaps shorter."""
    return wrap_size(ceildiv(unwrap_size(size), unwrap_size(by)))


def dot(a: Any, b: Any, acc: Any = None) -> Any:
    """The matrix product of two tiles, added to `acc` where it is given.

    Floats of 16 bits are summed, and given, in float32, int8 in int32.
    """
    require(isinstance(a, Handle) and isinstance(b, Handle), "L004", "dot: two tiles are expected", a=a, b=b)
    if a.dtype is int8 and b.dtype is int8:
        product = OPERATORS["_int_mm"](a, b)
    else:
        product = matmul(_widened(a), _widened(b))
    return product if acc is None else acc + product


def _widened(tile: Handle) -> Any:
    wide = compute_dtype(tile.dtype)
    return tile if wide is tile.dtype else OPERATORS["to_dtype"](tile, wide)


def load(tensor: Any, index: Index, mask: Any = None, other: float = 0) -> Any:
    """`tensor[index]`, and `other` where `mask` is false: there tensors among the indices may leave the tensor."""
    parts = _parts(index)
    return tensor[parts] if mask is None else where(mask, tensor[_inside(parts, mask)], other)


def store(tensor: Any, index: Index, value: Any, mask: Any = None) -> None:
    """`tensor[index] = value`, where `mask` is true."""
    parts = _parts(index)
    if mask is None:
        tensor[parts] = value
        return
    if not _has_places(parts):
        tensor[parts] = where(mask, value, tensor[parts])
        return
    _refuse_places("store", parts[1:])
    # What is masked goes to a row of its own, behind the others.
    size = tensor.shape[0]
    longer = cat([tensor, tensor.new_zeros(1, *tensor.shape[1:])])
    longer[(where(mask, parts[0], size), *parts[1:])] = value
    tensor.copy_(longer[:size])


def atomic_add(tensor: Any, index: Index, value: Any, mask: Any = None) -> None:
    """Adds a tile to what a tensor holds. Where places are named several times, all are added, in order."""
    parts = _parts(index)
    added = value if mask is None else where(mask, value, 0)
    if not _has_places(parts):
        tensor[parts] = tensor[parts] + added
        return
    tensor.index_put_(parts if mask is None else _inside(parts, mask), added, accumulate=True)


def atomic_max(tensor: Any, index: Index, value: Any) -> None:
    """Writes the greater of a tile and what a tensor holds."""
    parts = _refuse_places("atomic_max", _parts(index))
    tensor[parts] = maximum(tensor[parts], value)


def atomic_min(tensor: Any, index: Index, value: Any) -> None:
    """Writes the lesser of a tile and what a tensor holds."""
    parts = _refuse_places("atomic_min", _parts(index))
    tensor[parts] = minimum(tensor[parts], value)


def _parts(index: Index) -> tuple[Any, ...]:
    return tuple(index) if isinstance(index, (list, tuple)) else (index,)


def _refuse_places(name: str, parts: tuple[Any, ...]) -> tuple[Any, ...]:
    """The indices; L004 where tensors are among them."""
    hint = "index by tiles"
    require(not _has_places(parts), "L004", f"{name}: a tensor is among the indices", hint=hint)
    return parts


def _has_places(parts: tuple[Any, ...]) -> bool:
    return any(_is_places(part) for part in parts)


def _inside(parts: tuple[Any, ...], mask: Any) -> tuple[Any, ...]:
    """The indices, of which tensors name the first place where the mask is false."""
    return tuple([where(mask, part, 0) if _is_places(part) else part for part in parts])


def _is_places(part: object) -> bool:
    return isinstance(part, Handle)
