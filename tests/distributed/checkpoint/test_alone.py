"""Saving and loading by one process: the same folders and the same errors as by many."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import pickle

import numpy as np
import pytest

import rushlight as rl
from rushlight.distributed import checkpoint

LENT = pathlib.Path(__file__).parent / "peer"


def _model(seed: int) -> rl.nn.Module:
    rl.manual_seed(seed)
    return rl.nn.Sequential(rl.nn.Linear(4, 6), rl.nn.ReLU(), rl.nn.Linear(6, 2))


def _trained(model: rl.nn.Module, steps: int, optimizer: rl.optim.Optimizer) -> list[float]:
    losses = []
    for step in range(steps):
        optimizer.zero_grad()
        loss = model(rl.arange(8.0).view(2, 4) + step).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def _code(call) -> str:
    with pytest.raises(rl.RushlightError) as found:
        call()
    return found.value.code


@pytest.mark.parametrize("save", [checkpoint.save, lambda *args: checkpoint.async_save(*args).result(30)])
def test_training_goes_on_from_a_checkpoint(tmp_path, save) -> None:
    model = _model(0)
    optimizer = rl.optim.AdamW(model.parameters(), lr=0.01)
    _trained(model, 3, optimizer)
    save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": 3, "notes": ["a", 1.5]}, tmp_path)
    wanted = _trained(model, 3, optimizer)
    other = _model(1)
    fresh = rl.optim.AdamW(other.parameters(), lr=0.5)
    _trained(other, 1, fresh)
    state = {"model": other.state_dict(), "optimizer": fresh.state_dict(), "step": 0, "notes": []}
    checkpoint.load(state, tmp_path)
    fresh.load_state_dict(state["optimizer"])
    assert state["step"] == 3 and state["notes"] == ["a", 1.5]
    assert _trained(other, 3, fresh) == wanted


def test_objects_with_a_state_give_and_take_it(tmp_path) -> None:
    model, other = _model(0), _model(1)
    checkpoint.save({"model": model}, tmp_path)
    checkpoint.load({"model": other}, tmp_path)
    assert all(rl.equal(one, two) for one, two in zip(model.parameters(), other.parameters(), strict=True))


def test_a_copy_is_saved_in_the_background(tmp_path) -> None:
    tensor = rl.arange(100000.0)
    saved = checkpoint.async_save({"x": tensor}, tmp_path)
    tensor.zero_()
    saved.result(30)
    state = {"x": rl.zeros(100000)}
    checkpoint.load(state, tmp_path)
    assert state["x"][99999].item() == 99999


def test_another_dtype_is_converted_and_views_are_filled(tmp_path) -> None:
    checkpoint.save({"x": rl.arange(6.0).view(2, 3)}, tmp_path)
    base = rl.zeros(3, 2, dtype=rl.bfloat16)
    checkpoint.load({"x": base.t()}, tmp_path)
    assert base.tolist() == [[0, 3], [1, 4], [2, 5]]


def test_what_does_not_fit_changes_nothing(tmp_path) -> None:
    checkpoint.save({"a": rl.ones(2), "b": rl.ones(3)}, tmp_path)
    state = {"a": rl.zeros(2), "b": rl.zeros(4)}
    assert _code(lambda: checkpoint.load(state, tmp_path)) == "P004"
    assert _code(lambda: checkpoint.load({"a": rl.zeros(2), "c": rl.zeros(2)}, tmp_path)) == "P004"
    assert _code(lambda: checkpoint.load({"a": rl.zeros(2), "c": 1}, tmp_path)) == "P004"
    checkpoint.load({"c": rl.zeros(2)}, tmp_path, strict=False)
    assert state["a"].tolist() == [0, 0]


@pytest.mark.parametrize("harm", ["missing", "truncated", "other", "no index", "index", "outside", "hole"])
def test_damage_is_named_before_anything_is_written(tmp_path, harm: str) -> None:
    checkpoint.save({"a": rl.ones(2), "b": rl.ones(3)}, tmp_path)
    index = tmp_path / "index.json"
    encoded = json.loads(index.read_text())
    shard = tmp_path / encoded["tensors"]["a"]["pieces"][0]["file"]
    if harm == "missing":
        shard.unlink()
    elif harm == "truncated":
        shard.write_bytes(shard.read_bytes()[:-4])
    elif harm == "other":
        rl.save({"a": rl.ones(2), "b": rl.ones(5)}, shard)
    elif harm == "no index":
        index.unlink()
    elif harm == "index":
        index.write_text(index.read_text()[:-5])
    elif harm == "outside":
        index.write_text(index.read_text().replace(shard.name, "../" + shard.name))
    else:
        encoded["tensors"]["b"]["pieces"][0]["sizes"] = [2]
        index.write_text(json.dumps(encoded))
    state = {"a": rl.zeros(2), "b": rl.zeros(3)}
    assert _code(lambda: checkpoint.load(state, tmp_path)) == ("P001" if harm == "no index" else "P002")
    assert state["a"].tolist() == [0, 0]


def test_mutated_indexes_give_registered_errors(tmp_path) -> None:
    checkpoint.save({"a": rl.ones(2, 3), "n": {"b": 3}}, tmp_path)
    index = tmp_path / "index.json"
    text = index.read_bytes()
    rng = np.random.default_rng(0)
    for _ in range(300):
        broken = bytearray(text)
        for place in rng.integers(0, len(text), rng.integers(1, 4)):
            broken[place] = rng.integers(32, 127)
        index.write_bytes(broken)
        try:
            checkpoint.load({"a": rl.zeros(2, 3), "n": {"b": 0}}, tmp_path)
        except rl.RushlightError as found:
            assert found.code in ("P002", "P004", "P005")


def test_numbers_and_tensors_without_dims_take_each_others_place(tmp_path) -> None:
    checkpoint.save({"step": 3, "count": rl.tensor(4.0)}, tmp_path)
    state = {"step": rl.tensor(0.0), "count": 0}
    checkpoint.load(state, tmp_path)
    assert state == {"step": 3, "count": 4}
    assert _code(lambda: checkpoint.load({"step": rl.zeros(1)}, tmp_path)) == "P004"


def test_names_that_read_alike_are_refused(tmp_path) -> None:
    assert _code(lambda: checkpoint.save({"a": {"b": 1}, "a.b": 2}, tmp_path)) == "P006"
    assert _code(lambda: checkpoint.save({"a": object()}, tmp_path)) == "P006"
    assert os.listdir(tmp_path) == []


def test_one_file_has_all_of_it(tmp_path) -> None:
    checkpoint.save({"model": _model(0).state_dict(), "step": 3}, tmp_path / "run")
    for name in ("one.safetensors", "one.pt"):
        checkpoint.consolidate(tmp_path / "run", tmp_path / name)
        loaded = rl.load(tmp_path / name)
        assert loaded["step"] == 3 and rl.equal(loaded["model.0.weight"], _model(0)[0].weight)


def test_a_checkpoint_of_pytorch_is_read_whoever_wrote_which_rows() -> None:
    """`freeze_peer.py` wrote it on two ranks."""
    state = {
        "rows": rl.zeros(5, 3),
        "columns": rl.zeros(2, 3, dtype=rl.bfloat16),
        "plain": {"step": 0, "betas": ()},
        "epoch": 0,
    }
    checkpoint.load(state, LENT)
    assert state["rows"].flatten().tolist() == list(range(15))
    assert state["columns"].flatten().tolist() == list(range(6))
    assert state["plain"] == {"step": 7, "betas": (0.9, 0.95)} and state["epoch"] == 3


def test_metadata_that_name_code_are_refused(tmp_path) -> None:
    class Attack:
        def __reduce__(self):
            return os.system, ("touch " + str(tmp_path / "done"),)

    (tmp_path / ".metadata").write_bytes(pickle.dumps(Attack()))
    assert _code(lambda: checkpoint.load({"x": rl.zeros(1)}, tmp_path)) == "P009"
    assert not (tmp_path / "done").exists()


def test_mutated_metadata_give_registered_errors(tmp_path) -> None:
    for path in LENT.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    text = (LENT / ".metadata").read_bytes()
    rng = np.random.default_rng(0)
    for _ in range(300):
        broken = bytearray(text)
        for place in rng.integers(0, len(text), rng.integers(1, 4)):
            broken[place] = rng.integers(0, 256)
        (tmp_path / ".metadata").write_bytes(broken)
        with contextlib.suppress(rl.RushlightError):
            checkpoint.load({"rows": rl.zeros(5, 3), "epoch": 0}, tmp_path)
