"""Turns, statistics, and the two ceilings."""

from typing import Any

import pytest

from rushlight.bench.copying import CopyBandwidth, copy_loop
from rushlight.bench.peak import FmaPeak, fma_loop
from rushlight.bench.timing import Turn, ratio, rounds_within, spread, take_turns
from rushlight.runtime import llvm


class Counting:
    """Says how long it takes, and notes when it was asked."""

    def __init__(self, name: str, seconds: float, asked: list[str], dies_after: int = 99) -> None:
        self.name = name
        self.seconds = seconds
        self.asked = asked
        self.left = dies_after

    def ask(self, do: str, **values: Any) -> dict[str, Any]:
        self.asked.append(self.name)
        self.left -= 1
        return {"status": "ready", "seconds": self.seconds} if self.left >= 0 else {"status": "dead", "reason": "bang"}


def test_contestants_take_turns():
    asked: list[str] = []
    turns = [Turn(Counting("a", 2.0, asked), 2.0), Turn(Counting("b", 1.0, asked), 1.0)]
    seconds, failed = take_turns(turns, rounds=3)
    assert asked == ["a", "b", "b", "a", "a", "b"]
    assert seconds == {"a": [2.0] * 3, "b": [1.0] * 3}
    assert not failed


def test_who_fails_on_the_way_has_no_samples_and_is_not_asked_again():
    asked: list[str] = []
    turns = [Turn(Counting("a", 2.0, asked, dies_after=1), 2.0), Turn(Counting("b", 1.0, asked), 1.0)]
    seconds, failed = take_turns(turns, rounds=4)
    assert list(seconds) == ["b"]
    assert failed == {"a": {"status": "dead", "reason": "bang"}}
    assert asked.count("a") == 2


def test_short_calls_are_repeated_and_long_ones_are_not_warmed_up():
    short, long = Turn(Counting("a", 0, []), 1e-4), Turn(Counting("a", 0, []), 0.3)
    assert (short.repeat, short.warm) == (200, True)
    assert (long.repeat, long.warm) == (1, False)
    assert Turn(Counting("a", 0, []), 0.0).repeat == 10_000


def test_slow_contestants_have_fewer_rounds_but_three():
    slow = [Turn(Counting("a", 0, []), 5.0), Turn(Counting("b", 0, []), 1.0)]
    assert rounds_within(slow, 15, 60.0) == 10
    assert rounds_within(slow, 15, 6.0) == 3
    assert rounds_within(slow, 2, 6.0) == 2
    assert rounds_within([], 15, 60.0) == 15


def test_median_and_percentiles():
    assert spread([5.0]) == (5.0, 5.0, 5.0)
    assert spread([float(number) for number in range(11)]) == (5.0, 1.0, 9.0)
    assert spread([4.0, 1.0]) == pytest.approx((2.5, 1.3, 3.7))


def test_ratios_are_of_pairs():
    """A machine that grows slower does not change ratios of pairs, as it does the ratio of medians."""
    assert ratio([1.0, 2.0, 9.0], [2.0, 4.0, 18.0]) == 0.5
    assert ratio([1.0, 10.0, 3.0], [1.0, 1.0, 2.0]) == 1.5


def test_the_peak_is_of_multiply_adds():
    peak = FmaPeak()
    assert max(peak.sample(1) for _ in range(3)) > 1
    assert f"fma.v{peak.lanes}f32" in fma_loop(peak.lanes)
    assembly = llvm.assembly(fma_loop(8), llvm.target_named("x86-64-v3"))
    assert assembly.count("vfmadd") == 48
    assert "rsp" not in assembly  # nothing but registers


def test_the_copy_copies_every_byte_by_itself():
    copies = CopyBandwidth()
    copies._source[:] = 7
    assert copies.sample(3) > 0.1
    assert (copies._target == 7).sum() >= copies._target.size - 3 * 4096
    copies._target[:] = 0
    assert copies.sample(2, 1 << 27) > 0.1
    assert (copies._target == 7).sum() == 1 << 26
    assert copy_loop(8).count("store") == 8
    assert "call" not in copy_loop(8)
