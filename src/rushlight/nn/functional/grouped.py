"""Products of groups of rows with a matrix each, as experts need: `grouped_mm`, `scaled_grouped_mm` of narrow floats.

Offsets say where each group ends along the dim that is ragged, and are values: a compiled function is one graph for all
of them. What lies beyond the last offset is in no group; rows of the result there are 0.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from enum import IntEnum
from typing import Any

from rushlight.eager.arguments import required_tensor
from rushlight.eager.boundary import checked
from rushlight.eager.functions import cat, full, stack
from rushlight.eager.symbols import unwrap_size
from rushlight.eager.tensor import Tensor
from rushlight.ir.dtype import DType, bfloat16, float32
from rushlight.ops.dims import same_size
from rushlight.support.errors import fail, require
from rushlight.sym import check, ge


class ScalingType(IntEnum):
    """How many elements of an operand share a scale."""

    TensorWise = 0
    RowWise = 1
    BlockWise1x16 = 2
    BlockWise1x32 = 3
    BlockWise1x128 = 4
    BlockWise128x128 = 5


class SwizzleType(IntEnum):
    """In which order scales lie."""

    NO_SWIZZLE = 0
    SWIZZLE_32_4_4 = 1


def _ends(name: str, offs: Any, groups: int, extent: Any) -> list[Any]:
    """Where groups begin and end along a ragged dim. Errors: S010 for another number of them."""
    if offs is None:
        fail("A001", f"{name}: an operand of two dims needs offs, which say where its groups end")
    offsets = required_tensor(offs)
    fits = offsets.ndim == 1 and offsets.shape[0] == groups and not offsets.is_floating_point()
    require(fits, "S010", f"{name}: offs has one integer for each of {groups} groups", offs=offsets)
    ends = [0, *offsets.tolist()]
    for begin, end in itertools.pairwise(ends):
        check(ge(unwrap_size(end), unwrap_size(begin)), f"{name}: offs ascend")
    check(ge(extent, unwrap_size(ends[-1])), f"{name}: the last offset lies within the ragged dim")
    return ends


def _products(name: str, a: Any, b: Any, offs: Any) -> tuple[Any, list[Any]]:
    """The products of all groups together, and where groups begin and end, if operands are ragged."""
    require(a.ndim in (2, 3) and b.ndim in (2, 3), "S002", f"{name}: operands of 2 or 3 dims are expected", a=a, b=b)
    message = f"{name}: inner sizes differ"
    require(same_size(a.form.shape[-1], b.form.shape[-2]), "S003", message, a=a, b=b)
    if a.ndim == b.ndim == 3:
        require(offs is None, "A002", f"{name}: operands of three dims have no offs", offs=offs)
        return a @ b, []
    if a.ndim == 2 and b.ndim == 3:
        ends = _ends(name, offs, b.shape[0], a.form.shape[0])
        parts = [_range(a, 0, begin, end) @ b[at] for at, (begin, end) in enumerate(itertools.pairwise(ends))]
        return _filled(parts, 0, a.shape[0] - ends[-1], b.shape[-1]), ends
    if a.ndim == 3:
        ends = _ends(name, offs, a.shape[0], b.form.shape[1])
        parts = [a[at] @ _range(b, 1, begin, end) for at, (begin, end) in enumerate(itertools.pairwise(ends))]
        return _filled(parts, 1, b.shape[1] - ends[-1], a.shape[1]), ends
    ends = _ends(name, offs, required_tensor(offs).shape[0] if offs is not None else 0, a.form.shape[1])
    pairs = itertools.pairwise(ends)
    return stack([_range(a, 1, begin, end) @ _range(b, 0, begin, end) for begin, end in pairs]), ends


def _range(tensor: Any, dim: int, begin: Any, end: Any) -> Any:
    return tensor.narrow(dim, begin, end - begin)


def _filled(parts: Sequence[Any], dim: int, left: Any, other: Any) -> Any:
    """Parts along a dim, and 0 for the places that are in no group."""
    if isinstance(left, int) and left == 0:
        return cat(parts, dim)
    shape = (left, other) if dim == 0 else (other, left)
    return cat([*parts, full(shape, 0, dtype=parts[0].dtype)], dim)


@checked
def grouped_mm(
    mat_a: Tensor,
    mat_b: Tensor,
    *,
    offs: Tensor | None = None,
    bias: Tensor | None = None,
    out_dtype: DType | None = None,
) -> Any:
    """The product of each group of two operands, of which one or both are ragged.

    | a | b | groups along | result |
    |---|---|---|---|
    | [T, K] | [G, K, N] | T | [T, N] |
    | [G, M, K] | [K, T] | T | [M, T] |
    | [M, T] | [T, N] | T, which is summed over | [G, M, N] |
    | [G, M, K] | [G, K, N] | none | [G, M, N] |

    `offs[g]` is where group `g` ends. Errors: S002, S003, S010; R002 where offsets descend or leave the dim.

        out = grouped_mm(tokens, experts, offs=counts.cumsum(0))
    """
    a, b = required_tensor(mat_a), required_tensor(mat_b)
    found, _ = _products("grouped_mm", a, b, offs)
    found = found if bias is None else found + bias
    return found if out_dtype is None else found.to(out_dtype)


@checked
def scaled_grouped_mm(
    mat_a: Tensor,
    mat_b: Tensor,
    scale_a: Tensor | list[Tensor],
    scale_recipe_a: ScalingType | list[ScalingType],
    scale_b: Tensor | list[Tensor],
    scale_recipe_b: ScalingType | list[ScalingType],
    swizzle_a: SwizzleType | list[SwizzleType] | None = None,
    swizzle_b: SwizzleType | list[SwizzleType] | None = None,
    bias: Tensor | None = None,
    offs: Tensor | None = None,
    output_dtype: DType | None = bfloat16,
    contraction_dim: Sequence[int] = (),
    use_fast_accum: bool = False,
) -> Any:
    """`grouped_mm` of narrow floats, whose elements are multiplied by scales: of each tensor, or of rows and columns.

    Rows of `mat_a` and columns of `mat_b` have a scale each with `ScalingType.RowWise`: of a 3-d operand [G, M] and
    [G, N], of a 2-d one that is ragged where it is summed [G * M] and [G * N], as PyTorch has them. Products are added
    up in float32. The second operand is column-major: `mat_b.stride(-2) == 1`. Errors: S010, T001, A006 for scales of
    blocks.
    """
    name = "scaled_grouped_mm"
    a, b = required_tensor(mat_a), required_tensor(mat_b)
    sole = 1 if b.ndim == 3 and b.shape[-2] == 1 else b.stride(-2)
    if sole != 1:
        hint = "make it so: mat_b.mT.contiguous().mT"
        fail("S010", f"{name}: the second operand is column-major", strides=b.stride(), hint=hint)
    found, ends = _products(name, a.to(float32), b.to(float32), offs)
    groups = len(ends) - 1 if a.ndim == b.ndim == 2 else 0
    rows = _scale(name, scale_a, scale_recipe_a, a, a.shape[-2], groups)
    columns = _scale(name, scale_b, scale_recipe_b, b, b.shape[-1], groups)
    rows = _spread(rows, ends, found.shape[1], 1) if a.ndim > b.ndim else _as_rows(rows)
    columns = _spread(columns, ends, found.shape[0], 0) if a.ndim < b.ndim else _as_columns(columns)
    found = found * rows * columns
    found = found if bias is None else found + bias
    return found if output_dtype is None else found.to(output_dtype)


def _as_rows(scale: Any) -> Any:
    return scale[..., None] if scale.ndim else scale


def _as_columns(scale: Any) -> Any:
    return scale[..., None, :] if scale.ndim else scale


def _spread(scale: Any, ends: Sequence[Any], extent: Any, dim: int) -> Any:
    """The scales of groups for each place of the dim along which these lie: [T, N], or [M, T] for rows."""
    if scale.ndim < 2:
        return _as_columns(scale) if dim == 0 else _as_rows(scale)
    parts = [scale[at][None, :].expand(end - begin, -1) for at, (begin, end) in enumerate(itertools.pairwise(ends))]
    spread = _filled(parts, 0, extent - ends[-1], scale.shape[-1])
    return spread if dim == 0 else spread.mT


def _scale(name: str, scale: Any, recipe: Any, operand: Any, count: Any, groups: int) -> Any:
    """An operand's scales: one, or one of each row or column, of each group where these have their own."""
    scale, recipe = (value[0] if isinstance(value, (list, tuple)) else value for value in (scale, recipe))
    scale = required_tensor(scale)
    if recipe == ScalingType.TensorWise:
        require(scale.numel() == 1, "S010", f"{name}: one scale is expected", scale=scale)
        return scale.reshape(())
    if recipe != ScalingType.RowWise:
        fail("A006", f"{name}: scales of blocks do not exist", recipe=recipe, hint="ScalingType.RowWise")
    wanted = (groups, count) if groups else tuple(operand.shape[:1]) * (operand.ndim - 2) + (count,)
    if groups and tuple(scale.shape) == (groups * count,):
        return scale.reshape(wanted)
    require(tuple(scale.shape) == wanted, "S010", f"{name}: scales of shape {wanted} are expected", scale=scale)
    return scale
