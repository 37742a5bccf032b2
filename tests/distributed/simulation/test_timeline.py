"""Time lines of events that are given: when meetings begin, who waits, how processors are shared."""

import pytest

from rushlight.distributed.engine.call import Verb
from rushlight.distributed.engine.fake import Ledger
from rushlight.distributed.simulation import costs
from rushlight.distributed.simulation.classes import Class
from rushlight.distributed.simulation.costs import Costs, Link, interpolated
from rushlight.distributed.simulation.recording import Doing, Event, Recorded, Trace
from rushlight.distributed.simulation.timeline import Timeline
from rushlight.support.errors import DistError

TABLE = [(1.0, 0.5), (1e9, 0.5)]  # half a second, whatever the size
FLAT = Costs({verb: {2: TABLE} for verb in Verb}, machine_ranks=64)


def call(verb: Verb, ranks: tuple[int, ...], peer: int | None = None, count: int = 4) -> Recorded:
    agreement = {"collective": verb.value, "count": str(count)}
    return Recorded(verb, 4 * count, ranks, peer, 0, f"{verb.value} of {count}", None, agreement)


def one(ranks: tuple[int, ...], *parts: object) -> Class:
    """A class that computes for numbers of seconds, and makes calls, which wait but as ("issue", call)."""
    events: list[Event] = []
    calls: list[Recorded] = []
    for part in parts:
        if isinstance(part, float):
            events.append(Event(Doing.COMPUTE, seconds=part))
            continue
        if part == "wait":
            events.append(Event(Doing.WAIT, len(calls) - 1))
            continue
        waits, recorded = (False, part[1]) if isinstance(part, tuple) and part[0] == "issue" else (True, part)
        events.append(Event(Doing.ISSUE, len(calls)))
        if waits:
            events.append(Event(Doing.WAIT, len(calls)))
        calls.append(recorded)
    return Class(ranks, Trace(ranks[0], tuple(events), tuple(calls), Ledger(), 0))


def run(*classes: Class, costs: Costs = FLAT, processors: int = 64) -> Timeline:
    timeline = Timeline(classes, [owner.trace.events for owner in classes], costs, processors)
    timeline.run()
    return timeline


def whats(timeline: Timeline, row: int) -> list[tuple[str, float, float]]:
    return [(span.what, round(span.begin, 6), round(span.end, 6)) for span in timeline.rows[row].spans]


def test_a_collective_begins_when_the_last_rank_has_come():
    both = call(Verb.ALL_REDUCE, (0, 1))
    found = run(one((0,), 1.0, both), one((1,), 3.0, both, 1.0))
    assert found.now == 4.5
    assert whats(found, 0) == [("compute", 0, 1), ("wait", 1, 3), ("all_reduce", 3, 3.5)]
    assert whats(found, 1) == [("compute", 0, 3), ("all_reduce", 3, 3.5), ("compute", 3.5, 4.5)]


def test_data_move_while_ranks_wait_and_calls_go_one_after_another():
    both = call(Verb.ALL_REDUCE, (0, 1))
    parts = ("issue", both), ("issue", both), 2.0, "wait"
    found = run(one((0,), *parts), one((1,), *parts))
    assert found.now == 3.0, "none moves while ranks compute, and the second follows the first"


def test_data_move_while_ranks_compute_where_a_call_goes_on_in_the_background():
    both = call(Verb.ALL_REDUCE, (0, 1))._replace(in_background=True)
    parts = ("issue", both), ("issue", both), 2.0, "wait", 1.0
    assert run(one((0,), *parts), one((1,), *parts)).now == 3.0
    assert run(one((0,), *parts), one((1,), *parts), processors=2).now == 4.0, "two ranks compute and move data on two"


def test_ranks_that_move_data_take_processors_from_those_that_compute():
    moving, computing = call(Verb.ALL_REDUCE, (0, 1)), 1.5
    found = run(one((0,), moving), one((1,), moving), one((2,), computing), one((3,), computing), processors=2)
    assert found.now == 2.0 and whats(found, 0) == [("all_reduce", 0, 1)], "half a second at half the speed"


def test_a_call_of_a_few_waits_for_processors_on_a_machine_of_many_ranks():
    crowded = {verb: {2: TABLE, 4: [(1.0, 2.5), (1e9, 9.0)]} for verb in Verb}
    both = call(Verb.ALL_REDUCE, (0, 1))

    def seconds(machine_ranks: int) -> float:
        return run(one((0,), both), one((1,), both), costs=Costs(crowded, machine_ranks)).now

    assert seconds(2) == 0.5
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(costs, "available_cores", lambda: 2)
        assert seconds(4) == 2.5, "half a second, and two to get there"
        patch.setattr(costs, "available_cores", lambda: 4)
        assert seconds(4) == 0.5


def test_processors_are_shared():
    assert run(one((0, 1, 2, 3), 1.0), processors=2).now == 2.0
    assert run(one((0,), 1.0), one((1,), 3.0), processors=1).now == 4.0
    assert run(one((0,), 1.0), one((1,), 3.0), processors=2).now == 3.0


def test_classes_that_stand_for_many_ranks_meet_by_the_pattern_of_their_groups():
    # Ranks 0 to 3 in two classes: rows (0, 1) and (2, 3), columns (0, 2) and (1, 3).
    row, column = call(Verb.ALL_REDUCE, (0, 1)), call(Verb.ALL_REDUCE, (0, 2))
    low = one((0, 1), row, 1.0, column)
    high = one((2, 3), call(Verb.ALL_REDUCE, (2, 3)), 2.0, column)
    assert run(low, high).now == 3.0


def test_a_ring_of_one_class_sends_to_itself():
    ring = one((0, 1, 2), ("issue", call(Verb.SEND, (0, 1, 2), 1)), call(Verb.RECEIVE, (0, 1, 2), 2), "wait")
    assert run(ring).now == 0.5
    stuck = one((0, 1, 2), call(Verb.SEND, (0, 1, 2), 1), call(Verb.RECEIVE, (0, 1, 2), 2))
    with pytest.raises(DistError, match=r"wait for each other: ranks 0, 1, 2 -> ranks 0, 1, 2"):
        run(stuck)


def test_a_cycle_is_told_with_the_calls_of_those_in_it_alone():
    pair, other = (0, 1, 2), call(Verb.BARRIER, (0, 1, 2))
    with pytest.raises(DistError) as caught:
        run(
            one((0,), call(Verb.RECEIVE, pair, 1), call(Verb.SEND, pair, 1)),
            one((1,), call(Verb.RECEIVE, pair, 0), call(Verb.SEND, pair, 0)),
            one((2,), other),
        )
    assert caught.value.code == "W003"
    assert "rank 0 -> rank 1 -> rank 0" in str(caught.value) and "barrier" not in str(caught.value)


def test_a_rank_that_has_returned_and_ranks_that_disagree_are_named():
    both = call(Verb.ALL_REDUCE, (0, 1))
    with pytest.raises(DistError, match="rank 1 has returned, and others wait for it") as caught:
        run(one((0,), both), one((1,), 1.0))
    assert caught.value.code == "W004"
    with pytest.raises(
        DistError, match=r"disagree in the count(.|\n)*rank 0: all_reduce of 4(.|\n)*rank 1: .* of 5"
    ) as caught:
        run(one((0,), both), one((1,), call(Verb.ALL_REDUCE, (0, 1), count=5)))
    assert caught.value.code == "W002"


def test_costs_follow_the_tables_and_grow_with_ranks_and_bytes():
    costs = Costs({Verb.ALL_REDUCE: {2: [(1e3, 1e-4), (1e6, 1e-3)]}}, machine_ranks=8, link=Link(1e-3, 1e6))
    pair = costs.seconds(Verb.ALL_REDUCE, 1e6, (0, 1))
    assert pair == pytest.approx(1e-3) and costs.seconds(Verb.ALL_REDUCE, 1e6, (0,)) == 0
    assert costs.seconds(Verb.ALL_REDUCE, 2e6, (0, 1)) == pytest.approx(2e-3)
    assert costs.seconds(Verb.ALL_REDUCE, 3e4, (0, 1)) == pytest.approx(1e-4 * 10 ** (1 / 3 * 1.477), rel=0.01)
    four = costs.seconds(Verb.ALL_REDUCE, 1e6, (0, 1, 2, 3))
    assert four == pytest.approx(1.5e-3 + 1e-4)
    # Two machines of eight ranks, all of which send half of 1 MB twice over the link of 1 MB a second.
    across = costs.seconds(Verb.ALL_REDUCE, 1e6, (0, 8))
    assert across == pytest.approx(8 + 2e-3)
    assert interpolated([(1.0, 2.0), (4.0, 8.0)], 2.0) == pytest.approx(4.0)
