"""New divided tensors. Random numbers are those of one rank."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rushlight.distributed.device_mesh import DeviceMesh
from rushlight.distributed.tensor import dispatch
from rushlight.distributed.tensor.dtensor import DTensor
from rushlight.distributed.tensor.spec import DTensorSpec, normalized
from rushlight.eager.random import random_state
from rushlight.ir.dtype import DType
from rushlight.ir.placement import Placement
from rushlight.ops.promote import DEFAULT_DTYPE
from rushlight.ops.record import OPERATORS
from rushlight.support.errors import require


def _made(
    name: str,
    operands: Callable[[], tuple[object, ...]],
    size: tuple[Any, ...],
    dtype: DType | None,
    device_mesh: DeviceMesh | None,
    placements: Sequence[Placement] | None,
    requires_grad: bool,
) -> DTensor:
    require(device_mesh is not None, "A001", f"{name}: a mesh is expected", given=device_mesh)
    assert device_mesh is not None
    shape = tuple(size[0]) if len(size) == 1 and not isinstance(size[0], int) else size
    spec = DTensorSpec(device_mesh, normalized(placements, device_mesh, len(shape), name))
    op = OPERATORS[name]
    attrs = {"size": shape, "dtype": dtype or DEFAULT_DTYPE[0], "device": None}
    made = dispatch.create(op, operands(), attrs, spec)
    return made.requires_grad_(requires_grad)


def zeros(
    *size: Any,
    requires_grad: bool = False,
    dtype: DType | None = None,
    layout: object = None,
    device_mesh: DeviceMesh | None = None,
    placements: Sequence[Placement] | None = None,
) -> DTensor:
    """Zeros of a global size: `zeros(8, 3, device_mesh=mesh, placements=[Shard(0)])`."""
    return full(size, 0.0, dtype=dtype, device_mesh=device_mesh, placements=placements, requires_grad=requires_grad)


def ones(
    *size: Any,
    requires_grad: bool = False,
    dtype: DType | None = None,
    layout: object = None,
    device_mesh: DeviceMesh | None = None,
    placements: Sequence[Placement] | None = None,
) -> DTensor:
    """Ones of a global size."""
    return full(size, 1.0, dtype=dtype, device_mesh=device_mesh, placements=placements, requires_grad=requires_grad)


empty = zeros


def full(
    size: Any,
    fill_value: complex,
    *,
    dtype: DType | None = None,
    layout: object = None,
    requires_grad: bool = False,
    device_mesh: DeviceMesh | None = None,
    placements: Sequence[Placement] | None = None,
) -> DTensor:
    """One value in a global size."""
    return _made("full", lambda: (fill_value,), tuple(size), dtype, device_mesh, placements, requires_grad)


def rand(
    *size: Any,
    requires_grad: bool = False,
    dtype: DType | None = None,
    layout: object = None,
    device_mesh: DeviceMesh | None = None,
    placements: Sequence[Placement] | None = None,
) -> DTensor:
    """Numbers from 0 to 1, the same for all placements. All ranks' generators have to be in one state."""
    return _made("rand", random_state, size, dtype, device_mesh, placements, requires_grad)


def randn(
    *size: Any,
    requires_grad: bool = False,
    dtype: DType | None = None,
    layout: object = None,
    device_mesh: DeviceMesh | None = None,
    placements: Sequence[Placement] | None = None,
) -> DTensor:
    """Normal numbers, the same for all placements. All ranks' generators have to be in one state."""
    return _made("randn", random_state, size, dtype, device_mesh, placements, requires_grad)
