"""vmap: a function of one example as a function of a batch."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from rushlight.eager.arguments import fixed_integer, settled
from rushlight.eager.autograd.function import MAPPED
from rushlight.eager.autograd.mapped import apply_at_levels
from rushlight.eager.batching.levels import Level, in_front, level_of, mapped, repeated
from rushlight.eager.batching.mapping import run_mapped
from rushlight.eager.boundary import checked
from rushlight.eager.dispatch import STATE, Key, Scope, call_user, register_fallback
from rushlight.eager.handle import BATCHED, Handle
from rushlight.eager.pytree import Leaf, Structure, count_of, flatten_tree, unflatten_tree
from rushlight.eager.symbols import holds, wrap_size
from rushlight.ops import OPERATORS
from rushlight.support.errors import fail, require

_RANDOMNESS = ("error", "different", "same")


@checked
def vmap(
    func: Callable[..., object],
    in_dims: object = 0,
    out_dims: object = 0,
    randomness: str = "error",
    *,
    chunk_size: int | None = None,
) -> Callable[..., Any]:
    """Return a function that applies `func` to each place along a dim of its arguments.

    `in_dims` has the dim of each argument, or None for one that all share, in the arguments' structure or a prefix of
    it; keyword arguments are shared. `out_dims` says where the results have the batch. `randomness` is
    what random numbers do: "error", "different" or "same" at all places. `chunk_size` is how many places run at once.

        rl.vmap(rl.dot)(x, y)  # of each pair of rows
    """
    require(randomness in _RANDOMNESS, "A002", f"vmap: randomness is one of {', '.join(_RANDOMNESS)}, not {randomness}")
    fits = chunk_size is None or chunk_size > 0
    require(fits, "A002", "vmap: chunk_size must be positive", chunk_size=chunk_size)

    @functools.wraps(func)
    def batched(*args: Any, **kwargs: Any) -> Any:
        leaves, structure = flatten_tree((args, kwargs))
        dims = _dims_in(in_dims, args, kwargs, leaves)
        size = _batch_size(leaves, dims)
        if chunk_size is not None:
            size = fixed_integer(wrap_size(size))
        if chunk_size is None or chunk_size >= size:
            return _run(func, leaves, structure, dims, out_dims, size, randomness)
        parts: list[Any] = []
        for start in range(0, size, chunk_size):
            count = min(chunk_size, size - start)
            part = [
                leaf if dim is None else OPERATORS["narrow"](leaf, dim, start, count)
                for leaf, dim in zip(leaves, dims, strict=True)
            ]
            parts.append(_run(func, part, structure, dims, out_dims, count, randomness))
        return _joined(parts, out_dims)

    return batched


def _dims_in(
    in_dims: object, args: Sequence[object], kwargs: dict[str, Any], leaves: Sequence[object]
) -> list[int | None]:
    in_dims = settled(in_dims)
    if not isinstance(in_dims, (int, tuple, list)):
        fail("A002", "vmap: in_dims is an int, or a tuple of one entry for each argument", in_dims=in_dims)
    if not leaves:
        fail("A002", "vmap: the function was given no arguments")
    structure = flatten_tree(tuple(args))[1]
    result = broadcast_prefix(tuple(in_dims) if isinstance(in_dims, list) else in_dims, structure, "in_dims")
    result += [None] * (len(leaves) - len(result))
    dims: list[int | None] = []
    for leaf, dim in zip(leaves, result, strict=True):
        if dim is None:
            dims.append(None)
            continue
        dim = settled(dim)
        if not isinstance(dim, int):
            fail("A002", "vmap: in_dims has ints and None alone", entry=dim)
        if not isinstance(leaf, Handle):
            fail("A002", "vmap: an argument with a dim in in_dims must be a tensor", argument=leaf, dim=dim)
        rank = len(leaf.form.shape)
        if not -rank <= dim < rank:
            fail("A002", f"vmap: in_dims has {dim} for a tensor of {rank} dims", argument=leaf)
        dims.append(dim % rank)
    return dims


def broadcast_prefix(value: object, structure: Structure, name: str) -> list[Any]:
    """One entry for each leaf of a structure, of a value that may stand for parts of it."""
    if not isinstance(value, (tuple, list, dict)):
        return [value] * count_of(structure)
    if isinstance(structure, Leaf):
        fail("A002", f"vmap: {name} does not fit the structure", given=str(value))
    entries: Sequence[Any] = list(value.values()) if isinstance(value, dict) else list(value)
    if len(entries) != len(structure.children_specs):
        fail(
            "A002",
            f"vmap: {name} does not fit the structure: {len(entries)} entries for {len(structure.children_specs)}",
        )
    return [
        dim
        for entry, part in zip(entries, structure.children_specs, strict=True)
        for dim in broadcast_prefix(entry, part, name)
    ]


def _batch_size(leaves: Sequence[Any], dims: Sequence[int | None]) -> Any:
    sizes = [leaf.form.shape[dim] for leaf, dim in zip(leaves, dims, strict=True) if dim is not None]
    if not sizes:
        fail("A002", "vmap: at least one argument must be mapped, and in_dims has None for all")
    text = "vmap: the mapped dims must be of one size"
    if not all(size is sizes[0] or holds(wrap_size(size) == wrap_size(sizes[0]), text) for size in sizes):
        fail("A002", text, sizes=sorted(set(sizes), key=str))
    return sizes[0]


def _run(
    func: Callable[..., Any],
    leaves: Sequence[Any],
    structure: Structure,
    dims: Sequence[int | None],
    out_dims: Any,
    size: Any,
    randomness: str,
) -> Any:
    level = Level(len(STATE.maps), size, randomness)
    inner = [
        leaf if dim is None else mapped(in_front(leaf, dim), level) for leaf, dim in zip(leaves, dims, strict=True)
    ]
    args, kwargs = unflatten_tree(structure, inner)
    scope = Scope(maps=(*STATE.maps, level), included=STATE.included | BATCHED, excluded=STATE.excluded & ~BATCHED)
    with scope:
        result = call_user(func, *args, **kwargs)
    value, built = flatten_tree(result)
    places = _places_out(out_dims, built)
    return unflatten_tree(built, [_taken_out(leaf, dim, level) for leaf, dim in zip(value, places, strict=True)])


def _places_out(out_dims: object, structure: Structure) -> list[object]:
    """Where each result has its batch. One result may have its place in a tuple."""
    if isinstance(structure, Leaf) and isinstance(out_dims, tuple) and len(out_dims) == 1:
        (out_dims,) = out_dims
    return broadcast_prefix(out_dims, structure, "out_dims")


def _taken_out(value: Any, dim: Any, level: Level) -> Any:
    """A result with its batch at a place."""
    if not isinstance(value, Handle):
        fail("A001", "vmap: the function must return tensors alone", result=value)
    is_mapped = level_of(value) == level
    if dim is None:
        if is_mapped:
            fail("A002", "vmap: out_dims has None for a result that differs from place to place", result=value)
        return value
    whole: Any = value
    if is_mapped:
        whole = value.node.value
    else:
        whole = repeated(value, level)
    rank = len(whole.form.shape)
    dim = fixed_integer(dim)
    if not -rank <= dim < rank:
        fail("A002", f"vmap: out_dims has {dim} for a result of {rank} dims", result=whole)
    return whole if dim % rank == 0 else OPERATORS["movedim"](whole, (0,), (dim % rank,))


def _joined(parts: Sequence[object], out_dims: object) -> Any:
    flat = [flatten_tree(part) for part in parts]
    structure = flat[0][1]
    places = _places_out(out_dims, structure)
    columns = zip(*[leaves for leaves, _ in flat], strict=True)
    return unflatten_tree(
        structure,
        [
            column[0] if dim is None else OPERATORS["cat"](tuple(column), dim)
            for column, dim in zip(columns, places, strict=True)
        ],
    )


MAPPED[0] = apply_at_levels


register_fallback(Key.BATCHED, run_mapped, reenters=True)
