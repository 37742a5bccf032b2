"""Saves in the background: who waits, until when, and what each rank is told."""

import threading
import time

import pytest

import rushlight as rl
from rushlight import distributed as dist
from rushlight.distributed import checkpoint
from rushlight.distributed.checkpoint import writing
from rushlight.distributed.fsdp import fully_shard


def divided():
    rl.manual_seed(0)
    return fully_shard(rl.nn.Linear(4, 5)).state_dict()


@pytest.mark.parametrize("seed", range(6))
def test_ranks_on_threads_wait_without_a_barrier(tmp_path, seed: int) -> None:
    """Who waits for the result lets others run, and the checkpoint is there for all who have waited."""

    def run():
        state = divided()
        for step in range(2):
            checkpoint.async_save({"model": state, "step": step}, tmp_path).result()
            other = {"model": rl.nn.Linear(4, 5).state_dict(), "step": -1}
            checkpoint.load(other, tmp_path, no_dist=True)
            assert other["step"] == step and other["model"]["weight"].shape == (5, 4)
            dist.barrier()

    dist.spawn(run, 3, seed=seed)


def test_two_saves_that_are_under_way_are_told_apart(tmp_path) -> None:
    def run():
        saves = [checkpoint.async_save({"a": rl.full((4,), float(at))}, tmp_path) for at in range(3)]
        return [saved.exception() for saved in saves]

    assert dist.spawn(run, 2) == [[None] * 3] * 2


def test_the_result_in_a_thread_of_the_program(tmp_path) -> None:
    def run():
        saved = checkpoint.async_save({"a": rl.ones(4)}, tmp_path)
        found = []
        waiting = threading.Thread(target=lambda: found.append(saved.result(60)))
        waiting.start()
        dist.barrier()
        waiting.join()
        return found

    assert dist.spawn(run, 2) == [[None], [None]]


@pytest.fixture
def slow_second_rank(monkeypatch):
    """The second rank's part takes 3 s."""
    write = writing.Writing.write_shard

    def write_shard(self, rank, held):
        if rank == 1:
            time.sleep(3)
        write(self, rank, held)

    monkeypatch.setattr(writing.Writing, "write_shard", write_shard)


def test_a_rank_that_does_not_write_is_named_at_the_deadline(tmp_path, slow_second_rank) -> None:
    def run():
        dist.init_process_group(timeout=0.5)
        saved = checkpoint.async_save({"model": divided()}, tmp_path)
        begin = time.monotonic()
        failure = saved.exception()
        return failure.code, str(failure), time.monotonic() - begin

    for code, text, waited in dist.spawn(run, 2):
        assert code == "W007" and "rank 1 has not written its part within 0.5 s" in text
        assert "async_save to" in text and "test_background.py" in text and waited < 5


def test_a_wait_of_some_seconds_names_rank_and_call(tmp_path, slow_second_rank) -> None:
    def run():
        saved = checkpoint.async_save({"model": divided()}, tmp_path)
        with pytest.raises(TimeoutError, match=r"rank . of 2 waits for async_save to .*test_background.py"):
            saved.result(0.1)
        saved.result()

    dist.spawn(run, 2)


@pytest.mark.parametrize("failing", [0, 1])
def test_all_ranks_are_told_what_failed_on_one(tmp_path, monkeypatch, failing: int) -> None:
    write = writing.Writing.write_shard

    def write_shard(self, rank, held):
        if rank == failing:
            raise OSError("the disk is gone")
        write(self, rank, held)

    monkeypatch.setattr(writing.Writing, "write_shard", write_shard)

    def run():
        return str(checkpoint.async_save({"model": divided()}, tmp_path).exception())

    assert all("the disk is gone" in text for text in dist.spawn(run, 2))
    with pytest.raises(rl.RushlightError, match="there is no checkpoint"):
        checkpoint.load({"model": divided}, tmp_path)
