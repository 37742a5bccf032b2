"""Training: the same bits compiled, eager and on any number of threads; what a step costs; what stops a run."""

import json
import math
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import FrameType

import pytest
from tests.demo.conftest import TINY

import rushlight as rl
from rushlight.demo.config import Way
from rushlight.demo.corpus import Corpus
from rushlight.demo.run_folder import CHECKPOINT, RunFolder
from rushlight.demo.trainer import Trainer
from rushlight.eager import python_calls
from rushlight.support.errors import RushlightError

# Odd sizes, so that every kernel has a tail, and more rows than a thread gets at a time.
FIFTY = replace(TINY, layers=2, heads=3, width=51, context=33, batch=5, steps=50, warm_up=10, save_every=50)


@pytest.mark.core
def test_fifty_steps_have_the_same_bits_compiled_eager_and_on_any_threads(tmp_path: Path, trained: Callable):
    ways = {"compiled": Way(threads=2), "eager": Way(eager=True, threads=2), "alone": Way(threads=1)}
    before = rl.get_num_threads()
    runs = {}
    try:
        for name, way in ways.items():
            rl.set_num_threads(way.threads)
            runs[name] = trained(tmp_path / name, FIFTY, way)
    finally:
        rl.set_num_threads(before)
    assert len(runs["compiled"].losses) == 50
    assert runs["compiled"].losses == runs["eager"].losses == runs["alone"].losses
    assert runs["compiled"].held_out == runs["eager"].held_out == runs["alone"].held_out
    checkpoints = {(tmp_path / name / CHECKPOINT).read_bytes() for name in ways}
    assert len(checkpoints) == 1
    assert runs["compiled"].losses[0] > runs["compiled"].losses[-1] + 1


def test_a_run_learns(tmp_path: Path, trained: Callable):
    watcher = trained(tmp_path, replace(TINY, steps=60, evaluate_every=60, learning_rate=1e-2))
    assert watcher.losses[0] == pytest.approx(math.log(256), abs=0.2)
    assert watcher.held_out[-1][1] < 2.5


def test_the_log_has_a_line_for_each_step(tmp_path: Path, trained: Callable):
    watcher = trained(tmp_path)
    lines = [json.loads(text) for text in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == [1, 2, 3, 4, 5, 6]
    assert [line["loss"] for line in lines] == watcher.losses
    assert [(line["step"], line["held_out"]) for line in lines if "held_out" in line] == watcher.held_out
    assert [step for step, _ in watcher.held_out] == [2, 4, 6]
    seconds = [line["seconds"] for line in lines]
    assert seconds == sorted(seconds)
    assert all(line["tokens_per_s"] > 0 for line in lines)


@pytest.mark.unpoisoned
def test_a_later_step_makes_few_python_calls(corpus: Corpus):
    trainer = Trainer(TINY, Way())
    step = trainer.functions["training step"]
    windows = trainer.tensor(corpus.batch(0, 0, TINY.batch, TINY.context + 1))
    step(windows)
    step(windows)
    calls = []
    sys.setprofile(lambda frame, event, argument: calls.append(frame.f_code.co_name) if event == "call" else None)
    try:
        step(windows)
    finally:
        sys.setprofile(None)
    assert len(calls) <= 60, calls


def test_the_compiled_step_launches_a_third_of_eagers_kernels(corpus: Corpus):
    windows = corpus.batch(0, 0, TINY.batch, TINY.context + 1)
    compiled, eager = Trainer(TINY, Way()), Trainer(TINY, Way(eager=True))
    compiled.advance(windows)
    eager.advance(windows)
    launched = []

    def count(frame: FrameType, event: str, argument: object) -> None:
        if event == "call" and frame.f_code.co_name in ("launch_short", "launch_long"):
            launched.append(frame.f_locals["self"].summary.launches)

    with python_calls():
        sys.setprofile(count)
        try:
            eager.advance(windows)
        finally:
            sys.setprofile(None)
    own = rl.compiler.report(compiled.functions["training step"]).launches
    assert own > 0
    assert own * 3 <= sum(launched)


def test_schedules_and_steps_make_one_graph(tmp_path: Path, trained: Callable):
    trainer = Trainer(replace(TINY, steps=12), Way())
    trained(tmp_path, trainer=trainer)
    assert [rl.compiler.report(trainer.functions[name]).graphs for name in ("training step", "held-out loss")] == [1, 1]


def test_a_run_that_goes_astray_stops_and_keeps_the_last_good_checkpoint(tmp_path: Path, trained: Callable):
    config = replace(TINY, steps=100, learning_rate=1e30, save_every=1, warm_up=1)
    with pytest.raises(RushlightError) as caught:
        trained(tmp_path, config)
    assert caught.value.code == "R006"
    run = RunFolder(tmp_path)
    assert str(run.path) in str(caught.value.hint)
    lines = run.lines()
    assert all(math.isfinite(line["loss"]) for line in lines)
    state = rl.load(run.checkpoint)
    assert state["step"] == len(lines)
    assert all(bool(rl.isfinite(tensor).all()) for tensor in state["model"].values())
