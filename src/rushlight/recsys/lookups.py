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
from rushlight.recsys.configs import BaseEmbeddingConfig, EmbeddingBagConfig, EmbeddingConfig
from rushlight.recsys.modules import EmbeddingCollection
from rushlight.recsys.quant import QuantEmbeddingBagCollection, QuantEmbeddingCollection, QuantTables
from rushlight.recsys.sparse import JaggedTensor, KeyedJaggedTensor, KeyedTensor
from rushlight.support.errors import fail, require

Looked = EmbeddingCollection | QuantEmbeddingBagCollection | QuantEmbeddingCollection
LOOKUP = "recsys::lookup"
KINDS = {kind.__name__: kind for kind in (EmbeddingCollection, QuantEmbeddingBagCollection, QuantEmbeddingCollection)}


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


def tables_of(collection: Any) -> Sequence[BaseEmbeddingConfig]:
    """The descriptions of a collection's tables."""
    return collection.configs() if isinstance(collection, QuantTables) else collection.embedding_configs()


def flag_of(collection: Any) -> bool:
    """Whether rows have weights, or ids go along."""
    pooled = isinstance(collection, QuantEmbeddingBagCollection)
    return collection.is_weighted() if pooled else collection.need_indices()


def restored(kind: str, tables: Sequence[object], flag: bool, state: Mapping[str, Tensor]) -> Looked:
    """Return a collection of tables whose rows are there. P002 for a kind that does not exist."""
    require(kind in KINDS, "P002", "load_model: there is no such collection", kind=kind)
    rows = [_parts(state, table) for table in tables if isinstance(table, BaseEmbeddingConfig)]
    if kind == "QuantEmbeddingBagCollection":
        return QuantEmbeddingBagCollection([one for one in tables if isinstance(one, EmbeddingBagConfig)], rows, flag)
    sequences = [table for table in tables if isinstance(table, EmbeddingConfig)]
    if kind == "QuantEmbeddingCollection":
        return QuantEmbeddingCollection(sequences, rows, flag)
    made = EmbeddingCollection(sequences, "meta", flag)
    for table, parts in zip(sequences, rows, strict=True):
        weight = parts["weight"]
        assert isinstance(weight, Parameter)
        made.embeddings[table.name].weight = weight
    return made


def _parts(state: Mapping[str, Tensor], table: BaseEmbeddingConfig) -> dict[str, Tensor]:
    """The rows of a table, of a state with keys `<module>.<table>.<part>`."""
    parts = [(name.split(".", 1)[1].rsplit(".", 1), value) for name, value in state.items()]
    return {part: value for (owner, part), value in parts if owner == table.name}


def answered(get: Callable[[], Any], keys: tuple[str, ...], pooled: bool, operands: tuple[Any, ...]) -> Tensor:
    """What a collection, or what is in its place, gives for the ids of a call."""
    _, ids, lengths, weights, *_ = operands
    found = get()(KeyedJaggedTensor.of_parts((ids, weights, lengths, None), keys, None))
    return found.values() if pooled else rl.cat([found[key].values() for key in keys])
