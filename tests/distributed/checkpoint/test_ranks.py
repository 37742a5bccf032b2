"""Saving and loading by all ranks of a group together."""

from __future__ import annotations

import os

import pytest

import rushlight as rl
from rushlight import distributed as dist
from rushlight.distributed import checkpoint


@pytest.mark.parametrize("background", [False, True])
@pytest.mark.parametrize(("writers", "readers"), [(1, 2), (3, 1), (3, 2)])
def test_what_some_ranks_saved_others_load(tmp_path, writers: int, readers: int, background: bool) -> None:
    def save():
        state = {"a": rl.arange(6.0), "b": rl.ones(3, 3), "step": 4}
        if background:
            dist.barrier()
            return checkpoint.async_save(state, tmp_path)
        return checkpoint.save(state, tmp_path)

    def load():
        state = {"a": rl.zeros(6), "b": rl.zeros(3, 3), "step": 0}
        checkpoint.load(state, tmp_path)
        return state

    for saved in dist.spawn(save, writers):
        assert saved is None or saved.result(30) is None
    assert len([name for name in os.listdir(tmp_path) if name.startswith("shard")]) == min(writers, 2)
    for state in dist.spawn(load, readers):
        assert state["a"].tolist() == list(range(6)) and state["b"].sum().item() == 9 and state["step"] == 4


def test_a_failure_on_one_rank_is_the_error_of_all(tmp_path) -> None:
    """And nothing is overwritten, on any of them."""
    checkpoint.save({"a": rl.ones(3)}, tmp_path)

    def load():
        state = {"a": rl.zeros(3 + dist.get_rank())}
        with pytest.raises(rl.RushlightError) as found:
            checkpoint.load(state, tmp_path)
        return found.value.code, str(found.value), state["a"].sum().item()

    (one, text, kept), (two, _, _) = dist.spawn(load, 2)
    assert one == two == "P004" and "rank 1" in text and kept == 0


def test_ranks_that_hold_other_tensors_are_refused(tmp_path) -> None:
    def save():
        checkpoint.save({"a": rl.zeros(3 + dist.get_rank())}, tmp_path / "run")

    with pytest.raises(rl.RushlightError) as found:
        dist.spawn(save, 2)
    assert found.value.code == "P006" and not os.path.exists(tmp_path / "run")
