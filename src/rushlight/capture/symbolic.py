"""Types whose sizes and strides are symbols, with the places that they come from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rushlight.capture.marks import Mark
from rushlight.eager.tensor_meta import TensorMeta
from rushlight.ir.type import TensorType, dense_order
from rushlight.sym import Origin, OriginKind, Scope, Size, optimization_hint


def symbolic_type(
    scope: Scope, form: TensorMeta, name: str, marks: Mapping[int, Mark], written: str | None = None
) -> TensorType:
    """The type of a tensor whose sizes are symbols, unless marks say otherwise.

    Strides of a dense layout follow from the sizes; others are symbols. `written` is how users write the tensor.
    """
    sizes = [optimization_hint(size) for size in form.type.shape]
    shape = tuple(
        [
            marks.get(dim, _OPEN).symbol(scope, f"{name}_{dim}", size, _origin(dim, name, marks, written))
            for dim, size in enumerate(sizes)
        ]
    )
    order = dense_order(form.type.shape, form.type.strides)
    if order is None:
        strides = [_stride(scope, stride, name, dim, written) for dim, stride in enumerate(form.type.strides)]
        return TensorType(shape, form.dtype, form.device, tuple(strides))
    steps: list[Size] = [1] * len(shape)
    step: Size = 1
    for dim in reversed(order):
        steps[dim] = step
        step = step * shape[dim]
    return TensorType(shape, form.dtype, form.device, tuple(steps))


_OPEN = Mark("dynamic")


def _origin(dim: int, name: str, marks: Mapping[int, Mark], written: str | None) -> Origin:
    marked = f", marked {marks[dim].kind}" if dim in marks else ""
    kind = OriginKind.MARKED if dim in marks and marks[dim].kind == "unbacked" else OriginKind.PLACE
    text = None if written is None else f"{written}.shape[{dim}]"
    return Origin(f"dim {dim} of argument {name[1:]}{marked}", kind, None, text)


def _stride(scope: Scope, stride: Any, name: str, dim: int, written: str | None) -> Size:
    if stride in (0, 1):
        return stride
    text = None if written is None else f"{written}.stride({dim})"
    origin = Origin(f"stride {dim} of argument {name[1:]}", written=text)
    return scope.symbol(f"{name}_stride{dim}", hint=stride, source=origin)
