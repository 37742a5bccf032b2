"""`torch.utils._foreach_utils`: tensors in groups of one device and dtype."""

from __future__ import annotations

from collections.abc import Sequence

from rushlight import Tensor
from rushlight.ir.dtype import DType
from rushlight.ir.type import Device

__all__ = ["_group_tensors_by_device_and_dtype"]

_Key = tuple[Device, DType]
_Lists = Sequence[Sequence[Tensor | None]]


def _group_tensors_by_device_and_dtype(
    tensorlistlist: _Lists, with_indices: bool = False
) -> dict[_Key, tuple[list[list[Tensor | None]], list[int]]]:
    """Group lists of equal length by the first list's tensors, with each one's place if it is asked for."""
    places: dict[_Key, list[int]] = {}
    for place, tensor in enumerate(tensorlistlist[0]):
        assert tensor is not None, "the first list has a tensor at each place"
        places.setdefault((tensor.device, tensor.dtype), []).append(place)
    return {
        key: ([[tensors[place] for place in group] for tensors in tensorlistlist], group if with_indices else [])
        for key, group in places.items()
    }
