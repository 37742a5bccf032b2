"""Resuming: bit for bit, and never from what is not a run's checkpoint."""

import json
import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file
from tests.demo.conftest import TINY

import rushlight as rl
from rushlight.demo.config import Way
from rushlight.demo.run_folder import CHECKPOINT, RunFolder, find_run, load_checkpoint
from rushlight.demo.trainer import Trainer
from rushlight.support.errors import RushlightError


def resumed(folder: Path) -> Trainer:
    config, step, state = load_checkpoint(find_run(folder))
    trainer = Trainer(config, Way())
    trainer.restore(step, state)
    return trainer


def test_three_steps_and_three_more_are_six(tmp_path: Path, trained: Callable):
    straight = trained(tmp_path / "straight")
    first = trained(tmp_path / "halves", stop=3)
    assert load_checkpoint(RunFolder(tmp_path / "halves"))[1] == 3
    second = trained(tmp_path / "halves", trainer=resumed(tmp_path / "halves"))
    assert first.losses + second.losses == straight.losses
    assert first.held_out + second.held_out == straight.held_out
    checkpoints = [(tmp_path / name / CHECKPOINT).read_bytes() for name in ("straight", "halves")]
    assert checkpoints[0] == checkpoints[1]
    logs = [RunFolder(tmp_path / name).lines() for name in ("straight", "halves")]
    assert [(line["step"], line["loss"]) for line in logs[0]] == [(line["step"], line["loss"]) for line in logs[1]]
    seconds = [line["seconds"] for line in logs[1]]
    assert seconds == sorted(seconds)


def test_lines_after_the_checkpoint_are_written_anew(tmp_path: Path, trained: Callable):
    """As after a crash: the log is ahead of the checkpoint, and its last line is cut short."""
    trained(tmp_path / "run", stop=3)
    log = tmp_path / "run" / "log.jsonl"
    with log.open("a") as file:
        file.write(json.dumps({"step": 4, "loss": 1.0, "tokens_per_s": 1.0, "seconds": 99.0}) + '\n{"step": 5, "lo')
    trained(tmp_path / "run", trainer=resumed(tmp_path / "run"))
    lines = RunFolder(tmp_path / "run").lines()
    assert [line["step"] for line in lines] == [1, 2, 3, 4, 5, 6]
    assert 1.0 not in [line["loss"] for line in lines]


def test_a_run_is_found_by_its_folder_or_its_checkpoint(tmp_path: Path):
    assert find_run(tmp_path / CHECKPOINT).path == tmp_path
    assert find_run(tmp_path).path == tmp_path


def broken(kind: str, good: bytes, path: Path) -> None:
    """Puts something at a checkpoint's place."""
    if kind == "truncated":
        path.write_bytes(good[:-100])
    elif kind == "cut in the header":
        path.write_bytes(good[:50])
    elif kind == "empty":
        path.write_bytes(b"")
    elif kind == "text":
        path.write_text("this is a letter to my aunt")
    elif kind == "pickle":
        path.write_bytes(pickle.dumps({"weight": [1.0]}))
    elif kind == "another program's":
        save_file({"weight": np.ones((2, 2), np.float32)}, path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "state dict":
        rl.save({"program": "rushlight demo", "model": {}}, path)


CODES = {
    "truncated": "P002",
    "cut in the header": "P002",
    "empty": "P002",
    "text": "P005",
    "pickle": "P005",
    "another program's": "P005",
    "folder": "P001",
    "state dict": "P005",
}


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A sound checkpoint."""
    folder = tmp_path_factory.mktemp("good")
    trainer = Trainer(TINY, Way(eager=True))
    RunFolder(folder).save(TINY, 0, trainer.state())
    return (folder / CHECKPOINT).read_bytes()


@pytest.mark.parametrize("kind", CODES)
def test_a_bad_checkpoint_is_one_clear_error(kind: str, good: bytes, tmp_path: Path):
    broken(kind, good, tmp_path / CHECKPOINT)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with pytest.raises(RushlightError) as caught:
        resumed(tmp_path)
    assert caught.value.code == CODES[kind], caught.value
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_a_missing_checkpoint_is_an_error(tmp_path: Path):
    with pytest.raises(RushlightError) as caught:
        resumed(tmp_path / "nowhere")
    assert caught.value.code == "P001"
    assert not (tmp_path / "nowhere").exists()


def test_a_checkpoint_of_another_version_is_an_error(good: bytes, tmp_path: Path):
    path = tmp_path / CHECKPOINT
    path.write_bytes(good)
    rl.save({**rl.load(path), "format": 2}, path)
    with pytest.raises(RushlightError, match="another version"):
        resumed(tmp_path)


def test_weights_of_another_shape_are_an_error(good: bytes, tmp_path: Path):
    path = tmp_path / CHECKPOINT
    path.write_bytes(good)
    state = rl.load(path)
    rl.save({**state, "config": replace(TINY, width=64).to_dict()}, path)
    with pytest.raises(RushlightError) as caught:
        resumed(tmp_path)
    assert caught.value.code == "P004"


def test_a_foreign_optimizer_state_is_an_error(good: bytes, tmp_path: Path):
    path = tmp_path / CHECKPOINT
    path.write_bytes(good)
    rl.save({**rl.load(path), "optimizer": {"momentum": 1}}, path)
    with pytest.raises(RushlightError) as caught:
        resumed(tmp_path)
    assert caught.value.code == "P005"
