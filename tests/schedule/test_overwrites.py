"""Rows written at distinct places: the loop that makes them writes them, whatever they are made of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.codegen.guarded_memory import before_a_hole

import rushlight as rl
from rushlight.build.pipeline import run_passes
from rushlight.eager.composite.places import write_rows
from rushlight.ir.graph_parse import parse_graph
from rushlight.ir.kernel_text import plan_text
from rushlight.ir.target import Target
from rushlight.ops.ragged import segment_sum
from rushlight.ops.record import OPERATORS
from rushlight.support.errors import RushlightError

TARGET = Target("x86_64-unknown-linux-gnu", "x86-64-v3", "", 64)
UPDATE = """\
step(%w: f32[s0, 64], %i: i64[s1], %v: f32[s1, 64]) {{
  size s0 = 4096
  size s1 = 8
  %0 = index(%w, [%i]) {{dims=[0]}} : f32[s1, 64]
  %1 = sub(%0, %v, none) : f32[s1, 64]
  %2 = index_put(%w, [%i], {value}) {{dims=[0], accumulate=false, ascending={ascending}}} : f32[s0, 64]
  write %w <- %2
  return
}}"""


def text_of(value: str = "%1", ascending: str = "true", more: str = "") -> str:
    text = UPDATE.format(value=value, ascending=ascending).replace("  %2 =", more + "  %2 =")
    return plan_text(run_passes(parse_graph(text, OPERATORS), TARGET, until="07-tiled.ir"))


def test_rows_are_read_computed_and_written_by_one_loop():
    text = text_of()
    assert text.count("launch") == 1 and "arena" not in text
    assert "parallel" in text and " where " in text
    assert text_of(ascending="false").count("launch") > 1


def test_old_rows_of_other_places_are_read_before_any_is_written():
    neighbours = "  %3 = index(%w, [%j]) {dims=[0]} : f32[s1, 64]\n  %4 = add(%1, %3, none) : f32[s1, 64]\n"
    text = UPDATE.format(value="%4", ascending="true").replace("%i: i64[s1]", "%i: i64[s1], %j: i64[s1]")
    graph = parse_graph(text.replace("  %2 =", neighbours + "  %2 ="), OPERATORS)
    assert plan_text(run_passes(graph, TARGET, until="07-tiled.ir")).count("launch") > 1


def _rows(count: int, columns: int, dtype: str = "float32") -> np.ndarray[Any, Any]:
    return (np.random.default_rng(count).standard_normal((count, columns)) * 9).astype(dtype)


def subtracted(table: Any, places: Any, rows: Any) -> Any:
    return table[places] - rows


def of_all_rows(table: Any, places: Any, rows: Any) -> Any:
    return rows + table.sum(0)


def of_neighbours(table: Any, places: Any, rows: Any) -> Any:
    return table[places] + table[places - 1] * rows


def of_each_row(table: Any, places: Any, rows: Any) -> Any:
    return table[places] / (1 + (table[places] * rows).sum(1, keepdim=True).abs())


MADE: list[Callable[[Any, Any, Any], Any]] = [subtracted, of_all_rows, of_neighbours, of_each_row]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("columns", [1, 3, 64, 67])
@pytest.mark.parametrize("made", MADE)
def test_compiled_updates_are_those_of_numpy(made: Callable[[Any, Any, Any], Any], columns: int, threads: int):
    rl.set_num_threads(threads)

    def update(table: Any, places: Any, rows: Any) -> Any:
        before = table.abs().sum()
        write_rows(table, places, made(table, places, rows))
        return before, table[:1] * 2

    compiled = rl.compile(update)
    for count, total in [(0, 5), (1, 1), (5, 9), (300, 3000)]:
        table, rows = _rows(total, columns, "float64"), _rows(count + 1, columns, "float64")[:count]
        places = np.sort(np.random.default_rng(count).choice(total, count, replace=False))
        own = [rl.from_numpy(table.copy()) for _ in range(2)]
        results = [
            function(one, rl.from_numpy(places), rl.from_numpy(rows))
            for function, one in zip((update, compiled), own, strict=True)
        ]
        wanted = table.copy()
        picked = [rl.from_numpy(part) for part in (table, places, rows)]
        wanted[places] = made(*picked).numpy()
        for (before, after), one in zip(results, own, strict=True):
            assert np.array_equal(one.numpy(), wanted)
            assert np.array_equal(after.numpy(), wanted[:1] * 2)
            np.testing.assert_allclose(before.item(), np.abs(table).sum())
    rl.set_num_threads(2)


@pytest.mark.parametrize("dtype", ["float16", "int8", "complex64", "bool"])
def test_rows_of_other_dtypes(dtype: str):
    table, rows, places = _rows(40, 7, dtype), _rows(3, 7, dtype), np.array([0, 17, 39], np.int32)
    found = rl.from_numpy(table.copy())
    rl.compile(write_rows)(found, rl.from_numpy(places), rl.from_numpy(rows))
    table[places] = rows
    assert np.array_equal(found.numpy(), table)


def test_a_value_that_is_needed_later_is_not_written_over():
    table, rows, places = _rows(40, 7), _rows(3, 7), np.array([2, 5, 39])

    def both(table: Any, places: Any, rows: Any) -> Any:
        table = table * 2
        changed = write_rows(table.clone(), places, table[places] + rows)
        return table + 1, changed

    given = [rl.from_numpy(part) for part in (table, places, rows)]
    wanted = table * 2
    wanted[places] += rows
    for function in (both, rl.compile(both)):
        kept, changed = function(*given)
        assert np.array_equal(kept.numpy(), table * 2 + 1)
        assert np.array_equal(changed.numpy(), wanted)


@pytest.mark.parametrize("places", [[1, 1], [2, 1], [-1, 2], [3, 9]])
def test_places_that_do_not_ascend_are_refused(places: list[int]):
    for function in (write_rows, rl.compile(write_rows)):
        table = rl.zeros(9, 2)
        with pytest.raises(RushlightError) as caught:
            function(table, rl.tensor(places), rl.ones(2, 2))
        assert caught.value.code == "I001"
        assert not table.any()


def test_gradients_pass_through_rows_that_are_written():
    places = rl.tensor([0, 3])

    def total(table: Any, rows: Any) -> Any:
        return (write_rows(table * 1, places, rows * rows) * rl.arange(10.0).reshape(5, 2)).sum()

    wanted = [[[0, 0], [2, 3], [4, 5], [0, 0], [8, 9]], [[0, 2], [12, 14]]]
    for function in (total, rl.compile(total)):
        given = rl.ones(5, 2, requires_grad=True), rl.ones(2, 2, requires_grad=True)
        function(*given).backward()
        assert [one.grad.tolist() for one in given] == wanted


@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 40])
def test_rows_ahead_are_asked_for_within_the_index_alone(count: int):
    table = rl.from_numpy(_rows(50, 64))
    places = before_a_hole(np.random.default_rng(1).integers(0, 50, count))
    ends = rl.tensor([0, count // 2, count])
    for function in (lambda i: table[i] + 1, lambda i: segment_sum(table, ends, i, None)):
        found = rl.compile(function)(rl.from_numpy(places))
        assert np.array_equal(found.numpy(), function(rl.from_numpy(places.copy())).numpy())
