"""What state dicts have of tables that are divided: tensors of which each rank holds some boxes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import rushlight as rl
from rushlight import Tensor
from rushlight.distributed.tensor.layout import Box, whole, within
from rushlight.nn import Module, Parameter
from rushlight.recsys.configs import BaseEmbeddingConfig
from rushlight.recsys.distributed.cover import Cover
from rushlight.recsys.distributed.local import LocalTables, boxes_of
from rushlight.recsys.distributed.local_rows import LocalRows
from rushlight.recsys.distributed.sharded_tensor import Shard, ShardedTensor
from rushlight.recsys.modules.groups import FusedTables, TableGroup, state_key
from rushlight.recsys.modules.tables import renew_rows
from rushlight.recsys.optim import RowRule


class ShardedState(Module):
    """A module whose state dict has tensors of which each rank holds some boxes."""

    def sharded_state(self) -> dict[str, Tensor | ShardedTensor]:
        """Return the state by the keys of the module that is not divided."""
        raise NotImplementedError

    def take_over(self, state: Mapping[str, Tensor | ShardedTensor]) -> None:
        """Use a state that was loaded into what `sharded_state` had given."""
        del state

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        del keep_vars
        for name, value in self.sharded_state().items():
            destination[prefix + name] = value

    def _load_from_state_dict(
        self,
        state_dict: dict[str, object],
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        del strict
        own = self.sharded_state()
        unexpected_keys += [key for key in state_dict if key.startswith(prefix) and key[len(prefix) :] not in own]
        for name, target in own.items():
            if prefix + name not in state_dict:
                missing_keys.append(prefix + name)
                continue
            accept, problem = load_shards(prefix + name, target, state_dict[prefix + name])
            if problem:
                error_msgs.append(problem)
            else:
                local_metadata["accepted"].append(accept)
        local_metadata["accepted"].append(lambda: self.take_over(own))


class TableState:
    """Weights and optimizer state of tables: those `divided` are held in parts, those `whole` by all."""

    def __init__(
        self,
        path: str,
        tables: Sequence[BaseEmbeddingConfig],
        divided: Sequence[int],
        whole: Sequence[int],
        cover: Cover,
        rank: int,
        local: LocalTables | None,
        replicated: LocalTables | None,
        rule: RowRule | None,
    ) -> None:
        self._path, self._rule = path, rule
        self._tables, self._cover, self._rank = tables, cover, rank
        self._divided, self._whole = list(divided), list(whole)
        self._local, self._replicated = local, replicated

    def _weight_key(self, table: BaseEmbeddingConfig) -> str:
        return f"{self._path}.{table.name}.weight"

    def parameters(self) -> dict[str, Parameter]:
        """Return what this rank has of the tables as parameters, by names: of a row block with its first row."""
        named: dict[str, Parameter] = {}
        own = [] if self._local is None else self._local.weights_of_tables()
        for held, weight in zip(self._cover.held[self._rank], own, strict=True):
            starts = self._cover.starts[held.table]
            name = self._weight_key(self._tables[self._divided[held.table]])
            assert isinstance(weight, Parameter)
            named[name if len(starts) == 1 else f"{name}@{held.rows[0]}"] = weight
        return named | self._replicated_weights()

    def replicated_parameters(self) -> dict[str, Parameter]:
        """Return those tables that each rank has and that have gradients."""
        steps = isinstance(self._replicated, FusedTables | LocalRows) and bool(self._replicated.groups())
        return {} if steps else self._replicated_weights()

    def _replicated_weights(self) -> dict[str, Parameter]:
        named: dict[str, Parameter] = {}
        own = [] if self._replicated is None else self._replicated.weights_of_tables()
        for place, weight in zip(self._whole, own, strict=True):
            assert isinstance(weight, Parameter)
            named[self._weight_key(self._tables[place])] = weight
        return named

    def weights(self) -> dict[str, Tensor | ShardedTensor]:
        """Return the tables by `<module>.<table>.weight`."""
        found: dict[str, Tensor | ShardedTensor] = {
            name: weight.detach() for name, weight in self._replicated_weights().items()
        }
        own = [] if self._local is None else [weight.detach() for weight in self._local.weights_of_tables()]
        for place, table in enumerate(self._divided):
            config = self._tables[table]
            whole = self._whole_of(place, config.shape, config.data_type.dtype, own)
            found[self._weight_key(config)] = whole
        return {name: found[name] for name in map(self._weight_key, self._tables)}

    def table_groups(self) -> list[TableGroup]:
        """Return the tables with an optimizer as they lie in memory."""
        held = [one for one in (self._local, self._replicated) if isinstance(one, FusedTables | LocalRows)]
        return [group for one in held for group in one.groups()]

    def renew_rows(self, table: str, rows: Tensor, values: Tensor) -> None:
        """Set what this rank has of some rows of a table, and begin the state of them anew."""
        own = [] if self._local is None else self._parts(self._local)
        for held, (weight, states) in zip(self._cover.held[self._rank], own, strict=True):
            if self._tables[self._divided[held.table]].name == table:
                first, end = held.rows
                inside = (rows >= first) & (rows < end)
                part = rl.cat([values[inside, low:high] for low, high in held.columns], 1)
                renew_rows(weight, states, rows[inside] - first, part)
        whole = [] if self._replicated is None else self._parts(self._replicated)
        for place, (weight, states) in zip(self._whole, whole, strict=True):
            if self._tables[place].name == table:
                renew_rows(weight, states, rows, values)

    def _parts(self, tables: LocalTables) -> list[tuple[Tensor, dict[str, Tensor]]]:
        return list(zip(tables.weights_of_tables(), tables.states_of_tables(), strict=True))

    def _whole_of(self, table: int, shape: Sequence[int], dtype: rl.dtype, values: Sequence[Tensor]) -> ShardedTensor:
        """A tensor with entries for the rows of a table, of which local tables have parts. Without dims: a number."""
        shards: list[Shard] = []
        for place, held in enumerate(self._cover.held[self._rank]):
            if held.table == table:
                parts = boxes_of(held, values[place]) if shape else [((), values[place])]
                shards += [Shard.of(part, box, self._rank) for box, part in parts]
        return ShardedTensor(shape, dtype, shards)

    def optimizer(self) -> dict[str, object]:
        """Return the optimizer's states by `<module>.<table>.<table>.<state>`; `step` is one of them."""
        found: dict[str, object] = {}
        if self._rule is None:
            return found
        if self._replicated is not None:
            for place, states in zip(self._whole, self._replicated.states_of_tables(), strict=True):
                for name, state in states.items():
                    found[state_key(self._path, self._tables[place].name, name)] = state
        own = [] if self._local is None else self._local.states_of_tables()
        for place, table in enumerate(self._divided):
            config = self._tables[table]
            shapes = self._rule.state_shapes(config.embedding_dim)
            of_rows = {name: (config.num_embeddings, *more) for name, more in shapes.items()}
            for name, shape in {**of_rows, "step": ()}.items():
                dtype = rl.int64 if name == "step" else rl.float32
                values = [states[name] for states in own]
                found[state_key(self._path, config.name, name)] = self._whole_of(place, shape, dtype, values)
        return found


def load_shards(name: str, target: object, given: object) -> tuple[Callable[[], None], str]:
    """Return what copies a tensor, whole or in the same boxes, and what is wrong with it, if anything is."""
    wanted = parts_of(target)
    shape, found = tuple(getattr(target, "shape", ())), tuple(getattr(given, "shape", ()))
    if shape != found:
        return _nothing, f"size mismatch for {name}: the state has the shape {list(found)}, the model {list(shape)}."
    have = dict(parts_of(given))
    all_of = whole(shape)
    copies: list[tuple[Tensor, Tensor]] = []
    for box, part in wanted:
        if box in have:
            copies.append((part, have[box]))
        elif all_of in have:
            copies.append((part, have[all_of][within(box, all_of)]))
        else:
            return _nothing, f"{name} has other shards than the model: load it by rushlight.distributed.checkpoint."

    def copy() -> None:
        with rl.no_grad():
            for part, source in copies:
                part.copy_(source)

    return copy, ""


def parts_of(value: object) -> list[tuple[Box, Tensor]]:
    """Return the boxes of a tensor that this rank has."""
    if isinstance(value, ShardedTensor):
        boxes = value.__create_chunk_list__()
        return [(box, value.__get_tensor_shard__(place)) for place, box in enumerate(boxes)]
    return [(whole(value.shape), value)] if isinstance(value, Tensor) else []


def _nothing() -> None:
    """Copy nothing."""
