"""Which collectives take a tensor from one spec to another, and what they cost.

Partial values are reduced first, axis by axis: scattered at once where a shard is wanted, else on all ranks. What is
left is one exchange among the ranks of all axes that change: each rank is sent the places that it lacks, whatever the
sizes, the order of axes and the number of axes that shard a dim.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from rushlight.distributed.tensor.layout import sharding_axes
from rushlight.distributed.tensor.spec import DTensorSpec, typical
from rushlight.ir.placement import Partial, Placement, Replicate, Shard

LATENCY = 4096.0  # what beginning a collective costs, in bytes moved
_IDEMPOTENT = ("avg", "max", "min")


class Step(NamedTuple):
    """One step from a spec to another.

    `verb`: "all_reduce", "reduce_scatter", "all_gather", "all_to_all", or without messages "slice", "make_partial".
    """

    verb: str
    axes: tuple[int, ...]
    before: DTensorSpec
    after: DTensorSpec

    @property
    def communicates(self) -> bool:
        """Whether ranks send something."""
        return self.verb not in ("slice", "make_partial")


@functools.cache
def plan(source: DTensorSpec, target: DTensorSpec) -> tuple[Step, ...]:
    """The steps from one spec to another one on the same mesh. They are the same on all ranks, whatever the sizes."""
    steps = list(_reducing(source, target))
    current = steps[-1].after if steps else source
    whole = _without_new_partials(source, target)
    if current is not whole and not _same_boxes(current, whole):
        axes = changed_axes(current, whole)
        steps.append(Step(_verb(current, whole, axes), axes, current, whole))
    axes = tuple([axis for axis, one in enumerate(target.placements) if one.is_partial()])
    made = tuple([axis for axis in axes if source.placements[axis] is not target.placements[axis]])
    if made:
        steps.append(Step("make_partial", made, steps[-1].after if steps else source, target))
    return tuple(steps)


def _without_new_partials(source: DTensorSpec, target: DTensorSpec) -> DTensorSpec:
    pairs = zip(source.placements, target.placements, strict=True)
    return target.with_placements([Replicate() if new.is_partial() and new is not old else new for old, new in pairs])


def _reducing(source: DTensorSpec, target: DTensorSpec) -> Iterator[Step]:
    current = source
    for axis, placement in enumerate(source.placements):
        wanted = target.placements[axis]
        if not isinstance(placement, Partial) or placement is wanted:
            continue
        scattered = current.with_placements(_replaced(current, axis, wanted))
        scattered = DTensorSpec(scattered.mesh, scattered.placements, target.order)
        if wanted.is_shard() and _is_cut(current, scattered, axis):
            step = Step("reduce_scatter", (axis,), current, scattered)
        else:
            whole = current.with_placements(_replaced(current, axis, Replicate()))
            step = Step("all_reduce", (axis,), current, whole)
        current = step.after
        yield step


def _replaced(spec: DTensorSpec, axis: int, placement: Placement) -> list[Placement]:
    placements = list(spec.placements)
    placements[axis] = placement
    return placements


def _is_cut(current: DTensorSpec, scattered: DTensorSpec, axis: int) -> bool:
    """Whether the ranks along an axis cut what each of them holds: the axis is the last one to cut the dim."""
    dim = dim_of(scattered.placements[axis])
    before = sharding_axes(current.placements, dim, current.order)
    return sharding_axes(scattered.placements, dim, scattered.order) == [*before, axis]


def dim_of(placement: Placement) -> int:
    """The dim of a shard."""
    assert isinstance(placement, Shard)
    return placement.dim


def _same_boxes(one: DTensorSpec, other: DTensorSpec) -> bool:
    return not changed_axes(one, other)


def changed_axes(source: DTensorSpec, target: DTensorSpec) -> tuple[int, ...]:
    """The axes along which ranks hold other parts."""
    pairs = zip(source.placements, target.placements, strict=True)
    changed = {axis for axis, (before, after) in enumerate(pairs) if before is not after}
    dims = {one.dim for spec in (source, target) for one in spec.placements if isinstance(one, Shard)}
    for dim in dims:
        before, after = (sharding_axes(spec.placements, dim, spec.order) for spec in (source, target))
        for place in range(max(len(before), len(after))):
            if before[place : place + 1] != after[place : place + 1]:
                changed.update(before[place:], after[place:])
                break
    return tuple(sorted(changed))


def _verb(source: DTensorSpec, target: DTensorSpec, axes: tuple[int, ...]) -> str:
    if all(source.placements[axis].is_replicate() for axis in axes):
        return "slice"
    whole = all(target.placements[axis].is_replicate() for axis in axes)
    return "all_gather" if whole else "all_to_all"


def cost(source: DTensorSpec, target: DTensorSpec, shape: Sequence[int], itemsize: int) -> float:
    """What the steps cost, in bytes that a rank sends or receives; nothing where elements have no bytes."""
    if not itemsize:
        return 0.0
    return sum([_cost_of(step, shape, itemsize) for step in plan(source, target)])


def _cost_of(step: Step, shape: Sequence[int], itemsize: int) -> float:
    if not step.communicates:
        return 0.0
    count = 1
    for axis in step.axes:
        count *= step.before.mesh.shape[axis]
    held = float(itemsize)
    for size in _held(step.before, shape):
        held *= size
    share = (count - 1) / count
    moved = {
        "all_reduce": 2 * held * share,
        "reduce_scatter": held * share,
        "all_gather": held * (count - 1),
        "all_to_all": held * share,
    }
    return LATENCY + moved[step.verb]


def _held(spec: DTensorSpec, shape: Sequence[int]) -> list[float]:
    """The sizes that a rank holds, about the same on all ranks: plans must not depend on the rank."""
    sizes = [float(typical(size)) for size in shape]
    for axis, placement in enumerate(spec.placements):
        if isinstance(placement, Shard):
            sizes[placement.dim] /= spec.mesh.shape[axis]
    return sizes


def is_sent_by(source: DTensorSpec, axes: Sequence[int], sender: Sequence[int], receiver: Sequence[int]) -> bool:
    """Whether a rank sends what another lacks: of replicas the one that stands with the receiver."""
    return all(sender[axis] == receiver[axis] for axis in axes if source.placements[axis].is_replicate())


def keeps_value(placement: Partial, is_first: bool) -> bool:
    """Whether a rank keeps its values where a whole tensor becomes partial; others have 0 or 1."""
    return is_first or placement.reduce_op in _IDEMPOTENT
