"""The demo on many ranks has the losses of one process, and its checkpoints go on with any number of them."""

from __future__ import annotations

import json

import pytest
from rich.console import Console

from rushlight import distributed as dist
from rushlight.demo.config import Config, Way
from rushlight.demo.session import resume_demo, run_demo

CONFIG = Config(
    layers=2,
    heads=2,
    width=32,
    context=16,
    batch=4,
    steps=6,
    evaluate_every=3,
    save_every=3,
    held_out_windows=4,
    final_windows=4,
)


def _losses(path) -> list[float]:
    return [json.loads(line)["loss"] for line in (path / "log.jsonl").read_text().splitlines()]


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    out = tmp_path_factory.mktemp("alone")
    assert run_demo(CONFIG, Way(eager=True), Console(quiet=True), out) == 0
    return _losses(out)


@pytest.mark.parametrize(("kind", "world"), [("ddp", 2), ("fsdp", 4)])
def test_losses_are_those_of_one_process(tmp_path, alone, kind: str, world: int) -> None:
    def train():
        return run_demo(CONFIG, Way(eager=True, parallel=kind), Console(quiet=True), tmp_path / "run")

    assert dist.spawn(train, world) == [0] * world
    assert _losses(tmp_path / "run") == pytest.approx(alone, rel=1e-4)
    assert _losses(tmp_path / "run" / "rank-1") == pytest.approx(alone, rel=1e-4)


def test_a_checkpoint_of_four_ranks_goes_on_with_two_and_one(tmp_path, alone) -> None:
    half = CONFIG.changed({"steps": 3})

    def begin():
        return run_demo(half, Way(eager=True, parallel="fsdp"), Console(quiet=True), tmp_path / "four")

    def go_on():
        way = Way(eager=True, parallel="fsdp")
        return resume_demo(tmp_path / "four", way, Console(quiet=True), tmp_path / "two", CONFIG.steps)

    assert dist.spawn(begin, 4) == [0] * 4
    assert dist.spawn(go_on, 2) == [0] * 2
    assert resume_demo(tmp_path / "four", Way(eager=True), Console(quiet=True), tmp_path / "one", CONFIG.steps) == 0
    assert _losses(tmp_path / "two")[3:] == pytest.approx(_losses(tmp_path / "one")[3:], rel=1e-4)
