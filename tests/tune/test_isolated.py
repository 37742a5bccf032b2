"""The worker that times code: its death and delays cost a candidate, never a compilation; timings are replayed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.tune.test_search import model

import rushlight as rl
from rushlight.build import native, pipeline
from rushlight.build.native import compile_native
from rushlight.ir.choice import BLOCKS, Product
from rushlight.ir.gemm_tile import GemmTile
from rushlight.ir.graph_parse import parse_graph
from rushlight.ops.record import OPERATORS
from rushlight.support import events, settings
from rushlight.tune import isolated, search
from rushlight.tune.isolated import Worker
from rushlight.tune.journal import Journal, JournaledRace
from rushlight.tune.measure import Always, Problem, Race, product_race
from rushlight.tune.records import FILE, Record, Records, is_tile, tile_text
from rushlight.tune.search import Tuner, neighbours
from rushlight.tune.strategies import Climb

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the worker is asked over pipes of POSIX")


@pytest.fixture
def workers() -> Iterator[Callable[..., Worker]]:
    """Makes workers, which end with the test."""
    made: list[Worker] = []

    def make(**options: float) -> Worker:
        made.append(Worker(2, **options))
        return made[-1]

    yield make
    for worker in made:
        worker.close()


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Searches try three tiles."""
    monkeypatch.setattr(
        search, "neighbours", lambda tile: [one for one in neighbours(tile) if is_tile(one) and one != tile][:3]
    )


def small(size: int = 32) -> Product:
    return Product(model(), (1, size, 48, 16), False)


def tuner_with(worker: Worker | None, **options: Any) -> Tuner:
    return Tuner(Records(""), "cpu", 2, budget_s=60, worker=worker, **options)


def counted(reason: str) -> int:
    return events.counters().get(("tuning", reason), 0)


@pytest.mark.row("6.3")
def test_code_is_timed_in_one_other_process(workers: Callable[..., Worker], few: None):
    worker, trials = workers(), []
    tuner = tuner_with(worker, tell=lambda problem, trial: trials.append(trial))
    tuner.choose(small())
    assert worker.started == 1
    assert worker.pid not in (None, os.getpid())
    assert trials and all(0 < trial.seconds < 1 for trial in trials)
    assert len(worker.spans) == len(trials) + 1
    assert all(one.end <= other.begin for one, other in zip(worker.spans, worker.spans[1:], strict=False))


@pytest.mark.row("6.3")
def test_a_worker_that_is_killed_is_replaced(workers: Callable[..., Worker], few: None):
    """kill -9 in the middle of a search."""
    worker = workers()

    def kill(problem: Problem, trial: object) -> None:
        if worker.started == 1 and worker.pid:
            os.kill(worker.pid, signal.SIGKILL)

    tuner = tuner_with(worker, tell=kill)
    tile = tuner.choose(small())
    assert worker.started > 1
    assert tile_text(tile) == tuner.records.all()[0].tile


@pytest.mark.row("5.9")
def test_code_that_takes_too_long_is_not_taken(workers: Callable[..., Worker], few: None):
    before = counted("crashed")
    tuner = tuner_with(workers(limit_s=0.001))
    assert tuner.choose(small()) == small().tile
    assert counted("crashed") > before


@pytest.mark.row("5.9")
def test_a_candidate_that_cannot_be_compiled_is_not_taken(
    workers: Callable[..., Worker], few: None, monkeypatch: pytest.MonkeyPatch
):
    def choose(self: Always, product: Product) -> GemmTile:
        raise rl.RushlightError("T001", "no such tile")

    monkeypatch.setattr(Always, "choose", choose)
    before = counted("failed")
    assert tuner_with(workers()).choose(small()) == small().tile
    assert counted("failed") > before


def test_other_bits_are_seen_in_the_worker(workers: Callable[..., Worker]):
    problem = Problem.of(small())
    race = product_race(problem, tuner_with(workers())._race)
    tile = problem.tile
    other = next(one for one in neighbours(tile) if one != tile)
    race.prepare(tile).result()
    text = (
        "g(%x: f32[32, 16], %y: f32[16, 48]) {\n  %0 = matmul(%x, %y) : f32[32, 48]\n  %1 = neg(%0) : f32[32, 48]\n"
        "  return %1\n}"
    )
    race._graph = parse_graph(text, OPERATORS)
    assert race.run(other, tile)[0] is None
    race.close()


@pytest.mark.row("6.2")
@pytest.mark.parametrize("attributes", ["beta=0.5, alpha=2.0", "beta=0, alpha=-1"])
def test_a_question_holds_all_that_a_call_is_given(workers: Callable[..., Worker], attributes: str):
    """The worker reads calls with their attributes from text, and what it measures is what is measured here."""
    sizes = "%bias: f32[40], %x: f32[32, 24], %y: f32[24, 40]"
    call = f"addmm(%bias, %x, %y) {{{attributes}}}"
    graph = parse_graph(f"f({sizes}) {{\n  %0 = {call} : f32[32, 40]\n  return %0\n}}", OPERATORS)
    random = np.random.default_rng(0)
    operands = [random.standard_normal(shape).astype(np.float32) for shape in ((40,), (32, 24), (24, 40))]
    worker = workers()
    asked = tuner_with(worker)._race(graph, operands, Always)
    tile = small().tile
    others = [one for one in neighbours(tile) if is_tile(one) and one != tile][:2]
    here = Race(graph, operands, Always)
    for other in others:
        there, mine = asked.run(other, tile), here.run(other, tile)
        assert there is not None
        assert None not in (*there, *mine)
        assert all(0 < seconds < 1 for seconds in there if seconds is not None)
    assert len(worker.spans) == len(others)
    asked.close()


@pytest.mark.row("6.4")
def test_an_idle_worker_ends_and_is_started_again(workers: Callable[..., Worker]):
    worker = workers(idle_s=0.2)
    race = product_race(Problem.of(small()), tuner_with(worker)._race)
    assert race.run(small().tile, small().tile)[0] > 0
    deadline = time.monotonic() + 60
    while worker.pid is not None and time.monotonic() < deadline:
        time.sleep(0.1)
    assert worker.pid is None
    assert race.run(small().tile, small().tile)[0] > 0
    assert worker.started >= 2
    race.close()


@pytest.mark.row("6.3")
def test_timings_are_replayed_with_the_same_choices(workers: Callable[..., Worker], few: None, tmp_path: Path):
    worker, path = workers(), str(tmp_path / "timings.txt")
    measured = tuner_with(worker, journal=Journal(path))
    chosen = [measured.choose(small(size)) for size in (16, 32)]
    asked = len(worker.spans)
    again = tuner_with(worker, journal=Journal(path))
    assert again.choose_all([small(size) for size in (32, 16)]) == chosen[::-1]
    assert len(worker.spans) == asked
    assert {str(one) for one in again.records.all()} == {str(one) for one in measured.records.all()}


def test_products_of_a_graph_are_searched_together(workers: Callable[..., Worker], few: None):
    text = (
        "g(%x: f32[32, 16], %y: f32[16, 48], %z: f32[48, 64]) {\n  %0 = matmul(%x, %y) : f32[32, 48]\n"
        "  %1 = matmul(%0, %z) : f32[32, 64]\n  return %1\n}"
    )
    graph = parse_graph(text, OPERATORS)
    tuner = tuner_with(workers())
    assert tuner.blocks(graph) == BLOCKS
    tuner.prepare(graph, BLOCKS)
    assert len(tuner.records.all()) == 2
    asked = len(tuner.worker.spans)
    tuner.prepare(graph, BLOCKS)
    assert len(tuner.worker.spans) == asked


def test_passes_run_on_no_graph_whose_code_is_cached(
    workers: Callable[..., Worker], few: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    graph = parse_graph(
        "g(%x: f32[32, 16], %y: f32[16, 48]) {\n  %0 = matmul(%x, %y) : f32[32, 48]\n  return %0\n}", OPERATORS
    )
    tuner = tuner_with(workers())
    with settings.override(cache=True, cache_dir=str(tmp_path)):
        assert not compile_native(graph, tuner).cached
        assert len(tuner.records.all()) == 1
        monkeypatch.setattr(pipeline, "run_passes", None)
        assert compile_native(graph, tuner).cached


@pytest.mark.row("6.4")
def test_many_threads_tune_at_once(workers: Callable[..., Worker], few: None):
    """A product is searched once, whoever asks."""
    tuner, before, failures = tuner_with(workers()), counted("search"), []

    def ask(number: int) -> None:
        try:
            tuner.choose(small(8 * (1 + number % 3)))
        except BaseException as failure:
            failures.append(failure)

    environment = dict(os.environ)
    threads = [threading.Thread(target=ask, args=(number,)) for number in range(100)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert counted("search") == before + 3
    assert dict(os.environ) == environment


@pytest.mark.row("6.4")
def test_settings_of_a_block_reach_who_compiles_and_who_times(
    workers: Callable[..., Worker], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The threads that compile, and the worker, which keeps the cores that it makes in the block's folder."""
    seen: list[str] = []

    def compile_code(*args: Any) -> Any:
        seen.append(settings.get().numerics)
        return native.compile_code(*args)

    monkeypatch.setattr(isolated, "compile_code", compile_code)
    with settings.override(numerics="fast", cache=True, cache_dir=str(tmp_path)):
        with closing(product_race(Problem.of(small()), tuner_with(workers())._race)) as race:
            assert race.run(small().tile, small().tile)[0] > 0
        assert seen == ["fast"]
        assert list(tmp_path.glob("*.rlo"))


def test_settings_of_a_block_reach_searches_of_several_products(workers: Callable[..., Worker]):
    seen: list[str] = []

    class Asked(Tuner):
        def choose(self, product: Product) -> GemmTile:
            seen.append(settings.get().numerics)
            return product.tile

    with settings.override(numerics="fast"):
        Asked(Records(""), "cpu", 2, worker=workers()).choose_all([small(8), small(16)])
    assert seen == ["fast", "fast"]


def test_the_pipes_of_a_worker_are_closed_when_it_ends(workers: Callable[..., Worker]):
    worker = workers(idle_s=0.1)
    assert worker.ask(folder="/nowhere", choice="", best="") is None
    with closing(product_race(Problem.of(small()), tuner_with(worker)._race)) as race:
        race.run(small().tile, small().tile)
    process = worker._process
    assert process is not None
    deadline = time.monotonic() + 60
    while worker._process is not None and time.monotonic() < deadline:
        time.sleep(0.05)
    assert process.stdin.closed and process.stdout.closed


def test_a_process_that_tuned_ends_without_warnings(tmp_path: Path):
    environment = {**os.environ, "RUSHLIGHT_CACHE_DIR": str(tmp_path), "RUSHLIGHT_TUNING_S": "1"}
    words = [sys.executable, "-X", "dev", "-W", "error", "-c", PROGRAM]
    said = subprocess.run(words, env=environment, capture_output=True, text=True, check=True)
    assert not said.stderr


def test_code_that_was_compiled_without_a_search_is_searched_for_later(
    workers: Callable[..., Worker], few: None, tmp_path: Path
):
    graph = parse_graph(
        "g(%x: f32[32, 16], %y: f32[16, 48]) {\n  %0 = matmul(%x, %y) : f32[32, 48]\n  return %0\n}", OPERATORS
    )
    records = Records("")
    skipping, searching = Tuner(records, "cpu", 2, budget_s=0), Tuner(records, "cpu", 2, 60, worker=workers())
    with settings.override(cache=True, cache_dir=str(tmp_path)):
        first = compile_native(graph, skipping)
        assert not first.cached and compile_native(graph, skipping).cached
        kept = compile_native(graph, searching)
        assert not kept.cached and len(records.all()) == 1
        assert compile_native(graph, searching).cached and compile_native(graph, skipping).cached
        (found,) = records.all()
        sound = [tile_text(tile) for tile in neighbours(small().tile) if is_tile(tile)]
        other = next(text for text in sound if text != found.tile)
        records.put(Record(found.machine, found.product, other, "by hand"))
        assert not compile_native(graph, searching).cached
        assert compile_native(graph, searching).cached


def test_a_question_that_was_asked_twice_is_replayed_twice(tmp_path: Path):
    """The best is compared with the first again in the end, and that may say something else."""
    path = tmp_path / "timings.txt"
    path.write_text("race | one | two | 1.0 2.0\nrace | one | two | 3.0 2.0\n")
    with closing(JournaledRace("race", Journal(str(path)), lambda: None, str)) as race:
        assert [race.run("one", "two") for _ in range(3)] == [(1.0, 2.0), (3.0, 2.0), (3.0, 2.0)]


@pytest.mark.parametrize("line", ["nonsense", "a | b | c | 1.0", "a | b | c | fast 1.0", "a | b | 1.0 2.0"])
def test_a_line_of_timings_that_cannot_be_read_is_an_error_with_its_place(line: str, tmp_path: Path):
    path = tmp_path / "timings.txt"
    path.write_text(f"race | one | two | 1.0 2.0\n{line}\n")
    with pytest.raises(rl.RushlightError) as caught:
        Journal(str(path))
    assert caught.value.code == "T004"
    assert f"{path}:2" in caught.value.values["place"]


def test_a_folder_of_timings_is_an_error(tmp_path: Path):
    with pytest.raises(rl.RushlightError) as caught:
        Journal(str(tmp_path))
    assert caught.value.code == "T004"


PROGRAM = """
import rushlight as rl
from rushlight.support import events, settings
rl.compile(lambda x, y: x @ y, mode="max-autotune", dynamic=False)(rl.ones(40, 30), rl.ones(30, 50))
print(events.counters().get(("tuning", "search"), 0))
"""


@pytest.mark.row("6.7")
def test_a_second_process_measures_nothing(tmp_path: Path):
    environment = {**os.environ, "RUSHLIGHT_CACHE_DIR": str(tmp_path), "RUSHLIGHT_TUNING_S": "1"}
    words = [sys.executable, "-c", PROGRAM]
    said = [subprocess.run(words, env=environment, capture_output=True, text=True, check=True) for _ in range(2)]
    assert [one.stdout.strip() for one in said] == ["1", "0"]


def test_searches_are_skipped_on_request():
    before = counted("search")
    tuner = Tuner(Records(""), "cpu", 2, budget_s=0)
    assert tuner.choose(small()) == small().tile
    assert counted("search") == before and not tuner.records.all()


@pytest.mark.row("6.7")
def test_an_impossible_record_is_a_warning_with_its_line(tmp_path: Path):
    name = str(Problem.of(small()))
    Records(str(tmp_path)).put(Record("cpu x2", "other", "mr=1", ""))
    with (tmp_path / FILE).open("a", encoding="utf-8") as file:
        file.write(f"cpu x2 | {name} | mr=12 nr=33 mc=384 nc=1056 unroll=2 | by hand\n")
    tuner = Tuner(Records(str(tmp_path)), "cpu", 2)
    with pytest.warns(rl.RushlightWarning, match="no effect") as caught:
        assert tuner.choose(small()) == small().tile
    assert f"{FILE}:2" in str(caught[0].message.values)


def test_records_are_merged(tmp_path: Path):
    for folder, size in (("one", 16), ("two", 32)):
        Records(str(tmp_path / folder)).put(Record("cpu x2", str(Problem.of(small(size))), tile_text(model()), "1 ms"))
    records = Records(str(tmp_path / "one"))
    assert records.merge(tmp_path / "two" / FILE) == 1
    assert len(Records(str(tmp_path / "one")).all()) == 2


@pytest.mark.parametrize("trial_s", [0.01, 0.3, 0.9])
def test_a_search_ends_within_its_budget(trial_s: float, monkeypatch: pytest.MonkeyPatch):
    """By a clock that each trial moves on."""
    now = [100.0]
    monkeypatch.setattr(search.time, "perf_counter", lambda: now[0])

    class Slow:
        def prepare(self, choice: int) -> None:
            pass

        def run(self, choice: int, best: int) -> tuple[float, float]:
            now[0] += trial_s
            return 2.0, 1.0

    found = Climb(Slow(), 0, lambda best: range(10_000), 105.0, lambda *told: None).run()
    assert 100 + 5 - 2 * trial_s - 1e-6 <= now[0] <= 100 + 5 * 1.05
    assert found.best == 0
