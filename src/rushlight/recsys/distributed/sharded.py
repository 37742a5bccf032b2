"""What collections whose tables are divided have in common: their plan as a cover, and their state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Generic

import rushlight as rl
from rushlight import Tensor
from rushlight.distributed import ProcessGroup
from rushlight.nn import Parameter
from rushlight.recsys.configs import Table
from rushlight.recsys.distributed.awaitable import Awaitable
from rushlight.recsys.distributed.cover import Cover
from rushlight.recsys.distributed.exchange import Received
from rushlight.recsys.distributed.local import LocalTables
from rushlight.recsys.distributed.plans import EmbeddingModuleShardingPlan
from rushlight.recsys.distributed.routing import Router
from rushlight.recsys.distributed.sharded_tensor import ShardedTensor
from rushlight.recsys.distributed.state import ShardedState, TableState
from rushlight.recsys.modules.groups import TableGroup
from rushlight.recsys.modules.tables import Slots
from rushlight.recsys.optim import RowRule
from rushlight.recsys.sparse import KeyedJaggedTensor
from rushlight.support.frozen import frozen


@frozen(eq=False)
class Part:
    """The tables of a collection that are divided, or those that are not, and their slots."""

    tables: list[int]
    slots: list[int]

    @staticmethod
    def of(slots: Slots, tables: list[int]) -> Part:
        """Return the part of some tables."""
        return Part(tables, [slot for slot, table in enumerate(slots.tables) if table in tables])

    def features(self, chosen: KeyedJaggedTensor) -> KeyedJaggedTensor:
        """Return the features of its slots."""
        names = chosen.keys()
        whole = len(self.slots) == len(names)
        return chosen if whole else chosen.repeated(self.slots, [names[slot] for slot in self.slots])


class Ahead:
    """A batch whose ids are under way before its lookup: the ids, what the lookup needs, and what comes."""

    def __init__(self, features: KeyedJaggedTensor, ctx: Any, coming: Awaitable[Awaitable[Received]]) -> None:
        self.features, self.ctx, self._coming = features, ctx, coming

    def sent(self) -> Ahead:
        """Wait for how many ids come, and begin to send them."""
        self._coming.wait()
        return self

    def received(self) -> Received:
        """Wait for the ids."""
        return self._coming.wait().wait()


class ShardedTables(ShardedState, Generic[Table]):
    """Tables of a collection that are divided among the ranks of a group, as a plan says."""

    _state: TableState

    def __init__(self, tables: Sequence[Table], plan: EmbeddingModuleShardingPlan, group: ProcessGroup) -> None:
        super().__init__()
        self._group, self._tables, self._slots = group, tuple(tables), Slots(tables)
        ways = [plan[table.name] for table in self._tables]
        places = range(len(ways))
        self._divided = Part.of(self._slots, [place for place in places if not ways[place].is_replicated])
        self._whole = Part.of(self._slots, [place for place in places if ways[place].is_replicated])
        own = self._of(self._divided)
        boxes = [ways[place].boxes() for place in self._divided.tables]
        shapes, names = [table.shape for table in own], [table.name for table in own]
        self._cover = Cover(names, shapes, boxes, Slots(own).tables, group.size)
        self._router = Router(self._cover)
        self._limits = rl.tensor(self._slots.rows, dtype=rl.int64)
        self._anchor = rl.zeros((), requires_grad=True)
        self.rule: RowRule | None = None
        self.ahead: Ahead | None = None
        self.called_with: KeyedJaggedTensor | None = None

    def create_context(self) -> Any:
        """Return what holds the state of one batch."""
        raise NotImplementedError

    def input_dist(self, ctx: Any, features: KeyedJaggedTensor) -> Awaitable[Awaitable[Received]]:
        """Begin to send ids to the ranks that have their rows; to be waited for twice, as KJTAllToAll."""
        raise NotImplementedError

    def compute_and_output_dist(self, ctx: Any, input: Received) -> Any:
        """Look up, and begin to send back."""
        raise NotImplementedError

    def begin(self, features: KeyedJaggedTensor) -> Ahead:
        """Begin to send the ids of a batch: set as `ahead`, they are what the call with these features waits for."""
        ctx = self.create_context()
        return Ahead(features, ctx, self.input_dist(ctx, features))

    def forward(self, features: KeyedJaggedTensor) -> Any:
        """Return the results of this rank's batch, which are waited for when they are asked."""
        own, self.ahead, self.called_with = self.ahead, None, features
        begun = own if own is not None and own.features is features else self.begin(features)
        return self.compute_and_output_dist(begun.ctx, begun.received())

    def _of(self, part: Part) -> list[Table]:
        """The descriptions of a part's tables."""
        return [self._tables[place] for place in part.tables]

    def _route_counts(self) -> list[int]:
        return [len(routes) for routes in self._cover.routes]

    def _keep(self, path: str, local: LocalTables | None, replicated: LocalTables | None, rule: RowRule | None) -> None:
        """Have the state of what this rank holds. Local tables are no submodules: their state has other keys."""
        places = self._divided.tables, self._whole.tables
        rank = self._group.rank
        self.rule = rule
        self._state = TableState(path, self._tables, *places, self._cover, rank, local, replicated, rule)
        for name, weight in self._state.parameters().items():
            self._parameters[name] = weight

    def table_groups(self) -> list[TableGroup]:
        """Return the tables with an optimizer as they lie in memory."""
        return self._state.table_groups()

    def renew_rows(self, table: str, rows: Tensor, values: Tensor) -> None:
        """Set some rows of a table, and begin the state of them anew; all ranks call it with the same rows."""
        self._state.renew_rows(table, rows, values)

    def replicated_parameters(self) -> dict[str, Parameter]:
        """Return those tables by name that each rank has and that have gradients: they are to be reduced."""
        return self._state.replicated_parameters()

    # State: by the keys of the collection that is not divided.

    def fused_optimizer_state(self) -> dict[str, object]:
        """Return the states of rows and the step, by `embedding_bags.<table>.<table>.<state>`."""
        return self._state.optimizer()

    def sharded_state(self) -> dict[str, Tensor | ShardedTensor]:
        """Return the tables by `<module>.<table>.weight`."""
        return self._state.weights()
