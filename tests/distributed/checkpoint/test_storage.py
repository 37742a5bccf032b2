"""Readers, writers and planners by PyTorch's names, and what a checkpoint says of itself."""

import pytest

import rushlight as rl
from rushlight import distributed as dist
from rushlight.distributed import checkpoint
from rushlight.distributed.checkpoint.metadata import BytesStorageMetadata
from rushlight.distributed.fsdp import fully_shard


def model():
    rl.manual_seed(0)
    return rl.nn.Linear(4, 5)


def test_a_folder_is_given_by_a_writer_and_a_reader(tmp_path):
    writer, reader = checkpoint.FileSystemWriter(tmp_path / "one"), checkpoint.FileSystemReader(tmp_path / "one")

    def run():
        state = {"model": fully_shard(model()).state_dict(), "step": 3}
        checkpoint.save_state_dict(state, writer, planner=checkpoint.DefaultSavePlanner())
        two = checkpoint.FileSystemWriter(tmp_path / "two")
        saved = checkpoint.async_save(state, str(tmp_path / "two"), storage_writer=two)
        saved.result()
        found = []
        for options in (
            {"storage_reader": reader},
            {"checkpoint_id": tmp_path / "two", "planner": checkpoint.DefaultLoadPlanner()},
        ):
            other = {"model": rl.nn.Linear(4, 5).state_dict(), "step": 0}
            checkpoint.load(other, **options)
            found.append(other)
        other = {"model": rl.nn.Linear(4, 5).state_dict(), "step": 0}
        checkpoint.load_state_dict(other, reader)
        return [(one["step"], rl.equal(one["model"]["weight"], model().weight)) for one in (*found, other)]

    assert dist.spawn(run, 2) == [[(3, True)] * 3] * 2
    told = reader.read_metadata().state_dict_metadata
    assert told["model.weight"].size == (5, 4) and told["model.weight"].properties.dtype is rl.float32
    assert [tuple(one.sizes) for one in told["model.weight"].chunks] == [(3, 4), (2, 4)]
    assert isinstance(told["step"], BytesStorageMetadata)


def test_a_planner_says_whether_names_may_be_absent(tmp_path):
    checkpoint.save({"a": rl.ones(2)}, storage_writer=checkpoint.FileSystemWriter(tmp_path))
    state = {"a": rl.zeros(2), "b": rl.zeros(2)}
    with pytest.raises(rl.RushlightError, match="lacks names"):
        checkpoint.load(state, storage_reader=checkpoint.FileSystemReader(tmp_path))
    planner = checkpoint.DefaultLoadPlanner(allow_partial_load=True)
    checkpoint.load(state, storage_reader=checkpoint.FileSystemReader(tmp_path), planner=planner)
    assert state["a"].tolist() == [1, 1] and state["b"].tolist() == [0, 0]


class Own(checkpoint.DefaultSavePlanner):
    pass


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({}, "a folder is expected"),
        ({"storage_writer": object()}, "storage of another kind"),
        ({"checkpoint_id": "here", "storage_writer": checkpoint.FileSystemWriter("there")}, "differ"),
        ({"checkpoint_id": "here", "planner": Own()}, "planners of other classes"),
    ],
)
def test_what_is_not_supported_is_said(options, told):
    with pytest.raises(rl.RushlightError, match=told):
        checkpoint.save({"a": rl.ones(2)}, **options)


def test_options_that_are_not_supported_are_said():
    for make in (
        lambda: checkpoint.FileSystemWriter("here", overwrite=False),
        lambda: checkpoint.DefaultSavePlanner(flatten_state_dict=False),
        lambda: checkpoint.DefaultLoadPlanner(flatten_state_dict=False),
    ):
        with pytest.raises(rl.RushlightError) as found:
            make()
        assert found.value.code == "A006"
    kind = checkpoint.AsyncCheckpointerType.PROCESS
    with pytest.raises(rl.RushlightError, match="no process"):
        checkpoint.async_save({}, "here", async_checkpointer_type=kind)
