"""`rushlight launch`: how jobs of MPI's processes end when one of them fails, and what programs find there."""

import importlib.util
import os
import re
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from job_processes import gone, pids
from rushlight.distributed.launch.launcher import first_failure
from rushlight.distributed.launch.program import write_failure
from rushlight.support.errors import error

pytestmark = pytest.mark.skipif(importlib.util.find_spec("mpi4py") is None, reason="mpi4py is not installed")

BEGIN = """
import os, signal, sys, time
import rushlight as rl
from rushlight import distributed as dist

dist.init_process_group("gloo", timeout=2)
rank = dist.get_rank()
print(f"[{os.getpid()}]", flush=True)
dist.all_reduce(rl.ones(4))  # which no rank leaves before all have told their process
"""


def command(script: Path, ranks: int, *options: str) -> list[str]:
    return [sys.executable, "-m", "rushlight", "launch", "-n", str(ranks), *options, str(script)]


def launched(folder: Path, program: str, ranks: int = 2, *options: str) -> subprocess.CompletedProcess[str]:
    script = folder / "script.py"
    script.write_text(textwrap.dedent(program))
    return subprocess.run(command(script, ranks, *options), capture_output=True, text=True, timeout=240)


FAILURES = {
    "killed": ("if rank == 1: os.kill(os.getpid(), signal.SIGKILL)", 9, r"rank 1"),
    "stopped": ("if rank == 1: os.kill(os.getpid(), signal.SIGSTOP)", 1, r"waited 2 s for rank 1"),
    "exception": (
        "if rank == 1: raise ValueError('no data')",
        1,
        r"rank 1 of 2 failed first:(.|\n)*ValueError: no data$",
    ),
    "exit": ("if rank == 1: sys.exit(0)", 1, r"W004: distributed: rank 1 has returned, and others wait for it"),
    "status": ("if rank == 1: sys.exit(3)", 3, r"rank 1 of 2 failed first:(.|\n)*SystemExit: 3$"),
    "count": ("if rank == 1: dist.all_reduce(rl.ones(5))", 1, r"W002(.|\n)*of 4 float32(.|\n)*of 5 float32"),
    "collective": ("if rank == 1: dist.barrier()", 1, r"W002(.|\n)*rank 0: #2 all_reduce(.|\n)*rank 1: #2 barrier"),
    "slow": ("if rank == 1: time.sleep(60)", 1, r"W007: distributed: waited 2 s for rank 1(.|\n)*has not come"),
}


@pytest.mark.generated
@pytest.mark.parametrize("name", FAILURES)
def test_a_failure_is_named_and_leaves_no_process(name: str, tmp_path: Path):
    line, status, text = FAILURES[name]
    ran = launched(tmp_path, f"{BEGIN}{line}\ndist.all_reduce(rl.ones(4))\n")
    assert ran.returncode == status, ran.stderr
    assert re.search(text, ran.stderr.strip()), ran.stderr
    assert "During handling" not in ran.stderr, "a cause that is no cause"
    assert "script.py" in ran.stderr or name == "killed"
    assert len(pids(ran.stdout)) == 2 and gone(pids(ran.stdout))


@pytest.mark.parametrize("expected", [2, 4])
def test_a_part_of_another_size_than_its_taker_expects_is_named(expected: int, tmp_path: Path):
    program = f"""
    sizes = [[0, 3], [1, 0]]
    taken = rl.zeros(1 if rank == 0 else {expected})
    taken_sizes = [0, 1] if rank == 0 else [{expected}, 0]
    dist.all_to_all_single(taken, rl.ones(sum(sizes[rank])), taken_sizes, sizes[rank])
    dist.barrier()
    """
    ran = launched(tmp_path, textwrap.dedent(BEGIN) + textwrap.dedent(program))
    assert ran.returncode == 1 and "W002" in ran.stderr and "script.py" in ran.stderr, ran.stderr
    assert expected == 2 or "12 bytes came from rank 0 of the group, not 16" in ran.stderr, ran.stderr


def test_calls_of_several_stages_begin_in_the_order_of_the_program(tmp_path: Path):
    program = """
    for turn in range(6):
        one, other = (rl.full((1000,), first * (rank + 1.0), dtype=rl.bfloat16) for first in (1, 10))
        works = [dist.all_reduce(one, async_op=True)]
        if turn % 2 == rank:  # this rank goes on to the second stage before it makes the other call
            until = time.monotonic() + 0.05
            while time.monotonic() < until:
                works[0].is_completed()
        works.append(dist.all_reduce(other, async_op=True))
        for work in works[:: 1 if rank else -1]:
            work.wait()
        assert one.unique().tolist() == [3.0] and other.unique().tolist() == [30.0], (one, other)
    """
    ran = launched(tmp_path, textwrap.dedent(BEGIN) + textwrap.dedent(program))
    assert ran.returncode == 0, ran.stderr


def test_a_message_of_another_dtype_is_named_before_the_timeout(tmp_path: Path):
    line = "dist.send(rl.ones(4, dtype=rl.int32), 0) if rank else dist.recv(rl.zeros(4), 1)"
    begin = BEGIN.replace("timeout=2", "timeout=200")
    ran = launched(tmp_path, f"{begin}{line}\ndist.barrier()\n")
    assert ran.returncode == 1
    assert "a message of int32 came for a buffer of float32" in ran.stderr and "script.py" in ran.stderr


def test_who_fails_because_of_another_rank_is_not_the_first(tmp_path: Path):
    for rank, failure in enumerate([error("W005", "rank 2 has failed"), error("W004", "waits"), ValueError("no data")]):
        write_failure(tmp_path, rank, failure, None)
    first = first_failure(tmp_path)
    assert first is not None and first["rank"] == 2


def test_no_rank_outlives_the_launcher(tmp_path: Path):
    script = tmp_path / "script.py"
    script.write_text(f"{BEGIN}time.sleep(100)\n")
    with subprocess.Popen(command(script, 2), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        text = ""
        while len(pids(text)) < 2:
            text += process.stdout.read(1)
        process.send_signal(signal.SIGKILL)
    assert gone(pids(text), 10)


def test_an_interrupt_ends_all_ranks(tmp_path: Path):
    script = tmp_path / "script.py"
    script.write_text(f"{BEGIN}time.sleep(100)\n")
    options = {"stdout": subprocess.PIPE, "text": True, "start_new_session": True}
    with subprocess.Popen(command(script, 2), stderr=subprocess.DEVNULL, **options) as process:
        text = ""
        while len(pids(text)) < 2:
            text += process.stdout.read(1)
        os.killpg(process.pid, signal.SIGINT)
        process.stdout.read()
    assert process.returncode == 130 and gone(pids(text), 10)


@pytest.mark.parametrize("variable", ["SLURM_STEP_NUM_TASKS", "WORLD_SIZE"])
def test_ranks_that_nothing_connects_are_no_worlds_of_their_own(variable: str, tmp_path: Path):
    script = tmp_path / "script.py"
    script.write_text("from rushlight import distributed as dist\ndist.init_process_group('gloo')\n")
    ran = subprocess.run(
        [sys.executable, str(script)],
        env={**os.environ, variable: "2"},
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert ran.returncode == 1 and "W008" in ran.stderr and "srun --mpi=pmi2" in ran.stderr


def test_a_script_of_pytorch_finds_what_torchrun_sets(tmp_path: Path):
    program = """
    import os, sys
    import torch
    import torch.distributed as dist

    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    dist.init_process_group("gloo", init_method="env://", rank=rank, world_size=size)
    x = torch.ones(2) * (int(os.environ["LOCAL_RANK"]) + 1)
    dist.all_reduce(x, op=dist.ReduceOp.SUM)
    if dist.get_rank() == 0:
        print(x.tolist(), dist.get_backend(), sys.argv[1:], os.environ["MASTER_ADDR"])
    dist.destroy_process_group()
    """
    ran = launched(tmp_path, program)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.strip() == "[3.0, 3.0] gloo [] 127.0.0.1"


def test_a_job_that_fails_starts_again(tmp_path: Path):
    program = """
    import os
    from rushlight import distributed as dist

    dist.init_process_group()
    attempt = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
    os.write(1, f"attempt {attempt};".encode())  # at once: both ranks write here
    if attempt == 0 and dist.get_rank() == 1:
        raise ValueError("first attempt")
    dist.barrier()
    """
    ran = launched(tmp_path, program, 2, "--max-restarts", "1")
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.count("attempt 1") == 2 and "starting again" in ran.stderr


def test_a_function_runs_on_processes(tmp_path: Path):
    program = """
    import rushlight as rl
    from rushlight import distributed as dist


    def total(x):
        tensor = rl.full((1,), x + dist.get_rank())
        dist.all_reduce(tensor)
        return dist.get_rank(), tensor.item()


    def fail_in(rank):
        if dist.get_rank() == rank:
            raise ValueError("no data")
        dist.barrier()


    if __name__ == "__main__":
        print(dist.spawn(total, 2, (0.5,), engine="mpi"))
        try:
            dist.spawn(fail_in, 2, (1,), engine="mpi")
        except ValueError as failure:
            print(failure, failure.__notes__)
    """
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(program))
    ran = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=240)
    lines = ran.stdout.splitlines()
    assert lines == ["[(0, 2.0), (1, 2.0)]", "no data ['raised in rank 1 of 2']"], ran.stderr
