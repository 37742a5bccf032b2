"""The ranks that tables are placed on: their memory, and how fast it and the links between them are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rushlight.recsys.planner.options import BY_GROUP, EmbeddingComputeKernel, ShardingType, Storage
from rushlight.support.errors import require
from rushlight.support.frozen import frozen

GIB = 1024**3
COMPUTE_DEVICES = ("cpu", "cuda", "mtia")
BANDWIDTHS = ("hbm_mem_bw", "ddr_mem_bw", "hbm_to_ddr_mem_bw", "intra_host_bw", "inter_host_bw")

# What a topology has unless it is told otherwise: TorchRec's figures. Bandwidths are bytes in a millisecond.
HBM_CAP = 32 * GIB
DDR_CAP = 128 * GIB
SSD_CAP = 2048 * GIB
HBM_MEM_BW = 897 * GIB / 1000
DDR_MEM_BW = 51 * GIB / 1000
HBM_TO_DDR_MEM_BW = 32 * GIB / 1000
INTRA_NODE_BANDWIDTH = 600 * GIB / 1000
CROSS_NODE_BANDWIDTH = 12.5 * GIB / 1000
UVM_CACHING_RATIO = 0.2


@frozen
class Constants:
    """The estimator's constants; `calibrate` fits those of lookups to a machine.

    A lookup takes `overhead_ms`, and the time in which the bandwidth reads its ids, reads its rows and writes its
    results, each times its factor, times a penalty for rows of few columns.
    """

    input_factor: float = 1.0
    lookup_factor: float = 1.0
    output_factor: float = 1.0
    overhead_ms: float = 0.0
    half_block_penalty: float = 1.15  # rows of 64 to 127 columns
    quarter_block_penalty: float = 1.75  # rows of fewer
    bwd_compute_multiplier: float = 2.0
    weighted_feature_bwd_compute_multiplier: float = 1.0
    weighted_kernel_multiplier: float = 1.1
    batched_copy_factor: float = 2.455
    dense_update_factor: float = 9.22

    def block_penalty(self, columns: int) -> float:
        """Return how much slower rows of these columns are than rows of 128."""
        if columns >= 128:
            return 1.0
        return self.half_block_penalty if columns >= 64 else self.quarter_block_penalty


DEFAULT_CONSTANTS = Constants()


@frozen
class Topology:
    """Ranks with their memory and bandwidths, by TorchRec's names.

    `hbm_cap`, `ddr_cap` and `ssd_cap` are bytes for each rank, one number or one for each. A host has
    `local_world_size` ranks; `pod_size` hosts are linked as fast as the ranks of one. Bandwidths are bytes in a
    millisecond. A topology never changes; `replaced` gives another one.

    Topology(world_size=8, compute_device="cuda", hbm_cap=80 * 2**30)
    """

    world_size: int
    compute_device: str
    local_world_size: int
    pod_size: int
    caps: tuple[Storage, ...]
    hbm_mem_bw: float
    ddr_mem_bw: float
    hbm_to_ddr_mem_bw: float
    intra_host_bw: float
    inter_host_bw: float
    constants: Constants

    def __init__(
        self,
        world_size: int,
        compute_device: str = "cpu",
        *,
        hbm_cap: int | Sequence[int] | None = None,
        ddr_cap: int | Sequence[int] | None = None,
        ssd_cap: int | Sequence[int] | None = None,
        local_world_size: int | None = None,
        pod_size: int = 1,
        hbm_mem_bw: float = HBM_MEM_BW,
        ddr_mem_bw: float = DDR_MEM_BW,
        hbm_to_ddr_mem_bw: float = HBM_TO_DDR_MEM_BW,
        intra_host_bw: float = INTRA_NODE_BANDWIDTH,
        inter_host_bw: float = CROSS_NODE_BANDWIDTH,
        constants: Constants = DEFAULT_CONSTANTS,
    ) -> None:
        _check_integer("world_size", world_size, 1)
        local = world_size if local_world_size is None else local_world_size
        _check_integer("local_world_size", local, 1)
        _check_integer("pod_size", pod_size, 1)
        require(
            compute_device in COMPUTE_DEVICES,
            "E020",
            "a topology has no such device",
            compute_device=compute_device,
            hint=f"one of {', '.join(COMPUTE_DEVICES)}",
        )
        require(
            world_size % (local * pod_size) == 0,
            "E020",
            "hosts of a topology have equally many ranks",
            world_size=world_size,
            local_world_size=local,
            pod_size=pod_size,
            hint="a multiple of local_world_size * pod_size as world_size",
        )
        bandwidths = (hbm_mem_bw, ddr_mem_bw, hbm_to_ddr_mem_bw, intra_host_bw, inter_host_bw)
        for name, bandwidth in zip(BANDWIDTHS, bandwidths, strict=True):
            require(
                isinstance(bandwidth, int | float) and 0 < bandwidth < float("inf"),
                "E020",
                f"{name} of a topology is no positive number",
                given=bandwidth,
                hint="bytes in a millisecond",
            )
        caps = zip(
            _by_rank("hbm_cap", hbm_cap, HBM_CAP if compute_device != "cpu" else 0, world_size),
            _by_rank("ddr_cap", ddr_cap, DDR_CAP, world_size),
            _by_rank("ssd_cap", ssd_cap, SSD_CAP, world_size),
            strict=True,
        )
        values = (
            world_size,
            compute_device,
            local,
            pod_size,
            tuple([Storage(*cap) for cap in caps]),
            *[float(each) for each in bandwidths],
            constants,
        )
        for name, value in zip(type(self).__match_args__, values, strict=True):
            object.__setattr__(self, name, value)

    def __reduce__(self) -> tuple[object, ...]:
        return _restored, (self.fields(),)

    def fields(self) -> dict[str, object]:
        """Return what makes an equal topology: the arguments of its constructor."""
        return {
            "world_size": self.world_size,
            "compute_device": self.compute_device,
            "hbm_cap": tuple([cap.hbm for cap in self.caps]),
            "ddr_cap": tuple([cap.ddr for cap in self.caps]),
            "ssd_cap": tuple([cap.ssd for cap in self.caps]),
            "local_world_size": self.local_world_size,
            "pod_size": self.pod_size,
            "hbm_mem_bw": self.hbm_mem_bw,
            "ddr_mem_bw": self.ddr_mem_bw,
            "hbm_to_ddr_mem_bw": self.hbm_to_ddr_mem_bw,
            "intra_host_bw": self.intra_host_bw,
            "inter_host_bw": self.inter_host_bw,
            "constants": self.constants,
        }

    def replaced(self, **changes: object) -> Topology:
        """Return a topology with other arguments in some places."""
        return _restored({**self.fields(), **changes})

    @property
    def intra_group_size(self) -> int:
        """Ranks that are linked as fast as those of one host."""
        return self.local_world_size * self.pod_size

    @property
    def groups(self) -> tuple[tuple[int, ...], ...]:
        """The ranks of each such group."""
        size = self.intra_group_size
        return tuple([tuple(range(first, first + size)) for first in range(0, self.world_size, size)])

    @property
    def on_device(self) -> bool:
        """Whether ranks have memory of their own beside the host's."""
        return self.compute_device != "cpu"

    @property
    def memory_kind(self) -> str:
        """The memory that tables lie in unless a kernel says otherwise: `hbm`, or `ddr` of ranks without their own."""
        return "hbm" if self.on_device else "ddr"

    @property
    def memory(self) -> tuple[int, ...]:
        """The bytes of it that each rank has."""
        return tuple([getattr(cap, self.memory_kind) for cap in self.caps])

    def row_parts(self, kind: ShardingType) -> int:
        """Return how many shards the rows of a table are divided among."""
        if kind is ShardingType.ROW_WISE:
            return self.world_size
        return self.intra_group_size if kind in BY_GROUP else 1

    def kernel_bandwidth(self, kernel: EmbeddingComputeKernel, cache_ratio: float | None, prefetch: bool) -> float:
        """Return bytes in a millisecond that a kernel reads rows with; 0 if the device has no such kernel."""
        own = self.hbm_mem_bw if self.on_device else self.ddr_mem_bw
        if kernel is EmbeddingComputeKernel.DENSE:
            return 0.5 * own
        if not kernel.in_host_memory:
            return own
        if self.compute_device != "cuda":
            return 0.0
        if not kernel.cached:
            return self.hbm_to_ddr_mem_bw / 10
        if prefetch and kernel is EmbeddingComputeKernel.FUSED_UVM_CACHING:
            return self.hbm_mem_bw
        ratio = UVM_CACHING_RATIO if cache_ratio is None else cache_ratio
        return (ratio * self.hbm_mem_bw + (1 - ratio) * self.hbm_to_ddr_mem_bw) / 10

    def link_bandwidth(self, world_size: int, local_world_size: int) -> float:
        """Return bytes in a millisecond between `world_size` ranks of which a host has so many."""
        return self.intra_host_bw if world_size <= local_world_size else self.inter_host_bw


def _restored(fields: Mapping[str, object]) -> Topology:
    return Topology(**fields)  # pyright: ignore[reportArgumentType] - fields() gave them


def _check_integer(name: str, value: object, least: int) -> None:
    require(
        isinstance(value, int) and not isinstance(value, bool) and value >= least,
        "E020",
        f"{name} is no integer of at least {least}",
        given=value,
    )


def _by_rank(name: str, given: int | Sequence[int] | None, default: int, world_size: int) -> tuple[int, ...]:
    caps = (default,) * world_size if given is None else (given,) * world_size if isinstance(given, int) else given
    for cap in caps:
        _check_integer(name, cap, 0)
    require(
        len(caps) == world_size, "E020", f"{name} has a number for each rank", given=len(caps), world_size=world_size
    )
    return tuple(caps)
