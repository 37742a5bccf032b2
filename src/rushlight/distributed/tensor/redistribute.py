"""From one spec to another one: the steps of a plan, carried out and written down."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rushlight.distributed.tensor.layout import shape_of
from rushlight.distributed.tensor.movement import move
from rushlight.distributed.tensor.planning import Step, plan
from rushlight.distributed.tensor.report import MODES, note
from rushlight.distributed.tensor.spec import DTensorSpec, text_of, typical
from rushlight.eager.tensor import Tensor
from rushlight.support.errors import fail, require


def redistributed(
    local: Tensor, source: DTensorSpec, target: DTensorSpec, shape: Sequence[int], call: str, implicit: bool
) -> Tensor:
    """What this rank holds under `target` of a tensor of which it holds `local` under `source`.

    Errors: W022 for what is `implicit` and communicates in explicit mode; W021 for another mesh.
    """
    if source is target:
        return local
    require(
        source.mesh is target.mesh, "W021", f"{call}: the tensor lies on another mesh", tensor=source, wanted=target
    )
    steps = plan(source, target)
    if implicit and MODES.explicit and any(step.communicates for step in steps):
        before, after = text_of(source.placements), text_of(target.placements)
        hint = f"x.redistribute(placements={list(target.placements)}) before the call"
        fail("W022", f"{call}: an operand lies {before}, and the operator needs {after}", hint=hint)
    if local.is_meta:
        return local.new_empty(shape_of(target.box(shape)))
    for step in steps:
        if step.communicates:
            note(step, _sent(step, shape, local.dtype.itemsize), call, implicit)
        local = move(local, step, shape)
    return local


def _sent(step: Step, shape: Sequence[int], itemsize: int) -> int:
    """About how many bytes this rank sends."""
    held = math.prod(map(typical, shape_of(step.before.box(shape)))) * itemsize
    count = math.prod([step.before.mesh.shape[axis] for axis in step.axes])
    times = {"all_reduce": 2.0, "reduce_scatter": 1.0, "all_to_all": 1.0, "all_gather": float(count)}
    return int(held * (count - 1) / count * times[step.verb])
