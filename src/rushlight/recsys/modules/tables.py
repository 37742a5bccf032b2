"""What collections share: making tables, naming results, checking ids."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import rushlight as rl
from rushlight import Tensor
from rushlight.nn.functional import embedding
from rushlight.ops.ragged import ids_within
from rushlight.recsys.configs import BaseEmbeddingConfig, repeated
from rushlight.recsys.sparse import JaggedTensor, KeyedJaggedTensor
from rushlight.support.errors import require

FLOATS = ("FP32", "FP16", "BF16")


class Slots:
    """Which table each feature of a collection reads: one entry for each feature of each table, in order.

    `names` are those of the results: a feature that several tables have is `feature@table`.
    """

    def __init__(self, tables: Sequence[BaseEmbeddingConfig]) -> None:
        pairs = [(place, feature) for place, table in enumerate(tables) for feature in table.feature_names]
        self.tables = tuple([place for place, _ in pairs])
        self.features = [feature for _, feature in pairs]
        shared = set(repeated(self.features))
        self.names = [f"{feature}@{tables[place].name}" if feature in shared else feature for place, feature in pairs]
        self.dims = [tables[place].embedding_dim for place, _ in pairs]
        self.rows = [tables[place].num_embeddings for place, _ in pairs]
        self.is_shared = bool(shared)

    def chosen(self, features: KeyedJaggedTensor) -> KeyedJaggedTensor:
        """Return the features of the tables, in their order; those that several tables want are there again."""
        if features.variable_stride_per_key():
            features = features.expanded()
        if not self.is_shared:
            return in_order(features, self.features)
        unique = list(dict.fromkeys(self.features))
        ordered = in_order(features, unique)
        return ordered.repeated([unique.index(name) for name in self.features], self.names)

    def looked_up(self, ids: Tensor, bounds: Sequence[int], weights: Sequence[Tensor]) -> list[Tensor]:
        """Return the rows of each slot's ids, which are known to be rows of its table.

        A slot's ids lie between two bounds.
        """
        parts = itertools.pairwise(bounds)
        return [embedding(ids[low:high], weights[table]) for (low, high), table in zip(parts, self.tables, strict=True)]

    def by_name(self, chosen: KeyedJaggedTensor, rows: Sequence[Tensor], need_indices: bool) -> dict[str, JaggedTensor]:
        """Return the rows of each slot's ids by the names of results. With `need_indices` ids are weights."""
        found: dict[str, JaggedTensor] = {}
        for name, jagged, own in zip(self.names, chosen.to_dict().values(), rows, strict=True):
            ids = jagged.values() if need_indices else None
            found[name] = JaggedTensor.of_parts((own, ids, jagged.lengths(), jagged.offsets_or_none()))
        return found


def initial_weight(table: BaseEmbeddingConfig, device: Any = None) -> Tensor:
    """Return the rows that a table begins with."""
    floats = table.data_type.value in FLOATS
    require(floats, "E001", f"table {table.name!r}: only floats are trained", data_type=table.data_type)
    weight = rl.empty(table.shape, dtype=table.data_type.dtype, device=device)
    if weight.device.type != "meta":
        with rl.no_grad():
            initialize(weight, table)
    return weight


def renew_tables(tables: Sequence[BaseEmbeddingConfig], weights: Sequence[Tensor]) -> None:
    """Give tables the rows that they begin with; those on the device `meta` have none."""
    with rl.no_grad():
        for table, weight in zip(tables, weights, strict=True):
            if weight.device.type != "meta":
                initialize(weight, table)


def renew_rows(weight: Tensor, states: Mapping[str, Tensor], rows: Tensor, values: Tensor) -> None:
    """Set some rows, and begin the states that an optimizer has of them anew."""
    with rl.no_grad():
        weight.index_copy_(0, rows, values)
        for name, state in states.items():
            if name != "step":
                state.index_fill_(0, rows, 0)


def initialize(rows: Tensor, table: BaseEmbeddingConfig) -> None:
    """Fill rows with what a table begins with."""
    if table.init_fn is not None:
        table.init_fn(rows)
    else:
        rows.uniform_(table.get_weight_init_min(), table.get_weight_init_max())


def in_order(features: KeyedJaggedTensor, wanted: Sequence[str]) -> KeyedJaggedTensor:
    """Return the features that are wanted, in that order. E005 where one is missing."""
    keys = features.keys()
    if keys == list(wanted):
        return features
    places = features.index_per_key()
    missing = [name for name in wanted if name not in places]
    require(not missing, "E005", "features that tables want are missing", missing=missing, keys=keys)
    return features.permute([places[name] for name in wanted])


def known_ids(features: KeyedJaggedTensor, limits: Tensor) -> Tensor:
    """Return the ids of features, each below the limit of its key (E006), which is checked at each call."""
    starts = features.key_offsets()
    return ids_within(features.values(), starts, limits)
