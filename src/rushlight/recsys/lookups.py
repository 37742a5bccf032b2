"""Lookups of collections as single calls of an exported program's graph.

A collection that is exported has one call in its place, with its tables as operands. What loads the program puts the
collection, or what divides its tables, in the place of the call.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import rushlight as rl
from rushlight import Tensor
from rushlight.library import custom_op
from rushlight.nn import Module, Parameter
from rushlight.ops.ragged import pooled_segments
from rushlight.recsys.configs import BaseEmbeddingConfig, EmbeddingBagConfig, EmbeddingConfig
from rushlight.recsys.modules import EmbeddingBagCollection, EmbeddingCollection
from rushlight.recsys.planner.enumerators import configs_of
from rushlight.recsys.quant import QuantEmbeddingBagCollection, QuantEmbeddingCollection
from rushlight.recsys.sparse import JaggedTensor, KeyedJaggedTensor, KeyedTensor
from rushlight.support.errors import fail, require

Looked = EmbeddingCollection | QuantEmbeddingBagCollection | QuantEmbeddingCollection
"""Collections that `lookup` stands for."""
Pooled = EmbeddingBagCollection | QuantEmbeddingBagCollection
Collection = EmbeddingBagCollection | Looked
LOOKUP = "recsys::lookup"
OPERATORS = {
    EmbeddingBagCollection: pooled_segments.name,  # it runs as it is
    EmbeddingCollection: LOOKUP,
    QuantEmbeddingBagCollection: LOOKUP,
    QuantEmbeddingCollection: LOOKUP,
}
"""The operator of the one call that a collection is."""
KINDS = {kind.__name__: kind for kind in OPERATORS}


@custom_op(LOOKUP, mutates_args=())
def lookup(
    tables: Sequence[Tensor], ids: Tensor, lengths: Tensor, weights: Tensor | None, columns: int, pooled: int
) -> Tensor:
    """The rows of ids: pooled ones side by side of so many features, or with `pooled` 0 one for each id."""
    fail("A006", "a collection of an exported program is restored by load_model", hint="call its module()")


@lookup.register_fake
def _(
    tables: Sequence[Tensor], ids: Tensor, lengths: Tensor, weights: Tensor | None, columns: int, pooled: int
) -> Tensor:
    del weights
    rows = lengths.shape[0] // pooled if pooled else ids.shape[0]
    numbers = tables[0].dtype.is_floating_point and not pooled
    return rl.empty(rows, columns, dtype=tables[0].dtype if numbers else rl.float32)


@contextmanager
def single_calls(model: Module) -> Generator[None]:
    """A scope in which each collection of sequences, and of few bits, is one call."""
    own: list[Any] = [one for one in model.modules() if isinstance(one, Looked)]
    for one in own:
        one.forward = partial(_called, one)
    try:
        yield
    finally:
        for one in own:
            del one.forward


def _called(collection: Any, features: KeyedJaggedTensor) -> KeyedTensor | dict[str, JaggedTensor]:
    """What the collection gives, by one call."""
    slots = collection._slots
    chosen = slots.chosen(features)
    pooled = isinstance(collection, QuantEmbeddingBagCollection)
    tables = list(collection.state_dict(keep_vars=True).values())
    dtypes = {table.dtype for table in tables} if isinstance(collection, EmbeddingCollection) else set()
    require(
        len(dtypes) <= 1, "C035", "export_model: tables of sequences have one dtype", dtypes=sorted(map(str, dtypes))
    )
    weights = chosen.weights() if pooled and collection.is_weighted() else None
    columns = sum(slots.dims) if pooled else slots.dims[0]
    count = len(slots.tables) if pooled else 0
    rows = lookup(tables, chosen.values(), chosen.lengths(), weights, columns, count)
    if pooled:
        return KeyedTensor(slots.names, slots.dims, rows)
    ends = chosen.offset_per_key()
    parts = [rows[low:high] for low, high in itertools.pairwise(ends)]
    return slots.by_name(chosen, parts, collection.need_indices())


def kind_of(collection: Collection) -> str:
    """The kind of a collection, by name."""
    return next(name for name, kind in KINDS.items() if isinstance(collection, kind))


def tables_of(collection: Collection) -> Sequence[BaseEmbeddingConfig]:
    """The descriptions of a collection's tables."""
    configs = configs_of(collection)
    assert configs is not None
    return configs()


def flag_of(collection: Collection) -> bool:
    """Whether rows have weights, or ids go along."""
    return collection.is_weighted() if isinstance(collection, Pooled) else collection.need_indices()


def restored(kind: str, tables: Sequence[object], flag: bool, state: Mapping[str, Tensor]) -> Collection:
    """Return a collection of tables whose rows are there."""
    rows = [_parts(state, table) for table in tables if isinstance(table, BaseEmbeddingConfig)]
    bags = [table for table in tables if isinstance(table, EmbeddingBagConfig)]
    sequences = [table for table in tables if isinstance(table, EmbeddingConfig)]
    if kind == "QuantEmbeddingBagCollection":
        return QuantEmbeddingBagCollection(bags, rows, flag)
    if kind == "QuantEmbeddingCollection":
        return QuantEmbeddingCollection(sequences, rows, flag)
    pooled = kind == "EmbeddingBagCollection"
    made = EmbeddingBagCollection(bags, flag, "meta") if pooled else EmbeddingCollection(sequences, "meta", flag)
    held = made.get_submodule(made.path)
    for table, parts in zip(bags if pooled else sequences, rows, strict=True):
        weight = parts["weight"]
        assert isinstance(weight, Parameter)
        held.get_submodule(table.name).register_parameter("weight", weight)
    return made


def _parts(state: Mapping[str, Tensor], table: BaseEmbeddingConfig) -> dict[str, Tensor]:
    """The rows of a table, of a state with keys `<module>.<table>.<part>`."""
    parts = [(name.split(".", 1)[1].rsplit(".", 1), value) for name, value in state.items()]
    return {part: value for (owner, part), value in parts if owner == table.name}


def answered(get: Callable[[], Any], kind: str, keys: tuple[str, ...], operands: Sequence[Any]) -> Tensor:
    """What a collection, or what is in its place, gives for the ids of a call."""
    _, ids, rows, weights, *_ = operands
    divided = (None, rows) if kind == "EmbeddingBagCollection" else (rows, None)
    found = get()(KeyedJaggedTensor.of_parts((ids, weights, *divided), keys, None))
    return found.values() if issubclass(KINDS[kind], Pooled) else rl.cat([found[key].values() for key in keys])
