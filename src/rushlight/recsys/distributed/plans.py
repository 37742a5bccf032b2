"""Plans as execution takes them, by TorchRec's names: for each table of each module the boxes, and who holds them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from rushlight.recsys.configs import BaseEmbeddingConfig
from rushlight.recsys.distributed.cover import TableBox
from rushlight.recsys.planner import EmbeddingComputeKernel, Plan, ShardingType
from rushlight.recsys.planner.enumerators import configs_of
from rushlight.recsys.planner.geometry import grid, row_blocks
from rushlight.support.errors import fail, require
from rushlight.support.frozen import frozen


@frozen
class ShardMetadata:
    """A box of a tensor and the rank that holds it."""

    shard_offsets: tuple[int, ...]
    shard_sizes: tuple[int, ...]
    rank: int = 0

    @property
    def placement(self) -> str:
        """Rank and device, as TorchRec writes them."""
        return f"rank:{self.rank}/cpu"


@frozen
class EnumerableShardingSpec:
    """All boxes of a table."""

    shards: tuple[ShardMetadata, ...]


@frozen
class ParameterSharding:
    """How one table is divided. Tables that are data-parallel have no boxes: each rank has all of them."""

    sharding_type: str
    compute_kernel: str
    ranks: tuple[int, ...] | None = None
    sharding_spec: EnumerableShardingSpec | None = None

    @property
    def is_replicated(self) -> bool:
        """Return whether each rank has all of the table."""
        return self.sharding_type == ShardingType.DATA_PARALLEL.value

    def boxes(self) -> list[TableBox]:
        """Return the boxes of a table that is divided."""
        shards = () if self.sharding_spec is None else self.sharding_spec.shards
        return [
            TableBox((row, row + height), (column, column + width), shard.rank)
            for shard in shards
            for (row, column), (height, width) in [(shard.shard_offsets, shard.shard_sizes)]
        ]


EmbeddingModuleShardingPlan = dict[str, ParameterSharding]
"""How the tables of one module are divided, by their names."""
Generator = Callable[[BaseEmbeddingConfig, int, int], ParameterSharding]
"""How a table is divided among the ranks of hosts of some size: `generate(table, local_size, world_size)`."""


@frozen
class ShardingPlan:
    """Plans of modules, by their paths in the model.

    ShardingPlan({"sparse": construct_module_sharding_plan(module, apply_to_all(module, row_wise()), world_size=2)})
    """

    plan: Mapping[str, EmbeddingModuleShardingPlan]

    @staticmethod
    def of(plan: Plan) -> ShardingPlan:
        """Return what a planner's plan says of each module."""
        modules: dict[str, EmbeddingModuleShardingPlan] = {}
        for option in plan.options:
            spec = _spec(option.sizes, option.offsets, option.ranks)
            kind, kernel = option.sharding_type, option.compute_kernel.value
            own = ParameterSharding(kind.value, kernel, option.ranks, spec)
            modules.setdefault(option.table.path, {})[option.name] = own
        return ShardingPlan(modules)

    def get_plan_for_module(self, module_path: str) -> EmbeddingModuleShardingPlan | None:
        """Return the plan of a module, or None."""
        return self.plan.get(module_path)

    def check(self, tables: Mapping[str, Iterable[BaseEmbeddingConfig]]) -> None:
        """E024 unless the plan is for the tables of these modules."""
        wanted = {(path, table.name) for path, own in tables.items() for table in own}
        have = {(path, name) for path, own in self.plan.items() for name in own}
        for path, name in sorted(wanted - have):
            fail("E024", f"the plan lacks table {name!r} of module {path!r}", tables=sorted(have)[:8])
        for path, name in sorted(have - wanted):
            fail("E024", f"the plan has a table {name!r} of module {path!r}, and the model has not")


def _spec(
    sizes: Sequence[tuple[int, ...]], offsets: Sequence[tuple[int, ...]], ranks: Sequence[int]
) -> EnumerableShardingSpec:
    shards = zip(offsets, sizes, ranks, strict=True)
    return EnumerableShardingSpec(tuple([ShardMetadata(offset, size, rank) for offset, size, rank in shards]))


def _divided(
    table: BaseEmbeddingConfig, kind: ShardingType, ranks: Sequence[int], group_size: int, kernel: str | None
) -> ParameterSharding:
    """Blocks of equally many columns, each divided by rows among a group of ranks."""
    count = len(ranks) // group_size
    message = f"table {table.name!r}: columns do not divide evenly by {count}"
    require(count > 0 and table.embedding_dim % count == 0, "E024", message, columns=table.embedding_dim)
    rows, columns = row_blocks(table.num_embeddings, group_size), (table.embedding_dim // count,) * count
    sizes, offsets = grid(rows, columns)
    own = kernel or EmbeddingComputeKernel.FUSED.value
    return ParameterSharding(kind.value, own, tuple(ranks), _spec(sizes, offsets, ranks))


def data_parallel() -> Generator:
    """Each rank has all of the table."""

    def generate(table: BaseEmbeddingConfig, local_size: int, world_size: int) -> ParameterSharding:
        ranks = tuple(range(world_size))
        return ParameterSharding(ShardingType.DATA_PARALLEL.value, EmbeddingComputeKernel.DENSE.value, ranks)

    return generate


def table_wise(rank: int, compute_kernel: str | None = None) -> Generator:
    """One rank has all of the table."""
    return lambda table, local_size, world_size: _divided(table, ShardingType.TABLE_WISE, [rank], 1, compute_kernel)


def row_wise(compute_kernel: str | None = None) -> Generator:
    """All ranks have equally many rows, the last ones what is left."""
    return lambda table, local_size, world_size: _divided(
        table, ShardingType.ROW_WISE, range(world_size), world_size, compute_kernel
    )


def column_wise(ranks: Sequence[int], compute_kernel: str | None = None) -> Generator:
    """Ranks have all rows of equally many columns."""
    return lambda table, local_size, world_size: _divided(table, ShardingType.COLUMN_WISE, ranks, 1, compute_kernel)


def table_row_wise(host_index: int, compute_kernel: str | None = None) -> Generator:
    """The ranks of one host have equally many rows."""

    def generate(table: BaseEmbeddingConfig, local_size: int, world_size: int) -> ParameterSharding:
        ranks = range(host_index * local_size, (host_index + 1) * local_size)
        return _divided(table, ShardingType.TABLE_ROW_WISE, ranks, local_size, compute_kernel)

    return generate


def grid_shard(host_indexes: Sequence[int], compute_kernel: str | None = None) -> Generator:
    """The ranks of each host have equally many rows of its columns."""

    def generate(table: BaseEmbeddingConfig, local_size: int, world_size: int) -> ParameterSharding:
        ranks = [host * local_size + place for host in host_indexes for place in range(local_size)]
        return _divided(table, ShardingType.GRID_SHARD, ranks, local_size, compute_kernel)

    return generate


def apply_to_all(module: object, generator: Generator) -> dict[str, Generator]:
    """Return one way to divide for all tables of a module."""
    return dict.fromkeys([table.name for table in tables_of(module)], generator)


def tables_of(module: object) -> list[BaseEmbeddingConfig]:
    """Return the tables of a collection."""
    configs = configs_of(module)
    if configs is None:
        fail("A001", "a collection of embedding tables is expected", given=type(module).__name__)
    return list(configs())


def construct_module_sharding_plan(
    module: object,
    per_param_sharding: Mapping[str, Generator],
    *,
    local_size: int | None = None,
    world_size: int,
) -> EmbeddingModuleShardingPlan:
    """Return the plan of a collection from a way to divide each of its tables.

    construct_module_sharding_plan(module, {"user": row_wise(), "item": table_wise(rank=1)}, world_size=2)
    """
    tables = {table.name: table for table in tables_of(module)}
    odd = sorted(set(tables) ^ set(per_param_sharding))
    require(not odd, "E024", "a plan has the tables of its module", names=odd)
    size = local_size or world_size
    return {name: per_param_sharding[name](table, size, world_size) for name, table in tables.items()}
