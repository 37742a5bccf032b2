"""The threads engine: ranks of one process, deterministic by seed, that find mismatches and deadlocks at once."""

import pytest

import rushlight as rl
from rushlight import distributed as dist
from rushlight.support.errors import DistError


def test_each_rank_has_a_number_and_results_come_in_order():
    assert dist.spawn(lambda: (dist.get_rank(), dist.get_world_size()), 3) == [(0, 3), (1, 3), (2, 3)]


def test_arguments_are_passed_and_the_world_ends_with_spawn():
    assert dist.spawn(lambda x, y: x * dist.get_rank() + y, 2, (3, 1)) == [1, 4]
    assert not dist.is_initialized()


def _orders(seed: int) -> list[int]:
    order: list[int] = []

    def ranks():
        for _ in range(3):
            dist.barrier()
            order.append(dist.get_rank())

    dist.spawn(ranks, 4, seed=seed)
    return order


def test_order_depends_on_the_seed_alone():
    assert _orders(5) == _orders(5)
    assert len({tuple(_orders(seed)) for seed in range(8)}) > 4


def test_random_numbers_are_each_ranks_own():
    def draw():
        rl.manual_seed(dist.get_rank())
        numbers = [rl.rand(2).tolist()]
        dist.barrier()
        numbers.append(rl.rand(2).tolist())
        return numbers

    rl.manual_seed(7)
    before = rl.get_rng_state().tolist()
    found = dist.spawn(draw, 3, seed=1)
    assert rl.get_rng_state().tolist() == before
    for rank, numbers in enumerate(found):
        rl.manual_seed(rank)
        assert numbers == [rl.rand(2).tolist(), rl.rand(2).tolist()]


def test_ranks_run_at_each_call_of_a_compiled_function_after_what_comes_before():
    ran: list[int] = []

    def function(number: int) -> tuple[float, list[int]]:
        rl.manual_seed(0)
        drawn = rl.rand(1).item()

        def rank() -> int:
            rl.manual_seed(1)
            ran.append(number)
            return dist.get_rank() + number

        return drawn, dist.spawn(rank, 2)

    compiled = rl.compile(function, backend="eager")
    assert [compiled(number) for number in (1, 2, 1)] == [function(number) for number in (1, 2, 1)]
    assert ran == [1, 1, 2, 2, 1, 1] * 2


def test_deadlock_is_reported_with_each_ranks_call_and_line():
    def cross():
        peer = 1 - dist.get_rank()
        dist.recv(rl.zeros(2), peer)
        dist.send(rl.zeros(2), peer)

    with pytest.raises(DistError, match="all ranks wait for each other") as caught:
        dist.spawn(cross, 2)
    text = str(caught.value)
    assert caught.value.code == "W003"
    assert "rank 0: receive of 2 float32 from 1" in text and "rank 1: receive of 2 float32 from 0" in text
    assert text.count("test_threads.py") >= 2 and "dist.recv(rl.zeros(2), peer)" in text


def test_a_rank_that_returns_early_is_named():
    def early():
        if dist.get_rank() == 1:
            raise SystemExit(0)
        dist.barrier()

    with pytest.raises(DistError, match="rank 1 has returned, and others wait") as caught:
        dist.spawn(early, 3)
    assert caught.value.code == "W004"


@pytest.mark.parametrize("seed", range(4))
def test_the_first_failure_is_raised_and_names_its_rank(seed: int):
    def broken():
        dist.barrier()
        if dist.get_rank() == 2:
            raise ValueError("no data")
        dist.barrier()

    with pytest.raises(ValueError, match="no data") as caught:
        dist.spawn(broken, 4, seed=seed)
    assert caught.value.__notes__ == ["raised in rank 2 of 4"]


@pytest.mark.parametrize(
    ("call", "what"),
    [
        (lambda rank: dist.barrier() if rank else dist.all_reduce(rl.ones(3)), "collective"),
        (lambda rank: dist.all_reduce(rl.ones(3 + rank)), "count"),
        (lambda rank: dist.all_reduce(rl.ones(3, dtype=rl.float64 if rank else rl.float32)), "dtype"),
        (lambda rank: dist.all_reduce(rl.ones(3), dist.ReduceOp.MAX if rank else "sum"), "reduction"),
        (lambda rank: dist.broadcast(rl.ones(3), rank), "root"),
        (lambda rank: dist.new_group([0, rank] if rank else [0]), "argument"),
    ],
)
@pytest.mark.parametrize("seed", range(3))
def test_what_ranks_disagree_in_is_named(call, what: str, seed: int):
    with pytest.raises(DistError, match=f"ranks disagree in the {what}") as caught:
        dist.spawn(lambda: call(dist.get_rank()), 2, seed=seed)
    assert caught.value.code == "W002"
    assert "rank 0: #1" in str(caught.value) and "rank 1: #1" in str(caught.value)


def test_a_spawned_function_may_initialise_and_destroy():
    def script():
        dist.init_process_group("gloo", rank=dist.get_rank(), world_size=2)
        x = rl.ones(2)
        dist.all_reduce(x)
        dist.destroy_process_group()
        return x.tolist(), dist.is_initialized()

    assert dist.spawn(script, 2) == [([2.0, 2.0], False)] * 2
