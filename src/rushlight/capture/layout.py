"""Which gradients the nodes of a compiled call take and give, by numbers: all of it but the graphs."""

from __future__ import annotations

from rushlight.autodiff.partition import Split
from rushlight.capture.joint import Derived, Joint
from rushlight.support.frozen import frozen


@frozen
class SegmentPlan:
    """What the node of a segment takes and gives.

    `inputs` are the wanted inputs to which it gives gradients, and `merged_inputs` those to which it and all segments
    that follow give some, as they come; the first of these gives all of it (`merged_results`). Of their places those in
    `folds` and `merged_folds` may be sums. Besides the gradients of its `results` each node but the first takes what
    those before it leave to it. The gradients of its results lead to the inputs `leads`, and to the nodes `leads_after`
    among those that follow.
    """

    index: int
    results: tuple[int, ...]
    next_results: tuple[int, ...]
    inputs: tuple[int, ...]
    folds: tuple[int, ...]
    merged_inputs: tuple[int, ...]
    merged_results: tuple[int | None, ...]
    merged_folds: tuple[int, ...]
    leads: tuple[int, ...]
    leads_after: tuple[int, ...]

    @staticmethod
    def of(joint: Joint, index: int) -> SegmentPlan:
        """The plan of a segment."""
        segment, after = joint.segments[index], joint.segments[index + 1 :]
        merged = tuple([at for one in (segment, *after) for at in one.inputs])
        firsts = {at: place for place, at in reversed(list(enumerate(merged)))}
        several = {at for at, gradient in enumerate(joint.gradients) if len(gradient.parts) > 1}
        folds = [place for place, at in enumerate(merged) if at in several]
        next_results = after[0].results if after else ()
        count = len(segment.inputs)
        given = tuple([at if firsts[at] == place else None for place, at in enumerate(merged)])
        alone = [place for place in folds if place < count] + list(range(count, count + len(next_results)))
        leads_after = [at for at, one in enumerate(after) if not segment.leads[1].isdisjoint(one.results)]
        return SegmentPlan(
            index,
            segment.results,
            next_results,
            segment.inputs,
            tuple(alone),
            merged,
            given,
            tuple(folds),
            tuple(segment.leads[0]),
            tuple(leads_after),
        )

    @property
    def outputs(self) -> int:
        """How many gradients its node takes."""
        return len(self.results) + (self.index > 0)


@frozen
class BackwardLayout:
    """What the nodes of a compiled call take and give, by numbers.

    `returned` outputs of the forward graph are results; what is saved follows them. The nodes keep the inputs and
    outputs at the positions `inputs` and `saved`, and know those in `more`. Results at the positions `differentiable`
    have gradients, and so have `wanted` inputs. `places` are the segment of each result, and its place in that.
    """

    returned: int
    differentiable: tuple[int, ...]
    wanted: int
    inputs: tuple[int, ...]
    saved: tuple[int, ...]
    more: tuple[int, ...]
    segments: tuple[SegmentPlan, ...]
    places: tuple[tuple[int, int], ...]

    @staticmethod
    def of(backward: Derived, returned: int, split: Split) -> BackwardLayout:
        """The layout of a traced backward pass."""
        joint = backward.joint
        places = {
            number: (at, place) for at, one in enumerate(joint.segments) for place, number in enumerate(one.results)
        }
        return BackwardLayout(
            returned,
            tuple(backward.differentiable),
            len(joint.wanted),
            split.inputs,
            split.saved,
            split.more,
            tuple([SegmentPlan.of(joint, first) for first in range(len(joint.segments))]),
            tuple([places[number] for number in range(len(backward.differentiable))]),
        )
