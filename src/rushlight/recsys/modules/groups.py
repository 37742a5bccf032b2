"""Tables of one row size and dtype in one memory, with the state of their rows.

A step is then one sort of a batch's ids, one sum of the gradients of each row, in the order of the batch, and one
write. Sums have one order whatever the number of threads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import rushlight as rl
from rushlight import Tensor
from rushlight.distributed.optim.in_backward import APPLIED, CLASSES, KEYWORDS
from rushlight.eager.composite.places import write_rows
from rushlight.nn import Parameter
from rushlight.nn.functional import pad
from rushlight.ops.ragged import segment_sum
from rushlight.recsys.configs import BaseEmbeddingConfig
from rushlight.recsys.modules.tables import initialize
from rushlight.recsys.optim import OWN_COLUMNS, RowRule, RowSums, rule_of
from rushlight.recsys.sparse.segments import as_graph, prefix_sums
from rushlight.support.errors import require

Named = tuple[Tensor, Tensor, Tensor, Tensor | None]
"""Rows of a group that a batch names, gradients, which of these each row has, and what that is multiplied by."""


class TableGroup:
    """Tables of one row size and dtype in one memory, and the state of their rows.

    `step` counts the backward passes, also those of batches that name no row. `sums` says what a row is part of. Steps
    are those of the mean of the losses of `ranks`.
    """

    def __init__(
        self,
        tables: Sequence[BaseEmbeddingConfig],
        places: Sequence[int],
        rule: RowRule,
        device: Any = None,
        sums: RowSums = OWN_COLUMNS,
        ranks: int = 1,
    ) -> None:
        self.places = list(places)
        self.rule, self.sums, self.share = rule, sums, 1 / ranks
        own = [tables[place] for place in places]
        *firsts, total = prefix_sums([table.num_embeddings for table in own])
        self.first, dim = dict(zip(places, firsts, strict=True)), own[0].embedding_dim
        self.weight = rl.empty(total, dim, dtype=own[0].data_type.dtype, device=device)
        self.states = {name: rl.zeros(total, *shape, device=device) for name, shape in rule.state_shapes(dim).items()}
        self.step = rl.zeros((), dtype=rl.int64, device=device)
        if self.weight.device.type == "meta":
            return
        with rl.no_grad():
            for place, table in zip(places, own, strict=True):
                initialize(self.rows_of(table, place, self.weight), table)

    def rows_of(self, table: BaseEmbeddingConfig, place: int, values: Tensor) -> Tensor:
        """Return a table's part of a tensor that has an entry for each row of the group."""
        first = self.first[place]
        return values[first : first + table.num_embeddings]

    def apply(self, named: Callable[..., Named], *given: Any) -> None:
        """Update the rows that `named(*given)` names; `named` is a function of a module.

        The gradient of `rows[k]` is `weights[k] * gradients[members[k]]`. Rows are found and updated by one graph.
        """
        self.step += 1
        parts = (self.share, self.weight, self.states, self.step.double(), *given)
        if self.sums is OWN_COLUMNS:
            numbers = {name: float(number) for name, number in asdict(self.rule).items()}
            absent = (*[not number for number in numbers.values()], *[one is None for one in given])
            kind = type(self.rule)
            as_graph(_update_by, (kind, named, absent), kind, numbers, named, *parts)
        else:  # figures of rows are exchanged between ranks
            _update(self.sums, self.rule, named, *parts)


def _update(
    sums: RowSums,
    rule: RowRule,
    named: Callable[..., Named],
    share: float,
    weight: Tensor,
    states: Mapping[str, Tensor],
    step: Tensor,
    *given: Any,
) -> None:
    """Update rows that are named. In the order of rows the gradients of each are a segment; a share of these counts.

    Compiled, one loop reads a row, sums its gradients and writes it, where a rule sees each number by itself.
    """
    rows, gradients, members, weights = named(*given)
    ascending, order = rows.sort(stable=True)
    before = pad(ascending, (1, 0), value=-1)
    starts = (ascending != before[:-1]).nonzero().flatten()
    ends = rl.cat([starts, starts.new_full((1,), rows.shape[0])])
    own, kept = ascending[starts], None if weights is None else weights[order]
    total = segment_sum(gradients, ends, members[order], kept) * share
    old = weight[own].to(total.dtype)
    new, changed = rule.update(old, total, {name: state[own] for name, state in states.items()}, step, sums)
    write_rows(weight, own, new.to(weight.dtype))
    for name, state in changed.items():
        write_rows(states[name], own, state)


def _update_by(kind: type[RowRule], numbers: Mapping[str, float], *parts: Any) -> None:
    """The update by a rule of any numbers."""
    _update(OWN_COLUMNS, kind(**numbers), *parts)


def grouped(
    tables: Sequence[BaseEmbeddingConfig],
    rule: RowRule,
    device: Any = None,
    sums: Mapping[int, RowSums] | None = None,
    ranks: int = 1,
) -> list[TableGroup]:
    """Return the groups of tables that share a row size, a dtype, and how their rows are summed."""
    kinds: dict[tuple[object, ...], list[int]] = {}
    of_place = sums or {}
    for place, table in enumerate(tables):
        kind = (table.embedding_dim, table.data_type, of_place.get(place, OWN_COLUMNS))
        kinds.setdefault(kind, []).append(place)
    return [
        TableGroup(tables, places, rule, device, of_place.get(places[0], OWN_COLUMNS), ranks)
        for places in kinds.values()
    ]


def state_key(module: str, table: str, state: str) -> str:
    """Return TorchRec's key of a state; `module` is `embedding_bags` or `embeddings`."""
    return f"{module}.{table}.{table}.{state}"


class FusedTables:
    """What collections with groups of tables have: views of the state of each table."""

    _tables: tuple[BaseEmbeddingConfig, ...]
    _groups: list[TableGroup]
    path: str

    def groups(self) -> list[TableGroup]:
        """Return the tables as they lie in memory."""
        return self._groups

    def fused_optimizer_state(self) -> dict[str, Tensor]:
        """Return views of the states of rows and the step, by `<module>.<table>.<table>.<state>`."""
        return {
            state_key(self.path, table.name, name): state
            for table, states in zip(self._tables, self.states_of_tables(), strict=True)
            for name, state in states.items()
        }

    def states_of_tables(self) -> list[dict[str, Tensor]]:
        """Return, table by table, views of the states of rows, and the step."""
        return states_of(self._groups, self._tables)


def weights_of(groups: Sequence[TableGroup], tables: Sequence[BaseEmbeddingConfig]) -> dict[str, Parameter]:
    """Return the rows of tables as parameters that want no gradient, by the tables' names."""
    made = {
        tables[place].name: Parameter(group.rows_of(tables[place], place, group.weight), requires_grad=False)
        for group in groups
        for place in group.places
    }
    for parameter in made.values():
        setattr(parameter, APPLIED, [])  # other optimizers leave it out
    return made


def rule_of_weights(weights: Sequence[Tensor]) -> RowRule | None:
    """Return the rule of the optimizer that `apply_optimizer_in_backward` gave tables.

    None without one. A006 where tables have several, or others than each other.
    """
    found = [
        rule_of(kind, kwargs)
        for weight in weights
        for kind, kwargs in zip(getattr(weight, CLASSES, ()), getattr(weight, KEYWORDS, ()), strict=True)
    ]
    one = not found or (len(found) == len(weights) and len(set(found)) == 1)
    require(one, "A006", "the tables of a collection have one optimizer, the same for all", rules=found)
    return found[0] if found else None


def states_of(groups: Sequence[TableGroup], tables: Sequence[BaseEmbeddingConfig]) -> list[dict[str, Tensor]]:
    """Return, table by table, views of the states of rows, and the step."""
    group_of = {place: group for group in groups for place in group.places}
    return [
        {name: group_of[place].rows_of(table, place, state) for name, state in group_of[place].states.items()}
        | {"step": group_of[place].step}
        for place, table in enumerate(tables)
    ]
