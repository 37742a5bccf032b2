"""What is planned, as text: tables, how they are used, and the ranks. A plan's text says the same, and where all is.

batch_size = 512
reserve = 0.15

[topology]
world_size = 8
compute_device = "cuda"

[[table]]
name = "user"
rows = 1_000_000
columns = 128
features = ["user_id"]
pooling_factors = [20.0]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from rushlight.recsys.configs import (
    BaseEmbeddingConfig,
    DataType,
    EmbeddingBagConfig,
    EmbeddingConfig,
    PoolingType,
)
from rushlight.recsys.planner.enumerators import ParameterConstraints, full_name
from rushlight.recsys.planner.options import CacheParams, EmbeddingComputeKernel, PlannedTable, ShardingType
from rushlight.recsys.planner.toml import Section, assignment, read
from rushlight.recsys.planner.topology import BANDWIDTHS, DEFAULT_CONSTANTS, Constants, Topology
from rushlight.support.errors import require
from rushlight.support.frozen import frozen


@frozen
class Workload:
    """Tables by the path of the module that has them, their constraints, the ranks and the batch of each."""

    tables: Mapping[str, Sequence[BaseEmbeddingConfig]]
    constraints: Mapping[str, ParameterConstraints]
    topology: Topology
    batch_size: int
    reserve: float

    @staticmethod
    def parse(text: str) -> Workload:
        """Return what a text describes; errors name the table and the value."""
        whole = read(text, "the description")
        batch_size = whole.integer("batch_size", 1)
        reserve = whole.number("reserve", 0.0)
        topology = read_topology(whole.section("topology"))
        tables: dict[str, list[BaseEmbeddingConfig]] = {}
        constraints: dict[str, ParameterConstraints] = {}
        optimizer = whole.text("optimizer", None)
        for section in whole.sections("table"):
            path, config, constraint = _read_table(section, optimizer)
            tables.setdefault(path, []).append(config)
            constraints[full_name(path, config.name)] = constraint
        whole.end()
        require(tables, "E023", "the text describes no table", hint="a section [[table]] for each")
        return Workload(tables, constraints, topology, batch_size, reserve)


def _read_table(section: Section, optimizer: str | None) -> tuple[str, BaseEmbeddingConfig, ParameterConstraints]:
    path, config = read_config(section)
    kinds = section.texts("sharding_types", None)
    kernels = section.texts("compute_kernels", None)
    for given, known in ((kinds, ShardingType), (kernels, EmbeddingComputeKernel)):
        names = [member.value for member in known]
        for each in given or ():
            if each not in names:
                section.refuse(f"there is no {each!r}", f"some of {', '.join(names)}")
    min_partition = section.integer("min_partition", 1, None)
    use = read_use(section, optimizer)
    section.end()
    return path, config, replace(use, sharding_types=kinds, compute_kernels=kernels, min_partition=min_partition)


def read_config(section: Section) -> tuple[str, BaseEmbeddingConfig]:
    """Return path and description of the table of a section."""
    name = section.text("name")
    pooling = section.member("pooling", PoolingType, PoolingType.SUM)
    rows, columns = section.integer("rows", 1), section.integer("columns", 1)
    data_type = section.member("data_type", DataType, DataType.FP32)
    features = section.texts("features", (name,))
    if pooling is PoolingType.NONE:
        config: BaseEmbeddingConfig = EmbeddingConfig(rows, columns, name, data_type, features)
    else:
        config = EmbeddingBagConfig(rows, columns, name, data_type, features, pooling=pooling)
    return section.text("path", ""), config


def read_use(section: Section, optimizer: str | None = None) -> ParameterConstraints:
    """Return what a table's section says of its use; `optimizer` is that of tables that name none."""
    return ParameterConstraints(
        pooling_factors=section.numbers("pooling_factors", (1.0,)),
        num_poolings=section.numbers("num_poolings", None),
        batch_sizes=section.integers("batch_sizes", None),
        is_weighted=section.flag("weighted", False),
        cache_params=_read_cache(section),
        output_dtype=section.member("output_dtype", DataType, None),
        optimizer=section.text("optimizer", optimizer),
    )


def _read_cache(section: Section) -> CacheParams | None:
    """Return the cache of a table's section, if it says anything of one."""
    if not section.has("cache"):
        return None
    cache = section.section("cache")
    params = CacheParams(
        load_factor=cache.number("load_factor", None),
        prefetch_pipeline=cache.flag("prefetch_pipeline", False),
        cacheability=cache.number("cacheability", None),
        expected_lookups=cache.number("expected_lookups", None),
        hits=cache.numbers("hits", ()),
    )
    cache.end()
    return params


def read_topology(section: Section) -> Topology:
    """Return the topology of a section; what it does not say is as `Topology` has it."""
    world_size = section.integer("world_size", 1)
    device = section.text("compute_device", "cpu")
    hbm_cap, ddr_cap, ssd_cap = [read_cap(section, name) for name in ("hbm_cap", "ddr_cap", "ssd_cap")]
    local = section.integer("local_world_size", 1, None)
    pod_size = section.integer("pod_size", 1, 1)
    speeds = {name: section.number(name) for name in BANDWIDTHS if section.has(name)}
    constants = read_constants(section.section("constants"))
    section.end()
    return Topology(
        world_size,
        device,
        hbm_cap=hbm_cap,
        ddr_cap=ddr_cap,
        ssd_cap=ssd_cap,
        local_world_size=local,
        pod_size=pod_size,
        constants=constants,
        **speeds,
    )


def read_cap(section: Section, name: str) -> int | tuple[int, ...] | None:
    """Return bytes of one kind of memory: of every rank, or of each; None if the section does not say."""
    given = section.integers(name, None)
    return given[0] if given is not None and len(given) == 1 else given


def read_constants(section: Section) -> Constants:
    """Return the estimator's constants of a section."""
    given = {name: section.number(name, value) for name, value in _constants(DEFAULT_CONSTANTS).items()}
    section.end()
    return Constants(**given)


def _constants(constants: Constants) -> dict[str, float]:
    return {name: getattr(constants, name) for name in Constants.__match_args__}


def topology_lines(topology: Topology) -> list[str]:
    """Return the section of a topology: what differs from the figures that one has by itself."""
    plain = Topology(topology.world_size, topology.compute_device)
    lines = [
        "[topology]",
        assignment("world_size", topology.world_size),
        assignment("compute_device", topology.compute_device),
    ]
    if topology.local_world_size != topology.world_size:
        lines.append(assignment("local_world_size", topology.local_world_size))
    if topology.pod_size != 1:
        lines.append(assignment("pod_size", topology.pod_size))
    lines += cap_lines(topology, plain)
    for name in BANDWIDTHS:
        if getattr(topology, name) != getattr(plain, name):
            lines.append(assignment(name, getattr(topology, name)))
    return lines + constants_lines(topology.constants, "[topology.constants]")


def cap_lines(topology: Topology, other: Topology, suffix: str = "cap") -> list[str]:
    """Return the lines of the kinds of memory of which two topologies have not the same."""
    lines: list[str] = []
    for kind in ("hbm", "ddr", "ssd"):
        caps = tuple([getattr(cap, kind) for cap in topology.caps])
        if caps != tuple([getattr(cap, kind) for cap in other.caps]):
            lines.append(assignment(f"{kind}_{suffix}", caps[0] if len(set(caps)) == 1 else caps))
    return lines


def constants_lines(constants: Constants, title: str) -> list[str]:
    """Return the section of constants, if any differs from those that a topology has by itself."""
    plain = _constants(DEFAULT_CONSTANTS)
    changed = [(name, value) for name, value in _constants(constants).items() if value != plain[name]]
    return ["", title, *[assignment(name, value) for name, value in changed]] if changed else []


def table_lines(table: PlannedTable) -> list[str]:
    """Return what a section says of a table, without where it is."""
    lines = [assignment("name", table.name)]
    if table.path:
        lines.append(assignment("path", table.path))
    lines += [assignment("rows", table.rows), assignment("columns", table.columns)]
    if table.data_type is not DataType.FP32:
        lines.append(assignment("data_type", table.data_type))
    lines.append(assignment("features", table.features))
    if not table.pooled:
        lines.append(assignment("pooling", PoolingType.NONE))
    lines.append(assignment("pooling_factors", table.pooling_factors))
    if set(table.num_poolings) != {1.0}:
        lines.append(assignment("num_poolings", table.num_poolings))
    if table.weighted:
        lines.append(assignment("weighted", True))
    if table.output_dtype is not None:
        lines.append(assignment("output_dtype", table.output_dtype))
    if table.optimizer is not None:
        lines.append(assignment("optimizer", table.optimizer))
    return lines


def cache_lines(cache: CacheParams) -> list[str]:
    """Return the section of a table's cache."""
    lines = ["[table.cache]"]
    for name in CacheParams.__match_args__:
        value = getattr(cache, name)
        if value not in (None, False, ()):
            lines.append(assignment(name, value))
    return lines
