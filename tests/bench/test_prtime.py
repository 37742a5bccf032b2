"""Counts of what captures and calls take: they repeat, and more work is told."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import rushlight.distributed as dist
from rushlight.bench.prtime import counting
from rushlight.bench.prtime.inside import counts
from rushlight.bench.prtime.opcodes import Bytecodes
from rushlight.bench.prtime.programs import OVERHEAD, PROGRAMS
from rushlight.support import settings


@pytest.fixture(autouse=True)
def _no_group_is_left() -> Iterator[None]:
    yield
    if dist.is_initialized():  # programs of divided tensors make one
        dist.destroy_process_group()


def test_bytecodes_are_counted_in_calls_too():
    def twice(value: int) -> int:
        return value + value

    one = Bytecodes().count(lambda: twice(1))
    three = Bytecodes().count(lambda: (twice(1), twice(1), twice(1)))
    assert 0 < one < three
    assert Bytecodes().count(lambda: twice(1)) == one


@pytest.mark.generated
@pytest.mark.row("10.3")
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_takes_what_it_took_before(name: str):
    first, second = (counts("bytecodes", 0.0, [name])[name] for _ in range(2))
    assert first > 100
    assert abs(second / first - 1) < 0.01


@pytest.mark.row("10.2")
@pytest.mark.skipif(settings.get().eager_calls != "native", reason="calls go through Python")
def test_overhead_is_counted_in_nine_configurations():
    assert len(OVERHEAD) == 9
    found = counts("bytecodes", 0.0, ["runtime_overhead_no_grad", "runtime_overhead_backward"])
    each = found["runtime_overhead_no_grad"] / PROGRAMS["runtime_overhead_no_grad"].size
    assert each < 300  # a call without gradients: guards, plan and result
    assert found["runtime_overhead_backward"] > found["runtime_overhead_no_grad"]


@pytest.mark.row("10.1")
def test_a_planted_regression_of_two_percent_is_told(rushlight: Callable, tmp_path: Path):
    expected, program = tmp_path / "expected.json", "deep_nested_module"
    taken = rushlight("bench", "pr-time", program, "--accept", str(expected))
    assert taken.status == 0, taken.err
    again = rushlight("bench", "pr-time", program, "--check", str(expected))
    assert again.status == 0, again.out
    planted = rushlight("bench", "pr-time", program, "--check", str(expected), "--plant", "0.02")
    assert planted.status == 1 and "!" in planted.out


def test_the_import_is_counted(rushlight: Callable):
    ended = rushlight("bench", "pr-time", counting.IMPORT)
    assert ended.status == 0, ended.err
    assert int(ended.out.splitlines()[1].split()[-1].replace(",", "")) > 10_000


def test_counts_are_compared_in_both_directions(tmp_path: Path):
    expected = {"one": 1000, "two": 1000, "three": 1000}
    found = {"one": 1011, "two": 989, "three": 1009, "new": 5}
    assert [one.name for one in counting.changes(found, expected, 0.01)] == ["one", "two"]
    path = tmp_path / "expected.json"
    path.write_text(counting.updated(path, "bytecodes", expected))
    path.write_text(counting.updated(path, "bytecodes", {"one": 7}))
    path.write_text(counting.updated(path, "callgrind", {"one": 9}))
    assert counting.read(path, "bytecodes") == {**expected, "one": 7}
    assert counting.read(path, "callgrind") == {"one": 9}


def test_counts_of_other_versions_are_not_compared(rushlight: Callable, tmp_path: Path):
    path = tmp_path / "expected.json"
    path.write_text(json.dumps({"bytecodes": {"versions": {"python": "2.7"}, "counts": {}}}))
    for arguments in (("--check", str(path)), ("--check", str(tmp_path / "none")), ("--count", "beans")):
        ended = rushlight("bench", "pr-time", "add_loop", *arguments)
        assert ended.status == 1 and ended.err.startswith("error A002: ")
    assert rushlight("bench", "pr-time", "nothing").err.startswith("error A002: ")


def test_the_command_line_of_callgrind_counts_within_the_gate(tmp_path: Path):
    line = counting.callgrind(tmp_path / "profile")
    assert line[:2] == ["valgrind", "--tool=callgrind"] and all(
        "PyNumber_InPlaceMatrixMultiply" in w for w in line[2:4]
    )
    words = counting.import_program("callgrind")
    assert "class Gate" in words[1]


def test_every_program_has_an_expected_count():
    path = Path(__file__).parent.parent.parent / "tools" / "pr_time_counts.json"
    assert set(json.loads(path.read_text(encoding="utf-8"))["bytecodes"]["counts"]) == set(counting.NAMES)
