"""Tensors divided among the ranks of a mesh: PyTorch's `torch.distributed.tensor`."""

from rushlight.distributed.device_mesh import DeviceMesh, init_device_mesh
from rushlight.distributed.tensor.dtensor import DTensor, distribute_module, distribute_tensor
from rushlight.distributed.tensor.report import (
    CommReport,
    comm_report,
    explicit_redistribution,
    implicit_replication,
)
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
    "explicit_redistribution",
    "implicit_replication",
    "init_device_mesh",
]
