"""Checkpoints as one file, and as Hugging Face has models."""

from __future__ import annotations

import json
import os

import pytest
from safetensors.numpy import load_file, save_file

import rushlight as rl
from rushlight import distributed as dist
from rushlight.distributed import checkpoint
from rushlight.distributed.checkpoint.format_utils import dcp_to_torch_save, main, torch_save_to_dcp
from rushlight.distributed.fsdp import fully_shard


def same(one, other) -> bool:
    if isinstance(one, rl.Tensor):
        return isinstance(other, rl.Tensor) and one.dtype == other.dtype and rl.equal(one, other)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    return one == other and type(one) is type(other)


def nested_state():
    model = rl.nn.Sequential(rl.nn.Linear(2, 3), rl.nn.Linear(3, 1))
    optimizer = rl.optim.AdamW(model.parameters())
    model(rl.ones(1, 2)).sum().backward()
    optimizer.step()
    rest = {"step": 3, "l": [rl.ones(1), {"x": rl.zeros(0, 2)}], "name": "n", "none": None, "empty": {}, "b": [1, 2]}
    return {"model": dict(model.state_dict()), "optim": optimizer.state_dict(), **rest, "flat.key": rl.tensor(2)}


def test_a_nested_state_comes_back_from_one_file(tmp_path) -> None:
    state = nested_state()
    checkpoint.save(state, tmp_path / "shards")
    dcp_to_torch_save(tmp_path / "shards", tmp_path / "one.pt")
    found = rl.load(tmp_path / "one.pt")
    assert found.keys() == state.keys() and all(same(found[key], state[key]) for key in state)
    torch_save_to_dcp(tmp_path / "one.pt", tmp_path / "again")
    assert main(["dcp_to_torch", str(tmp_path / "again"), str(tmp_path / "two.pt")]) == 0
    found = rl.load(tmp_path / "two.pt")
    assert all(same(found[key], state[key]) for key in state)


def test_divided_tensors_of_ranks_come_together_under_their_names(tmp_path) -> None:
    """A stage's tensors that one rank alone holds are nested as the others."""

    def save():
        rl.manual_seed(0)
        own = {f"only {dist.get_rank()}": {0: rl.full((2,), float(dist.get_rank()))}}
        checkpoint.save({"model": fully_shard(rl.nn.Linear(3, 5)).state_dict(), **own}, tmp_path / "shards")

    dist.spawn(save, 2)
    dcp_to_torch_save(tmp_path / "shards", tmp_path / "one.pt")
    found = rl.load(tmp_path / "one.pt")
    rl.manual_seed(0)
    assert rl.equal(found["model"]["weight"], rl.nn.Linear(3, 5).weight)
    assert [found[f"only {rank}"][0].tolist() for rank in range(2)] == [[0, 0], [1, 1]]


def test_the_command_says_how_it_is_used(capsys) -> None:
    assert main(["from", "to"]) == 2
    assert "usage" in capsys.readouterr().err


def model():
    rl.manual_seed(1)
    return rl.nn.Sequential(rl.nn.Linear(3, 5), rl.nn.Linear(5, 2))


@pytest.mark.parametrize("background", [False, True])
@pytest.mark.parametrize("ranks", [1, 3])
def test_a_divided_model_is_written_as_hugging_face_has_it(tmp_path, ranks: int, background: bool) -> None:
    numbers = {"0.weight": 1, "0.bias": 1, "1.weight": 2, "1.bias": 2}

    def save():
        writer = checkpoint.HuggingFaceStorageWriter(str(tmp_path), fqn_to_index_mapping=numbers)
        part = fully_shard(model()).state_dict()
        if background:
            checkpoint.async_save(part, storage_writer=writer).result()
        else:
            checkpoint.save(part, storage_writer=writer)

    def load():
        part = fully_shard(rl.nn.Sequential(rl.nn.Linear(3, 5), rl.nn.Linear(5, 2)))
        state = part.state_dict()
        checkpoint.load(state, storage_reader=checkpoint.HuggingFaceStorageReader(str(tmp_path)))
        return {name: one.full_tensor() for name, one in state.items()}

    dist.spawn(save, ranks)
    names = [f"model-0000{number}-of-00002.safetensors" for number in (1, 2)]
    assert sorted(os.listdir(tmp_path)) == [*names, "model.safetensors.index.json"]
    index = json.loads((tmp_path / "model.safetensors.index.json").read_text())
    assert index["metadata"]["total_size"] == 4 * (15 + 5 + 10 + 2)
    assert index["weight_map"] == {name: names[number - 1] for name, number in numbers.items()}
    wanted = model().state_dict()
    held = {**load_file(tmp_path / names[0]), **load_file(tmp_path / names[1])}
    assert held.keys() == wanted.keys() and all((held[name] == wanted[name].numpy()).all() for name in wanted)
    for found in dist.spawn(load, 2):
        assert all(rl.equal(found[name], wanted[name]) for name in wanted)


def test_one_file_without_an_index_is_read(tmp_path) -> None:
    save_file({"a": rl.arange(6.0).view(2, 3).numpy(), "b": rl.ones(0).numpy()}, tmp_path / "model.safetensors")
    state = {"a": rl.zeros(2, 3), "b": rl.zeros(0)}
    checkpoint.load(state, tmp_path)
    assert state["a"].tolist() == [[0, 1, 2], [3, 4, 5]]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("{", "P002"),
        ('{"weight_map": {}}', "P002"),
        ('{"weight_map": {"a": "../model.safetensors"}}', "P002"),
        ('{"weight_map": {"a": "other.safetensors"}}', "P002"),
        ('{"weight_map": {"z": "model.safetensors"}}', "P002"),
        ('{"weight_map": {"a": 3}}', "P002"),
    ],
)
def test_a_damaged_index_is_said(tmp_path, text: str, code: str) -> None:
    save_file({"a": rl.ones(2).numpy()}, tmp_path / "model.safetensors")
    (tmp_path / "model.safetensors.index.json").write_text(text)
    with pytest.raises(rl.RushlightError) as found:
        checkpoint.load({"a": rl.zeros(2)}, tmp_path)
    assert found.value.code == code


def test_what_a_models_files_cannot_hold_is_said(tmp_path) -> None:
    writer = checkpoint.HuggingFaceStorageWriter(str(tmp_path))
    with pytest.raises(rl.RushlightError, match="tensors alone") as found:
        checkpoint.save({"a": rl.ones(2), "step": 3}, storage_writer=writer)
    assert found.value.code == "A006"
    writer = checkpoint.HuggingFaceStorageWriter(str(tmp_path), {"b": 1})
    with pytest.raises(rl.RushlightError, match="lacks tensors"):
        checkpoint.save({"a": rl.ones(2)}, storage_writer=writer)
    with pytest.raises(rl.RushlightError, match="from 1 on"):
        checkpoint.HuggingFaceStorageWriter(str(tmp_path), {"b": 0})
