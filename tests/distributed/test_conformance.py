"""Every engine does the same: cases of `conformance.py` on threads, alone, and under MPI where mpi4py is installed."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

from rushlight import distributed as dist

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
from conformance import CASES  # noqa: E402 - its folder is no package

sys.path.remove(str(HERE))


@pytest.mark.generated("name")
@pytest.mark.parametrize("world", [1, 2, 3, 8])
@pytest.mark.parametrize("name", CASES)
def test_threads(name: str, world: int):
    dist.spawn(CASES[name], world, seed=world)


@pytest.mark.parametrize("name", CASES)
def test_alone(name: str):
    dist.init_process_group("self")
    try:
        CASES[name]()
    finally:
        dist.destroy_process_group()


@pytest.mark.generated
@pytest.mark.skipif(importlib.util.find_spec("mpi4py") is None, reason="mpi4py is not installed")
@pytest.mark.parametrize("world", [2, 4, 8])
def test_mpi(world: int, tmp_path: Path):
    command = [sys.executable, "-m", "rushlight", "launch", "-n", str(world), str(HERE / "job.py"), str(tmp_path)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=200)
    outcomes = [json.loads(path.read_text()) for path in sorted(tmp_path.glob("*.json"))]
    failed = [text for outcome in outcomes for text in outcome.values() if text != "passed"]
    assert ran.returncode == 0 and not failed, "\n".join([ran.stderr, *failed])
    assert len(outcomes) == world and all(set(outcome) == set(CASES) for outcome in outcomes)
