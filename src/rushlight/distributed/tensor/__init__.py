"""Tensors divided among the ranks of a mesh: PyTorch's `torch.distributed.tensor`."""

from rushlight.distributed.device_mesh import DeviceMesh, init_device_mesh
from rushlight.distributed.tensor.creation import empty, full, ones, rand, randn, zeros
from rushlight.distributed.tensor.dtensor import DTensor, distribute_module, distribute_tensor
from rushlight.distributed.tensor.local_map import local_map
from rushlight.distributed.tensor.report import (
    CommReport,
    comm_report,
    explicit_redistribution,
    implicit_replication,
)
from rushlight.distributed.tensor.spec import even_local_shape, is_evenly_sharded
from rushlight.ir.placement import Partial, Placement, Replicate, Shard

__all__ = [
    "CommReport",
    "DTensor",
    "DeviceMesh",
    "Partial",
    "Placement",
    "Replicate",
    "Shard",
    "comm_report",
    "distribute_module",
    "distribute_tensor",
    "empty",
    "even_local_shape",
    "explicit_redistribution",
    "full",
    "implicit_replication",
    "init_device_mesh",
    "is_evenly_sharded",
    "local_map",
    "ones",
    "rand",
    "randn",
    "zeros",
]
