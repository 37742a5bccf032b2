"""Memory that tables may not have: dense parameters, inputs on their way, and a margin."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence

from rushlight.recsys.planner.estimators import ID_BYTES
from rushlight.recsys.planner.options import PlannedTable, Storage
from rushlight.recsys.planner.topology import Topology
from rushlight.support.errors import fail, require


class StorageReservation(ABC):
    """What is taken from each rank's memory before tables are placed."""

    @abstractmethod
    def reserve(self, topology: Topology, tables: Sequence[PlannedTable], dense_bytes: int = 0) -> Topology:
        """Return the topology with the memory that is left for tables.

        `dense_bytes` are those of the parameters that are no tables, on each rank.
        """


class FixedPercentageStorageReservation(StorageReservation):
    """A share of each rank's memory, of the device if it has one, else of the host.

    FixedPercentageStorageReservation(0.15)
    """

    def __init__(self, percentage: float) -> None:
        self.percentage = _share(percentage)

    def reserve(self, topology: Topology, tables: Sequence[PlannedTable], dense_bytes: int = 0) -> Topology:
        """Return the topology with the rest of each rank's memory."""
        return _left(topology, self.percentage, 0)


class FixedAbsoluteStorageReservation(StorageReservation):
    """A number of bytes of each rank's memory."""

    def __init__(self, reserved_bytes: int) -> None:
        require(
            isinstance(reserved_bytes, int) and reserved_bytes >= 0,
            "E020",
            "bytes that are reserved are no negative number",
            given=reserved_bytes,
        )
        self.reserved_bytes = reserved_bytes

    def reserve(self, topology: Topology, tables: Sequence[PlannedTable], dense_bytes: int = 0) -> Topology:
        """Return the topology with the rest of each rank's memory."""
        return _left(topology, 0.0, self.reserved_bytes)


class HeuristicalStorageReservation(StorageReservation):
    """Memory for dense parameters with gradients and optimizer state, for inputs, and a margin.

    Dense parameters count `parameter_multiplier` times: themselves, twice for the optimizer, three times for buckets
    of gradients. Inputs count twenty times: two batches, each with ten copies.
    """

    def __init__(
        self, percentage: float, parameter_multiplier: float = 6.0, dense_tensor_estimate: int | None = None
    ) -> None:
        self.percentage = _share(percentage)
        self.parameter_multiplier = parameter_multiplier
        self.dense_tensor_estimate = dense_tensor_estimate

    def reserve(self, topology: Topology, tables: Sequence[PlannedTable], dense_bytes: int = 0) -> Topology:
        """Return the topology with the rest of each rank's memory."""
        estimate = self.dense_tensor_estimate
        dense = round(self.parameter_multiplier * dense_bytes) if estimate is None else estimate
        return _left(topology, self.percentage, dense + _input_bytes(tables) * 20)


class InferenceStorageReservation(StorageReservation):
    """Dense parameters and the inputs of one batch, both once, and a share as a margin."""

    def __init__(self, percentage: float, dense_tensor_estimate: int | None = None) -> None:
        self.percentage = _share(percentage)
        self.dense_tensor_estimate = dense_tensor_estimate

    def reserve(self, topology: Topology, tables: Sequence[PlannedTable], dense_bytes: int = 0) -> Topology:
        """Return the topology with the rest of each rank's memory."""
        dense = dense_bytes if self.dense_tensor_estimate is None else self.dense_tensor_estimate
        return _left(topology, self.percentage, dense + _input_bytes(tables))


def _share(percentage: float) -> float:
    require(
        isinstance(percentage, int | float) and 0 <= percentage <= 1,
        "E020",
        "a share of memory is a number from 0 to 1",
        given=percentage,
    )
    return float(percentage)


def _input_bytes(tables: Sequence[PlannedTable]) -> int:
    """Bytes of the ids of one rank's batch; each feature counts its samples once."""
    ids = 0.0
    for table in tables:
        ids += sum([factor * batch for factor, batch in zip(table.pooling_factors, table.batch_sizes, strict=True)])
    return math.ceil(ids * ID_BYTES)


def _left(topology: Topology, share: float, nbytes: int) -> Topology:
    caps = [_reduced(cap, topology.on_device, share, nbytes) for cap in topology.caps]
    if min([getattr(cap, topology.memory_kind) for cap in caps]) < 0:
        fail(
            "E022",
            "what is reserved is more than a rank has",
            bytes_reserved=nbytes,
            share_reserved=share,
            bytes_of_a_rank=max(topology.memory),
            hint="reserve less, give dense_tensor_estimate, or take a smaller batch",
        )
    return topology.replaced(hbm_cap=tuple([cap.hbm for cap in caps]), ddr_cap=tuple([cap.ddr for cap in caps]))


def _reduced(cap: Storage, on_device: bool, share: float, nbytes: int) -> Storage:
    if on_device:
        return Storage(int((1 - share) * cap.hbm) - nbytes, cap.ddr, cap.ssd)
    return Storage(cap.hbm, int((1 - share) * cap.ddr) - nbytes, cap.ssd)
