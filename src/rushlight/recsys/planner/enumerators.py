"""All ways to divide the tables of a model that its owner allows, with what each costs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from math import isfinite
from typing import Protocol, TypeVar

from rushlight.recsys.configs import BaseEmbeddingConfig, DataType, EmbeddingBagConfig, repeated
from rushlight.recsys.planner.estimators import (
    EmbeddingPerfEstimator,
    EmbeddingStorageEstimator,
    estimate,
    optimizer_multiplier,
)
from rushlight.recsys.planner.geometry import calculate_shard_sizes_and_offsets
from rushlight.recsys.planner.options import (
    CacheParams,
    EmbeddingComputeKernel,
    PlannedTable,
    ShardingOption,
    ShardingType,
)
from rushlight.recsys.planner.topology import Topology
from rushlight.support.errors import fail, require
from rushlight.support.frozen import frozen

Choice = TypeVar("Choice", bound=Enum)

# Rows of one of these formats are looked up by the kernels of quantised rows.
_QUANTISED = (DataType.INT8, DataType.UINT8, DataType.INT4, DataType.INT2)


@frozen
class ParameterConstraints:
    """What the owner of a table allows, and what is known of its use, by TorchRec's names.

    Sharding types and compute kernels are enum members or their values; None allows all. `min_partition` is the least
    number of columns of a shard. `pooling_factors`, `num_poolings` and `batch_sizes` have an entry for each feature,
    or one for all.

    ParameterConstraints(sharding_types=["table_wise", "row_wise"], pooling_factors=[20.0])
    """

    sharding_types: Sequence[ShardingType | str] | None = None
    compute_kernels: Sequence[EmbeddingComputeKernel | str] | None = None
    min_partition: int | None = None
    pooling_factors: Sequence[float] = (1.0,)
    num_poolings: Sequence[float] | None = None
    batch_sizes: Sequence[int] | None = None
    is_weighted: bool = False
    cache_params: CacheParams | None = None
    output_dtype: DataType | None = None
    optimizer: str | None = None


_UNCONSTRAINED = ParameterConstraints()


class Collection(Protocol):
    """A module that has tables: an `EmbeddingBagCollection` or an `EmbeddingCollection`."""

    def embedding_configs(self) -> Sequence[BaseEmbeddingConfig]:
        """Return the tables."""
        ...


# What has tables: a list of them, lists by the name of the module, a collection, or a module with collections in it.
Tables = Iterable[BaseEmbeddingConfig] | Mapping[str, object] | Collection | object


def tables_of(model: Tables) -> list[tuple[str, BaseEmbeddingConfig]]:
    """Return the tables of a model with the path of the module that has each."""
    found = list(_walk("", model))
    require(
        found,
        "E020",
        "there are no tables to plan",
        hint="a list of EmbeddingBagConfig or EmbeddingConfig, or a module with collections of them",
    )
    twice = sorted(repeated([full_name(path, table.name) for path, table in found]))
    require(not twice, "E020", "two tables have one name", names=twice)
    return found


def full_name(path: str, name: str) -> str:
    """Return the name of a table in the whole model."""
    return f"{path}.{name}" if path else name


def _walk(path: str, model: object) -> Iterator[tuple[str, BaseEmbeddingConfig]]:
    if isinstance(model, BaseEmbeddingConfig):
        yield path, model
    elif isinstance(model, Mapping):
        for name, part in model.items():
            yield from _walk(full_name(path, str(name)), part)
    elif configs := configs_of(model):
        yield from ((path, table) for table in configs())
    elif isinstance(named := getattr(model, "named_children", None), Callable):
        for name, part in named():
            yield from _walk(full_name(path, name), part)
    elif isinstance(model, Iterable):
        for part in model:
            yield from _walk(path, part)


def collections_of(model: object, kinds: Sequence[type], path: str = "") -> dict[str, Sequence[BaseEmbeddingConfig]]:
    """Return the tables of a model's collections that are of some kinds, by the collections' paths."""
    configs = configs_of(model)
    if configs is not None and isinstance(model, tuple(kinds)):
        return {path: configs()}
    named = getattr(model, "named_children", dict)
    found: dict[str, Sequence[BaseEmbeddingConfig]] = {}
    for name, part in named():
        found |= collections_of(part, kinds, full_name(path, name))
    return found


def configs_of(model: object) -> Callable[[], Sequence[BaseEmbeddingConfig]] | None:
    """Return what tells the tables of a collection; None if this is none."""
    for name in ("embedding_bag_configs", "embedding_configs"):
        if isinstance(configs := getattr(model, name, None), Callable):
            return configs
    return None


class EmbeddingEnumerator:
    """Sharding options of all tables, each with the time and the memory of its shards.

    `grid_shard` is an option only where a constraint names it, as in TorchRec; unlike there, tables of a CPU may be
    divided by rows. Tables of int8 and less have the kernels of quantised rows.

    EmbeddingEnumerator(Topology(2), batch_size=512).enumerate(tables)
    """

    def __init__(
        self,
        topology: Topology,
        batch_size: int,
        constraints: Mapping[str, ParameterConstraints] | None = None,
        *,
        perf_estimator: EmbeddingPerfEstimator | None = None,
        storage_estimator: EmbeddingStorageEstimator | None = None,
        optimizer: str | None = None,
    ) -> None:
        _positive("batch_size", batch_size)
        self.topology = topology
        self.batch_size = batch_size
        self.constraints = dict(constraints or {})
        self.perf_estimator = perf_estimator or EmbeddingPerfEstimator(topology)
        self.storage_estimator = storage_estimator or EmbeddingStorageEstimator(topology)
        self.optimizer = optimizer

    def enumerate(self, model: Tables) -> list[ShardingOption]:
        """Return the options of all tables, those of one table one after the other."""
        tables = tables_of(model)
        names = {name for path, table in tables for name in (table.name, full_name(path, table.name))}
        unknown = sorted(set(self.constraints) - names)
        require(
            not unknown,
            "E021",
            "constraints are for tables that the model does not have",
            names=unknown,
            tables=sorted(names)[:8],
        )
        options: list[ShardingOption] = []
        for path, config in tables:
            options += self._options(path, config)
        return estimate(options, self.perf_estimator, self.storage_estimator)

    def constraint(self, path: str, name: str) -> ParameterConstraints:
        """Return what is said of a table, by its full name or its name in its module."""
        return self.constraints.get(full_name(path, name)) or self.constraints.get(name) or _UNCONSTRAINED

    def _options(self, path: str, config: BaseEmbeddingConfig) -> list[ShardingOption]:
        constraint = self.constraint(path, config.name)
        table = planned_table(path, config, constraint, self.batch_size, self.optimizer)
        optimizer_multiplier(table)
        options = sharding_options(table, self.topology, constraint)
        require(
            options,
            "E021",
            f"constraints leave no way to divide table {table.fqn!r}",
            sharding_types=constraint.sharding_types,
            compute_kernels=constraint.compute_kernels,
            device=self.topology.compute_device,
            hint="data_parallel has the kernel dense; all others have fused, or quant for tables of int8 and less",
        )
        return options


def sharding_options(table: PlannedTable, topology: Topology, constraint: ParameterConstraints) -> list[ShardingOption]:
    """Return the options of one table, without costs."""
    options: list[ShardingOption] = []
    for kind in _sharding_types(table, constraint):
        kernels = _kernels(table, kind, topology.compute_device, constraint)
        if not kernels:
            continue
        sizes, offsets = calculate_shard_sizes_and_offsets(
            table.rows,
            table.columns,
            kind,
            world_size=topology.world_size,
            group_size=topology.intra_group_size,
            min_partition=constraint.min_partition,
            memory=_uneven_memory(topology),
        )
        options += [ShardingOption(table, kind, kernel, sizes, offsets) for kernel in kernels]
    return options


def _uneven_memory(topology: Topology) -> tuple[int, ...]:
    """The memory of each rank, if they differ: rows are divided in its proportion."""
    return topology.memory if len(set(topology.memory)) > 1 else ()


def _sharding_types(table: PlannedTable, constraint: ParameterConstraints) -> list[ShardingType]:
    if constraint.sharding_types is None:
        return [kind for kind in ShardingType if kind is not ShardingType.GRID_SHARD]
    return _members(ShardingType, constraint.sharding_types, table.fqn, "sharding type")


def _kernels(
    table: PlannedTable, kind: ShardingType, device: str, constraint: ParameterConstraints
) -> list[EmbeddingComputeKernel]:
    kernels = EmbeddingComputeKernel
    quantised = table.data_type in _QUANTISED
    if kind is ShardingType.DATA_PARALLEL:
        possible = [kernels.QUANT if quantised else kernels.DENSE]
    else:
        possible = [kernels.QUANT if quantised else kernels.FUSED]
        if device == "cuda":
            host = [kernels.QUANT_UVM, kernels.QUANT_UVM_CACHING]
            possible += host if quantised else [kernels.FUSED_UVM, kernels.FUSED_UVM_CACHING]
    if constraint.compute_kernels is None:
        return possible
    allowed = _members(kernels, constraint.compute_kernels, table.fqn, "compute kernel")
    return [kernel for kernel in possible if kernel in allowed]


def planned_table(
    path: str,
    config: BaseEmbeddingConfig,
    constraint: ParameterConstraints,
    batch_size: int,
    optimizer: str | None = None,
) -> PlannedTable:
    """Return a table with what is known of its use; figures that are no sizes are errors."""
    features = tuple(config.feature_names) or (config.name,)
    count = len(features)
    factors = _for_each(constraint.pooling_factors, count, config.name, "pooling_factors")
    poolings = _for_each(constraint.num_poolings or (1.0,), count, config.name, "num_poolings")
    batches = _for_each(constraint.batch_sizes or (batch_size,), count, config.name, "batch_sizes")
    if constraint.min_partition is not None:
        _positive(f"min_partition of table {config.name!r}", constraint.min_partition)
    return PlannedTable(
        name=config.name,
        rows=config.num_embeddings,
        columns=config.embedding_dim,
        data_type=config.data_type,
        features=features,
        pooling_factors=tuple([float(factor) for factor in factors]),
        num_poolings=tuple([float(poolings) for poolings in poolings]),
        batch_sizes=tuple([int(batch) for batch in batches]),
        pooled=isinstance(config, EmbeddingBagConfig) and config.pooling.name != "NONE",
        weighted=constraint.is_weighted,
        path=path,
        optimizer=constraint.optimizer or optimizer,
        output_dtype=constraint.output_dtype,
        cache=constraint.cache_params,
    )


def _for_each(values: Sequence[float], count: int, table: str, name: str) -> tuple[float, ...]:
    for value in values:
        require(
            isinstance(value, int | float) and isfinite(value) and value >= 0,
            "E020",
            f"table {table!r}: {name} has a number that is negative or not finite",
            given=value,
        )
    if len(values) == 1:
        return tuple(values) * count
    require(
        len(values) == count,
        "E020",
        f"table {table!r}: {name} has a number for each feature",
        given=len(values),
        features=count,
    )
    return tuple(values)


def _members(kind: type[Choice], given: Sequence[Choice | str], table: str, what: str) -> list[Choice]:
    known = {member.value: member for member in kind}
    members: list[Choice] = []
    for each in given:
        member = each if isinstance(each, kind) else known.get(str(each))
        if member is None:
            fail("E021", f"table {table!r}: there is no {what} {each!r}", hint=f"one of {', '.join(known)}")
        members.append(member)
    # In the order of the enum, so that a constraint's order decides nothing.
    return [member for member in kind if member in members]


def _positive(name: str, value: object) -> None:
    require(
        isinstance(value, int) and not isinstance(value, bool) and value >= 1,
        "E020",
        f"{name} is no positive integer",
        given=value,
    )
