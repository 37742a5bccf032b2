"""How long it takes to begin: the import, and the first compiled training step, in interpreters of their own."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from rushlight.bench import peer
from rushlight.support.frozen import frozen

IMPORT = "import time, numpy\nstart = time.perf_counter()\nimport rushlight\nprint(time.perf_counter() - start)"
FIRST_STEP = """
import sys, time
start = time.perf_counter()
import rushlight
from rushlight.bench.cases import CASES
from rushlight.support import settings
imported = time.perf_counter()
settings.update(cache_dir=sys.argv[1])
CASES["demo-step"].prepare()()
print(time.perf_counter() - start, time.perf_counter() - imported)
"""


@frozen
class FirstStep:
    """Seconds from the start of the import to the end of the first training step, and those beyond the import."""

    seconds: float
    beyond_import: float


def import_seconds(rounds: int) -> list[float]:
    """Seconds that `import rushlight` takes where numpy is imported already."""
    return [float(_run(sys.executable, "-c", IMPORT)) for _ in range(rounds)]


def first_steps(warm_rounds: int) -> tuple[FirstStep, FirstStep]:
    """The first step with an empty cache, and the median with a warm one."""
    with tempfile.TemporaryDirectory() as folder:
        cold = _first_step(folder)
        warm = [_first_step(folder) for _ in range(warm_rounds)]
    middle = sorted(warm, key=lambda one: one.beyond_import)[len(warm) // 2]
    return cold, middle


def peer_first_step(python: Path) -> float:
    """The same of the peer, with an empty cache."""
    return float(_run(str(python), peer.__file__, "first-step"))


def _first_step(folder: str) -> FirstStep:
    first, second = _run(sys.executable, "-c", FIRST_STEP, str(Path(folder) / "cache")).split()
    return FirstStep(float(first), float(second))


def _run(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout
