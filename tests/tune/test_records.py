"""Records of tuning: text that is read back, and lines that cannot be."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

import rushlight as rl
from rushlight.ir.gemm_tile import choose_tile
from rushlight.support import events
from rushlight.tune.records import FILE, Record, Records, is_tile, tile_from_text, tile_text

MODEL = choose_tile("float32", 64, a_packed=False, b_packed=False)


def test_the_last_line_about_a_product_counts(tmp_path: Path):
    records = Records(str(tmp_path))
    for tile in ("first", "second"):
        records.put(Record("cpu", "product", tile, "1 ms"))
    records.put(Record("cpu", "other", "third"))
    again = Records(str(tmp_path))
    assert again.get("cpu", "product") == Record("cpu", "product", "second", "1 ms")
    assert [record.tile for record in again.all()] == ["second", "third"]
    assert again.get("another", "product") is None


def test_lines_that_cannot_be_read_are_passed_over_and_counted(tmp_path: Path):
    text = "nonsense\n\ncpu | product | | 1 ms\ncpu | product | mr=1 | 1 ms\n"
    (tmp_path / FILE).write_text(text, encoding="utf-8")
    before = events.counters().get(("tuning", "unreadable"), 0)
    with pytest.warns(rl.RushlightWarning, match="no effect"):
        assert [record.tile for record in Records(str(tmp_path)).all()] == ["mr=1"]
    assert events.counters()["tuning", "unreadable"] == before + 2


def test_records_that_cannot_be_written_serve_the_process(tmp_path: Path):
    (tmp_path / "file").write_text("")
    records = Records(str(tmp_path / "file"))
    record = Record("cpu", "product", "tile", "1 ms")
    records.put(record)
    assert records.get("cpu", "product") == record
    assert Records("").all() == ()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "mr=12",
        "mr=12 nr=32 mc=384 nc=1024 unroll=2 kc=128",
        "mr=12 nr=32 mc=384 nc=1024 unroll=-2",
        "mr=13 nr=32 mc=384 nc=1024 unroll=2",  # macro tiles of whole rows
        "mr=12 nr=33 mc=384 nc=1056 unroll=2",  # whole vectors
        "mr=32 nr=32 mc=384 nc=1024 unroll=2",  # more sums than registers
        "mr=12 nr=32 mc=384 nc=1024 unroll=3",  # a block of whole rounds
        "mr=12 nr=32 mc=12000 nc=1024 unroll=2",  # more stack than a task has
    ],
)
def test_a_text_that_says_no_sound_tile_is_refused(text: str):
    assert tile_from_text(text, MODEL) is None


def test_a_tile_is_read_back():
    tile = replace(MODEL, mr=6, nr=64, mc=192, nc=512, unroll=4)
    assert is_tile(tile)
    assert tile_from_text(tile_text(tile), MODEL) == tile


def test_a_pipe_in_place_of_the_records_does_not_wait(tmp_path):
    os.mkfifo(tmp_path / "tuned.txt")
    records = Records(str(tmp_path))
    assert records.all() == ()
    records.put(Record("machine", "product", "tile"))
    assert records.get("machine", "product") is not None
