"""Simulated jobs: programs of any number of ranks, whose deadlocks and imbalance are found, by classes of ranks."""

import json
import random
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

import rushlight as rl
from rushlight import distributed as dist
from rushlight.distributed.device_mesh import init_device_mesh
from rushlight.distributed.simulation import costs, simulating
from rushlight.distributed.simulation.recording import Trace, record
from rushlight.nn.parallel import DistributedDataParallel
from rushlight.support import settings
from rushlight.support.errors import DistError, RushlightError

sys.path.insert(0, str(Path(__file__).parent))
from three_axes import train

sys.path.remove(str(Path(__file__).parent))


def small():
    rl.manual_seed(0)
    model = DistributedDataParallel(rl.nn.Sequential(rl.nn.Linear(4, 64), rl.nn.ReLU(), rl.nn.Linear(64, 1)))
    optimizer = rl.optim.AdamW(model.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        model(rl.ones(2, 4)).sum().backward()
        optimizer.step()
        dist.mark()


def test_ranks_of_data_parallelism_are_one_class():
    found = dist.sim(small, 64)
    (one,) = found.classes
    assert one.ranks == tuple(range(64)) and found.imbalance == 1.0
    gradients = 4 * (4 * 64 + 64 + 64 + 1)
    assert one.calls["all_reduce"] == 3 and one.calls["broadcast"] >= 1
    rest = one.bytes_sent - 3 * (2 * gradients * 63 // 64)
    assert rest > 0, "parameters of the first rank go to the others"
    assert one.peak_bytes >= 4 * gradients, "parameters, gradients and two averages"
    assert found.seconds > 0 and "64 ranks in 1 classes" in str(found)
    assert any("backward()" in line for line in found.by_line())


@pytest.fixture
def assumed_times(tmp_path: Path):
    """Collectives take what is assumed: times that were measured here depend on what else the machine did then."""
    with settings.override(cache_dir=str(tmp_path)):
        yield


def test_a_model_on_three_axes_of_4096_ranks_takes_less_than_a_minute(assumed_times: None):
    begun = time.process_time()
    found = dist.sim(train, 4096)
    assert time.process_time() - begun < 60
    assert len(found.classes) == 8, "one for each stage"
    assert sum(len(one.ranks) for one in found.classes) == 4096
    assert {rank for one in found.classes for rank in one.ranks} == set(range(4096))
    first, last = found.classes[0], found.classes[-1]
    assert first.calls["send"] == last.calls["receive"] == 3 * 4
    assert first.waiting > 0
    assert found.seconds >= max(one.compute for one in found.classes)


def ring():
    rank, size, x = dist.get_rank(), dist.get_world_size(), rl.ones(4)
    dist.recv(x, (rank - 1) % size)
    dist.send(x, (rank + 1) % size)


@pytest.mark.parametrize("world", [3, 64])
def test_a_planted_deadlock_is_found(world: int):
    with pytest.raises(DistError) as caught:
        dist.sim(ring, world)
    text = str(caught.value)
    assert caught.value.code == "W003" and f"rank 0 -> rank {world - 1}" in text
    assert "dist.recv(x, (rank - 1) % size)" in text


def halves():
    mesh = init_device_mesh("cpu", (16, 2), mesh_dim_names=("dp", "tp"))
    x = rl.ones(512, 512)
    for _ in range(3):
        for _ in range(9 if mesh.get_local_rank("tp") else 3):
            y = x @ x
        dist.all_reduce(y, group=mesh.get_group("tp"))
        dist.mark()


def test_a_planted_imbalance_is_found(assumed_times: None):
    found = dist.sim(halves, 32)
    assert found.imbalance > 1.3
    assert found.slowest.ranks == tuple(range(1, 32, 2)), "those of the second place along tp"
    other = next(one for one in found.classes if one is not found.slowest)
    assert other.waiting > other.compute and found.slowest.waiting < other.waiting


def one_odd_rank():
    if dist.get_rank() == 37:
        dist.barrier(dist.new_group([37], use_local_synchronization=True))
    dist.barrier()


def test_classes_can_be_given_and_are_checked():
    found = dist.sim(one_odd_rank, 64, classes=lambda rank: rank == 37)
    assert [len(one.ranks) for one in found.classes] == [63, 1]
    odd = next(seed for seed in range(40) if 37 in random.Random(seed).sample(range(64), 3))
    with pytest.raises(RushlightError, match="rank 37 does otherwise than rank 0") as caught:
        dist.sim(one_odd_rank, 64, seed=odd)
    assert caught.value.code == "A002"


def test_a_rank_that_was_disturbed_once_is_asked_again(monkeypatch: pytest.MonkeyPatch):
    disturbed: list[int] = []

    def disturb(trace: Trace, rank: int) -> Trace:
        slow = rank not in disturbed and rank % 2 == 1
        disturbed.append(rank)
        return trace._replace(events=[event._replace(seconds=0.1 if slow else 1e-3) for event in trace.events])

    monkeypatch.setattr(simulating, "record", lambda program, rank, world: disturb(record(program, rank, world), rank))
    (one,) = dist.sim(small, 64).classes
    assert len(one.ranks) == 64 and disturbed.count(1) == 2 and disturbed.count(0) <= 2


def test_a_failure_of_the_program_names_its_rank():
    def broken():
        if dist.get_rank() == 1:
            raise ValueError("no data")

    with pytest.raises(ValueError, match="no data") as caught:
        dist.sim(broken, 2)
    assert caught.value.__notes__ == ["raised in rank 1 of 2, which ran without data"]
    assert not dist.is_initialized()


def test_a_trace_has_a_row_for_each_class(tmp_path: Path):
    dist.sim(halves, 32).save_trace(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    names = [event["args"]["name"] for event in events if event["ph"] == "M"]
    assert names == ["ranks 0, 2, 4, … (16 of them)", "ranks 1, 3, 5, … (16 of them)"]
    whats = {event["name"] for event in events if event["ph"] == "X"}
    assert {"compute", "all_reduce", "wait"} <= whats


def test_measured_times_are_kept_by_machine(tmp_path: Path):
    with settings.override(cache_dir=str(tmp_path)):
        assert costs.read_tables() == {}
        tables = {costs.Verb.ALL_REDUCE: {2: [(1024.0, 1e-4), (2048.0, 2e-4)]}}
        path = costs.write_tables(tables)
        assert costs.read_tables() == tables
        path.write_text(path.read_text().replace(costs.machine_name(), "another machine"))
        assert costs.read_tables() == {}
        costs.write_tables(tables)
        assert "another machine" in path.read_text(), "those of other machines stay"
        path.write_text("{")
        assert costs.read_tables() == {}


def test_marks_do_nothing_outside_a_simulation():
    dist.mark("step")
    dist.spawn(lambda: dist.mark("step"), 2)


def test_a_script_is_simulated_by_the_launcher(tmp_path: Path):
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent(
            """
            import os, sys
            import torch
            import torch.distributed as dist

            dist.init_process_group("gloo", rank=int(os.environ["RANK"]), world_size=int(os.environ["WORLD_SIZE"]))
            x = torch.ones(1024)
            dist.all_reduce(x)
            print("rank", dist.get_rank(), sys.argv[1:])
            """
        )
    )
    trace = tmp_path / "trace.json"
    launch = [sys.executable, "-m", "rushlight", "launch", "--sim", "512", "--trace", str(trace)]
    ran = subprocess.run([*launch, str(script), "--fast"], capture_output=True, text=True, timeout=240)
    assert ran.returncode == 0, ran.stderr
    first, *rest = ran.stdout.splitlines()
    assert first == "rank 0 ['--fast']", "of what ranks print the first one's is shown"
    assert rest[0].startswith("512 ranks in 1 classes") and "sends 8.18 kB" in rest[-1]
    assert json.loads(trace.read_text())["traceEvents"]
