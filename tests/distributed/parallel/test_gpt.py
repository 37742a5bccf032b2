"""The demo's GPT learns under each parallelism as on one process, for 50 steps, and goes on from checkpoints."""

import functools
import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from rushlight import distributed as dist

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
import gpt  # noqa: E402 - its folder is no package

sys.path.remove(str(HERE))

STEPS = 50
NEAR = {"float32": 1e-4, "float64": 1e-9}
"""How near the losses are, relative to those of one process."""
needs_mpi = pytest.mark.skipif(importlib.util.find_spec("mpi4py") is None, reason="mpi4py is not installed")


@functools.cache
def expected(dtype: str) -> list[float]:
    losses = gpt.alone(dtype, STEPS)
    assert losses[-1] < 0.7 * losses[0], "it learns"
    return losses


def assert_near(losses: list[float], dtype: str) -> None:
    assert losses == pytest.approx(expected(dtype), rel=NEAR[dtype])


@pytest.mark.generated("kind")
@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize("dtype", NEAR)
@pytest.mark.parametrize("kind", gpt.KINDS)
def test_losses_are_those_of_one_process(kind: str, dtype: str, ranks: int):
    for losses in dist.spawn(gpt.KINDS[kind], ranks, (dtype, STEPS)):
        assert_near(losses, dtype)


@pytest.mark.generated
@pytest.mark.parametrize("kind", ["ddp", "fsdp"])
def test_a_checkpoint_of_four_ranks_goes_on_with_two_and_with_one(kind: str, tmp_path: Path):
    folder = str(tmp_path / "checkpoint")
    for ranks, steps in ((4, 20), (2, 35), (1, STEPS)):
        losses = dist.spawn(gpt.KINDS[kind], ranks, ("float64", steps, folder))[0]
    assert_near(losses, "float64")


def launched(ranks: int, *arguments: str, options: tuple[str, ...] = ()) -> str:
    """What a job of `gpt.py` prints."""
    command = [sys.executable, "-m", "rushlight", "launch", "-n", str(ranks), *options, str(HERE / "gpt.py")]
    ran = subprocess.run([*command, *arguments], capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


@pytest.mark.generated
@needs_mpi
@pytest.mark.parametrize(("ranks", "steps"), [(2, STEPS), (4, 20)])
def test_losses_on_processes_are_those_of_one(ranks: int, steps: int):
    differences = dict(re.findall(r"^(\w+) (\S+)$", launched(ranks, "compare", "float64", str(steps)), re.MULTILINE))
    assert list(differences) == list(gpt.KINDS)
    assert max(map(float, differences.values())) <= NEAR["float64"], differences


@needs_mpi
def test_a_rank_that_is_killed_leaves_no_trace_in_the_losses(tmp_path: Path):
    results = tmp_path / "losses.json"
    arguments = (str(results), "fsdp", "float64", "30", str(tmp_path / "checkpoint"), "20")
    launched(2, *arguments, options=("--max-restarts", "1"))
    assert json.loads(results.read_text()) == pytest.approx(expected("float64")[:30], rel=1e-9)
