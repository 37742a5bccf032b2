"""A plan: which box of which table is on which rank, as a record and as text that a person can read, edit and diff."""

from __future__ import annotations

from rushlight.recsys.configs import repeated
from rushlight.recsys.planner.enumerators import Tables, full_name, planned_table, tables_of
from rushlight.recsys.planner.estimators import (
    CommsBytes,
    EmbeddingPerfEstimator,
    EmbeddingStorageEstimator,
    PipelineType,
    estimate,
)
from rushlight.recsys.planner.geometry import blocks, grid, row_blocks
from rushlight.recsys.planner.options import (
    EmbeddingComputeKernel,
    PartitionByType,
    Shard,
    ShardingOption,
    ShardingType,
)
from rushlight.recsys.planner.partitioners import rank_perfs, rank_storages
from rushlight.recsys.planner.toml import Section, assignment, read
from rushlight.recsys.planner.topology import Topology
from rushlight.recsys.planner.workload import (
    cache_lines,
    cap_lines,
    read_cap,
    read_config,
    read_topology,
    read_use,
    table_lines,
    topology_lines,
)
from rushlight.support.errors import fail
from rushlight.support.frozen import frozen

FORMAT = 1
_ROWS = (ShardingType.ROW_WISE, ShardingType.TABLE_ROW_WISE, ShardingType.GRID_SHARD)
_COLUMNS = (ShardingType.COLUMN_WISE, ShardingType.TABLE_COLUMN_WISE, ShardingType.GRID_SHARD)


@frozen
class EstimatorSettings:
    """What estimates assume beside the topology: how batches overlap, what is exchanged, training or inference."""

    is_inference: bool = False
    pipeline_type: PipelineType = PipelineType.NONE
    run_embedding_at_peak_memory: bool = False
    comms_bytes: CommsBytes = CommsBytes()

    def perf(self, topology: Topology) -> EmbeddingPerfEstimator:
        """Return the estimator of time."""
        return EmbeddingPerfEstimator(topology, is_inference=self.is_inference, comms_bytes=self.comms_bytes)

    def storage(self, topology: Topology) -> EmbeddingStorageEstimator:
        """Return the estimator of memory."""
        return EmbeddingStorageEstimator(
            topology,
            pipeline_type=self.pipeline_type,
            run_embedding_at_peak_memory=self.run_embedding_at_peak_memory,
            is_inference=self.is_inference,
        )


DEFAULT_SETTINGS = EstimatorSettings()


@frozen
class Plan:
    """Placed options of all tables, the ranks they are placed on, and how good that is.

    `room` is the topology with the memory that tables may take. `lower_bound_ms` is a bottleneck that no plan is
    below; `proven` says that no plan is better. `stage` names the last stage of the search that improved it.
    """

    options: tuple[ShardingOption, ...]
    topology: Topology
    room: Topology
    batch_size: int
    lower_bound_ms: float = 0.0
    proven: bool = False
    stage: str = "search"
    settings: EstimatorSettings = DEFAULT_SETTINGS

    @property
    def bottleneck_ms(self) -> float:
        """Milliseconds of the rank that takes longest."""
        return max(rank_perfs(self.options, self.topology.world_size))

    def __getitem__(self, name: str) -> ShardingOption:
        """Return the option of a table, by its full name or its name in its module."""
        named = [option for option in self.options if name in (option.fqn, option.name)]
        if len(named) != 1:
            what = "no table" if not named else "several tables"
            fail("E024", f"the plan has {what} {name!r}", tables=[option.fqn for option in self.options][:8])
        return named[0]

    def on_rank(self, rank: int) -> list[tuple[str, Shard]]:
        """Return the shards that a rank holds, with the full names of their tables."""
        return [(option.fqn, shard) for option in self.options for shard in option.shards if shard.rank == rank]

    def text(self) -> str:
        """Return the plan as TOML. The same plan has the same text, byte for byte."""
        lines = [
            "# A plan of embedding tables on ranks: `rushlight emb check` says whether it holds, `rushlight emb stats`",
            "# what it costs. Sharding types, kernels, shard_rows, shard_columns and ranks may be edited.",
            assignment("format", FORMAT),
            assignment("batch_size", self.batch_size),
            assignment("bottleneck_ms", rounded(self.bottleneck_ms)),
            assignment("lower_bound_ms", self.lower_bound_ms),
            assignment("proven", self.proven),
            assignment("stage", self.stage),
            *_settings_lines(self.settings),
            "",
            *topology_lines(self.topology),
            *_room_lines(self.topology, self.room),
        ]
        for option in self.options:
            lines += ["", "[[table]]", *_option_lines(option, self)]
        return "\n".join(lines) + "\n"

    @staticmethod
    def parse(text: str) -> Plan:
        """Return the plan of a text, with estimates made anew. What does not fit is an error that names the table."""
        return _parsed(text)

    def problems(self, tables: Tables | None = None, topology: Topology | None = None) -> list[str]:
        """Return what is wrong with the plan: memory that does not suffice, other tables, other ranks."""
        found = [] if tables is None else _other_tables(self, tables)
        if topology is not None and topology.world_size != self.topology.world_size:
            found.append(f"the plan is for {self.topology.world_size} ranks, and there are {topology.world_size}")
            return found
        caps = (self.room if topology is None else topology).caps
        for rank, (used, cap) in enumerate(zip(rank_storages(self.options, len(caps)), caps, strict=True)):
            for kind in ("hbm", "ddr", "ssd"):
                needed, there = getattr(used, kind), getattr(cap, kind)
                if needed > there:
                    found.append(f"rank {rank} has {there} bytes of {kind} for tables, and they need {needed}")
        return found

    def check(self, tables: Tables | None = None, topology: Topology | None = None) -> None:
        """Raise (E024 for other tables or ranks, E022 for memory) if the plan does not hold."""
        found = self.problems(tables, topology)
        if found:
            memory = all("bytes of" in each for each in found)
            hint = "edit the plan, or make a new one with `rushlight emb plan`"
            fail("E022" if memory else "E024", found[0], hint=hint, problems=len(found), others=found[1:6])


def rounded(milliseconds: float) -> float:
    """Return what texts show of a time: nine digits."""
    return float(f"{milliseconds:.9g}")


def _other_tables(plan: Plan, model: Tables) -> list[str]:
    wanted = {full_name(path, table.name): table for path, table in tables_of(model)}
    have = {option.fqn: option.table for option in plan.options}
    found = [f"the plan lacks table {name!r}" for name in wanted if name not in have]
    found += [f"the plan has a table {name!r}, and the model has not" for name in have if name not in wanted]
    for name, config in wanted.items():
        if name in have:
            table = have[name]
            shape = (config.num_embeddings, config.embedding_dim)
            if shape != (table.rows, table.columns):
                found.append(f"table {name!r} has the shape {list(shape)}, in the plan {[table.rows, table.columns]}")
            elif config.data_type is not table.data_type:
                found.append(f"table {name!r} has {config.data_type.value}, in the plan {table.data_type.value}")
    return found


# Writing.


def _settings_lines(settings: EstimatorSettings) -> list[str]:
    lines: list[str] = []
    for name in ("is_inference", "pipeline_type", "run_embedding_at_peak_memory"):
        value = getattr(settings, name)
        if value != getattr(DEFAULT_SETTINGS, name):
            lines.append(assignment(name, value))
    for name in CommsBytes.__match_args__:
        value = getattr(settings.comms_bytes, name)
        if value is not None:
            lines.append(assignment(f"{name}_bytes", value))
    return lines


def _room_lines(topology: Topology, room: Topology) -> list[str]:
    lines = cap_lines(room, topology, "bytes")
    return ["", "[for_tables]", *lines] if lines else []


def _option_lines(option: ShardingOption, plan: Plan) -> list[str]:
    table = option.table
    lines = table_lines(table)
    if set(table.batch_sizes) != {plan.batch_size}:
        lines.append(assignment("batch_sizes", table.batch_sizes))
    lines += [assignment("sharding_type", option.sharding_type), assignment("compute_kernel", option.compute_kernel)]
    if option.sharding_type in _ROWS:
        lines.append(assignment("shard_rows", _short_rows(option, plan.topology)))
    if option.sharding_type in _COLUMNS:
        lines.append(assignment("shard_columns", _short(_column_counts(option))))
    everywhere = option.ranks == tuple(range(plan.topology.world_size))
    lines.append(assignment("ranks", "all" if everywhere else option.ranks))
    if table.cache is not None:
        lines += cache_lines(table.cache)
    return lines


def _row_counts(option: ShardingOption) -> tuple[int, ...]:
    first = option.offsets[0][1]
    return tuple([size[0] for size, offset in zip(option.sizes, option.offsets, strict=True) if offset[1] == first])


def _column_counts(option: ShardingOption) -> tuple[int, ...]:
    step = option.num_shards // len({offset[1] for offset in option.offsets})
    return tuple([size[1] for size in option.sizes[::step]])


def _short_rows(option: ShardingOption, topology: Topology) -> int | tuple[int, ...]:
    """The rows of a shard, if all have equally many but the last ones, which have what is left."""
    counts = _row_counts(option)
    return counts[0] if counts == row_blocks(option.table.rows, topology.row_parts(option.sharding_type)) else counts


def _short(counts: tuple[int, ...]) -> int | tuple[int, ...]:
    return counts[0] if len(set(counts)) == 1 else counts


# Reading.


def _parsed(text: str) -> Plan:
    whole = read(text, "the plan")
    if (version := whole.integer("format", 1)) != FORMAT:
        whole.refuse(f"the format {version} is not known", f"format {FORMAT}")
    batch_size = whole.integer("batch_size", 1)
    whole.number("bottleneck_ms", 0.0)  # it follows from the rest
    bound = whole.number("lower_bound_ms", 0.0)
    proven, stage = whole.flag("proven", False), whole.text("stage", "edited")
    settings = _read_settings(whole)
    topology = read_topology(whole.section("topology"))
    room = _read_room(whole.section("for_tables"), topology)
    options = [_read_option(section, topology, batch_size) for section in whole.sections("table")]
    whole.end()
    if not options:
        whole.refuse("there are no tables", "a section [[table]] for each")
    for name in repeated([option.fqn for option in options]):
        whole.refuse(f"table {name!r} is there twice", "each table once")
    estimated = estimate(options, settings.perf(topology), settings.storage(topology))
    return Plan(tuple(estimated), topology, room, batch_size, bound, proven, stage, settings)


def _read_settings(whole: Section) -> EstimatorSettings:
    comms = CommsBytes(*[whole.number(f"{name}_bytes", None) for name in CommsBytes.__match_args__])
    return EstimatorSettings(
        whole.flag("is_inference", False),
        whole.member("pipeline_type", PipelineType, PipelineType.NONE),
        whole.flag("run_embedding_at_peak_memory", False),
        comms,
    )


def _read_room(section: Section, topology: Topology) -> Topology:
    caps: dict[str, object] = {}
    for kind in ("hbm", "ddr", "ssd"):
        cap = read_cap(section, f"{kind}_bytes")
        if cap is not None:
            caps[f"{kind}_cap"] = cap
    section.end()
    return topology.replaced(**caps) if caps else topology


def _read_option(section: Section, topology: Topology, batch_size: int) -> ShardingOption:
    path, config = read_config(section)
    table = planned_table(path, config, read_use(section), batch_size)
    kind = section.member("sharding_type", ShardingType)
    kernel = section.member("compute_kernel", EmbeddingComputeKernel)
    if kind is ShardingType.DATA_PARALLEL:
        sizes, offsets = ((table.rows, table.columns),) * topology.world_size, ((0, 0),) * topology.world_size
    else:
        rows, columns = (table.rows,), (table.columns,)
        if kind in _ROWS:
            rows = _blocks(section, "shard_rows", table.rows, topology.row_parts(kind))
        if kind in _COLUMNS:
            columns = _blocks(section, "shard_columns", table.columns, None)
        sizes, offsets = grid(rows, columns)
    option = ShardingOption(table, kind, kernel, sizes, offsets)
    ranks = _read_ranks(section, option, topology)
    section.end()
    return option.on(ranks)


def _blocks(section: Section, name: str, whole: int, count: int | None) -> tuple[int, ...]:
    """The sizes of blocks of rows or columns: a list, or one number for all but the last ones."""
    given = section.integers(name)
    if len(given) == 1 and given[0]:
        block = given[0]
        number = -(-whole // block) if count is None else count
        given = blocks(whole, block, number)
    if sum(given) != whole:
        section.refuse(f"{name} are {sum(given)} together, and the table has {whole}", "blocks that make up the table")
    if count is not None and len(given) != count:
        section.refuse(f"{name} are {len(given)} blocks", f"{count}, one for each rank")
    return given


def _read_ranks(section: Section, option: ShardingOption, topology: Topology) -> tuple[int, ...]:
    everywhere = tuple(range(topology.world_size))
    ranks = section.take("ranks", lambda value: everywhere if value == "all" else _ranks(value), 'ranks, or "all"')
    if len(ranks) != option.num_shards:
        section.refuse(f"there are {len(ranks)} ranks for {option.num_shards} shards", "a rank for each shard")
    for rank in ranks:
        if rank >= topology.world_size:
            section.refuse(f"there is no rank {rank}", f"ranks below {topology.world_size}")
    if option.partition_by is PartitionByType.UNIFORM and ranks != everywhere:
        section.refuse(f"{option.sharding_type.value} is on all ranks in their order", 'ranks = "all"')
    if option.partition_by is PartitionByType.HOST and len({rank // topology.intra_group_size for rank in ranks}) > 1:
        section.refuse(f"{option.sharding_type.value} is on ranks of one host", "ranks of one host")
    return ranks


def _ranks(value: object) -> tuple[int, ...] | None:
    whole = isinstance(value, list) and all(type(each) is int and each >= 0 for each in value)
    return tuple(value) if whole and isinstance(value, list) else None
