"""What the counter of instructions makes of its counts. Counting itself takes valgrind and minutes."""

import json
from pathlib import Path

import pytest

from rushlight.bench.prtime.counting import total_of
from rushlight.build.pipeline import PIPELINE
from tools.count_instructions import EXPECTED, Counter, compare

COUNTS = {"capture": 1000, "emit": 5000, "tiny": 3}


def test_counts_within_the_tolerance_are_fine():
    assert compare(COUNTS, COUNTS) == []
    assert compare({**COUNTS, "emit": 5149, "capture": 971}, COUNTS) == []


def test_counts_beyond_it_are_told_in_both_directions():
    assert compare({**COUNTS, "emit": 5151}, COUNTS) == ["emit: 0.0 million instructions, +3.0%"]
    assert compare({**COUNTS, "capture": 500}, COUNTS) == ["capture: 0.0 million instructions, -50.0%"]


def test_tiny_stages_are_not_compared_until_they_grow():
    assert compare({**COUNTS, "tiny": 30}, COUNTS) == []
    assert len(compare({**COUNTS, "tiny": 3000}, COUNTS)) == 1


def test_stages_that_came_or_went_are_told():
    found = {"capture": 1000, "emit": 5000, "tile": 3}
    assert compare(found, COUNTS) == ["tiny: only expected", "tile: only found"]


def test_a_profile_has_a_total(tmp_path: Path):
    profile = tmp_path / "profile.1"
    profile.write_text("events: Ir\nfn=(1) f\n0 12\n\ntotals: 345\n")
    assert total_of(profile) == 345
    profile.write_text("events: Ir\n")
    with pytest.raises(ValueError, match="no total"):
        total_of(profile)


def test_the_counter_runs_what_it_counts():
    counter = Counter()
    assert counter.count("one", lambda: 1) == 1
    assert counter.count("two", lambda: 2) == 2
    assert counter.names == ["one", "two"]


def test_every_stage_has_an_expected_count():
    expected = json.loads(EXPECTED.read_text(encoding="utf-8"))
    assert list(expected["instructions"]) == [*(stage.name for stage in PIPELINE), "LLVM"]
    assert set(expected["versions"]) == {"python", "numpy", "llvmlite"}
