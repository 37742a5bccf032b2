"""Decides which tensors of a trace share memory, and whether one overlaps itself.

Symbolic strides can leave that open: `reshape` and `contiguous` record a copy unless the strides are known to allow a
view. Copy and view differ only once the copy or its source is written to. Then guards or run-time asserts decide, and
a copy that proves to be a view becomes one, as if it had been recorded as one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from rushlight.eager.execution.mutate import shows_twice
from rushlight.eager.execution.views import viewed
from rushlight.eager.handle import AUTOGRAD, Handle, View
from rushlight.eager.tensor_meta import form_of
from rushlight.ir.dtype import DType, real_dtype
from rushlight.ir.type import Layout, TensorType, dense_order, in_elements_of, row_major
from rushlight.ir.value import map_operands
from rushlight.ops.record import OPERATORS, Fact
from rushlight.support.errors import fail
from rushlight.sym import product


class MaybeAlias:
    """A copy by `step` of `base` that may be a view; `view` says how it would show it."""

    __slots__ = ("base", "result", "settled", "step", "view")

    def __init__(self, base: Handle, step: object, result: Handle) -> None:
        self.base = base
        self.step = step
        self.result = result
        self.view = viewed(base, step)
        self.settled = False


def in_doubt(cell: Any) -> bool:
    """Whether what a cell holds is a copy that may be a view."""
    return any(not doubt.settled and doubt.result.node.cell is cell for doubt in cell.doubts)


def resolve_alias(tracer: Any, tensor: Handle) -> None:
    """Settles all doubts about a tensor that is going to be written to."""
    cell = tracer.binding(tensor).cell
    while cell.doubts:
        doubt = cell.doubts.pop()
        if not doubt.settled:
            doubt.settled = True
            resolve_alias(tracer, doubt.base)  # its layout is that of a view, if it is one
            layout = _after((doubt.step,), _layout_of(doubt.base))
            if layout is not None:
                _join(tracer, doubt)
            cell = tracer.binding(tensor).cell


def _after(steps: Iterable[Any], layout: Layout | None) -> Layout | None:
    """The layout that view steps give a tensor of this layout; None where one of them copies."""
    for op, others, attrs in steps:
        types = map_operands(others, lambda operand: operand.form.type if isinstance(operand, Handle) else operand)
        rule = op.view_rule if op.shares_rule is None else op.shares_rule
        if layout is not None:
            shown: Layout | None = rule(**op.named((layout, *types), attrs))
            layout = None if shown is None else replace(shown, dtype=shown.dtype or layout.dtype)
    return layout


def _layout_of(tensor: Handle) -> Layout:
    return Layout(tuple(tensor.form.shape), tensor.form.strides, 0, tensor.form.dtype)


def _join(tracer: Any, doubt: MaybeAlias) -> None:
    """Makes a copy, and the views of it, views of what it was made of. Neither was written to since."""
    base, view = tracer.binding(doubt.base), doubt.view
    copy, counter = tracer.binding(doubt.result).cell, doubt.result.version
    base.cell.doubts.extend(copy.doubts)
    for tensor in tracer.seen():
        binding = tensor.node
        if binding is None or binding.tracer is not tracer or binding.cell is not copy:
            continue
        layout = _after((doubt.step, *binding.steps), _layout_of(doubt.base))
        assert layout is not None, "a view of a tensor without gaps is one of a tensor with gaps"
        tensor.form = form_of(
            layout.shape, tensor.form.dtype, tensor.form.device, layout.strides, tensor.form.type.weak
        )
        start = in_elements_of(tensor.form.dtype, doubt.base.offset, doubt.base.form.dtype)
        tensor.offset = start + layout.offset
        binding.cell, binding.steps = base.cell, (*base.steps, doubt.step, *binding.steps)
        binding.seen = base.cell.writes
        shown = tensor.view_of
        if tensor is doubt.result:
            tensor.view_of = view
        elif shown is not None:
            tensor.view_of = View(
                view.base, (*view.steps, *shown.steps), view.recorded and shown.recorded, view.rebases
            )
        tensor.version = doubt.base.version
        tensor.keys |= AUTOGRAD
    counter.value += 1  # what was saved of the copy is going to be written to


def overlaps_itself(tensor: Handle, binding: Any, fills: bool) -> bool:
    """Whether several elements of a tensor that is written to may be one place in memory.

    Asked of what steps through views, or who made an input, may have done; asserted where sizes are not known. An input
    is asked about however it is shown: the rest of it is written as it was, over what a view has in the same place. A
    write that `fills` all of what overlaps is none.
    """
    source = binding.cell.source
    if source is not None and (binding.steps or not fills) and shows_twice(source.form.type):
        return True
    repeating = not fills and any(Fact.REPEATING in op.facts for op, _, _ in binding.steps)
    return repeating and shows_twice(tensor.form.type)


def steps_by_strides(base: TensorType, layout: Layout, steps: tuple[Any, ...]) -> tuple[Any, ...]:
    """The steps that show a layout of the memory of a value: its bytes, its dims as they lie, then a view by strides.

    They take the place of `steps`: where one of these has no gradient, the view is detached. Errors: A006 where the
    value has gaps, since a graph knows values and not what lies between them.
    """
    order = dense_order(base.shape, base.strides)
    if order is None:
        hint = "use views that keep to the tensor's own elements, or call contiguous() first"
        fail(
            "A006", "a view by strides of a tensor whose elements do not lie dense, in a program", base=base, hint=hint
        )
    result: list[Any] = []
    if order != tuple(range(len(order))):
        result.append((OPERATORS["permute"], (), {"dims": order}))
    if layout.dtype is not None and layout.dtype is not base.dtype:
        result.extend(_as_bytes_of(base, layout.dtype))
    attrs = {"size": layout.shape, "stride": layout.strides, "storage_offset": layout.offset}
    result.append((OPERATORS["as_strided"], (), attrs))
    if any(Fact.NONDIFFERENTIABLE in op.facts for op, _, _ in steps):
        result.append((OPERATORS["detach"], (), {}))
    return tuple(result)


def _as_bytes_of(base: TensorType, new: DType) -> tuple[Any, ...]:
    """The steps that show the bytes of a dense tensor as another dtype."""
    old = base.dtype
    if real_dtype(old) is new:
        return ((OPERATORS["view_as_real"], (), {}),)
    if real_dtype(new) is old:
        return (OPERATORS["reshape"], (), {"shape": (-1, 2)}), (OPERATORS["view_as_complex"], (), {})
    viewed = OPERATORS["view_dtype"], (), {"dtype": new}
    if new.itemsize == old.itemsize:
        return (viewed,)
    # One row of as many elements as make whole ones.
    count = product(base.shape) * old.itemsize // new.itemsize * new.itemsize // old.itemsize
    row = {"size": (count,), "stride": (1,), "storage_offset": 0}
    return (OPERATORS["as_strided"], (), row), viewed


def direct_steps(
    base: TensorType, steps: tuple[Any, ...], layout: Layout, fact: Fact = Fact.REPEATING
) -> tuple[Any, ...]:
    """View steps; if one of them has the fact, other steps that show the same elements in `layout`.

    These show no element twice but where the whole view does. Of a value with gaps the elements are taken as they would
    lie row-major, which steps by strides of their own would tell: `steps_by_strides` refuses these.
    """
    if not any(fact in op.facts for op, _, _ in steps):
        return steps
    absolute = any(Fact.STRIDED in op.facts for op, _, _ in steps)
    if absolute or dense_order(base.shape, base.strides) is not None:
        return steps_by_strides(base, layout, steps)
    rows = row_major(base)
    direct = _after(steps, Layout(rows.shape, rows.strides, 0, rows.dtype))
    assert direct is not None, "a view step shows a value in any layout that it has been shown in"
    direct = replace(direct, dtype=layout.dtype)
    return ((OPERATORS["contiguous"], (), {}), *steps_by_strides(rows, direct, steps))
